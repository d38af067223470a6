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
 * {@code look_up(declaration, key)}: one row with whether the reference data has the key, and the fields to take.
 *
 * <p>The declaration is {"bootstrap", "topic", "key", "event", "take": {new name: field}}. A table function, since
 * the planner would call a scalar one again for every field of its result.
 */
public final class LookUp extends TableFunction<RowData> implements SpecializedFunction {
    private static final long serialVersionUID = 1L;

    private final String declaration;
    private transient Reference reference;
    private transient int[] columns;

    public LookUp() {
        this(null);
    }

    private LookUp(String declaration) {
        this.declaration = declaration;
    }

    @Override
    public UserDefinedFunction specialize(SpecializedContext context) {
        return new LookUp(Calls.literal(context.getCallContext(), 0));
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory types) {
        DataType text = DataTypes.STRING().bridgedTo(StringData.class);
        return TypeInference.newBuilder()
                .inputTypeStrategy(InputTypeStrategies.explicitSequence(text, text, DataTypes.BIGINT()))
                .outputTypeStrategy(call -> Optional.of(outputType(Calls.literal(call, 0))))
                .build();
    }

    @Override
    public void open(FunctionContext context) throws Exception {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        reference = Reference.acquire(new Reference.Source((String) declared.get("bootstrap"),
                (String) declared.get("topic"), (String) declared.get("event"), (String) declared.get("key")));
        columns = reference.columns(Json.object(declared.get("take")).values());
    }

    @Override
    public void close() {
        if (reference != null) {
            reference.release();
            reference = null;
        }
    }

    public void eval(StringData declaration, StringData key, Long atMs) {
        Object[] event = key == null ? null : reference.get(key.toString(), atMs);
        GenericRowData row = new GenericRowData(columns.length + 1);
        row.setField(0, event != null);
        for (int i = 0; event != null && i < columns.length; i++) {
            Object value = event[columns[i]];
            row.setField(i + 1, value instanceof String ? StringData.fromString((String) value) : value);
        }
        collect(row);
    }

    private static DataType outputType(String declaration) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        EventReader event = new EventReader((String) declared.get("event"));
        List<DataTypes.Field> fields = new ArrayList<>();
        fields.add(DataTypes.FIELD("known", DataTypes.BOOLEAN().notNull()));
        Json.object(declared.get("take")).forEach((name, field) ->
                fields.add(DataTypes.FIELD(name, Types.of(event.kind((String) field)))));
        return DataTypes.ROW(fields).notNull().bridgedTo(RowData.class);
    }
}
