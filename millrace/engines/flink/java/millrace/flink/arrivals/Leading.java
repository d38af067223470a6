package millrace.flink.arrivals;

import org.apache.flink.api.common.eventtime.TimestampAssigner;
import org.apache.flink.api.common.eventtime.TimestampAssignerSupplier;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;

/**
 * The declared watermark, as only the events of one stream move it.
 *
 * <p>A side stream that moved event time would close windows whenever the main stream pauses; and while only side events come,
 * a partition counts as idle, or it would hold back the windows of all others.
 */
final class Leading implements WatermarkStrategy<RowData> {
    private static final long serialVersionUID = 1L;

    private final WatermarkStrategy<RowData> declared;
    private final int streamColumn;
    private final String leads;

    Leading(WatermarkStrategy<RowData> declared, int streamColumn, String leads) {
        this.declared = declared;
        this.streamColumn = streamColumn;
        this.leads = leads;
    }

    @Override
    public TimestampAssigner<RowData> createTimestampAssigner(TimestampAssignerSupplier.Context context) {
        return declared.createTimestampAssigner(context);
    }

    @Override
    public WatermarkGenerator<RowData> createWatermarkGenerator(WatermarkGeneratorSupplier.Context context) {
        WatermarkGenerator<RowData> generator = declared.createWatermarkGenerator(context);
        StringData leader = StringData.fromString(leads);
        return new WatermarkGenerator<>() {
            @Override
            public void onEvent(RowData event, long timestamp, WatermarkOutput output) {
                if (leader.equals(event.getString(streamColumn))) {
                    generator.onEvent(event, timestamp, output);
                }
            }

            @Override
            public void onPeriodicEmit(WatermarkOutput output) {
                generator.onPeriodicEmit(output);
            }
        };
    }
}
