package millrace.storm;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Which tuples a bolt takes. */
final class SequenceTest {
    private final Sequence sequence = new Sequence();

    @Test
    void aSequenceIsTakenFromItsBeginningAndWithoutAGap() {
        assertFalse(sequence.takes(7, 3)); // a bolt that was started anew
        assertTrue(sequence.takes(7, 0));
        assertTrue(sequence.takes(7, 1));
        assertFalse(sequence.takes(7, 3));
        assertFalse(sequence.takes(7, 1));
        assertTrue(sequence.takes(7, 2));
    }

    @Test
    void aNewerSequenceTakesOverAndTheOlderOneIsOver() {
        assertTrue(sequence.takes(7, 0));
        assertFalse(sequence.takes(8, 1));
        assertTrue(sequence.takes(8, 0));
        assertFalse(sequence.takes(7, 1));
        assertTrue(sequence.takes(8, 1));
    }
}
