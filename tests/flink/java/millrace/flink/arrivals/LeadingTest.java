package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.junit.jupiter.api.Test;

final class LeadingTest {
    private final Reading reading = new Reading(100);
    private final WatermarkStrategy<RowData> strategy =
            new Leading(WatermarkStrategy.forGenerator(context -> new IdleAtOnce()), 0, 1, "pays", reading);
    private final WatermarkGenerator<RowData> ofTask = strategy.createWatermarkGenerator(null);
    private final WatermarkGenerator<RowData> one = strategy.createWatermarkGenerator(null);
    private final WatermarkGenerator<RowData> other = strategy.createWatermarkGenerator(null);
    private final Output outputOfOne = new Output();
    private final Output outputOfOther = new Output();

    @Test
    void aTaskThatIsBehindIsNotIdleThoughNoEventMovesTime() {
        reading.released(2, false);
        emit();
        assertEquals(List.of("0"), outputOfOne.found);
        one.onEvent(event("phones"), 0, outputOfOne);
        emit();
        assertEquals(List.of("0"), outputOfOne.found);
    }

    @Test
    void aTaskThatHasCaughtUpFollowsTheOthersAndIsNotIdle() {
        reading.released(0, true);
        other.onEvent(event("phones"), 0, outputOfOther);
        emit();
        assertEquals(List.of("0"), outputOfOne.found);
        reading.time().received(new TaskTime.OfOthers(7));
        emit();
        assertEquals(List.of("0", "7"), outputOfOne.found);
        reading.released(2, false);
        reading.handOn(0, 1_000);
        reading.time().received(new TaskTime.OfOthers(9));
        emit();
        assertEquals(List.of("0", "7", "9"), outputOfOne.found, "messages that move no time are no reason to stop");
        one.onEvent(event("pays"), 0, outputOfOne);
        emit();
        assertEquals(List.of("0", "7", "9", "1"), outputOfOne.found, "its own events move its time again");
        assertEquals(List.of("0", "7", "9", "idle"), outputOfOther.found);
    }

    @Test
    void onePartitionIsIdleWhileOthersOfItsTaskMoveTime() {
        reading.released(9, false);
        other.onEvent(event("phones"), 0, outputOfOther);
        one.onEvent(event("pays"), 0, outputOfOne);
        emit();
        assertEquals(List.of("1"), outputOfOne.found, "the last one that has moved time");
        assertEquals(List.of("0", "idle"), outputOfOther.found);
        other.onEvent(event("pays"), 0, outputOfOther);
        emit();
        assertEquals(List.of("1", "idle"), outputOfOne.found);
        assertEquals(List.of("0", "idle", "1"), outputOfOther.found);
    }

    @Test
    void aRefusedMessageNeitherMovesTimeNorEndsItsRest() {
        reading.released(0, true);
        reading.time().received(new TaskTime.OfOthers(7));
        StringData pays = StringData.fromString("pays");
        one.onEvent(GenericRowData.of(pays, StringData.fromString("json")), 0, outputOfOne);
        emit();
        assertEquals(List.of("0", "7"), outputOfOne.found);
        assertEquals(0, reading.leading());
    }

    private void emit() {
        ofTask.onPeriodicEmit(new Output());
        one.onPeriodicEmit(outputOfOne);
        other.onPeriodicEmit(outputOfOther);
    }

    private static RowData event(String stream) {
        return GenericRowData.of(StringData.fromString(stream), null);
    }

    /** Emits the number of its events, and is idle whenever it has none since. */
    private static final class IdleAtOnce implements WatermarkGenerator<RowData> {
        private long events;
        private long emitted = -1;
        private boolean isIdle;

        @Override
        public void onEvent(RowData event, long timestamp, WatermarkOutput output) {
            events++;
            isIdle = false;
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {
            if (emitted < events) {
                emitted = events;
                output.emitWatermark(new Watermark(events));
            }
            if (!isIdle) {
                isIdle = true;
                output.markIdle();
            }
        }
    }

    private static final class Output implements WatermarkOutput {
        final List<String> found = new ArrayList<>();

        @Override
        public void emitWatermark(Watermark watermark) {
            found.add(String.valueOf(watermark.getTimestamp()));
        }

        @Override
        public void markIdle() {
            found.add("idle");
        }

        @Override
        public void markActive() {
            found.add("active");
        }
    }
}
