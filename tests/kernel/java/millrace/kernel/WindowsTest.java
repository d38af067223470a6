package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** When windows close, and in which order; tests/kernel/test_invented_rules.py compares what they write. */
final class WindowsTest {
    private static final String RULE = """
            {"name": "%s", "version": "1", "key": "card", "window": %s, "ids_most": 9, "operands": ["n"],
             "measures": [{"name": "n", "op": "count", "field": null, "where": null}],
             "condition": {"node": "binary", "op": ">=", "kind": "flag",
               "left": {"node": "field", "owner": "w", "name": "n", "kind": "whole"},
               "right": {"node": "literal", "value": 2, "kind": "whole"}}}""";
    private static final String WINDOWS = """
            {"id": %s, "key": "who", "time": "at_ms", "disorder_ms": 5, "summaries": [], "rules": [%s],
             "columns": ["who", "card", "id", "at_ms", "sent_ms", "source_topic", "source_partition", "source_offset",
                         "ingest_ms", "cents"],
             "kinds": {"who": "text", "card": "text", "id": "text", "at_ms": "whole", "sent_ms": "whole",
                       "source_topic": "text", "source_partition": "whole", "source_offset": "whole",
                       "ingest_ms": "whole", "cents": "whole"},
             "alerts": ["alert_id", "rule", "rule_version", "key", "subject", "window_start_ms", "event_ids",
                        "operands", "at_ms", "sent_ms", "ingest_ms", "emit_ms"],
             "dead_letters": ["reason", "topic", "partition", "offset", "ingest_ms", "stage", "value_base64"]}""";
    private static final String SESSION = declared(RULE.formatted("r", "{\"gap_ms\": 10}"));

    private final HeapState state = new HeapState();
    private final List<String> found = new ArrayList<>();
    private final Outputs outputs = (kind, key, value) -> {
        Map<String, Object> message = Json.object(Json.parse(new String(value, StandardCharsets.UTF_8)));
        found.add(message.get("window_start_ms") + " " + message.get("event_ids"));
        state.log.add("send " + kind);
    };
    private long offset;

    //   0         10        20
    //   a         b                 a gap of 10 ms: one chain, complete when time is behind 20
    @Test
    void aSessionClosesWhenNoEventCanJoinItAnyMore() {
        Windows session = new Windows(declared(RULE.formatted("r", "{\"gap_ms\": 10}")));
        add(session, "a", 0);
        add(session, "b", 10);
        session.advance(20, state, outputs);
        assertEquals(List.of(), found);
        assertEquals(21, session.lastEndMs(state));
        session.advance(21, state, outputs);
        assertEquals(List.of("0 [a, b]"), found);
        assertNull(session.lastEndMs(state));
    }

    @Test
    void aSessionIsReadOnceHoweverManyEventsItHas() {
        int events = 200;
        Windows session = new Windows(declared(RULE.formatted("r", "{\"gap_ms\": 10}")));
        for (int atMs = 0; atMs < events; atMs++) {
            add(session, String.valueOf(atMs), atMs);
            session.advance(atMs, state, outputs);
        }
        session.advance(events + 10, state, outputs);
        assertEquals(1, found.size());
        assertEquals(List.of(), state.of('e'));
        assertTrue(state.visited <= 4 * events, state.visited + " entries were read");
    }

    //   0    5    10   15        25
    //   a         b                    when time is at 15, an event of 5 ms still joins
    @Test
    void aLateEventJoinsASessionThatIsOpen() {
        Windows session = new Windows(declared(RULE.formatted("r", "{\"gap_ms\": 10}")));
        add(session, "a", 0);
        add(session, "b", 10);
        session.advance(15, state, outputs);
        add(session, "late", 5);
        session.advance(20, state, outputs);
        assertEquals(List.of(), found);
        session.advance(21, state, outputs);
        assertEquals(List.of("0 [a, b, late]"), found);
        assertEquals(List.of(), state.of('t'));
    }

    //   0      8      16                40     48
    //   a      b      c                 d      e    two sessions, closed at once
    private Windows ofTwoSessions() {
        Windows session = new Windows(SESSION);
        for (String each : List.of("a 0", "b 8", "c 16", "d 40", "e 48")) {
            add(session, each.substring(0, 1), Long.parseLong(each.substring(2)));
        }
        state.changes.clear();
        return session;
    }

    @Test
    void aSessionIsWrittenWholeOrNotAtAllWhereverACrashCutsItsRemoval() {
        Windows session = ofTwoSessions();
        TreeMap<byte[], byte[]> before = new TreeMap<>(state.entries);
        session.advance(100, state, outputs);
        Set<String> whole = new HashSet<>(found);
        assertEquals(Set.of("0 [a, b, c]", "40 [d, e]"), whole);
        for (int cut = 0; cut <= state.changes.size(); cut++) {
            HeapState left = HeapState.of(before, state.changes.subList(0, cut));
            new Windows(SESSION).advance(100, left, outputs);
            assertEquals(whole, new HashSet<>(found), "behind change " + cut);
            assertEquals(List.of(), left.of('t'));
        }
    }

    //   0      8      16                40     48                200   205
    //   a      b      c                 d      e                 f     g    a crash amid the removal of a to e
    @Test
    void whatACrashLeftOfEarlierSessionsGoesWithTheNextOneOfTheKey() {
        Windows session = ofTwoSessions();
        TreeMap<byte[], byte[]> before = new TreeMap<>(state.entries);
        session.advance(100, state, outputs);
        List<byte[][]> changes = List.copyOf(state.changes);
        for (int cut = 0; cut <= changes.size(); cut++) {
            Windows again = new Windows(SESSION);
            state.entries.clear();
            state.entries.putAll(HeapState.of(before, changes.subList(0, cut)).entries);
            again.advance(100, state, outputs);
            found.clear();
            add(again, "f", 200);
            add(again, "g", 205);
            again.advance(300, state, outputs);
            assertEquals(List.of("200 [f, g]"), found);
            assertEquals(List.of(), state.of('e'), "behind change " + cut);
        }
    }

    @Test
    void windowsThatAreDueTogetherAreWrittenBeforeAnyOfThemIsRemoved() {
        Windows tumbling = new Windows(declared(RULE.formatted("r", "{\"size_ms\": 10, \"step_ms\": 10}")));
        for (int atMs = 0; atMs < 10_000; atMs += 5) {
            add(tumbling, String.valueOf(atMs), atMs);
        }
        state.log.clear();
        tumbling.advance(10_000, state, outputs);
        assertEquals(1_000, found.size());
        assertEquals(List.of(), state.of('t'));
        assertEquals(List.of(), state.of('e'));
        long flushes = 0;
        for (int i = 1; i < state.log.size(); i++) {
            flushes += state.log.get(i).startsWith("remove") && !state.log.get(i - 1).startsWith("remove") ? 1 : 0;
        }
        assertTrue(flushes <= 3, flushes + " times a removal waits for outputs");
    }

    @Test
    void aWindowClosesInTheOrderThatACrashMayCut() {
        Windows tumbling = new Windows(declared(RULE.formatted("r", "{\"size_ms\": 10, \"step_ms\": 10}")));
        add(tumbling, "a", 0);
        add(tumbling, "b", 9);
        state.log.clear();
        tumbling.advance(10, state, outputs);
        assertEquals(List.of("put w", "send alerts", "remove t", "remove e", "remove e"), state.log);
    }

    //   0    5    10   15
    //   [---------)               an event is removed with the last window that it is in
    //        [---------)
    @Test
    void anEventIsInEverySlidingWindowOfItsTime() {
        Windows sliding = new Windows(declared(RULE.formatted("r", "{\"size_ms\": 10, \"step_ms\": 5}")));
        add(sliding, "a", 5);
        add(sliding, "b", 9);
        sliding.advance(10, state, outputs);
        assertEquals(List.of("0 [a, b]"), found);
        assertEquals(2, state.of('e').size());
        sliding.advance(15, state, outputs);
        assertEquals(List.of("0 [a, b]", "5 [a, b]"), found);
        assertEquals(List.of(), state.of('e'));
    }

    @Test
    void whatComesAgainBehindItsWindowIsNoNewOne() {
        Windows session = new Windows(declared(RULE.formatted("r", "{\"gap_ms\": 10}")));
        add(session, "a", 0);
        session.advance(50, state, outputs);
        add(session, "a", 0);
        add(session, "b", 5);
        assertEquals(List.of(), state.of('e'));
        assertEquals(List.of(), state.of('t'));
    }

    @Test
    void aWindowThatACrashLeftHalfClosedIsClosedAgain() {
        String declaration = declared(RULE.formatted("r", "{\"size_ms\": 10, \"step_ms\": 10}"));
        Windows tumbling = new Windows(declaration);
        add(tumbling, "a", 0);
        add(tumbling, "b", 9);
        HeapState before = new HeapState();
        before.entries.putAll(state.entries);
        tumbling.advance(10, state, outputs);
        before.entries.put(new Key('w').bytes(), state.get(new Key('w').bytes())); // only the time was kept
        Windows again = new Windows(declaration);
        again.advance(again.timeMs(before), before, outputs);
        assertEquals(List.of("0 [a, b]", "0 [a, b]"), found);
    }

    @Test
    void anotherVersionOfARuleBeginsAnew() {
        Windows before = new Windows(declared(RULE.formatted("r", "{\"gap_ms\": 10}")));
        add(before, "a", 0);
        Windows now = new Windows(declared(RULE.formatted("other", "{\"gap_ms\": 10}")));
        now.advance(100, state, outputs);
        assertEquals(List.of(), found);
        assertEquals(List.of(), state.of('t'));
        assertEquals(List.of(), state.of('e'));
    }

    //   0    5    10   12 13
    //   a    b         c  d       a was kept, and dealt out again, when the events had another id
    @Test
    void eventsWithAnotherIdAreInNoWindow() {
        String rule = RULE.formatted("r", "{\"size_ms\": 10, \"step_ms\": 10}");
        for (List<String> ids : List.of(List.of("null", "\"id\""), List.of("\"id\"", "null"))) {
            Windows before = new Windows(WINDOWS.formatted(ids.get(0), rule));
            Windows now = new Windows(WINDOWS.formatted(ids.get(1), rule));
            add(before, "a", 0);
            add(before, now, "a", 1, null); // on its way between the two
            add(now, "b", 5);
            now.advance(10, state, outputs);
            assertEquals(List.of(), found);
            assertEquals(List.of(), state.of('e'));
            add(now, "c", 12);
            add(now, "d", 13);
            now.advance(20, state, outputs);
            assertEquals(List.of("10 " + (ids.get(1).equals("null") ? "[]" : "[c, d]")), found);
            found.clear();
            state.entries.clear();
        }
    }

    @Test
    void aFieldThatWasWholeIsReadAsReal() {
        String rule = RULE.formatted("r", "{\"size_ms\": 10, \"step_ms\": 10}")
                .replace("\"op\": \"count\", \"field\": null", "\"op\": \"sum\", \"field\": \"cents\"");
        Windows whole = new Windows(declared(rule));
        Windows real = new Windows(declared(rule.replace("\"name\": \"n\", \"kind\": \"whole\"",
                "\"name\": \"n\", \"kind\": \"real\"")).replace("\"cents\": \"whole\"", "\"cents\": \"real\""));
        add(whole, whole, "a", 0, 2L);
        add(real, real, "b", 1, 2.5);
        real.advance(10, state, outputs);
        assertEquals(List.of("0 [a, b]"), found);
    }

    private static String declared(String rule) {
        return WINDOWS.formatted("\"id\"", rule);
    }

    private void add(Windows windows, String id, long atMs) {
        add(windows, windows, id, atMs, null);
    }

    /** One that a job has dealt out, and another one keeps. */
    private void add(Windows from, Windows to, String id, long atMs, Object cents) {
        Object[] event = {"anna", "card-1", id, atMs, null, "t.pays", 0L, offset++, atMs, cents};
        from.deal(event, (key, value) -> to.add(key, value, state));
    }
}
