package millrace.flink;

import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import millrace.kernel.Json;
import millrace.kernel.Measures;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.table.functions.SpecializedFunction;
import org.apache.flink.table.functions.UserDefinedFunction;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.CallContext;
import org.apache.flink.table.types.inference.StateTypeStrategy;
import org.apache.flink.table.types.inference.TypeInference;
import org.apache.flink.types.Row;

/**
 * Adds to each event what its key's earlier events left behind, and whether its id was seen before. Refused messages
 * end here.
 *
 * <p>The events of one stream are judged; those of the others are learnt from, and are in the result only where the
 * declaration has {@code passes}, for the next function. All are taken in the order in which they come. The declaration
 * is {"stream", "id", "remembered_ms", "kept_ms", "measures", "columns": {stream: {field: column}}, "passes"}. The key
 * column stands in front of the result; its copy among the others gets the prefix {@code _}.
 */
public final class Remember extends ProcessTableFunction<RowData> implements SpecializedFunction {
    private static final long serialVersionUID = 1L;
    private static final String DUPLICATE = "_duplicate";
    private static final String INGEST_MS = "_ingest_ms";
    /** The columns with a reason where a message is refused; without reference data there is no second one. */
    private static final List<String> REFUSALS = List.of("_refused", "_unknown");

    private final String declaration;
    private final DataType eventsType;
    private transient StringData judged;
    private transient boolean passes;
    private transient Measures measures;
    private transient int stream;
    private transient int ingestMs;
    private transient long rememberedMs;
    private transient int[] refusals;
    private transient Columns id;
    private transient Map<StringData, Inputs> inputs;
    private transient RowData.FieldGetter[] columns;

    /** A stream's name, and what the measures take from its events. */
    private record Inputs(String stream, Columns columns) {}

    public Remember() {
        this(null, null);
    }

    private Remember(String declaration, DataType eventsType) {
        this.declaration = declaration;
        this.eventsType = eventsType;
    }

    /** The function for one call: only a call fixes the table's type, and a typed table arrives without conversion. */
    @Override
    public UserDefinedFunction specialize(SpecializedContext context) {
        CallContext call = context.getCallContext();
        return new Remember(Calls.literal(call, Calls.DECLARATION), Calls.eventsType(call));
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory types) {
        LinkedHashMap<String, StateTypeStrategy> state = new LinkedHashMap<>();
        // A Row, never RowData: that one, changed in place, is silently lost on RocksDB.
        DataType memory = DataTypes.ROW(DataTypes.FIELD("bytes", DataTypes.BYTES())).bridgedTo(Row.class);
        DataType seen = MapView.newMapViewDataType(DataTypes.STRING(), DataTypes.BOOLEAN());
        DataType arrived = MapView.newMapViewDataType(DataTypes.STRING(), DataTypes.BIGINT());
        state.put("memory", StateTypeStrategy.of(call -> Optional.of(memory)));
        state.put("seen", new Expiring(seen)); // of an earlier build; it is read, and no longer written
        state.put("arrived", new Expiring(arrived));
        return Calls.inference(eventsType, state, Remember::outputType);
    }

    @Override
    public void open(FunctionContext context) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        measures = new Measures(Json.list(declared.get("measures")));
        passes = (Boolean) declared.get("passes");
        String own = (String) declared.get("stream");
        judged = StringData.fromString(own);
        List<String> names = DataType.getFieldNames(eventsType);
        stream = names.indexOf(Calls.STREAM);
        ingestMs = names.indexOf(INGEST_MS);
        rememberedMs = ((Number) declared.get("remembered_ms")).longValue();
        refusals = REFUSALS.stream().mapToInt(names::indexOf).filter(column -> column >= 0).toArray();
        Map<String, Object> streams = Json.object(declared.get("columns"));
        String identity = (String) declared.get("id");
        id = identity == null ? null : Columns.ofStream(eventsType, Json.object(streams.get(own)), List.of(identity));
        inputs = new HashMap<>();
        streams.forEach((name, fields) -> inputs.put(StringData.fromString(name), new Inputs(
                name, Columns.ofStream(eventsType, Json.object(fields), measures.inputs(name)))));
        columns = Columns.getters(eventsType, names);
    }

    public void eval(Row memory, MapView<String, Boolean> seen, MapView<String, Long> arrived, RowData events,
            StringData declaration) throws Exception {
        for (int column : refusals) {
            if (!events.isNullAt(column)) {
                return;
            }
        }
        StringData name = events.getString(stream);
        Inputs from = inputs.get(name);
        Object[] values = from.columns.of(events);
        measures.restore((byte[]) memory.getField(0));
        if (!judged.equals(name)) {
            measures.learn(from.stream, values);
            memory.setField(0, measures.save());
            if (passes) {
                collect(with(events, new Object[measures.outputs().size()], false));
            }
            return;
        }
        // Events without an id are all different, and nothing is kept of them.
        String identity = id == null ? null : String.valueOf(id.of(events)[0]);
        boolean isDuplicate = id != null
                && (isKnown(arrived.get(identity), events.getLong(ingestMs)) || seen.contains(identity));
        Object[] before = measures.before(values);
        if (!isDuplicate) {
            if (id != null) {
                arrived.put(identity, events.getLong(ingestMs));
            }
            measures.learn(from.stream, values);
            memory.setField(0, measures.save());
        }
        collect(with(events, before, isDuplicate));
    }

    private boolean isKnown(Long firstMs, long arrivedMs) {
        return firstMs != null && arrivedMs - firstMs <= rememberedMs;
    }

    /** One row and no pair of rows: each query behind this reads most columns, and a pair asks both for their width. */
    private GenericRowData with(RowData events, Object[] before, boolean isDuplicate) {
        GenericRowData row = new GenericRowData(events.getRowKind(), columns.length + before.length + 1);
        int at = 0;
        for (RowData.FieldGetter column : columns) {
            row.setField(at++, column.getFieldOrNull(events));
        }
        for (Object value : before) {
            row.setField(at++, value instanceof String ? StringData.fromString((String) value) : value);
        }
        row.setField(at, isDuplicate);
        return row;
    }

    private static DataType outputType(CallContext call) {
        List<DataTypes.Field> fields = Calls.columns(call);
        Measures measures = new Measures(Json.list(Calls.declaration(call).get("measures")));
        measures.outputs().forEach(name -> fields.add(DataTypes.FIELD(name, Types.of(measures.kind(name)))));
        fields.add(DataTypes.FIELD(DUPLICATE, DataTypes.BOOLEAN().notNull()));
        return DataTypes.ROW(fields).notNull().bridgedTo(RowData.class);
    }

    /** Ids expire, or the state would grow with every event: by the clock, so later than they count. */
    private static final class Expiring implements StateTypeStrategy {
        private final DataType type;

        Expiring(DataType type) {
            this.type = type;
        }

        @Override
        public Optional<DataType> inferType(CallContext call) {
            return Optional.of(type);
        }

        @Override
        public Optional<Duration> getTimeToLive(CallContext call) {
            return Optional.of(Duration.ofMillis(((Number) Calls.declaration(call).get("kept_ms")).longValue()));
        }
    }
}
