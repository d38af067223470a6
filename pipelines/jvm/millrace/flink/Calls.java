package millrace.flink;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.TableSemantics;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.CallContext;
import org.apache.flink.table.types.inference.StaticArgument;
import org.apache.flink.table.types.inference.StaticArgumentTrait;
import org.apache.flink.types.Row;

/** What the functions over two streams, {@code f(now => TABLE, other => TABLE, declaration => '...')}, have in common. */
final class Calls {
    private Calls() {}

    /** Their arguments; the types of the tables are not known before a call is. */
    static List<StaticArgument> streams(DataType nowType, DataType otherType) {
        return List.of(
                table("now", nowType),
                table("other", otherType),
                StaticArgument.scalar("declaration", DataTypes.STRING().bridgedTo(StringData.class), false));
    }

    static String literal(CallContext call, int argument) {
        return call.getArgumentValue(argument, String.class)
                .orElseThrow(() -> call.newValidationError("the declaration must be a literal"));
    }

    static DataType table(CallContext call, int argument) {
        return semantics(call, argument).dataType();
    }

    /** The columns of a table as a result may repeat them: Flink puts the key in front by itself, so ours gets a prefix. */
    static List<DataTypes.Field> columns(CallContext call, int argument) {
        TableSemantics table = semantics(call, argument);
        List<String> names = DataType.getFieldNames(table.dataType());
        List<DataType> types = DataType.getFieldDataTypes(table.dataType());
        List<DataTypes.Field> fields = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            boolean isKey = table.partitionByColumns()[0] == i;
            fields.add(DataTypes.FIELD((isKey ? "_" : "") + names.get(i), types.get(i)));
        }
        return fields;
    }

    private static TableSemantics semantics(CallContext call, int argument) {
        return call.getTableSemantics(argument).orElseThrow(IllegalStateException::new);
    }

    private static StaticArgument table(String name, DataType type) {
        EnumSet<StaticArgumentTrait> traits =
                EnumSet.of(StaticArgumentTrait.TABLE, StaticArgumentTrait.SET_SEMANTIC_TABLE);
        return type == null
                ? StaticArgument.table(name, Row.class, false, traits)
                : StaticArgument.table(name, type.bridgedTo(RowData.class), false, traits);
    }
}
