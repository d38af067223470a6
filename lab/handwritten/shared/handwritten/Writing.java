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
import java.util.HexFormat;
import java.util.List;

/** Writes enriched purchases, alerts and dead letters. For one thread. */
public final class Writing {
    private static final JsonFactory FACTORY = new JsonFactory();

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

    public byte[] deadLetter(String reason, Place place, byte[] value) {
        return object(json -> {
            json.writeStringField("reason", reason);
            json.writeStringField("topic", place.topic());
            json.writeNumberField("partition", place.partition());
            json.writeNumberField("offset", place.offset());
            json.writeNumberField("ingest_ms", place.arrivedMs());
            json.writeStringField("stage", "events");
            boolean isKept = value != null && !reason.startsWith("forbidden:");
            json.writeStringField("value_base64", isKept ? Base64.getEncoder().encodeToString(value) : null);
        });
    }

    private byte[] alert(String rule, String version, Purchase purchase, Place place, Fields operands) {
        return object(json -> {
            String identity = rule + "|" + version + "|" + purchase.customer() + "|" + purchase.id();
            byte[] hash = digest.digest(identity.getBytes(StandardCharsets.UTF_8));
            json.writeStringField("alert_id", HexFormat.of().formatHex(hash, 0, 16));
            json.writeStringField("rule", rule);
            json.writeStringField("rule_version", version);
            json.writeStringField("key", purchase.customer());
            json.writeStringField("subject", purchase.customer());
            json.writeNullField("window_start_ms");
            json.writeArrayFieldStart("event_ids");
            json.writeString(purchase.id());
            json.writeEndArray();
            json.writeObjectFieldStart("operands");
            operands.to(json);
            json.writeEndObject();
            json.writeNumberField("at_ms", purchase.atMs());
            whole(json, "sent_ms", purchase.sentMs());
            json.writeNumberField("ingest_ms", place.arrivedMs());
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
