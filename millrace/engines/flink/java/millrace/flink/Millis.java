package millrace.flink;

import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.functions.ScalarFunction;

/** {@code millis(time)}: milliseconds since 1970, which SQL has no exact and plain word for. */
public final class Millis extends ScalarFunction {
    private static final long serialVersionUID = 1L;

    public Long eval(@DataTypeHint(value = "TIMESTAMP_LTZ(3)", bridgedTo = TimestampData.class) TimestampData time) {
        return time == null ? null : time.getMillisecond();
    }
}
