package millrace.flink.arrivals;

import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;

/**
 * The connector 'millrace-arrivals': several Kafka topics as one table, each key's messages in the order in which they
 * arrived, whichever topic they came to.
 *
 * <p>Each message becomes its declared fields in the columns of its stream, the reason why it is refused, and where and
 * when it arrived. Only the stream that {@code leads} moves event time: see {@link Leading}. A message that is handed on
 * later than {@code live-ms} after its arrival belongs to a backlog: see {@link Backlog}.
 */
public final class Arrivals implements DynamicTableSourceFactory {
    private static final ConfigOption<String> BOOTSTRAP = ConfigOptions.key("bootstrap").stringType().noDefaultValue();
    private static final ConfigOption<String> GROUP = ConfigOptions.key("group").stringType().noDefaultValue();
    private static final ConfigOption<String> STREAMS = ConfigOptions.key("streams").stringType().noDefaultValue();
    private static final ConfigOption<String> ACCEPTED = ConfigOptions.key("accepted").stringType().defaultValue("[]");
    private static final ConfigOption<String> LEADS = ConfigOptions.key("leads").stringType().noDefaultValue();
    private static final ConfigOption<Long> LIVE_MS = ConfigOptions.key("live-ms").longType().noDefaultValue();
    private static final ConfigOption<Long> DISORDER_MS = ConfigOptions.key("disorder-ms").longType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "millrace-arrivals";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(BOOTSTRAP, GROUP, STREAMS, LEADS, LIVE_MS, DISORDER_MS);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(ACCEPTED);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new Table(
                helper.getOptions(),
                context.getPhysicalRowDataType(),
                context.getObjectIdentifier().asSummaryString(),
                new Reading(helper.getOptions().get(LIVE_MS)));
    }

    private static final class Table implements ScanTableSource, SupportsWatermarkPushDown {
        private final ReadableConfig options;
        private final DataType columns;
        private final String name;
        private final Reading reading;
        private WatermarkStrategy<RowData> watermarks = WatermarkStrategy.noWatermarks();

        Table(ReadableConfig options, DataType columns, String name, Reading reading) {
            this.options = options;
            this.columns = columns;
            this.name = name;
            this.reading = reading;
        }

        @Override
        public void applyWatermark(WatermarkStrategy<RowData> declared) {
            List<String> names = DataType.getFieldNames(columns);
            watermarks = new Leading(
                    declared, names.indexOf(Rows.STREAM), names.indexOf(Rows.REFUSED), options.get(LEADS), reading);
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            Properties kafka = new Properties();
            kafka.put("bootstrap.servers", options.get(BOOTSTRAP));
            kafka.put("group.id", options.get(GROUP));
            List<String> names = ((RowType) columns.getLogicalType()).getFieldNames();
            Rows rows = new Rows(options.get(STREAMS), options.get(LEADS), names);
            ArrivalSource source =
                    new ArrivalSource(kafka, rows, reading, options.get(DISORDER_MS), options.get(ACCEPTED));
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(
                        ProviderContext provider, StreamExecutionEnvironment environment) {
                    return environment.fromSource(source, watermarks, name, context.createTypeInformation(columns));
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        @Override
        public DynamicTableSource copy() {
            Table copy = new Table(options, columns, name, reading);
            copy.watermarks = watermarks;
            return copy;
        }

        @Override
        public String asSummaryString() {
            return "arrivals at " + options.get(BOOTSTRAP);
        }
    }
}
