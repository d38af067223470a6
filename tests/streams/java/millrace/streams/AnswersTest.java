package millrace.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** What the number of a consumer's answers shows about the time until which it is known what came. */
final class AnswersTest {
    private static final long UNKNOWN = Long.MIN_VALUE;

    private final Clients.Answers answers = new Clients.Answers();

    @Test
    void theFirstAnswersWereAskedForAtAnUnknownTime() {
        assertEquals(UNKNOWN, answers.until(0, 1_000));
        assertEquals(UNKNOWN, answers.until(1, 1_100));
        assertEquals(UNKNOWN, answers.until(2, 1_200));
    }

    @Test
    void oneAnswerMayHaveBeenAskedForLongAgo() {
        answers.until(2, 1_000);
        assertEquals(UNKNOWN, answers.until(3, 9_000));
        assertEquals(1_000, answers.until(4, 9_500));
        assertEquals(1_000, answers.until(5, 9_600));
        assertEquals(9_500, answers.until(6, 9_700));
    }
}
