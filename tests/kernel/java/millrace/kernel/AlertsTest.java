package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class AlertsTest {
    private static final List<String> COLUMNS =
            List.of("alert_id", "rule", "rule_version", "key", "subject", "operands", "emit_ms");

    private String kind;
    private String key;
    private Map<String, Object> sent;

    /** As {@code alert_id} of millrace/rules/outputs.py makes them. */
    @Test
    void theIdIsThatOfPython() {
        send("anna");
        assertEquals("d52fd4b67d0fd4870fc3c515b999c646", sent.get("alert_id"));
        send("a|50%");
        assertEquals("4fb5b99c7ad71925a2f44c0cef80b995", sent.get("alert_id"));
    }

    @Test
    void anAlertIsKeyedByItsSubjectAndHasItsRuleAndTheTime() {
        long beforeMs = System.currentTimeMillis();
        send("anna");
        assertEquals(List.of("alerts", "shop"), List.of(kind, key));
        assertEquals(List.of("spree", "v1", "anna", "shop"),
                List.of(sent.get("rule"), sent.get("rule_version"), sent.get("key"), sent.get("subject")));
        assertTrue((Long) sent.get("emit_ms") >= beforeMs);
    }

    @Test
    void operandsAreTextsInTheirOrder() {
        send("anna");
        assertEquals("{\"n\":\"5\",\"km\":\"0.5\",\"before\":null}", Json.text(Json.object(sent.get("operands"))));
    }

    private void send(String key) {
        Map<String, Expression> operands = new LinkedHashMap<>();
        operands.put("n", row -> 5L);
        operands.put("km", row -> 0.5);
        operands.put("before", row -> null);
        Map<String, Expression> values = Map.of(
                "key", row -> row[0], "subject", row -> "shop", "operands", Alerts.operands(operands));
        Alerts alerts = new Alerts(Map.of("name", "spree", "version", "v1"), COLUMNS, row -> row[1], values);
        alerts.send(new Object[] {key, "a1"}, (kind, subject, value) -> {
            this.kind = kind;
            this.key = subject;
            sent = Json.object(Json.parse(new String(value, StandardCharsets.UTF_8)));
        });
    }
}
