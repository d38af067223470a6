package millrace.kernel;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Writes the alerts of one rule. For one thread. */
final class Alerts {
    private static final String KIND = "alerts";
    private static final int ID_LENGTH = 32;

    private final Message message;
    private final Expression key;
    private final Expression fact;
    private final Expression subject;
    private final String identity;
    private final MessageDigest digest;

    /**
     * {@code values} has the columns in which rules differ: key, subject, event_ids, operands and the times. A fact is
     * the alert's identity among those of one rule and key.
     */
    Alerts(Map<String, Object> rule, List<String> columns, Expression fact, Map<String, Expression> values) {
        String name = (String) rule.get("name");
        String version = (String) rule.get("version");
        identity = name + "|" + version + "|";
        this.fact = fact;
        key = values.get("key");
        subject = values.get("subject");
        Map<String, Expression> all = new HashMap<>(values);
        all.put("alert_id", this::id);
        all.put("rule", row -> name);
        all.put("rule_version", row -> version);
        all.put("emit_ms", row -> System.currentTimeMillis());
        message = new Message(columns, all);
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    void send(Object[] row, Outputs outputs) {
        outputs.send(KIND, (String) subject.of(row), message.of(row));
    }

    /** Named values as texts. */
    static Expression operands(Map<String, Expression> values) {
        return row -> {
            Map<String, Object> shown = new LinkedHashMap<>();
            values.forEach((name, each) -> {
                Object value = each.of(row);
                shown.put(name, value == null ? null : value.toString());
            });
            return shown;
        };
    }

    /** As {@code alert_id} of millrace/rules/outputs.py makes it. */
    private String id(Object[] row) {
        String own = String.valueOf(key.of(row));
        boolean isOdd = own.contains("|"); // it is encoded, and the identity begins as no other
        String key = isOdd ? own.replace("%", "%25").replace("|", "%7C") : own;
        String whole = (isOdd ? "|" : "") + identity + key + "|" + fact.of(row);
        byte[] hash = digest.digest(whole.getBytes(StandardCharsets.UTF_8));
        return HexFormat.of().formatHex(hash, 0, ID_LENGTH / 2);
    }
}
