package millrace.flink.arrivals;

import org.apache.flink.api.common.eventtime.TimestampAssigner;
import org.apache.flink.api.common.eventtime.TimestampAssignerSupplier;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;

/**
 * The declared watermark, as only the accepted events of one stream move it.
 *
 * <p>A side stream that moved event time would close windows whenever the main stream pauses; and while only side events
 * or messages that are refused come, a partition moves no time, or it would hold back the windows of all others. The last
 * partition of a task that has moved time does so until the task keeps up: events that still lie in Kafka would be late
 * for the other tasks. From then on the task has the time of the others: see {@link TaskTime}.
 */
final class Leading implements WatermarkStrategy<RowData> {
    private static final long serialVersionUID = 1L;

    private final WatermarkStrategy<RowData> declared;
    private final int streamColumn;
    private final int refusedColumn;
    private final String leads;
    private final Reading reading;

    Leading(
            WatermarkStrategy<RowData> declared, int streamColumn, int refusedColumn, String leads, Reading reading) {
        this.declared = declared;
        this.streamColumn = streamColumn;
        this.refusedColumn = refusedColumn;
        this.leads = leads;
        this.reading = reading;
    }

    @Override
    public TimestampAssigner<RowData> createTimestampAssigner(TimestampAssignerSupplier.Context context) {
        return declared.createTimestampAssigner(context);
    }

    @Override
    public WatermarkGenerator<RowData> createWatermarkGenerator(WatermarkGeneratorSupplier.Context context) {
        WatermarkGenerator<RowData> generator = declared.createWatermarkGenerator(context);
        StringData leader = StringData.fromString(leads);
        // The first one that Flink makes is the task's own: if that is idle, the task may be.
        boolean isOfPartition = reading.time().isOpen();
        TaskTime.Partition time = reading.time().open();
        return new WatermarkGenerator<>() {
            private final Idleness idleness = new Idleness(time);

            @Override
            public void onEvent(RowData event, long timestamp, WatermarkOutput output) {
                if (event.isNullAt(refusedColumn) && leader.equals(event.getString(streamColumn))) {
                    reading.lead();
                    idleness.end(reading.leading());
                    generator.onEvent(event, timestamp, output);
                }
            }

            @Override
            public void onPeriodicEmit(WatermarkOutput output) {
                WatermarkOutput own = idleness.of(output);
                generator.onPeriodicEmit(own);
                if (idleness.isDue() && reading.leading() > idleness.since) {
                    time.rest();
                    if (isOfPartition) {
                        output.markIdle();
                    }
                } else if (idleness.isDue() && (time.rests() || reading.isLive())) {
                    time.rest();
                    reading.time().follow(own);
                }
                reading.time().report();
            }
        };
    }

    /** Holds back the idleness of one partition, which its generator reports once. */
    private static final class Idleness {
        private final TaskTime.Partition time;
        private boolean isDue;
        private long since;

        Idleness(TaskTime.Partition time) {
            this.time = time;
        }

        void end(long leading) {
            time.move();
            isDue = false;
            since = leading;
        }

        boolean isDue() {
            return isDue;
        }

        WatermarkOutput of(WatermarkOutput output) {
            return new WatermarkOutput() {
                @Override
                public void emitWatermark(Watermark watermark) {
                    time.reached(watermark.getTimestamp());
                    output.emitWatermark(watermark);
                }

                @Override
                public void markIdle() {
                    isDue = true;
                }

                @Override
                public void markActive() {
                    output.markActive();
                }
            };
        }
    }
}
