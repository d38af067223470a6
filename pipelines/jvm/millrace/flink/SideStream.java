package millrace.flink;

import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.streaming.connectors.kafka.table.KafkaDynamicSource;
import org.apache.flink.streaming.connectors.kafka.table.KafkaDynamicTableFactory;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsReadingMetadata;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;

/**
 * The connector 'millrace-side-stream': Kafka's, for a topic that has no say in how far event time has come.
 *
 * <p>Two streams that meet wait for each other's watermarks. A side stream without any would hold the windows back for
 * ever; one that follows its own events closes them when the main stream pauses. So this source calls itself idle from
 * its first moment on, whatever watermark its table declares.
 */
public final class SideStream extends KafkaDynamicTableFactory {
    @Override
    public String factoryIdentifier() {
        return "millrace-side-stream";
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        return new Source((KafkaDynamicSource) super.createDynamicTableSource(context));
    }

    private static final class Source implements ScanTableSource, SupportsReadingMetadata, SupportsWatermarkPushDown {
        private final KafkaDynamicSource kafka;

        Source(KafkaDynamicSource kafka) {
            this.kafka = kafka;
        }

        @Override
        public void applyWatermark(WatermarkStrategy<RowData> declared) {
            kafka.applyWatermark(new AlwaysIdle());
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return kafka.getChangelogMode();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return kafka.getScanRuntimeProvider(context);
        }

        @Override
        public Map<String, DataType> listReadableMetadata() {
            return kafka.listReadableMetadata();
        }

        @Override
        public void applyReadableMetadata(List<String> keys, DataType produced) {
            kafka.applyReadableMetadata(keys, produced);
        }

        @Override
        public boolean supportsMetadataProjection() {
            return kafka.supportsMetadataProjection();
        }

        @Override
        public DynamicTableSource copy() {
            return new Source((KafkaDynamicSource) kafka.copy());
        }

        @Override
        public String asSummaryString() {
            return "side stream from " + kafka.asSummaryString();
        }
    }

    private static final class AlwaysIdle implements WatermarkStrategy<RowData> {
        private static final long serialVersionUID = 1L;

        @Override
        public WatermarkGenerator<RowData> createWatermarkGenerator(WatermarkGeneratorSupplier.Context context) {
            return new WatermarkGenerator<>() {
                @Override
                public void onEvent(RowData event, long timestamp, WatermarkOutput output) {}

                @Override
                public void onPeriodicEmit(WatermarkOutput output) {
                    output.markIdle();
                }
            };
        }
    }
}
