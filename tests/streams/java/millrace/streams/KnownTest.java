package millrace.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** What the number of a consumer's answers shows about the time until which it is known what came. */
final class KnownTest {
    private static final long UNKNOWN = Long.MIN_VALUE;

    private final Clients.Known known = new Clients.Known();

    @Test
    void theFirstAnswersWereAskedForAtAnUnknownTime() {
        assertEquals(UNKNOWN, known.until(0, 1_000));
        assertEquals(UNKNOWN, known.until(1, 1_100));
        assertEquals(UNKNOWN, known.until(2, 1_200));
    }

    @Test
    void oneAnswerMayHaveBeenAskedForLongAgo() {
        known.until(2, 1_000);
        assertEquals(UNKNOWN, known.until(3, 9_000));
        assertEquals(1_000, known.until(4, 9_500));
        assertEquals(1_000, known.until(5, 9_600));
        assertEquals(9_500, known.until(6, 9_700));
    }
}
