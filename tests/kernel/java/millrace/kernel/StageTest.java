package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What a stage keeps, in which order, and for how long; tests/kernel/test_invented_rules.py compares its outputs. */
final class StageTest {
    private static final String WHOLE = "\"kind\": \"whole\", \"required\": true, \"may_pass_luhn\": false,"
            + " \"least\": 0, \"most\": 9000000000000";
    private static final String TEXT = "\"kind\": \"text\", \"required\": true, \"may_pass_luhn\": false,"
            + " \"max_length\": 9, \"pattern\": \".*\"";
    private static final String EVENT = """
            {"max_bytes": 999, "max_depth": 8, "past_ms": 1000, "future_ms": 100, "time": "at_ms", "forbidden": [],
             "fields": [{"name": "who", %s}, {"name": "id", %s}, {"name": "cents", %s}, {"name": "at_ms", %s},
             {"name": "sent_ms", "kind": "whole", "required": false, "may_pass_luhn": false, "least": 0, "most": 9}]}"""
            .formatted(TEXT, TEXT, WHOLE, WHOLE);
    private static final String FIELD = "{\"node\": \"field\", \"owner\": \"now\", \"name\": \"%s\", \"kind\": \"text\"}";
    private static final String STAGE = """
            {"judged": "pays", "id": "id", "key": "who", "time": "at_ms", "remembered_ms": 200,
             "streams": [{"name": "pays", "key": "who", "event": %s}], "references": [], "lookups": [],
             "measures": [{"signature": "max(pays.cents)", "op": "max", "stream": "pays", "fields": ["cents"],
                           "kinds": ["whole"], "outputs": {"m0": "whole"}, "time": null, "within_ms": null}],
             "rules": [], "enriched": {"name": "enriched", "columns": {"who": %s}, "remembers": {}}, "alerts": [],
             "dead_letters": ["reason", "topic", "partition", "offset", "ingest_ms", "stage", "value_base64"]}"""
            .formatted(quoted(EVENT), FIELD.formatted("who"));
    private static final String SHOP = """
            {"max_bytes": 999, "max_depth": 8, "past_ms": 0, "future_ms": 0, "time": null, "forbidden": [],
             "fields": [{"name": "id", %s}, {"name": "cents", %s}]}""".formatted(TEXT, WHOLE);
    private static final String LOOKING = STAGE
            .replace("\"lookups\": []",
                    "\"lookups\": [{\"reference\": \"shops\", \"by\": \"id\", \"take\": {\"price\": \"cents\"}}]")
            .replace("\"columns\": {", "\"columns\": {\"price\": {\"node\": \"field\","
                    + " \"owner\": \"looked up\", \"name\": \"price\", \"kind\": \"whole\"}, ");

    private final HeapState state = new HeapState();
    private final Stage stage = new Stage(STAGE, Map.of("pays", "t.pays"), Map.of());

    @Test
    void outputsAreSentBeforeTheStateThatCoversThem() {
        take(0, "a1", 5);
        assertEquals(List.of("send enriched", "put s", "put m"), state.log);
    }

    @Test
    void aMessageThatTheMemoryHasIsPassedOver() {
        take(0, "a1", 5);
        take(1, "a2", 7);
        state.log.clear();
        assertEquals(1_000L, take(0, "a1", 5));
        assertEquals(List.of(), state.log);
        take(2, "a1", 5);
        assertEquals(List.of("send dead-letters"), state.log);
    }

    @Test
    void theOffsetsOfATopicThatWasCreatedAnewAreNew() {
        take(7, "a1", 5);
        stage.identify("pays", "another");
        state.log.clear();
        take(0, "a2", 6);
        assertEquals("send enriched", state.log.get(0));
        take(7, "a1", 5);
        assertEquals("send dead-letters", state.log.get(state.log.size() - 1));
    }

    @Test
    void theMessageThatAnIdWasFirstSeenInIsNoDuplicate() {
        take(0, "a1", 5);
        state.entries.remove(new Key('m').text("anna").bytes()); // a crash kept the id, and not the memory
        state.log.clear();
        take(0, "a1", 5);
        assertEquals("send enriched", state.log.get(0));
    }

    /** The message that a crash kept as the memory's last, and not its id: a cache may write the two in any order. */
    @Test
    void anIdThatTheMemoryOutlivedIsKeptAgain() {
        take(0, "a1", 5);
        state.entries.remove(new Key('s').text("anna").text("a1").bytes());
        state.log.clear();
        take(0, "a1", 5);
        assertEquals(List.of("put s"), state.log);
        take(1, "a1", 5);
        assertEquals("send dead-letters", state.log.get(1));
    }

    @Test
    void anUnknownEventThatTheMemoryIsBeyondKeepsNoId() {
        ReferenceTable shops = new ReferenceTable(SHOP, "id");
        shops.take(0, 0, null, bytes("{\"id\": \"a2\", \"cents\": 3}"), 900);
        Stage looking = new Stage(LOOKING, Map.of("pays", "t.pays"), Map.of("shops", shops));
        for (int n = 0; n < 2; n++) { // the second time after a crash
            looking.take("pays", 0, 0, 1_000, event("a1", 5), state, (kind, key, value) -> {});
            looking.take("pays", 0, 1, 1_000, event("a2", 5), state, (kind, key, value) -> {});
        }
        assertEquals(1, state.of('s').size());
    }

    @Test
    void idsAreForgottenAfterTheirTimeAFewAtOnce() {
        for (int n = 0; n < 5; n++) {
            take(n, "a" + n, 5);
        }
        arrived(5, "b1", 1_200);
        stage.settle();
        assertNull(stage.forget(null, 9, state));
        assertEquals(6, state.of('s').size());
        arrived(6, "b2", 1_201);
        stage.settle();
        byte[] next = stage.forget(null, 2, state);
        assertEquals(5, state.of('s').size());
        assertNull(stage.forget(next, 9, state));
        assertEquals(2, state.of('s').size());
    }

    //   1000      1100       1201            arrivals of partition 0
    //   a1        a1 again   another
    @Test
    void anIdIsForgottenByWhatArrivedInItsPartitionAndDoesNotComeAgain() {
        take(0, "a1", 5);
        stage.take("pays", 1, 0, 1_900, event("b1", 5), state, (kind, key, value) -> {});
        stage.settle();
        stage.forget(null, 9, state);
        state.log.clear();
        arrived(1, "a1", 1_100);
        assertEquals(List.of("send dead-letters"), state.log);
        arrived(2, "a2", 1_201);
        stage.forget(null, 9, state);
        assertEquals(3, state.of('s').size());
        stage.settle();
        stage.forget(null, 9, state);
        assertEquals(2, state.of('s').size());
    }

    @Test
    void anIdMayComeAgainAfterItsTimeThoughItsEntryIsStillThere() {
        take(0, "a1", 5);
        state.log.clear();
        assertNull(arrived(1, "a1", 1_200));
        assertEquals(List.of("send dead-letters"), state.log);
        state.log.clear();
        assertEquals(1_000L, arrived(2, "a1", 1_201));
        assertEquals("send enriched", state.log.get(0));
    }

    /** A reference that changes while an event waits in a backlog changes nothing for it. */
    @Test
    void referenceDataIsThatOfTheArrival() {
        ReferenceTable shops = new ReferenceTable(SHOP, "id");
        shops.take(0, 0, null, bytes("{\"id\": \"a1\", \"cents\": 1}"), 900);
        shops.take(0, 1, null, bytes("{\"id\": \"a1\", \"cents\": 2}"), 1_100);
        shops.take(0, 2, null, bytes("{\"id\": \"a2\", \"cents\": 3}"), 1_100);
        Stage looking = new Stage(LOOKING, Map.of("pays", "t.pays"), Map.of("shops", shops));
        List<String> sent = new ArrayList<>();
        Outputs outputs = (kind, key, value) -> sent.add(kind + " " + new String(value, StandardCharsets.UTF_8));
        looking.take("pays", 0, 0, 1_050, event("a1", 5), state, outputs);
        looking.take("pays", 0, 1, 1_050, event("a2", 5), state, outputs);
        assertEquals("enriched {\"price\":1,\"who\":\"anna\"}", sent.get(0));
        assertTrue(sent.get(1).startsWith("dead-letters {\"reason\":\"unknown:shops\""), sent.get(1));
        looking.take("pays", 0, 2, 1_100, event("a2", 5), state, outputs);
        assertEquals("enriched {\"price\":3,\"who\":\"anna\"}", sent.get(2));
    }

    /** Running jobs restore what an earlier build kept: no byte here may ever change. */
    @Test
    void theBytesOfAMemoryStay() {
        take(258, "a1", 5);
        String memory = HexFormat.of().formatHex(state.get(new Key('m').text("anna").bytes()));
        assertTrue(memory.startsWith("01" + "000470617973" + "00000000" + "00000000" + "0000000000000102"), memory);
        assertTrue(memory.endsWith("00000009" + "01" + "0000000000000005"), memory);
        String seen = HexFormat.of().formatHex(state.get(new Key('s').text("anna").text("a1").bytes()));
        assertEquals("00000000000004b0" + "00000000" + "00000000" + "0000000000000102", seen);
    }

    private Long take(long offset, String id, long cents) {
        return taken(offset, 1_000, event(id, cents));
    }

    private Long arrived(long offset, String id, long ingestMs) {
        return taken(offset, ingestMs, event(id, 5));
    }

    private Long taken(long offset, long ingestMs, byte[] event) {
        return stage.take("pays", 0, offset, ingestMs, event, state,
                (kind, key, value) -> state.log.add("send " + kind));
    }

    private static byte[] event(String id, long cents) {
        return bytes("{\"who\": \"anna\", \"id\": \"" + id + "\", \"cents\": " + cents + ", \"at_ms\": 1000}");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\"", "\\\"").replace("\n", " ") + "\"";
    }
}
