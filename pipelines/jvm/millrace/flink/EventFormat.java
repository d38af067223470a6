package millrace.flink;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import millrace.kernel.EventReader;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DeserializationFormatFactory;
import org.apache.flink.table.factories.DynamicTableFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;

/**
 * The table format 'millrace-event': a message becomes its declared fields, the reason why it is refused
 * ({@code _reason}) and its bytes ({@code _value}).
 *
 * <p>A format rather than a function over raw bytes, so that the source itself knows the time of each event and keeps a
 * watermark for each partition: reading a backlog, one partition may be minutes ahead of another, and with a watermark
 * behind the source all events of the slower one would be late.
 */
public final class EventFormat implements DeserializationFormatFactory {
    public static final String REASON = "_reason";
    public static final String VALUE = "_value";
    private static final ConfigOption<String> DECLARATION = ConfigOptions.key("declaration").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "millrace-event";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(DECLARATION);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DecodingFormat<DeserializationSchema<RowData>> createDecodingFormat(
            DynamicTableFactory.Context context, ReadableConfig options) {
        FactoryUtil.validateFactoryOptions(this, options);
        String declaration = options.get(DECLARATION);
        return new DecodingFormat<>() {
            @Override
            public DeserializationSchema<RowData> createRuntimeDecoder(
                    DynamicTableSource.Context source, DataType physicalType) {
                TypeInformation<RowData> produced = source.createTypeInformation(physicalType);
                return new Decoder(declaration, ((RowType) physicalType.getLogicalType()).getFieldNames(), produced);
            }

            @Override
            public ChangelogMode getChangelogMode() {
                return ChangelogMode.insertOnly();
            }
        };
    }

    private static final class Decoder implements DeserializationSchema<RowData> {
        private static final long serialVersionUID = 1L;
        private static final int FROM_VALUE = -1;

        private final String declaration;
        private final Serializable columns;
        private final TypeInformation<RowData> produced;
        private transient EventReader reader;
        private transient int[] sources;

        Decoder(String declaration, List<String> columns, TypeInformation<RowData> produced) {
            this.declaration = declaration;
            this.columns = columns.toArray(new String[0]);
            this.produced = produced;
        }

        @Override
        public void open(InitializationContext context) {
            reader = new EventReader(declaration);
            List<String> names = Arrays.asList(reader.names());
            sources = Arrays.stream((String[]) columns)
                    .mapToInt(c -> c.equals(REASON) ? 0 : c.equals(VALUE) ? FROM_VALUE : names.indexOf(c) + 1)
                    .toArray();
        }

        @Override
        public RowData deserialize(byte[] message) {
            Object[] event = reader.read(message);
            boolean isWorthKeeping = !"empty".equals(event[0]) && !"oversized".equals(event[0]);
            GenericRowData row = new GenericRowData(sources.length);
            for (int i = 0; i < sources.length; i++) {
                if (sources[i] == FROM_VALUE) {
                    row.setField(i, isWorthKeeping ? message : null);
                } else {
                    Object value = event[sources[i]];
                    row.setField(i, value instanceof String ? StringData.fromString((String) value) : value);
                }
            }
            return row;
        }

        @Override
        public boolean isEndOfStream(RowData next) {
            return false;
        }

        @Override
        public TypeInformation<RowData> getProducedType() {
            return produced;
        }
    }
}
