package millrace.flink;

import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.types.DataType;

/** Some columns of a table as the kernel wants them: Long, Double, String, Boolean and null. */
final class Columns {
    private final RowData.FieldGetter[] getters;

    Columns(DataType table, List<String> names) {
        List<String> all = DataType.getFieldNames(table);
        List<DataType> types = DataType.getFieldDataTypes(table);
        getters = names.stream()
                .map(all::indexOf)
                .map(column -> RowData.createFieldGetter(types.get(column).getLogicalType(), column))
                .toArray(RowData.FieldGetter[]::new);
    }

    /** Those of a side stream, whose columns are called {@code stream.field}. */
    static Columns ofStream(DataType others, String stream, List<String> fields) {
        return new Columns(others, fields.stream().map(field -> stream + "." + field).collect(Collectors.toList()));
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
