package millrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import millrace.kernel.Json;
import org.apache.spark.sql.RowFactory;
import org.junit.jupiter.api.Test;

final class LookUpTest {
    private static final String SHOP = """
            {"max_bytes": 99, "max_depth": 8, "past_ms": 0, "future_ms": 0, "time": null, "forbidden": [], "fields": [
              {"name": "shop", "kind": "text", "required": true, "may_pass_luhn": false, "max_length": 9, "pattern": ".*"},
              {"name": "place", "kind": "text", "required": true, "may_pass_luhn": false, "max_length": 9, "pattern": ".*"}]}
            """;

    private final Reference shops = new Reference(new Reference.Source("127.0.0.1:1", "t.shops", SHOP, "shop"));
    private final LookUp lookUp = new LookUp(Json.text(Map.of("take", Map.of("city", "place"))));

    /** A reference that changes while an event waits in a backlog changes nothing for it. */
    @Test
    void referenceDataIsThatOfTheMoment() {
        take(0, "{\"shop\": \"baker\", \"place\": \"Ulm\"}", 900);
        take(1, "{\"shop\": \"baker\", \"place\": \"Bern\"}", 1_100);
        lookUp.begin(shops);
        assertEquals(RowFactory.create("Ulm"), lookUp.call("baker", 1_099L));
        assertEquals(RowFactory.create("Bern"), lookUp.call("baker", 1_100L));
        assertNull(lookUp.call("baker", 899L));
        assertNull(lookUp.call(null, 1_100L));
    }

    private void take(long offset, String value, long ingestMs) {
        assertNull(shops.table.take(0, offset, null, value.getBytes(StandardCharsets.UTF_8), ingestMs));
    }
}
