package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

final class OneRowTest {
    private static final String LETTER = "\uff21"; // before an emoji by code point, behind it by UTF-16
    private static final String EMOJI = "\ud83d\ude00";

    @Test
    void beforeTheFirstEventThereIsNothing() {
        assertEquals(null, after(OneRow.max(1, "s", 0)));
        assertEquals(null, after(OneRow.sum(1, "s", 0)));
        assertEquals(0L, after(OneRow.count(1, "s")));
    }

    @Test
    void theHighestAndTheLowestPassOverWhatIsNull() {
        assertEquals(7L, after(OneRow.max(1, "s", 0), null, 3L, 7L, null, 5L));
        assertEquals(3L, after(OneRow.min(1, "s", 0), null, 7L, 3L, null, 5L));
        assertEquals(4L, after(OneRow.count(1, "s"), null, 7L, null, 5L));
    }

    @Test
    void textsAreInTheOrderOfTheirCodePoints() {
        assertEquals(EMOJI, after(OneRow.max(1, "s", 0), LETTER, EMOJI));
        assertEquals(LETTER, after(OneRow.min(1, "s", 0), LETTER, EMOJI));
        assertTrue(LETTER.compareTo(EMOJI) > 0);
    }

    @Test
    void aSumStaysAtTheLimit() {
        assertEquals(Long.MAX_VALUE, after(OneRow.sum(1, "s", 0), Long.MAX_VALUE, 1L));
        assertEquals(Long.MIN_VALUE, after(OneRow.sum(1, "s", 0), Long.MIN_VALUE, -1L));
        assertEquals(-1L, after(OneRow.sum(1, "s", 0), Long.MAX_VALUE, Long.MIN_VALUE));
        assertEquals(0.75, after(OneRow.sum(1, "s", 0), 0.5, null, 0.25));
    }

    @Test
    void theLastEventIsThereAsItWasAlsoWhereItIsNull() {
        OneRow last = OneRow.last(1, "s", new int[] {1, 0});
        last.learn(new Object[] {"a", 1L});
        last.learn(new Object[] {null, 2L});
        Object[] outputs = {"x", "x", "x"};
        assertEquals(3, last.before(null, outputs, 1));
        assertArrayEquals(new Object[] {"x", 2L, null}, outputs);
    }

    private static Object after(OneRow measure, Object... values) {
        for (Object value : values) {
            measure.learn(new Object[] {value});
        }
        Object[] outputs = new Object[1];
        assertEquals(1, measure.before(null, outputs, 0));
        return outputs[0];
    }
}
