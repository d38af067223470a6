package millrace.kernel;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads and checks one message in one pass, as {@code accept} of millrace/oracle.py defines it: the first check that
 * fails gives the reason, and an error anywhere in the text precedes any field's. For one thread.
 */
public final class EventReader {
    private static final String FORBIDDEN = "forbidden:";
    /** Reasons for which a message's names were not read: its words are searched for a forbidden one. */
    private static final Set<String> UNREAD = Set.of("encoding", "json", "shape");

    private static final int NOTICED_MOST = 1_000;

    private final int maxBytes;
    private final Field[] fields;
    private final Map<String, Field> byName = new HashMap<>();
    private final Field time;
    private final Map<String, Integer> forbidden = new HashMap<>(); // and how early each stands in the declaration
    private final String[] forbiddenNames;
    private final Map<String, Integer> noticed = new HashMap<>(); // of each name that came, which it is of the forbidden
    private int worst; // of the forbidden names that the message at hand has, the earliest in the declaration
    private final long pastMs;
    private final long futureMs;
    private final CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder()
            .onMalformedInput(CodingErrorAction.REPORT)
            .onUnmappableCharacter(CodingErrorAction.REPORT);
    private final CharBuffer text;
    private final JsonFactory factory;

    /** From the JSON text of {@code EventType.reader()}. */
    public EventReader(String declaration) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        List<Object> declaredFields = Json.list(declared.get("fields"));
        maxBytes = ((Number) declared.get("max_bytes")).intValue();
        pastMs = ((Number) declared.get("past_ms")).longValue();
        futureMs = ((Number) declared.get("future_ms")).longValue();
        fields = new Field[declaredFields.size()];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = new Field(Json.object(declaredFields.get(i)));
            byName.put(fields[i].name, fields[i]);
        }
        time = byName.get(declared.get("time"));
        forbiddenNames = Json.list(declared.get("forbidden")).toArray(new String[0]);
        for (int i = 0; i < forbiddenNames.length; i++) {
            forbidden.put(forbiddenNames[i], i);
        }
        text = CharBuffer.allocate(maxBytes);
        // Jackson's own limits would refuse what JSON allows; the size of a message bounds all but the depth.
        factory = new JsonFactoryBuilder()
                .streamReadConstraints(StreamReadConstraints.builder()
                        .maxNestingDepth(((Number) declared.get("max_depth")).intValue())
                        .maxNumberLength(Integer.MAX_VALUE)
                        .maxStringLength(Integer.MAX_VALUE)
                        .maxNameLength(Integer.MAX_VALUE)
                        .build())
                .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER)
                .build();
    }

    /** The names of the fields, in the order in which {@link #read} gives them after the reason. */
    public String[] names() {
        String[] names = new String[fields.length];
        for (int i = 0; i < names.length; i++) {
            names[i] = fields[i].name;
        }
        return names;
    }

    /** The kind of a field: text, whole or real. */
    public String kind(String name) {
        return byName.get(name).kind.name().toLowerCase(Locale.ROOT);
    }

    /** Gives {null, field...} with Long, Double and String values, or {reason, null...}. */
    public Object[] read(byte[] value, long ingestMs) {
        Object[] event = read(value);
        String reason = event[0] == null && time != null ? untimely(time.whole, ingestMs) : null;
        return reason == null ? event : refused(reason);
    }

    /** What a dead letter keeps of a message that was refused for this reason; null is nothing. */
    public byte[] kept(byte[] value, String reason) {
        if (value == null || value.length == 0 || value.length > maxBytes || reason.startsWith(FORBIDDEN)) {
            return null;
        }
        return UNREAD.contains(reason) && hasForbiddenWord(value) ? null : CardNumbers.masked(value);
    }

    private boolean hasForbiddenWord(byte[] value) {
        StringBuilder word = new StringBuilder();
        for (byte each : value) {
            char c = (char) each;
            if (isLetterOrDigit(c)) {
                word.append(c);
            } else if (c != 0 && c != '_' && c != '-') {
                if (isForbidden(word)) {
                    return true;
                }
                word.setLength(0);
            }
        }
        return isForbidden(word);
    }

    private boolean isForbidden(CharSequence name) {
        return forbidden.containsKey(plain(name));
    }

    /** A name without what writers differ in: its ASCII letters and digits in lower case. */
    private static String plain(CharSequence name) {
        StringBuilder plain = new StringBuilder(name.length());
        for (int i = 0; i < name.length(); i++) {
            char c = name.charAt(i);
            if (isLetterOrDigit(c)) {
                plain.append(c >= 'A' && c <= 'Z' ? (char) (c + 'a' - 'A') : c);
            }
        }
        return plain.toString();
    }

    private static boolean isLetterOrDigit(char c) {
        return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z';
    }

    private Object[] read(byte[] value) {
        String problem = parse(value);
        if (problem != null) {
            return refused(problem);
        }
        Object[] event = new Object[fields.length + 1];
        for (int i = 0; i < fields.length; i++) {
            Field field = fields[i];
            problem = field.problem();
            if (problem != null) {
                return refused(problem + ":" + field.name);
            }
            event[i + 1] = field.value();
        }
        return event;
    }

    private String untimely(long atMs, long ingestMs) {
        if (atMs < ingestMs - pastMs) {
            return "past:" + time.name;
        }
        return atMs > ingestMs + futureMs ? "future:" + time.name : null;
    }

    private Object[] refused(String reason) {
        Object[] refused = new Object[fields.length + 1];
        refused[0] = reason;
        return refused;
    }

    private String parse(byte[] value) {
        if (value == null || value.length == 0) {
            return "empty";
        }
        if (value.length > maxBytes) {
            return "oversized";
        }
        text.clear();
        decoder.reset();
        if (decoder.decode(ByteBuffer.wrap(value), text, true).isError()) {
            return "encoding";
        }
        for (Field field : fields) {
            field.found = Found.MISSING;
        }
        worst = forbiddenNames.length;
        try (JsonParser parser = factory.createParser(text.array(), 0, text.position())) {
            JsonToken first = parser.nextToken();
            if (first == null) {
                return "json";
            }
            if (first == JsonToken.START_OBJECT) {
                while (parser.nextToken() != JsonToken.END_OBJECT) {
                    Field field = byName.get(parser.currentName());
                    if (field == null) {
                        notice(parser.currentName());
                    }
                    JsonToken token = parser.nextToken();
                    if (field != null) {
                        field.take(token, parser); // a name that comes twice: the last one counts
                    }
                    skipChildren(parser);
                }
            } else {
                parser.skipChildren();
            }
            if (parser.nextToken() != null) {
                return "json";
            }
            if (first != JsonToken.START_OBJECT) {
                return "shape";
            }
            return worst < forbiddenNames.length ? FORBIDDEN + forbiddenNames[worst] : null;
        } catch (IOException error) {
            return "json";
        }
    }

    private void skipChildren(JsonParser parser) throws IOException {
        int depth = 0;
        for (JsonToken token = parser.currentToken(); ; token = parser.nextToken()) {
            if (token == null) {
                return; // cut off: the next token is an error
            }
            if (token == JsonToken.FIELD_NAME) {
                notice(parser.currentName());
            }
            depth += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
            if (depth == 0) {
                return;
            }
        }
    }

    private void notice(String name) {
        if (forbidden.isEmpty()) {
            return;
        }
        Integer rank = noticed.get(name);
        if (rank == null) {
            rank = forbidden.getOrDefault(plain(name), forbiddenNames.length);
            if (noticed.size() == NOTICED_MOST) {
                noticed.clear(); // names that never come twice
            }
            noticed.put(name, rank);
        }
        worst = Math.min(worst, rank);
    }

    private enum Found { MISSING, NULL, TEXT, WHOLE, HUGE, REAL, OTHER }

    private enum Kind { TEXT, WHOLE, REAL }

    /** A declared field and what the message at hand had for it. */
    private static final class Field {
        private static final long SHORTEST = 1_000_000_000_000L; // of 13 digits
        private static final long AFTER_TIMES = 3_000_000_000_000L;

        final String name;
        private final Kind kind;
        private final boolean required;
        private final boolean mayPassLuhn;
        private final boolean takesWhole;
        private final int maxLength;
        private final Matcher matcher;
        private final long leastWhole;
        private final long mostWhole;
        private final double leastReal;
        private final double mostReal;

        Found found = Found.MISSING;
        long whole;
        private double real;
        private String text;

        Field(Map<String, Object> declared) {
            name = (String) declared.get("name");
            kind = Kind.valueOf(((String) declared.get("kind")).toUpperCase(Locale.ROOT));
            required = (Boolean) declared.get("required");
            mayPassLuhn = kind != Kind.REAL && (Boolean) declared.get("may_pass_luhn");
            takesWhole = Boolean.TRUE.equals(declared.get("takes_whole"));
            maxLength = kind == Kind.TEXT ? ((Number) declared.get("max_length")).intValue() : 0;
            // As in Python, a dot is anything but a line feed.
            matcher = kind == Kind.TEXT
                    ? Pattern.compile((String) declared.get("pattern"), Pattern.UNIX_LINES).matcher("") : null;
            leastWhole = kind == Kind.WHOLE ? ((Number) declared.get("least")).longValue() : 0;
            mostWhole = kind == Kind.WHOLE ? ((Number) declared.get("most")).longValue() : 0;
            leastReal = kind == Kind.REAL ? ((Number) declared.get("least")).doubleValue() : 0;
            mostReal = kind == Kind.REAL ? ((Number) declared.get("most")).doubleValue() : 0;
        }

        void take(JsonToken token, JsonParser parser) throws IOException {
            switch (token) {
                case VALUE_NULL:
                    found = Found.NULL;
                    return;
                case VALUE_STRING:
                    found = Found.TEXT;
                    text = kind == Kind.TEXT ? parser.getText() : null;
                    return;
                case VALUE_NUMBER_INT:
                    takeWhole(parser);
                    return;
                case VALUE_NUMBER_FLOAT:
                    found = Found.REAL;
                    real = kind == Kind.REAL ? parser.getDoubleValue() : 0;
                    return;
                default:
                    found = Found.OTHER;
            }
        }

        private void takeWhole(JsonParser parser) throws IOException {
            found = Found.WHOLE;
            if (kind == Kind.REAL) {
                real = parser.getDoubleValue();
            } else if (takesWhole) {
                found = Found.TEXT;
                text = parser.getText().equals("-0") ? "0" : parser.getText();
            } else if (parser.getTextLength() <= 18) {
                whole = parser.getLongValue();
            } else {
                text = parser.getText();
                try {
                    whole = Long.parseLong(text);
                } catch (NumberFormatException error) {
                    found = Found.HUGE;
                }
            }
        }

        String problem() {
            if (found == Found.MISSING || found == Found.NULL) {
                return !required ? null : found == Found.MISSING ? "missing" : "null";
            }
            switch (kind) {
                case TEXT:
                    if (found != Found.TEXT) {
                        return "type";
                    }
                    return searched(fitsNot());
                case WHOLE:
                    if (found == Found.HUGE) {
                        return searched("range");
                    }
                    return found != Found.WHOLE ? "type"
                            : searched(whole < leastWhole || whole > mostWhole ? "range" : null);
                default:
                    if (found != Found.WHOLE && found != Found.REAL) {
                        return "type";
                    }
                    return real < leastReal || real > mostReal ? "range" : null;
            }
        }

        private String fitsNot() {
            if (text.length() > maxLength && text.codePointCount(0, text.length()) > maxLength) {
                return "length";
            }
            return matcher.reset(text).matches() && !hasHalfAPair(text) ? null : "pattern";
        }

        /** JSON can escape half of a surrogate pair, and UTF-8 cannot write it: each engine would write another text. */
        private static boolean hasHalfAPair(String text) {
            for (int i = 0; i < text.length(); i++) {
                char each = text.charAt(i);
                if (Character.isHighSurrogate(each) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
                    i++;
                } else if (Character.isSurrogate(each)) {
                    return true;
                }
            }
            return false;
        }

        /** The problem, unless a card number is the greater one. */
        private String searched(String problem) {
            if (problem == null && mayPassLuhn) {
                return null;
            }
            boolean isCardNumber;
            if (kind == Kind.TEXT || found == Found.HUGE) {
                isCardNumber = CardNumbers.areIn(text);
            } else {
                // Almost all numbers are small, or the milliseconds of a time, of which none is a card number.
                isCardNumber = (whole >= AFTER_TIMES || whole <= -SHORTEST) && CardNumbers.areIn(Long.toString(whole));
            }
            return isCardNumber ? "card-number" : problem;
        }

        Object value() {
            if (found == Found.MISSING || found == Found.NULL) {
                return null;
            }
            switch (kind) {
                case TEXT:
                    return text;
                case WHOLE:
                    return whole;
                default:
                    return real + 0.0; // -0.0 + 0.0 is 0.0: a zero has no sign
            }
        }
    }
}
