package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

final class ReferenceTableTest {
    private static final String DECLARED = """
            {"max_bytes": 100, "max_depth": 8, "past_ms": 0, "future_ms": 0, "time": null, "forbidden": [], "fields": [
              {"name": "merchant", "kind": "text", "required": true, "may_pass_luhn": false, "max_length": 8,
               "pattern": "[a-z]+"},
              {"name": "place", "kind": "text", "required": false, "may_pass_luhn": false, "max_length": 8,
               "pattern": ".*"}]}""";

    private final ReferenceTable table = new ReferenceTable(DECLARED, "merchant");

    @Test
    void theLastMessageOfAKeyCounts() {
        assertNull(take("baker", "{\"merchant\":\"baker\",\"place\":\"Ulm\"}"));
        assertNull(take("baker", "{\"merchant\":\"baker\",\"place\":\"Bern\"}"));
        assertArrayEquals(new Object[] {null, "baker", "Bern"}, table.get("baker"));
        assertEquals(1, table.size());
        assertNull(table.get("butcher"));
    }

    @Test
    void aMessageWithoutAValueDeletesItsKey() {
        take("baker", "{\"merchant\":\"baker\"}");
        assertNull(take("baker", null));
        assertNull(take(null, null));
        assertEquals(0, table.size());
    }

    @Test
    void aRefusedMessageLeavesWhatWasThere() {
        take("baker", "{\"merchant\":\"baker\",\"place\":\"Ulm\"}");
        assertEquals("length:place", take("baker", "{\"merchant\":\"baker\",\"place\":\"Zwiefalten\"}"));
        assertArrayEquals(new Object[] {null, "baker", "Ulm"}, table.get("baker"));
    }

    @Test
    void fieldsAreFoundBehindTheReason() {
        assertArrayEquals(new int[] {2, 1}, table.columns(List.of("place", "merchant")));
    }

    private String take(String key, String value) {
        return table.take(bytes(key), bytes(value), 0);
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
