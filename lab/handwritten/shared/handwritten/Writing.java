package handwritten;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;

/** Writes enriched purchases, alerts and dead letters. For one thread. */
public final class Writing {
    private static final JsonFactory FACTORY = new JsonFactory();
    private static final int IDS_MOST = 100;

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);
    private final MessageDigest digest;

    public Writing() {
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    private interface Fields {
        void to(JsonGenerator json) throws IOException;
    }

    public byte[] enriched(Purchase purchase, Merchant merchant, String segment, Phone phone, List<String> flags, Place place) {
        return object(json -> {
            json.writeStringField("transaction_id", purchase.id());
            json.writeStringField("customer", purchase.customer());
            json.writeStringField("card", purchase.card());
            json.writeStringField("merchant", purchase.merchant());
            json.writeNumberField("amount_cents", purchase.amountCents());
            json.writeNumberField("latitude", purchase.latitude());
            json.writeNumberField("longitude", purchase.longitude());
            json.writeNumberField("at_ms", purchase.atMs());
            whole(json, "sent_ms", purchase.sentMs());
            json.writeStringField("merchant_category", merchant.category());
            json.writeStringField("merchant_place", merchant.place());
            json.writeStringField("customer_segment", segment);
            if (phone == null) {
                for (String name : List.of("km_from_phone", "phone_latitude", "phone_longitude", "phone_at_ms")) {
                    json.writeNullField(name);
                }
            } else {
                json.writeNumberField("km_from_phone", phone.km(purchase));
                json.writeNumberField("phone_latitude", phone.latitude());
                json.writeNumberField("phone_longitude", phone.longitude());
                json.writeNumberField("phone_at_ms", phone.atMs());
            }
            json.writeArrayFieldStart("flags");
            for (String flag : flags) {
                json.writeString(flag);
            }
            json.writeEndArray();
            json.writeStringField("source_topic", place.topic());
            json.writeNumberField("source_partition", place.partition());
            json.writeNumberField("source_offset", place.offset());
            json.writeNumberField("ingest_ms", place.arrivedMs());
        });
    }

    public byte[] aboveMax(String version, Purchase purchase, long highestCents, Place place) {
        return alert(Rules.ABOVE_MAX, version, purchase, place, json -> {
            json.writeStringField("amount_cents", Long.toString(purchase.amountCents()));
            json.writeStringField("before_highest_cents", Long.toString(highestCents));
        });
    }

    public byte[] away(String version, Purchase purchase, Phone phone, Place place) {
        return alert(Rules.AWAY, version, purchase, place, json -> {
            json.writeStringField("latitude", Double.toString(purchase.latitude()));
            json.writeStringField("longitude", Double.toString(purchase.longitude()));
            json.writeStringField("before_phone_latitude", Double.toString(phone.latitude()));
            json.writeStringField("before_phone_longitude", Double.toString(phone.longitude()));
            json.writeStringField("at_ms", Long.toString(purchase.atMs()));
            json.writeStringField("before_phone_at_ms", Long.toString(phone.atMs()));
        });
    }

    /** The alert of a burst, of the uses of a card in the order of their time. */
    public byte[] burst(String version, List<CardUse> uses) {
        CardUse first = uses.get(0);
        CardUse last = uses.get(uses.size() - 1);
        long totalCents = 0;
        long arrivedMs = Long.MIN_VALUE;
        Long sentMs = null;
        for (CardUse use : uses) {
            totalCents += use.amountCents();
            arrivedMs = Math.max(arrivedMs, use.arrivedMs());
            sentMs = sentMs == null || use.sentMs() != null && use.sentMs() > sentMs ? use.sentMs() : sentMs;
        }
        List<String> ids = uses.stream().map(CardUse::id).sorted().limit(IDS_MOST).toList();
        String fact = Long.toString(first.atMs());
        long cents = totalCents;
        return alert(
                Rules.BURST, version, first.card(), subject(uses), fact, first.atMs(), ids, last.atMs(), sentMs, arrivedMs,
                json -> {
                    json.writeStringField("n", Integer.toString(uses.size()));
                    json.writeStringField("total_cents", Long.toString(cents));
                    json.writeStringField("first_ms", fact);
                    json.writeStringField("last_ms", Long.toString(last.atMs()));
                });
    }

    /** The customer of a card: that of its alert, which is the key in Kafka, too. */
    public static String subject(List<CardUse> uses) {
        return uses.stream().map(CardUse::customer).max(Comparator.naturalOrder()).orElseThrow();
    }

    public byte[] deadLetter(String reason, Place place, byte[] value) {
        boolean isKept = value != null && !reason.startsWith("forbidden:");
        return deadLetter("events", reason, place, isKept ? Base64.getEncoder().encodeToString(value) : null);
    }

    /** The dead letter of a purchase that was accepted, but came too late for the bursts of its card. */
    public byte[] late(Place place) {
        return deadLetter("windows", "late", place, null);
    }

    private byte[] deadLetter(String stage, String reason, Place place, String base64) {
        return object(json -> {
            json.writeStringField("reason", reason);
            json.writeStringField("topic", place.topic());
            json.writeNumberField("partition", place.partition());
            json.writeNumberField("offset", place.offset());
            json.writeNumberField("ingest_ms", place.arrivedMs());
            json.writeStringField("stage", stage);
            json.writeStringField("value_base64", base64);
        });
    }

    private byte[] alert(String rule, String version, Purchase purchase, Place place, Fields operands) {
        return alert(
                rule, version, purchase.customer(), purchase.customer(), purchase.id(), null, List.of(purchase.id()),
                purchase.atMs(), purchase.sentMs(), place.arrivedMs(), operands);
    }

    private byte[] alert(
            String rule, String version, String key, String subject, String fact, Long startMs, List<String> ids,
            long atMs, Long sentMs, long arrivedMs, Fields operands) {
        return object(json -> {
            String identity = rule + "|" + version + "|" + key + "|" + fact;
            byte[] hash = digest.digest(identity.getBytes(StandardCharsets.UTF_8));
            json.writeStringField("alert_id", HexFormat.of().formatHex(hash, 0, 16));
            json.writeStringField("rule", rule);
            json.writeStringField("rule_version", version);
            json.writeStringField("key", key);
            json.writeStringField("subject", subject);
            whole(json, "window_start_ms", startMs);
            json.writeArrayFieldStart("event_ids");
            for (String id : ids) {
                json.writeString(id);
            }
            json.writeEndArray();
            json.writeObjectFieldStart("operands");
            operands.to(json);
            json.writeEndObject();
            json.writeNumberField("at_ms", atMs);
            whole(json, "sent_ms", sentMs);
            json.writeNumberField("ingest_ms", arrivedMs);
            json.writeNumberField("emit_ms", System.currentTimeMillis());
        });
    }

    private static void whole(JsonGenerator json, String name, Long value) throws IOException {
        if (value == null) {
            json.writeNullField(name);
        } else {
            json.writeNumberField(name, value);
        }
    }

    private byte[] object(Fields fields) {
        bytes.reset();
        try (JsonGenerator json = FACTORY.createGenerator(bytes)) {
            json.writeStartObject();
            fields.to(json);
            json.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }
}
