package millrace.flink;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.types.DataType;

/** Some columns of a table in the types of the kernel: Long, Double, String, Boolean and null. */
final class Columns {
    private final RowData.FieldGetter[] getters;

    Columns(DataType table, List<String> names) {
        getters = getters(table, names);
    }

    static RowData.FieldGetter[] getters(DataType table, List<String> names) {
        List<String> all = DataType.getFieldNames(table);
        List<DataType> types = DataType.getFieldDataTypes(table);
        return names.stream()
                .map(all::indexOf)
                .map(column -> RowData.createFieldGetter(types.get(column).getLogicalType(), column))
                .toArray(RowData.FieldGetter[]::new);
    }

    /** Those with the fields of a stream, as a declaration gives them: {field: column}. */
    static Columns ofStream(DataType events, Map<String, Object> columns, List<String> fields) {
        return new Columns(events, fields.stream().map(f -> (String) columns.get(f)).collect(Collectors.toList()));
    }

    Object[] of(RowData row) {
        Object[] values = new Object[getters.length];
        for (int i = 0; i < values.length; i++) {
            Object value = getters[i].getFieldOrNull(row);
            values[i] = value instanceof StringData ? value.toString() : value;
        }
        return values;
    }
}
