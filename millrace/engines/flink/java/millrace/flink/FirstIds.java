package millrace.flink;

import java.util.Arrays;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * {@code first_ids(ids, most)}: the first ids of a window by their code points. Flink's ARRAY_SORT never finds two ids
 * equal (FLINK-39677): where some repeat among 32 or more it may fail, and then the job fails at each restart.
 */
public final class FirstIds extends ScalarFunction {
    private static final long serialVersionUID = 1L;
    private static final String IDS = "ARRAY<STRING>";

    @DataTypeHint(value = IDS, bridgedTo = ArrayData.class)
    public ArrayData eval(@DataTypeHint(value = IDS, bridgedTo = ArrayData.class) ArrayData ids, Integer most) {
        byte[][] sorted = new byte[ids.size()][];
        for (int i = 0; i < sorted.length; i++) {
            sorted[i] = ids.getString(i).toBytes();
        }
        Arrays.sort(sorted, Arrays::compareUnsigned);
        return new GenericArrayData(
                Arrays.stream(sorted).limit(most).map(StringData::fromBytes).toArray());
    }
}
