package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import org.junit.jupiter.api.Test;

final class UnaskedTest {
    private double answers = 7;
    private int brokers = 1;
    private long nowMs;
    private final Unasked<String> unasked = new Unasked<>(() -> answers, () -> brokers, () -> nowMs * 1_000_000);

    @Test
    void aPartitionThatWasNeverPausedIsAskedFor() {
        assertFalse(unasked.has("pays"));
        unasked.resume("pays");
        assertFalse(unasked.has("pays"));
    }

    @Test
    void aPartitionIsNotAskedForWhileItIsPaused() {
        unasked.pause("pays");
        answers = 99;
        poll();
        assertTrue(unasked.has("pays"));
        assertFalse(unasked.has("phones"));
    }

    @Test
    void aPartitionThatComesBackIsNotPausedAnyMore() {
        unasked.pause("pays");
        unasked.retain(Set.of("phones"));
        assertFalse(unasked.has("pays"));
    }

    @Test
    void theFirstAnswerMayBeToARequestFromBefore() {
        unasked.pause("pays");
        answers = 8;
        unasked.resume("pays");
        answers = 9;
        unasked.resume("pays");
        poll();
        assertTrue(unasked.has("pays"));
        answers = 10;
        poll();
        assertFalse(unasked.has("pays"));
        unasked.pause("pays");
        assertTrue(unasked.has("pays"));
    }

    @Test
    void anAnswerThatComesDuringAPollOrAfterItIsNotTakenBeforeTheNextOne() {
        unasked.pause("pays");
        unasked.resume("pays");
        unasked.poll(() -> answers += 1);
        answers += 1;
        assertTrue(unasked.has("pays"));
        poll();
        assertFalse(unasked.has("pays"));
    }

    @Test
    void aPollThatFailsMayHaveTakenNothing() {
        unasked.pause("pays");
        unasked.resume("pays");
        answers += 2;
        assertThrows(IllegalStateException.class, () -> unasked.poll(() -> {
            throw new IllegalStateException("it was woken up");
        }));
        assertTrue(unasked.has("pays"));
    }

    @Test
    void ofSeveralBrokersTheOneThatHasThePartitionMayHoldBackARequest() {
        brokers = 2;
        unasked.pause("pays");
        nowMs = 60_000;
        unasked.resume("pays");
        answers += 99;
        nowMs = 60_999;
        poll();
        nowMs = 61_000;
        assertTrue(unasked.has("pays"), "what came since the poll is not taken");
        poll();
        assertFalse(unasked.has("pays"));
    }

    @Test
    void ofSeveralBrokersTheAnswersAreWaitedForThoughTimeHasPassed() {
        brokers = 2;
        unasked.pause("pays");
        unasked.resume("pays");
        answers += 1;
        nowMs = 60_000;
        poll();
        assertTrue(unasked.has("pays"));
    }

    private void poll() {
        unasked.poll(() -> "messages");
    }
}
