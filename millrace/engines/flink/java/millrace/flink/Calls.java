package millrace.flink;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import millrace.kernel.Json;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.TableSemantics;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.CallContext;
import org.apache.flink.table.types.inference.StateTypeStrategy;
import org.apache.flink.table.types.inference.StaticArgument;
import org.apache.flink.table.types.inference.StaticArgumentTrait;
import org.apache.flink.table.types.inference.TypeInference;
import org.apache.flink.types.Row;

/**
 * What the functions over arrivals, {@code f(events => TABLE, declaration => '...')}, have in common.
 *
 * <p>One table with the events of all streams, distinguished by the column {@code _stream}: between two tables Flink
 * keeps no order, not even within a key.
 */
final class Calls {
    static final int EVENTS = 0;
    static final int DECLARATION = 1;
    static final String STREAM = "_stream";

    private Calls() {}

    /** Their arguments, state and result; the type of the table is fixed by a call. */
    static TypeInference inference(
            DataType eventsType,
            LinkedHashMap<String, StateTypeStrategy> state,
            Function<CallContext, DataType> outputType) {
        StaticArgument declaration =
                StaticArgument.scalar("declaration", DataTypes.STRING().bridgedTo(StringData.class), false);
        return TypeInference.newBuilder()
                .staticArguments(List.of(table("events", eventsType), declaration))
                .stateTypeStrategies(state)
                .outputTypeStrategy(call -> Optional.of(outputType.apply(call)))
                .build();
    }

    static Map<String, Object> declaration(CallContext call) {
        return Json.object(Json.parse(literal(call, DECLARATION)));
    }

    static String literal(CallContext call, int argument) {
        return call.getArgumentValue(argument, String.class)
                .orElseThrow(() -> call.newValidationError("the declaration must be a literal"));
    }

    static DataType eventsType(CallContext call) {
        return semantics(call).dataType();
    }

    /** The columns of a table as a result may repeat them: Flink puts the key in front by itself, so ours gets a prefix. */
    static List<DataTypes.Field> columns(CallContext call) {
        TableSemantics table = semantics(call);
        List<String> names = DataType.getFieldNames(table.dataType());
        List<DataType> types = DataType.getFieldDataTypes(table.dataType());
        List<DataTypes.Field> fields = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            boolean isKey = table.partitionByColumns()[0] == i;
            fields.add(DataTypes.FIELD((isKey ? "_key_" : "") + names.get(i), types.get(i)));
        }
        return fields;
    }

    private static TableSemantics semantics(CallContext call) {
        return call.getTableSemantics(EVENTS).orElseThrow(IllegalStateException::new);
    }

    private static StaticArgument table(String name, DataType type) {
        EnumSet<StaticArgumentTrait> traits =
                EnumSet.of(StaticArgumentTrait.TABLE, StaticArgumentTrait.SET_SEMANTIC_TABLE);
        return type == null
                ? StaticArgument.table(name, Row.class, false, traits)
                : StaticArgument.table(name, type.bridgedTo(RowData.class), false, traits);
    }
}
