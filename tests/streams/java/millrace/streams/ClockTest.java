package millrace.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import millrace.kafka.Pace;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The time of a job with two partitions, a disorder of 5 s, and 5 s until a partition counts as idle. */
final class ClockTest {
    private static final long UNKNOWN = Long.MIN_VALUE;
    private static final TopicPartition FIRST = new TopicPartition("t.purchases", 0);
    private static final TopicPartition SECOND = new TopicPartition("t.purchases", 1);

    private long nowMs = 1_000_000;
    private final Pace pace = new Pace("t.purchases", 2_500, () -> nowMs);
    private final Clock clock = new Clock(2, 5_000, 5_000, pace, () -> nowMs);

    @BeforeEach
    void isAssigned() {
        pace.assign("thread-1", Map.of(FIRST, 0L, SECOND, 0L));
        clock.join(0, UNKNOWN, UNKNOWN);
        clock.join(1, UNKNOWN, UNKNOWN);
    }

    private static Clock.Note note(long newestMs, long sinceMs) {
        return new Clock.Note(newestMs, sinceMs, UNKNOWN);
    }

    private void isAtEnd() {
        pace.poll(FIRST, -1, 0, nowMs);
        pace.poll(SECOND, -1, 0, nowMs);
    }

    @Test
    void theSlowestPartitionCounts() {
        clock.move(0, 900_000);
        assertEquals(UNKNOWN, clock.timeMs());
        clock.move(1, 890_000);
        assertEquals(885_000, clock.timeMs());
        assertEquals(900_000, clock.move(0, 800_000));
        assertEquals(885_000, clock.timeMs());
    }

    @Test
    void aPartitionThatIsIdleHoldsBackNone() {
        clock.move(0, 900_000);
        nowMs += 5_001;
        pace.poll(SECOND, -1, 0, nowMs);
        clock.move(0, 905_000);
        assertEquals(900_000, clock.timeMs());
    }

    @Test
    void whatMayHaveComeSinceAPartitionWasKnownToBeIdleIsNotLate() {
        clock.move(0, 900_000);
        nowMs += 5_001;
        pace.poll(SECOND, -1, 0, nowMs);
        nowMs += 2_000; // the other partition has its answers, and this one has not
        clock.move(0, 907_000);
        assertEquals(900_000, clock.timeMs());
        pace.poll(SECOND, -1, 0, nowMs);
        assertEquals(902_000, clock.timeMs());
    }

    @Test
    void aPartitionThatWasNotAskedMeanwhileIsNotIdle() {
        clock.move(0, 900_000);
        clock.move(1, 900_000);
        isAtEnd();
        clock.close(0, 895_000, 910_000L);
        nowMs += 60_000; // the thread has committed, or the machine was busy: what came since then is not read
        assertEquals(895_000, clock.timeMs());
    }

    @Test
    void timeWaitsForATaskThatIsNotThereYet() {
        Clock again = new Clock(2, 5_000, 5_000, pace, () -> nowMs);
        again.join(0, 900_000, 890_000);
        again.move(0, 950_000);
        assertEquals(UNKNOWN, again.timeMs());
        again.join(1, 896_000, 891_000);
        assertEquals(891_000, again.timeMs());
    }

    @Test
    void aPartitionWithMoreToReadIsNeverIdle() {
        clock.move(0, 900_000);
        pace.poll(SECOND, -1, 7, nowMs);
        nowMs += 60_000;
        clock.move(0, 950_000);
        assertEquals(UNKNOWN, clock.timeMs());
    }

    @Test
    void inSilenceTimeMovesWithTheWallClockUntilNoWindowIsOpen() {
        clock.move(0, 900_000);
        clock.move(1, 900_000);
        assertFalse(clock.isSilent());
        nowMs += 6_000;
        isAtEnd();
        assertTrue(clock.isSilent());
        assertEquals(895_000, clock.timeMs());
        clock.close(0, 895_000, 910_000L);
        assertEquals(901_000, clock.timeMs());
        nowMs += 60_000;
        assertEquals(901_000, clock.timeMs());
        isAtEnd();
        assertEquals(910_000, clock.timeMs());
    }

    @Test
    void partitionsOfAnotherProcessCountByWhatItHasCommitted() {
        clock.leave(1);
        clock.move(0, 900_000);
        assertEquals(UNKNOWN, clock.timeMs());
        clock.hear(Map.of(0, note(0, 0), 1, note(890_000, nowMs)), Map.of()); // that of the own one is older
        assertEquals(885_000, clock.timeMs());
        nowMs += 6_000;
        clock.move(0, 910_000);
        clock.hear(Map.of(1, new Clock.Note(890_000, nowMs - 6_000, nowMs)), Map.of()); // idle
        assertEquals(905_000, clock.timeMs());
    }

    @Test
    void inSilenceAProcessWithoutEventsFollowsTheWindowsOfAnother() {
        clock.leave(1);
        clock.hear(Map.of(1, note(900_000, nowMs)), Map.of());
        nowMs += 16_000;
        isAtEnd();
        clock.hear(Map.of(1, new Clock.Note(900_000, nowMs - 16_000, nowMs)), Map.of(0, 910_000L));
        assertTrue(clock.isSilent());
        assertEquals(910_000, clock.timeMs());
    }

    @Test
    void aPartitionThatIsTakenOverIsJudgedByTheTimeItsTaskHasKept() {
        clock.leave(1);
        clock.move(0, 900_000);
        clock.hear(Map.of(1, new Clock.Note(850_000, nowMs - 6_000, nowMs)), Map.of()); // idle, and then its process died
        assertEquals(895_000, clock.timeMs());
        clock.join(1, 850_000, 860_000); // what came since then is still to be read
        assertEquals(845_000, clock.timeMs());
    }

    @Test
    void timeContinuesFromWhatAllTasksHaveKept() {
        clock.join(0, 900_000, 895_000);
        clock.join(1, 899_000, 894_000);
        assertEquals(894_000, clock.timeMs());
        clock.move(1, 880_000);
        assertEquals(894_000, clock.timeMs());
    }

    @Test
    void atTheEndOfAFiniteStreamAllWindowsClose() {
        clock.end();
        assertEquals(Clock.END, clock.timeMs());
        clock.close(0, Clock.END, null);
        assertFalse(clock.isOver());
        clock.close(1, Clock.END, null);
        assertTrue(clock.isOver());
    }
}
