package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** The bytes of keys. Running jobs find what an earlier build put: no byte here may ever change. */
final class KeyTest {
    @Test
    void theBytesOfAKeyStay() {
        byte[] key = new Key('m').text("anna").whole(-2).bytes();
        assertEquals("6d00000004616e6e617ffffffffffffffe", HexFormat.of().formatHex(key));
        ByteBuffer from = ByteBuffer.wrap(key).position(1);
        assertEquals("anna", Key.text(from));
        assertEquals(-2, Key.whole(from));
    }

    @Test
    void numbersAreInTheirOrder() {
        long[] numbers = {Long.MIN_VALUE, -1, 0, 1, Long.MAX_VALUE};
        for (int i = 1; i < numbers.length; i++) {
            assertTrue(Arrays.compareUnsigned(of(numbers[i - 1]), of(numbers[i])) < 0);
        }
    }

    @Test
    void theEndIsBehindAllThatBeginWithAKey() {
        byte[] end = new Key('e').text("anna").end();
        assertTrue(Arrays.compareUnsigned(new Key('e').text("anna").whole(Long.MAX_VALUE).bytes(), end) < 0);
        assertTrue(Arrays.compareUnsigned(new Key('e').text("annb").bytes(), end) >= 0);
        assertArrayEquals(new byte[] {'f'}, new Key('e').whole(Long.MAX_VALUE).end());
    }

    private static byte[] of(long number) {
        return new Key('t').whole(number).bytes();
    }
}
