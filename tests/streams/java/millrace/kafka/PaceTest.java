package millrace.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import millrace.kernel.Json;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What belongs to a backlog, and what stands beside the committed offsets. */
final class PaceTest {
    private static final TopicPartition FIRST = new TopicPartition("t.purchases", 0);
    private static final TopicPartition SECOND = new TopicPartition("t.purchases", 1);
    private static final String THREAD = "thread-1";
    private static final long LIVE_MS = 2_500;

    private long nowMs = 1_000_000;
    private final Pace pace = new Pace("t.purchases", LIVE_MS, () -> nowMs);

    @BeforeEach
    void isAssigned() {
        pace.identify(Map.of("t.purchases", "id-1"));
        pace.assign(THREAD, Map.of(FIRST, 10L, SECOND, 20L));
    }

    @Test
    void aJobThatFindsNothingIsLive() {
        pace.poll(FIRST, -1, 0, nowMs);
        assertFalse(pace.isLive());
        pace.poll(SECOND, -1, 0, nowMs);
        assertTrue(pace.isLive());
        assertFalse(pace.handOn("t.purchases", 0, 10, nowMs));
    }

    @Test
    void aJobIsNeitherLiveNorDoneBeforeAllItsReadersAreThere() {
        pace.expect(2);
        pace.poll(FIRST, -1, 0, nowMs);
        pace.poll(SECOND, -1, 0, nowMs);
        assertFalse(pace.isLive());
        assertFalse(pace.isDone());
        pace.assign("thread-2", Map.of());
        pace.poll(SECOND, -1, 0, nowMs);
        assertTrue(pace.isLive());
        assertTrue(pace.isDone());
    }

    @Test
    void anOldMessageBelongsToABacklogUntilItIsCommittedAndAllPartitionsHaveCaughtUp() {
        pace.poll(FIRST, 11, 0, nowMs);
        pace.poll(SECOND, -1, 0, nowMs);
        assertTrue(pace.handOn("t.purchases", 0, 10, nowMs - LIVE_MS - 1));
        assertTrue(pace.handOn("t.purchases", 0, 11, nowMs));
        pace.poll(FIRST, -1, 0, nowMs);
        assertFalse(pace.isLive());
        commit(Map.of(FIRST, 11L)); // behind the old one
        assertTrue(pace.isLive());
        assertFalse(pace.handOn("t.purchases", 0, 12, nowMs));
    }

    @Test
    void aPartitionWithMoreToReadKeepsTheOthersFromBeingLive() {
        pace.poll(FIRST, -1, 0, nowMs);
        pace.poll(SECOND, 25, 100, nowMs);
        assertTrue(pace.handOn("t.purchases", 1, 20, nowMs - 60_000));
        commit(Map.of(SECOND, 21L));
        assertFalse(pace.isLive());
        assertTrue(pace.handOn("t.purchases", 0, 10, nowMs));
    }

    @Test
    void theNoteHasHowFarAPartitionHasComeAndTheIdOfItsTopic() {
        pace.poll(FIRST, 10, 5, nowMs);
        pace.handOn("t.purchases", 0, 10, nowMs - 60_000);
        pace.move(0, 900_000);
        Map<TopicPartition, OffsetAndMetadata> noted = commit(Map.of(FIRST, 11L));
        assertEquals(11, noted.get(FIRST).offset());
        assertEquals(Map.of("topic_id", "id-1", "newest_ms", 900_000L, "through_ms", 900_000L),
                note(noted.get(FIRST)));
    }

    @Test
    void aCommitNotesAllPartitionsOfTheReader() {
        pace.poll(FIRST, -1, 0, nowMs);
        pace.poll(SECOND, 20, 0, nowMs);
        pace.handOn("t.purchases", 1, 20, nowMs);
        pace.move(1, 990_000);
        Map<TopicPartition, OffsetAndMetadata> noted = commit(Map.of(SECOND, 21L));
        assertEquals(10, noted.get(FIRST).offset());
        assertEquals(nowMs, note(noted.get(FIRST)).get("through_ms"));
        assertEquals(Map.of(), pace.noted("thread-2", Map.of(), Map.of()));
    }

    @Test
    void aJobIsDoneWhenAllIsHandedOnAndCommitted() {
        pace.poll(FIRST, 10, 0, nowMs);
        pace.poll(SECOND, -1, 0, nowMs);
        assertFalse(pace.isDone());
        pace.handOn("t.purchases", 0, 10, nowMs);
        assertFalse(pace.isDone());
        commit(Map.of(FIRST, 11L));
        assertTrue(pace.isDone());
        assertEquals(0, pace.lag());
    }

    @Test
    void whatAReaderNoLongerReadsIsForgotten() {
        assertEquals(2, pace.read());
        pace.retain(THREAD, java.util.Set.of(FIRST));
        assertEquals(1, pace.read());
        assertNull(commit(Map.of(FIRST, 10L)).get(SECOND));
    }

    @Test
    void aJobIsLiveOnlyWhileThePartitionsOfOtherProcessesKeepUp() {
        Pace one = new Pace("t.purchases", LIVE_MS, () -> nowMs);
        one.assign(THREAD, Map.of(FIRST, 10L));
        one.hear(Map.of(0, 0L, 1, 0L)); // the second has a backlog
        one.poll(FIRST, -1, 0, nowMs);
        assertFalse(one.isLive());
        one.hear(Map.of(0, 0L, 1, nowMs)); // its own old note counts for nothing
        assertTrue(one.isLive());
        nowMs += LIVE_MS;
        assertFalse(one.handOn("t.purchases", 0, 10, nowMs));
        nowMs += 1; // who read it has died
        assertTrue(one.handOn("t.purchases", 0, 11, nowMs));
        one.assign(THREAD, Map.of(SECOND, 20L)); // and this process has taken it over
        one.poll(FIRST, 11, 0, nowMs);
        one.poll(SECOND, -1, 0, nowMs);
        assertTrue(one.isLive());
    }

    @Test
    void whatElseIsToBeNotedStandsBesideTheOffsetsOfAnyTopic() {
        TopicPartition dealt = new TopicPartition("t-dealt", 0);
        Map<TopicPartition, OffsetAndMetadata> noted = pace.noted(
                THREAD, Map.of(dealt, new OffsetAndMetadata(5)), Map.of(dealt, Map.of("a", 1L), FIRST, Map.of("b", 2L)));
        assertEquals(Map.of("a", 1L), note(noted.get(dealt)));
        assertEquals(2L, note(noted.get(FIRST)).get("b"));
    }

    private Map<TopicPartition, OffsetAndMetadata> commit(Map<TopicPartition, Long> next) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        next.forEach((place, offset) -> offsets.put(place, new OffsetAndMetadata(offset)));
        Map<TopicPartition, OffsetAndMetadata> noted = pace.noted(THREAD, offsets, Map.of());
        pace.commit(THREAD, noted);
        return noted;
    }

    private static Map<String, Object> note(OffsetAndMetadata committed) {
        return Json.object(Json.parse(committed.metadata()));
    }
}
