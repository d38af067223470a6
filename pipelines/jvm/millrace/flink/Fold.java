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
 * The declaration is {"stream", "fields": {stream: [field]}, "rules": n, "python", "paths", "steps"}; see
 * pipelines/flink/folds.py for the other side.
 */
public final class Fold extends ProcessTableFunction<RowData> implements SpecializedFunction {
    private static final long serialVersionUID = 1L;
    private static final int NOW = 0;
    private static final int OTHER = 1;
    private static final int DECLARATION = 2;
    private static final AtomicInteger OPENED = new AtomicInteger();

    private final String declaration;
    private final DataType nowType;
    private final DataType otherType;
    private transient String stream;
    private transient Map<String, List<String>> fields;
    private transient Map<String, Columns> columns;
    private transient Columns streamOfOther;
    private transient PythonInterpreter python;
    private transient String fold;

    public Fold() {
        this(null, null, null);
    }

    private Fold(String declaration, DataType nowType, DataType otherType) {
        this.declaration = declaration;
        this.nowType = nowType;
        this.otherType = otherType;
    }

    @Override
    public UserDefinedFunction specialize(SpecializedContext context) {
        CallContext call = context.getCallContext();
        return new Fold(Calls.literal(call, DECLARATION), Calls.table(call, NOW), Calls.table(call, OTHER));
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory types) {
        LinkedHashMap<String, StateTypeStrategy> state = new LinkedHashMap<>();
        DataType memory = DataTypes.ROW(DataTypes.FIELD("json", DataTypes.STRING())).bridgedTo(Row.class);
        state.put("memory", StateTypeStrategy.of(call -> Optional.of(memory)));
        return TypeInference.newBuilder()
                .staticArguments(Calls.streams(nowType, otherType))
                .stateTypeStrategies(state)
                .outputTypeStrategy(call -> Optional.of(outputType(call)))
                .build();
    }

    @Override
    public void open(FunctionContext context) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        stream = (String) declared.get("stream");
        fields = new HashMap<>();
        columns = new HashMap<>();
        Json.object(declared.get("fields")).forEach((name, listed) -> {
            List<String> own = Json.list(listed);
            fields.put(name, own);
            columns.put(name, name.equals(stream)
                    ? new Columns(nowType, own) : Columns.ofStream(otherType, name, own));
        });
        streamOfOther = new Columns(otherType, List.of("_stream"));
        python = new PythonInterpreter(PythonInterpreterConfig.newBuilder()
                .setPythonExec((String) declared.get("python"))
                .addPythonPaths(Json.<String>list(declared.get("paths")).toArray(new String[0]))
                .setExcType(PythonInterpreterConfig.ExecType.MULTI_THREAD)
                .build());
        fold = "millrace_fold_" + OPENED.incrementAndGet(); // interpreters of one worker share their names
        python.set(fold + "_steps", (String) declared.get("steps"));
        python.exec("from pipelines.flink.folds import fold_of\n" + fold + " = fold_of(" + fold + "_steps)");
    }

    @Override
    public void close() {
        if (python != null) {
            python.close();
            python = null;
        }
    }

    public void eval(Row memory, RowData now, RowData other, StringData declaration) {
        String from = other == null ? stream : (String) streamOfOther.of(other)[0];
        String event = Json.text(event(from, other == null ? now : other));
        String answer = (String) python.invoke(fold, (String) memory.getField(0), event, from);
        Map<String, Object> answered = Json.object(Json.parse(answer));
        memory.setField(0, answered.get("state"));
        if (other == null) {
            List<Map<String, Object>> found = Json.list(answered.get("found"));
            GenericRowData added = new GenericRowData(found.size());
            for (int i = 0; i < found.size(); i++) {
                added.setField(i, found.get(i) == null ? null : texts(found.get(i)));
            }
            collect(new JoinedRowData(now.getRowKind(), now, added));
        }
    }

    private Map<String, Object> event(String from, RowData row) {
        Map<String, Object> event = new LinkedHashMap<>();
        Object[] values = columns.get(from).of(row);
        for (int i = 0; i < values.length; i++) {
            event.put(fields.get(from).get(i), values[i]);
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
        List<DataTypes.Field> columns = Calls.columns(call, NOW);
        Object rules = Json.object(Json.parse(Calls.literal(call, DECLARATION))).get("rules");
        for (long i = 0; i < (Long) rules; i++) {
            columns.add(DataTypes.FIELD("_found" + i, DataTypes.MAP(DataTypes.STRING(), DataTypes.STRING())));
        }
        return DataTypes.ROW(columns).notNull().bridgedTo(RowData.class);
    }
}
