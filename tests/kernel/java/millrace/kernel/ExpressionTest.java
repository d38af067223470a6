package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** The edges of the meaning of a condition; tests/kernel/test_invented_rules.py compares it with the oracle's. */
final class ExpressionTest {
    private static final String A = "{\"node\": \"field\", \"owner\": \"now\", \"name\": \"a\", \"kind\": \"whole\"}";
    private static final String B = A.replace("\"a\"", "\"b\"");

    @Test
    void aWholeNumberThatLeavesThe64BitsIsNull() {
        assertEquals(3L, of("+", 1L, 2L));
        assertNull(of("+", Long.MAX_VALUE, 1L));
        assertNull(of("-", Long.MIN_VALUE, 1L));
        assertNull(of("*", Long.MAX_VALUE, 2L));
    }

    @Test
    void aRealNumberThatIsNotFiniteIsNullAndZeroHasNoSign() {
        assertNull(of("*", 1e300, 1e300));
        assertEquals(0.0, of("*", -1.0, 0.0)); // -0.0 is another object
        assertEquals(true, of("==", -0.0, 0.0));
    }

    @Test
    void wholeNumbersAreExactAndBesideARealOneTheNearestDouble() {
        long beyondDoubles = (1L << 53) + 1;
        assertEquals(false, of("==", beyondDoubles, 1L << 53));
        assertEquals(true, of("==", beyondDoubles, (double) (1L << 53)));
        assertEquals(true, of(">", beyondDoubles, 1L << 53));
        assertEquals(false, of(">", beyondDoubles, (double) (1L << 53)));
    }

    @Test
    void nullIsUnknownUnlessTheOtherOperandDecides() {
        assertNull(of("==", null, 1L));
        assertNull(of("<=", 1L, null));
        assertNull(of("&", null, true));
        assertEquals(false, of("&", null, false));
        assertNull(of("|", false, null));
        assertEquals(true, of("|", true, null));
        assertNull(expression("{\"node\": \"not\", \"inner\": " + A + "}").of(new Object[] {null, null}));
    }

    @Test
    void onlyWhatIsTrueHolds() {
        Expression isLess = binary("<");
        assertTrue(isLess.holds(new Object[] {1L, 2L}));
        assertFalse(isLess.holds(new Object[] {2L, 2L}));
        assertFalse(isLess.holds(new Object[] {null, 2L}));
    }

    @Test
    void whatIsNotDeclaredIsRefusedByName() {
        assertEquals("no expression has a node 'power'", refusal("{\"node\": \"power\"}"));
        assertEquals("no expression has an operator '/'",
                refusal("{\"node\": \"binary\", \"op\": \"/\", \"left\": " + A + ", \"right\": " + B + "}"));
        assertEquals("no function is called 'root'",
                refusal("{\"node\": \"call\", \"function\": \"root\", \"arguments\": []}"));
    }

    private static Object of(String op, Object left, Object right) {
        return binary(op).of(new Object[] {left, right});
    }

    private static Expression binary(String op) {
        return expression("{\"node\": \"binary\", \"op\": \"" + op + "\", \"left\": " + A + ", \"right\": " + B + "}");
    }

    private static Expression expression(String json) {
        return Expression.of(Json.object(Json.parse(json)), (owner, name) -> List.of("a", "b").indexOf(name));
    }

    private static String refusal(String json) {
        return assertThrows(IllegalArgumentException.class, () -> expression(json)).getMessage();
    }
}
