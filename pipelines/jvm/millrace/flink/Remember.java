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
import org.apache.flink.table.data.utils.JoinedRowData;
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
 * Adds to each event what its key's earlier events left behind, and whether its id was seen before.
 *
 * <p>{@code now} are the events to be judged; {@code other} are those of the side streams, told apart by the column
 * {@code _stream}, with a column {@code stream.field} for each field that a measure wants. Both are taken in the order
 * of their arrival. The declaration is {"stream", "id", "remembered_ms", "measures"}. The key column of {@code now}
 * stands in front of the result; its copy among the others gets the prefix {@code _}.
 */
public final class Remember extends ProcessTableFunction<RowData> implements SpecializedFunction {
    private static final long serialVersionUID = 1L;
    private static final int NOW = 0;
    private static final int OTHER = 1;
    private static final int DECLARATION = 2;
    private static final String STREAM = "_stream";
    private static final String DUPLICATE = "_duplicate";

    private final String declaration;
    private final DataType nowType;
    private final DataType otherType;
    private transient String stream;
    private transient Measures measures;
    private transient Columns nowColumns;
    private transient Columns id;
    private transient Columns streamOfOther;
    private transient Map<Object, Columns> otherColumns;

    public Remember() {
        this(null, null, null);
    }

    private Remember(String declaration, DataType nowType, DataType otherType) {
        this.declaration = declaration;
        this.nowType = nowType;
        this.otherType = otherType;
    }

    /** The function for one call: only now are the tables' types known, and typed tables arrive without conversion. */
    @Override
    public UserDefinedFunction specialize(SpecializedContext context) {
        CallContext call = context.getCallContext();
        return new Remember(Calls.literal(call, DECLARATION), Calls.table(call, NOW), Calls.table(call, OTHER));
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory types) {
        LinkedHashMap<String, StateTypeStrategy> state = new LinkedHashMap<>();
        // A Row, never RowData: that one, changed in place, is silently lost on RocksDB.
        DataType memory = DataTypes.ROW(DataTypes.FIELD("bytes", DataTypes.BYTES())).bridgedTo(Row.class);
        DataType seen = MapView.newMapViewDataType(DataTypes.STRING(), DataTypes.BOOLEAN());
        state.put("memory", StateTypeStrategy.of(call -> Optional.of(memory)));
        state.put("seen", new Expiring(seen));
        return TypeInference.newBuilder()
                .staticArguments(Calls.streams(nowType, otherType))
                .stateTypeStrategies(state)
                .outputTypeStrategy(call -> Optional.of(outputType(call)))
                .build();
    }

    @Override
    public void open(FunctionContext context) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        measures = new Measures(Json.list(declared.get("measures")));
        stream = (String) declared.get("stream");
        nowColumns = new Columns(nowType, measures.inputs(stream));
        id = new Columns(nowType, List.of((String) declared.get("id")));
        streamOfOther = new Columns(otherType, List.of(STREAM));
        otherColumns = new HashMap<>();
    }

    public void eval(
            Row memory, MapView<String, Boolean> seen, RowData now, RowData other, StringData declaration)
            throws Exception {
        measures.restore((byte[]) memory.getField(0));
        if (other != null) {
            String from = (String) streamOfOther.of(other)[0];
            measures.learn(from, otherColumns.computeIfAbsent(from, this::columnsOfOther).of(other));
            memory.setField(0, measures.save());
            return;
        }
        Object[] values = nowColumns.of(now);
        String identity = String.valueOf(id.of(now)[0]);
        boolean isDuplicate = seen.contains(identity);
        Object[] before = measures.before(values);
        if (!isDuplicate) {
            seen.put(identity, true);
            measures.learn(stream, values);
            memory.setField(0, measures.save());
        }
        GenericRowData added = new GenericRowData(before.length + 1);
        for (int i = 0; i < before.length; i++) {
            added.setField(i, before[i] instanceof String ? StringData.fromString((String) before[i]) : before[i]);
        }
        added.setField(before.length, isDuplicate);
        collect(new JoinedRowData(now.getRowKind(), now, added));
    }

    private Columns columnsOfOther(Object from) {
        return Columns.ofStream(otherType, (String) from, measures.inputs((String) from));
    }

    private static DataType outputType(CallContext call) {
        List<DataTypes.Field> fields = Calls.columns(call, NOW);
        Measures measures = new Measures(Json.list(Json.object(Json.parse(Calls.literal(call, DECLARATION))).get("measures")));
        measures.outputs().forEach(name -> fields.add(DataTypes.FIELD(name, Types.of(measures.kind(name)))));
        fields.add(DataTypes.FIELD(DUPLICATE, DataTypes.BOOLEAN().notNull()));
        return DataTypes.ROW(fields).notNull().bridgedTo(RowData.class);
    }

    /** Ids are forgotten after the declared time, or the state would grow with every event. */
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
            Object rememberedMs = Json.object(Json.parse(Calls.literal(call, DECLARATION))).get("remembered_ms");
            return Optional.of(Duration.ofMillis(((Number) rememberedMs).longValue()));
        }
    }
}
