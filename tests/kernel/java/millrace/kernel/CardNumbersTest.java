package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What is masked in a message; tests/kernel/test_card_numbers.py compares what counts as a number with the oracle. */
final class CardNumbersTest {
    @ParameterizedTest
    @CsvSource({
        "4111111111111111, ****************",
        "no. 4111-1111 1111 1111., no. ****-**** **** ****.",
        "4111\\u00311111111\\u00201111, ****\\u***********\\u0020****",
        "4111111111111112, 4111111111111112",
        "1999999999999, 1999999999999",
        "0.4111111111111111, 0.4111111111111111",
    })
    void everyDigitOfACardNumberIsMasked(String message, String masked) {
        assertEquals(masked, masked(message, StandardCharsets.UTF_8));
    }

    @Test
    void inUtf16TheZeroBytesStay() {
        assertEquals("Ü ****************", masked("Ü 4111111111111111", StandardCharsets.UTF_16LE));
        assertEquals("Ü ****************", masked("Ü 4111111111111111", StandardCharsets.UTF_16BE));
    }

    @Test
    void whatHasNoneIsTheSameArray() {
        byte[] message = {(byte) 0xff, 0, '4', '1'};
        assertSame(message, CardNumbers.masked(message));
    }

    private static String masked(String message, Charset charset) {
        return new String(CardNumbers.masked(message.getBytes(charset)), charset);
    }
}
