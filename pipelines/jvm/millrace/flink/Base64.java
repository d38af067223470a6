package millrace.flink;

import org.apache.flink.table.functions.ScalarFunction;

/** {@code base64(bytes)}: SQL's own TO_BASE64 takes texts only. */
public final class Base64 extends ScalarFunction {
    private static final long serialVersionUID = 1L;

    public String eval(byte[] bytes) {
        return bytes == null ? null : java.util.Base64.getEncoder().encodeToString(bytes);
    }
}
