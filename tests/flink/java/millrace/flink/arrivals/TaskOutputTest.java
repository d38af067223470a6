package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.BoundedOutOfOrdernessWatermarks;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.eventtime.WatermarksWithIdleness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.streaming.api.operators.source.ProgressiveTimestampsAndWatermarks;
import org.apache.flink.streaming.api.operators.source.TimestampsAndWatermarks;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.util.clock.ManualClock;
import org.junit.jupiter.api.Test;

/** What Flink makes of the watermarks and the idleness of a task's partitions, five seconds after their last event. */
final class TaskOutputTest {
    private static final long EVERY_MS = 50;

    private final ManualClock clock = new ManualClock();
    private final Reading reading = new Reading(100);
    private final Output found = new Output();
    private final ProgressiveTimestampsAndWatermarks<RowData> watermarks = new ProgressiveTimestampsAndWatermarks<>(
            (row, ms) -> ms,
            new Leading(declared(), 0, 1, "pays", reading),
            new TimestampsAndWatermarks.TimestampsAndWatermarksContextProvider(
                    UnregisteredMetricGroups.createUnregisteredOperatorMetricGroup()),
            null, // they are emitted when the test does so
            Duration.ofMillis(EVERY_MS),
            clock,
            clock,
            UnregisteredMetricGroups.createUnregisteredTaskMetricGroup().getIOMetricGroup());
    private final ReaderOutput<RowData> task = watermarks.createMainOutput(found, new Unwatched());

    @Test
    void aTaskIsNotIdleWhileAPartitionHasNoTimeYet() {
        reading.released(0, true);
        pass(6_000);
        collect(2, "phones", 1_000);
        pass(100);
        collect(0, "pays", 2_000);
        pass(100);
        assertEquals(List.of(), found.emitted, "partition 2 may still move time");
        collect(0, "pays", 3_000);
        pass(4_700);
        assertEquals(List.of(), found.emitted);
        pass(200);
        assertEquals(List.of("2999"), found.emitted, "five seconds after the phone");
        pass(6_000);
        reading.time().received(new TaskTime.OfOthers(7_000));
        pass(100);
        assertEquals(List.of("2999", "7000"), found.emitted);
    }

    @Test
    void aTaskWithoutAnEventThatMovesTimeFollowsTheOthers() {
        List.of(0, 1).forEach(partition -> task.createOutputForSplit("partition-" + partition));
        reading.released(0, true);
        pass(6_000);
        reading.time().received(new TaskTime.OfOthers(5_000));
        pass(100);
        assertEquals(List.of("5000"), found.emitted, "none of its partitions has had a message");
        collect(2, "phones", 1_000);
        reading.time().received(new TaskTime.OfOthers(7_000));
        pass(6_000);
        assertEquals(List.of("5000", "7000"), found.emitted);
    }

    @Test
    void onePartitionThatFallsSilentHoldsBackNoOther() {
        collect(0, "pays", 1_000);
        for (long ms = 2_000; ms < 9_000; ms += 1_000) {
            collect(1, "pays", ms);
            pass(1_000);
        }
        assertEquals(List.of("999", "6999", "7999"), found.emitted);
    }

    @Test
    void aPartitionWithoutAMessageHoldsBackNoOther() {
        List.of(0, 1).forEach(partition -> task.createOutputForSplit("partition-" + partition)); // as Flink does at the start
        for (long ms = 1_000; ms < 9_000; ms += 1_000) {
            collect(0, "pays", ms);
            pass(1_000);
        }
        assertEquals(List.of("5999", "6999", "7999"), found.emitted);
    }

    private static WatermarkStrategy<RowData> declared() {
        return WatermarkStrategy.forGenerator(context -> new WatermarksWithIdleness<>(
                new BoundedOutOfOrdernessWatermarks<>(Duration.ZERO), Duration.ofSeconds(5), context.getInputActivityClock()));
    }

    private void collect(int partition, String stream, long atMs) {
        task.createOutputForSplit("partition-" + partition)
                .collect(GenericRowData.of(StringData.fromString(stream), null), atMs);
    }

    private void pass(long ms) {
        for (long passed = 0; passed < ms; passed += EVERY_MS) {
            clock.advanceTime(Duration.ofMillis(EVERY_MS));
            watermarks.emitImmediateWatermark(0);
        }
    }

    /** Keeps the watermarks of a task, and whether it is idle. */
    private static final class Output implements PushingAsyncDataInput.DataOutput<RowData> {
        final List<String> emitted = new ArrayList<>();

        @Override
        public void emitWatermark(Watermark watermark) {
            emitted.add(String.valueOf(watermark.getTimestamp()));
        }

        @Override
        public void emitWatermarkStatus(WatermarkStatus status) {
            emitted.add(String.valueOf(status));
        }

        @Override
        public void emitRecord(StreamRecord<RowData> event) {}

        @Override
        public void emitLatencyMarker(LatencyMarker marker) {}

        @Override
        public void emitRecordAttributes(RecordAttributes attributes) {}

        @Override
        public void emitWatermark(WatermarkEvent generalized) {}
    }

    private static final class Unwatched implements TimestampsAndWatermarks.WatermarkUpdateListener {
        @Override
        public void updateIdle(boolean isIdle) {}

        @Override
        public void updateCurrentEffectiveWatermark(long ms) {}

        @Override
        public void updateCurrentSplitWatermark(String split, long ms) {}

        @Override
        public void updateCurrentSplitIdle(String split, boolean isIdle) {}

        @Override
        public void splitFinished(String split) {}
    }
}
