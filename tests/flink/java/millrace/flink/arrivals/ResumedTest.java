package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** What was late before a restart, and events of before 1970, which are not late for that. */
final class ResumedTest {
    private final Resumed resumed = new Resumed(5);

    @Test
    void aTaskThatBeginsAnewHasPassedNoTime() {
        resumed.add(new ArrivalSplit(0, Map.of(), Map.of()));
        assertEquals(Long.MIN_VALUE, resumed.passedMs());
    }

    @Test
    void theNewestEventOfAllSplitsCounts() {
        resumed.add(new ArrivalSplit(0, Map.of(), Map.of(), 100));
        resumed.add(new ArrivalSplit(1, Map.of(), Map.of(), 90));
        assertEquals(95, resumed.passedMs());
    }
}
