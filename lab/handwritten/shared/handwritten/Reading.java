package handwritten;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads and checks messages. For one thread. */
public final class Reading {
    private static final long PAST_MS = 7 * 86_400_000L;
    private static final long FUTURE_MS = 5 * 60_000L;
    private static final int BYTES_MOST = 16_384;
    private static final int TEXT_MOST = 64;
    private static final Set<String> FORBIDDEN = Set.of(
            "cvv", "cvv2", "cvc", "cvc2", "cvn", "csc", "cav2", "pin", "pinblock", "track1", "track2", "track1data",
            "track2data", "trackdata", "magstripe");
    private static final Pattern NOT_PLAIN = Pattern.compile("[^a-z0-9]");
    private static final Set<String> USUAL = Set.of(
            "transaction_id", "customer", "card", "merchant", "amount_cents", "latitude", "longitude", "at_ms", "sent_ms");

    private final JsonFactory factory = new JsonFactory();
    private final Matcher card = Pattern.compile("[0-9a-f]{8}\\.[0-9a-f]{32}").matcher("");
    private final Matcher digits = Pattern.compile("[0-9](?:[ -]?[0-9]){12,18}").matcher("");
    private final Map<String, Object> found = new HashMap<>();

    /** A purchase that arrived at some time. */
    public Purchase purchase(byte[] value, long arrivedMs) throws Refused {
        parse(value);
        String id = text("transaction_id", false);
        String customer = text("customer", true);
        String token = string("card");
        if (!card.reset(token).matches()) {
            throw new Refused("pattern:card");
        }
        String merchant = text("merchant", true);
        long amountCents = whole("amount_cents", 1, 100_000_000);
        double latitude = real("latitude", 90);
        double longitude = real("longitude", 180);
        long atMs = whole("at_ms", 0, Long.MAX_VALUE);
        Long sentMs = found.get("sent_ms") == null || found.get("sent_ms") == JsonToken.VALUE_NULL
                ? null : whole("sent_ms", 0, Long.MAX_VALUE);
        checkTime(atMs, arrivedMs);
        return new Purchase(id, customer, token, merchant, amountCents, latitude, longitude, atMs, sentMs);
    }

    /** The place of a phone that arrived at some time. */
    public Phone phone(byte[] value, long arrivedMs) throws Refused {
        parse(value);
        Phone phone = new Phone(
                text("customer", true), real("latitude", 90), real("longitude", 180), whole("at_ms", 0, Long.MAX_VALUE));
        checkTime(phone.atMs(), arrivedMs);
        return phone;
    }

    public Merchant merchant(byte[] value) throws Refused {
        parse(value);
        return new Merchant(text("merchant", true), text("category", true), string("place"));
    }

    /** A customer's segment, of reference data. */
    public String segment(byte[] value) throws Refused {
        parse(value);
        text("customer", true);
        return text("segment", true);
    }

    private void parse(byte[] value) throws Refused {
        if (value == null || value.length == 0) {
            throw new Refused("empty");
        }
        if (value.length > BYTES_MOST) {
            throw new Refused("oversized");
        }
        found.clear();
        String forbidden = null;
        try (JsonParser parser = factory.createParser(value)) {
            if (parser.nextToken() != JsonToken.START_OBJECT) {
                throw new Refused("shape");
            }
            while (parser.nextToken() != JsonToken.END_OBJECT) {
                String name = parser.currentName();
                JsonToken token = parser.nextToken();
                found.put(name, switch (token) {
                    case VALUE_STRING -> parser.getText();
                    case VALUE_NUMBER_INT -> parser.getTextLength() <= 18 ? (Object) parser.getLongValue() : token;
                    case VALUE_NUMBER_FLOAT -> parser.getDoubleValue();
                    default -> token;
                });
                parser.skipChildren();
                if (!USUAL.contains(name)) {
                    String plain = NOT_PLAIN.matcher(name.toLowerCase(Locale.ROOT)).replaceAll("");
                    forbidden = FORBIDDEN.contains(plain) ? plain : forbidden;
                }
            }
            if (parser.nextToken() != null) {
                throw new Refused("json");
            }
        } catch (IOException error) {
            throw new Refused("json");
        }
        if (forbidden != null) {
            throw new Refused("forbidden:" + forbidden);
        }
    }

    private Object present(String name) throws Refused {
        Object value = found.get(name);
        if (value == null) {
            throw new Refused("missing:" + name);
        }
        if (value == JsonToken.VALUE_NULL) {
            throw new Refused("null:" + name);
        }
        return value;
    }

    private String string(String name) throws Refused {
        if (present(name) instanceof String text) {
            return text;
        }
        throw new Refused("type:" + name);
    }

    /** A name; one that holds a card number is refused, but for identities that terminals make. */
    private String text(String name, boolean isSearched) throws Refused {
        String text = string(name);
        if (text.length() > TEXT_MOST) {
            throw new Refused("length:" + name);
        }
        if (text.isEmpty()) {
            throw new Refused("pattern:" + name);
        }
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            boolean isFit = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
                    || c == '_' || c == '.' || c == ':' || c == '-';
            if (!isFit) {
                throw new Refused("pattern:" + name);
            }
        }
        if (isSearched && text.length() > 12 && hasCardNumber(text)) {
            throw new Refused("card-number:" + name);
        }
        return text;
    }

    private boolean hasCardNumber(String text) {
        digits.reset(text);
        while (digits.find()) {
            if (passesLuhn(digits.group())) {
                return true;
            }
        }
        return false;
    }

    private static boolean passesLuhn(String number) {
        int sum = 0;
        boolean isDoubled = false;
        for (int i = number.length() - 1; i >= 0; i--) {
            int digit = number.charAt(i) - '0';
            if (digit >= 0 && digit <= 9) {
                int counted = isDoubled ? 2 * digit : digit;
                sum += counted > 9 ? counted - 9 : counted;
                isDoubled = !isDoubled;
            }
        }
        return sum % 10 == 0;
    }

    private long whole(String name, long least, long most) throws Refused {
        Object value = present(name);
        if (value == JsonToken.VALUE_NUMBER_INT) {
            throw new Refused("range:" + name);
        }
        if (!(value instanceof Long)) {
            throw new Refused("type:" + name);
        }
        long whole = (Long) value;
        if (whole < least || whole > most) {
            throw new Refused("range:" + name);
        }
        return whole;
    }

    private double real(String name, double most) throws Refused {
        Object value = present(name);
        if (!(value instanceof Number)) {
            throw new Refused(value == JsonToken.VALUE_NUMBER_INT ? "range:" + name : "type:" + name);
        }
        double real = ((Number) value).doubleValue();
        if (real < -most || real > most) {
            throw new Refused("range:" + name);
        }
        return real + 0.0; // a zero has no sign
    }

    private static void checkTime(long atMs, long arrivedMs) throws Refused {
        if (atMs < arrivedMs - PAST_MS) {
            throw new Refused("past:at_ms");
        }
        if (atMs > arrivedMs + FUTURE_MS) {
            throw new Refused("future:at_ms");
        }
    }
}
