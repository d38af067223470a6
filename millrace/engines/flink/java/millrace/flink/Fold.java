package millrace.flink;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import millrace.kernel.Json;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.GenericMapData;
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
import pemja.core.PythonInterpreter;
import pemja.core.PythonInterpreterConfig;

/**
 * Adds to each event what rules in plain Python find in it: a column {@code _found0}, {@code _found1}... for each.
 *
 * <p>Python runs in this JVM, by the library that PyFlink's thread mode uses. PyFlink's own way leads through its
 * DataStream API, which cuts the plan in two and would read the topics, and remember everything, twice.
 * The declaration is {"stream", "columns": {stream: {field: column}}, "rules": n, "python", "paths", "steps"}; see
 * millrace/engines/flink/folds.py for the other side.
 */
public final class Fold extends ProcessTableFunction<RowData> implements SpecializedFunction {
    private static final long serialVersionUID = 1L;
    private static final AtomicInteger OPENED = new AtomicInteger();

    private final String declaration;
    private final DataType eventsType;
    private transient StringData judged;
    private transient int stream;
    private transient Map<StringData, Fields> fields;
    private transient PythonInterpreter python;
    private transient String fold;

    /** A stream's name, the fields of its events, and where they are. */
    private record Fields(String stream, List<String> names, Columns columns) {}

    public Fold() {
        this(null, null);
    }

    private Fold(String declaration, DataType eventsType) {
        this.declaration = declaration;
        this.eventsType = eventsType;
    }

    @Override
    public UserDefinedFunction specialize(SpecializedContext context) {
        CallContext call = context.getCallContext();
        return new Fold(Calls.literal(call, Calls.DECLARATION), Calls.eventsType(call));
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory types) {
        LinkedHashMap<String, StateTypeStrategy> state = new LinkedHashMap<>();
        DataType memory = DataTypes.ROW(DataTypes.FIELD("json", DataTypes.STRING())).bridgedTo(Row.class);
        state.put("memory", StateTypeStrategy.of(call -> Optional.of(memory)));
        return Calls.inference(eventsType, state, Fold::outputType);
    }

    @Override
    public void open(FunctionContext context) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        judged = StringData.fromString((String) declared.get("stream"));
        stream = DataType.getFieldNames(eventsType).indexOf(Calls.STREAM);
        fields = new HashMap<>();
        Json.object(declared.get("columns")).forEach((name, each) -> {
            Map<String, Object> columns = Json.object(each);
            List<String> names = List.copyOf(columns.keySet());
            fields.put(StringData.fromString(name),
                    new Fields(name, names, Columns.ofStream(eventsType, columns, names)));
        });
        python = new PythonInterpreter(PythonInterpreterConfig.newBuilder()
                .setPythonExec((String) declared.get("python"))
                .addPythonPaths(Json.<String>list(declared.get("paths")).toArray(new String[0]))
                .setExcType(PythonInterpreterConfig.ExecType.MULTI_THREAD)
                .build());
        fold = "millrace_fold_" + OPENED.incrementAndGet(); // interpreters of one worker share their names
        python.set(fold + "_steps", (String) declared.get("steps"));
        python.exec("from millrace.engines.flink.folds import fold_of\n" + fold + " = fold_of(" + fold + "_steps)");
    }

    @Override
    public void close() {
        if (python != null) {
            python.close();
            python = null;
        }
    }

    public void eval(Row memory, RowData events, StringData declaration) {
        StringData name = events.getString(stream);
        Fields from = fields.get(name);
        String event = Json.text(event(from, events));
        String answer = (String) python.invoke(fold, (String) memory.getField(0), event, from.stream);
        Map<String, Object> answered = Json.object(Json.parse(answer));
        memory.setField(0, answered.get("state"));
        if (judged.equals(name)) {
            List<Map<String, Object>> found = Json.list(answered.get("found"));
            GenericRowData added = new GenericRowData(found.size());
            for (int i = 0; i < found.size(); i++) {
                added.setField(i, found.get(i) == null ? null : texts(found.get(i)));
            }
            collect(new JoinedRowData(events.getRowKind(), events, added));
        }
    }

    private static Map<String, Object> event(Fields from, RowData row) {
        Map<String, Object> event = new LinkedHashMap<>();
        Object[] values = from.columns.of(row);
        for (int i = 0; i < values.length; i++) {
            event.put(from.names.get(i), values[i]);
        }
        return event;
    }

    private static GenericMapData texts(Map<String, Object> operands) {
        Map<StringData, StringData> texts = new LinkedHashMap<>();
        operands.forEach((name, value) ->
                texts.put(StringData.fromString(name), value == null ? null : StringData.fromString((String) value)));
        return new GenericMapData(texts);
    }

    private static DataType outputType(CallContext call) {
        List<DataTypes.Field> columns = Calls.columns(call);
        Object rules = Calls.declaration(call).get("rules");
        for (long i = 0; i < (Long) rules; i++) {
            columns.add(DataTypes.FIELD("_found" + i, DataTypes.MAP(DataTypes.STRING(), DataTypes.STRING())));
        }
        return DataTypes.ROW(columns).notNull().bridgedTo(RowData.class);
    }
}
