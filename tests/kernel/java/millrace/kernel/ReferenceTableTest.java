package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

final class ReferenceTableTest {
    private static final String DECLARED = """
            {"max_bytes": 100, "max_depth": 8, "past_ms": 0, "future_ms": 0, "time": null, "forbidden": [], "fields": [
              {"name": "merchant", "kind": "text", "required": true, "may_pass_luhn": false, "max_length": 8,
               "pattern": "[a-z]+"},
              {"name": "place", "kind": "text", "required": false, "may_pass_luhn": false, "max_length": 8,
               "pattern": ".*"}]}""";

    private final ReferenceTable table = new ReferenceTable(DECLARED, "merchant");
    private long offset;

    @Test
    void theLastMessageOfAKeyCounts() {
        assertNull(take("baker", "{\"merchant\":\"baker\",\"place\":\"Ulm\"}"));
        assertNull(take("baker", "{\"merchant\":\"baker\",\"place\":\"Bern\"}"));
        assertArrayEquals(new Object[] {null, "baker", "Bern"}, table.get("baker", 0));
        assertEquals(1, table.size());
        assertNull(table.get("butcher", 0));
    }

    @Test
    void aMessageWithoutAValueDeletesItsKey() {
        take("baker", "{\"merchant\":\"baker\"}");
        assertNull(take("baker", null));
        assertNull(take(null, null));
        assertNull(table.get("baker", 0));
    }

    @Test
    void aRefusedMessageLeavesWhatWasThere() {
        take("baker", "{\"merchant\":\"baker\",\"place\":\"Ulm\"}");
        assertEquals("length:place", take("baker", "{\"merchant\":\"baker\",\"place\":\"Zwiefalten\"}"));
        assertArrayEquals(new Object[] {null, "baker", "Ulm"}, table.get("baker", 0));
    }

    @Test
    void fieldsAreFoundBehindTheReason() {
        assertArrayEquals(new int[] {2, 1}, table.columns(List.of("place", "merchant")));
    }

    @Test
    void eachMomentHasTheVersionThatWasThereThen() {
        take(10, "baker", "{\"merchant\":\"baker\",\"place\":\"Ulm\"}");
        take(20, "baker", "{\"merchant\":\"baker\",\"place\":\"Bern\"}");
        take(30, "baker", null);
        take(15, "baker", "{\"merchant\":\"baker\",\"place\":\"Graz\"}"); // the clock was set back
        assertEquals("null Ulm Ulm Bern Graz", places(9, 10, 19, 20, 30));
    }

    @Test
    void whatCompactionMayHaveTakenCountsAsThereFromTheBeginning() {
        assertNull(table.take(0, 0, bytes("butcher"), bytes("{\"merchant\":\"butcher\"}"), 5));
        offset = 7; // six messages are gone
        take(10, "baker", "{\"merchant\":\"baker\",\"place\":\"Ulm\"}");
        take(20, "baker", "{\"merchant\":\"baker\",\"place\":\"Bern\"}");
        assertEquals("Ulm Ulm Bern", places(0, 10, 20));
        assertNull(table.get("butcher", 4), "nothing was missing before it");
    }

    @Test
    void aKeyThatIsNewWhileTheTopicIsFollowedWasNotThereBefore() {
        table.complete();
        offset = 7; // an aborted transaction leaves no message, either
        take(10, "baker", "{\"merchant\":\"baker\",\"place\":\"Ulm\"}");
        assertEquals("null Ulm", places(9, 10));
    }

    @Test
    void ofAKeyThatChangesWithoutEndTheLastVersionsAreKept() {
        for (int n = 0; n < 150; n++) {
            take(n, "baker", "{\"merchant\":\"baker\",\"place\":\"p%d\"}".formatted(n));
        }
        assertEquals("null p50 p149", places(49, 50, 200));
    }

    private String places(long... atMs) {
        return LongStream.of(atMs)
                .mapToObj(each -> table.get("baker", each))
                .map(event -> event == null ? "null" : (String) event[2])
                .collect(Collectors.joining(" "));
    }

    private String take(String key, String value) {
        return take(0, key, value);
    }

    private String take(long ingestMs, String key, String value) {
        return table.take(0, offset++, bytes(key), bytes(value), ingestMs);
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
