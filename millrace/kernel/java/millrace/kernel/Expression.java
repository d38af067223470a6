package millrace.kernel;

import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A condition or a computed value, as {@code value_of} of millrace/rules/expressions.py defines it: null where it cannot
 * be judged, or where a number leaves its kind.
 */
public interface Expression {
    /** The value over a row of fields. */
    Object of(Object[] row);

    /** Where a row has a field, by its owner and name. */
    interface Columns {
        int of(String owner, String name);
    }

    /** Whether a condition holds; one that cannot be judged does not. */
    default boolean holds(Object[] row) {
        return Boolean.TRUE.equals(of(row));
    }

    /** From the parsed JSON of {@code Expression.as_data()}. */
    static Expression of(Map<String, Object> data, Columns columns) {
        String node = (String) data.get("node");
        switch (node) {
            case "field":
                int column = columns.of((String) data.get("owner"), (String) data.get("name"));
                return row -> row[column];
            case "literal":
                Object value = data.get("value");
                return row -> value;
            case "not":
                Expression inner = of(Json.object(data.get("inner")), columns);
                return row -> inner.of(row) instanceof Boolean truth ? !truth : null;
            case "binary":
                return binary((String) data.get("op"), of(Json.object(data.get("left")), columns),
                        of(Json.object(data.get("right")), columns));
            case "call":
                List<Object> arguments = Json.list(data.get("arguments"));
                return call((String) data.get("function"), arguments.stream()
                        .map(each -> of(Json.object(each), columns)).toArray(Expression[]::new));
            default:
                throw new IllegalArgumentException("no expression has a node '" + node + "'");
        }
    }

    private static Expression binary(String op, Expression left, Expression right) {
        switch (op) {
            case "&":
                return row -> joined(left.of(row), right.of(row), false);
            case "|":
                return row -> joined(left.of(row), right.of(row), true);
            case "+":
            case "-":
            case "*":
                return row -> computed(op.charAt(0), left.of(row), right.of(row));
            case "==":
                return row -> isEqual(left.of(row), right.of(row));
            case "!=":
                return row -> isEqual(left.of(row), right.of(row)) instanceof Boolean same ? !same : null;
            case ">":
                return row -> left.of(row) instanceof Number a && right.of(row) instanceof Number b ? isLess(b, a) : null;
            case ">=":
                return row -> left.of(row) instanceof Number a && right.of(row) instanceof Number b
                        ? (Boolean) (isLess(b, a) || isSame(a, b)) : null;
            case "<":
                return row -> left.of(row) instanceof Number a && right.of(row) instanceof Number b ? isLess(a, b) : null;
            case "<=":
                return row -> left.of(row) instanceof Number a && right.of(row) instanceof Number b
                        ? (Boolean) (isLess(a, b) || isSame(a, b)) : null;
            default:
                throw new IllegalArgumentException("no expression has an operator '" + op + "'");
        }
    }

    private static Expression call(String function, Expression[] arguments) {
        if (!function.equals("km")) {
            throw new IllegalArgumentException("no function is called '" + function + "'");
        }
        return row -> {
            double[] at = new double[arguments.length];
            for (int i = 0; i < at.length; i++) {
                if (!(arguments[i].of(row) instanceof Number number)) {
                    return null;
                }
                at[i] = number.doubleValue();
            }
            return finite(Distance.km(at[0], at[1], at[2], at[3]));
        };
    }

    /** SQL's AND, which a false decides, or its OR, which a true decides. */
    private static Object joined(Object left, Object right, boolean decisive) {
        if (Objects.equals(left, decisive) || Objects.equals(right, decisive)) {
            return decisive;
        }
        return left == null || right == null ? null : (Object) !decisive;
    }

    private static Object isEqual(Object left, Object right) {
        if (left == null || right == null) {
            return null;
        }
        return left instanceof Number a && right instanceof Number b ? isSame(a, b) : left.equals(right);
    }

    private static boolean isLess(Number left, Number right) {
        return areWhole(left, right)
                ? left.longValue() < right.longValue() : left.doubleValue() < right.doubleValue();
    }

    private static boolean isSame(Number left, Number right) {
        return areWhole(left, right)
                ? left.longValue() == right.longValue() : left.doubleValue() == right.doubleValue();
    }

    /** A sum, difference or product; null for a null, and for a number that leaves the 64 bits or the finite doubles. */
    public static Object computed(char op, Object left, Object right) {
        if (!(left instanceof Number a) || !(right instanceof Number b)) {
            return null;
        }
        if (areWhole(a, b)) {
            return whole(op, a.longValue(), b.longValue());
        }
        double x = a.doubleValue();
        double y = b.doubleValue();
        return finite(op == '+' ? x + y : op == '-' ? x - y : x * y);
    }

    private static Object whole(char op, long a, long b) {
        try {
            return op == '+' ? Math.addExact(a, b) : op == '-' ? Math.subtractExact(a, b) : Math.multiplyExact(a, b);
        } catch (ArithmeticException overflow) {
            return null;
        }
    }

    private static Object finite(double value) {
        return Double.isFinite(value) ? (Object) (value + 0.0) : null; // -0.0 + 0.0 is 0.0
    }

    private static boolean areWhole(Number left, Number right) {
        return left instanceof Long && right instanceof Long;
    }
}
