package millrace.flink;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import millrace.kernel.EventReader;
import millrace.kernel.Json;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.SpecializedFunction;
import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.table.functions.UserDefinedFunction;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.InputTypeStrategies;
import org.apache.flink.table.types.inference.TypeInference;

/**
 * {@code look_up(declarations, at_ms, is_judged, key, ...)}: one row with why a judged event is refused, or null, and the
 * fields to take of all references.
 *
 * <p>The declarations are [{"reference", "bootstrap", "topic", "key", "event", "take": {new name: field}}], one for each key.
 * A table function, since the planner would call a scalar one again for every field of its result; and one for all
 * references, since each call copies the whole event.
 */
public final class LookUp extends TableFunction<RowData> implements SpecializedFunction {
    private static final long serialVersionUID = 1L;

    private final String declarations;
    private transient List<Known> references;
    private transient int width;

    /** A reference, the reason for refusal where it lacks a key, and which of its fields are taken. */
    private record Known(StringData lacking, Reference reference, int[] columns) {}

    public LookUp() {
        this(null);
    }

    private LookUp(String declarations) {
        this.declarations = declarations;
    }

    @Override
    public UserDefinedFunction specialize(SpecializedContext context) {
        return new LookUp(Calls.literal(context.getCallContext(), 0));
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory types) {
        DataType text = DataTypes.STRING().bridgedTo(StringData.class);
        return TypeInference.newBuilder()
                .inputTypeStrategy(InputTypeStrategies.varyingSequence(
                        InputTypeStrategies.explicit(text),
                        InputTypeStrategies.explicit(DataTypes.BIGINT()),
                        InputTypeStrategies.explicit(DataTypes.BOOLEAN()),
                        InputTypeStrategies.explicit(text)))
                .outputTypeStrategy(call -> Optional.of(outputType(Calls.literal(call, 0))))
                .build();
    }

    @Override
    public void open(FunctionContext context) throws Exception {
        references = new ArrayList<>();
        width = 1;
        for (Map<String, Object> declared : declared(declarations)) {
            Reference reference = Reference.acquire(new Reference.Source((String) declared.get("bootstrap"),
                    (String) declared.get("topic"), (String) declared.get("event"), (String) declared.get("key")));
            int[] columns = reference.columns(Json.object(declared.get("take")).values());
            references.add(new Known(StringData.fromString("unknown:" + declared.get("reference")), reference, columns));
            width += columns.length;
        }
    }

    @Override
    public void close() {
        if (references != null) {
            references.forEach(each -> each.reference.release());
            references = null;
        }
    }

    public void eval(StringData declarations, Long atMs, Boolean isJudged, StringData... keys) {
        GenericRowData row = new GenericRowData(width);
        int at = 1;
        for (int i = 0; isJudged && i < keys.length; i++) {
            Known known = references.get(i);
            Object[] event = keys[i] == null ? null : known.reference.get(keys[i].toString(), atMs);
            if (event == null) {
                row.setField(0, known.lacking);
                break;
            }
            for (int column : known.columns) {
                Object value = event[column];
                row.setField(at++, value instanceof String ? StringData.fromString((String) value) : value);
            }
        }
        collect(row);
    }

    private static DataType outputType(String declarations) {
        List<DataTypes.Field> fields = new ArrayList<>();
        fields.add(DataTypes.FIELD("_unknown", DataTypes.STRING()));
        for (Map<String, Object> declared : declared(declarations)) {
            EventReader event = new EventReader((String) declared.get("event"));
            Json.object(declared.get("take")).forEach((name, field) ->
                    fields.add(DataTypes.FIELD(name, Types.of(event.kind((String) field)))));
        }
        return DataTypes.ROW(fields).notNull().bridgedTo(RowData.class);
    }

    private static List<Map<String, Object>> declared(String declarations) {
        return Json.list(Json.parse(declarations)).stream().map(Json::object).toList();
    }
}
