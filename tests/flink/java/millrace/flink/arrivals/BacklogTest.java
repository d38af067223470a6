package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SourceEvent;
import org.junit.jupiter.api.Test;

final class BacklogTest {
    private static final long NOW_MS = 10_000;
    private static final long OLD_MS = NOW_MS - 101;

    private final Reading reading = new Reading(100);
    private final List<SourceEvent> reported = new ArrayList<>();
    private final Backlog backlog = new Backlog(reading, reported::add);

    @Test
    void aTaskThatFindsNothingIsLiveAtOnce() {
        backlog.look();
        assertEquals(List.of(), reported, "nothing is known before the first fetch");
        reading.released(0, true);
        backlog.look();
        backlog.look();
        assertEquals(List.of(new Backlog.CaughtUp(Backlog.CaughtUp.AT_START)), reported);
    }

    @Test
    void aTaskWithNothingToReadIsLiveAtOnce() {
        backlog.nothingToRead();
        backlog.nothingToRead();
        assertTrue(reading.isLive(), "or its watermark would never be idle");
        assertEquals(List.of(new Backlog.CaughtUp(Backlog.CaughtUp.AT_START)), reported);
    }

    @Test
    void aTaskThatFoundABacklogIsLiveAtACheckpoint() {
        reading.released(2, true);
        assertTrue(backlog.holds(OLD_MS, NOW_MS));
        assertFalse(backlog.isLiveAt(1));
        assertTrue(backlog.holds(OLD_MS, NOW_MS));
        backlog.look();
        assertEquals(List.of(), reported, "what it wrote may not be acknowledged");
        assertTrue(backlog.isLiveAt(2));
        assertTrue(backlog.isLiveAt(3));
        assertEquals(List.of(new Backlog.CaughtUp(2)), reported);
    }

    @Test
    void aTaskUnderTrafficIsLiveWhileItHandsOnWhatHasJustArrived() {
        reading.released(9, false);
        backlog.holds(NOW_MS - 100, NOW_MS);
        assertTrue(backlog.isLiveAt(1));
        backlog.holds(OLD_MS, NOW_MS);
        assertFalse(backlog.isLiveAt(2));
        assertEquals(List.of(new Backlog.CaughtUp(1), new Backlog.FellBehind()), reported);
    }

    @Test
    void aLiveMessageBelongsToTheBacklogOfTheOtherTasks() {
        reading.released(9, true);
        assertTrue(backlog.holds(NOW_MS, NOW_MS));
        backlog.announced(new Backlog.Announced(true));
        assertFalse(backlog.holds(NOW_MS, NOW_MS));
        assertTrue(backlog.holds(OLD_MS, NOW_MS), "it is old itself");
        backlog.announced(new Backlog.Announced(false));
        assertTrue(backlog.holds(NOW_MS, NOW_MS));
    }
}
