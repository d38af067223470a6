package millrace.flink;

import java.util.Arrays;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * {@code first_ids(ids, most)}: the first ids of a window by their code points. ARRAY_SORT of Flink has no word for
 * equal ids (FLINK-39677): with some repeated among 32 or more it fails, and with it the job, at each restart.
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
