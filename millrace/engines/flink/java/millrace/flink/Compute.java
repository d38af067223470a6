package millrace.flink;

import millrace.kernel.Expression;
import org.apache.flink.table.functions.ScalarFunction;

/** {@code compute('+', a, b)} of a rule: null where SQL's operators wrap around, or give what is no finite number. */
public final class Compute extends ScalarFunction {
    private static final long serialVersionUID = 1L;

    public Long eval(String op, Long left, Long right) {
        return (Long) Expression.computed(op.charAt(0), left, right);
    }

    public Double eval(String op, Double left, Double right) {
        return (Double) Expression.computed(op.charAt(0), left, right);
    }
}
