package millrace.kernel;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Keys of a state, made of parts: a byte for what the entry is, texts, and whole numbers in their order. A text in front
 * of another part has its length before it, so that no two lists of parts make one key.
 */
final class Key {
    private ByteBuffer bytes = ByteBuffer.allocate(64);

    Key(char what) {
        bytes.put((byte) what);
    }

    Key text(String text) {
        byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
        room(encoded.length + Integer.BYTES).putInt(encoded.length).put(encoded);
        return this;
    }

    Key whole(long number) {
        room(Long.BYTES).putLong(number ^ Long.MIN_VALUE); // negative ones come first
        return this;
    }

    byte[] bytes() {
        return Arrays.copyOf(bytes.array(), bytes.position());
    }

    /** The first key behind all that begin with this one. */
    byte[] end() {
        byte[] end = bytes();
        for (int i = end.length - 1; i >= 0; i--) {
            if (++end[i] != 0) {
                return Arrays.copyOf(end, i + 1);
            }
        }
        throw new IllegalStateException("no key is behind this one");
    }

    static long whole(ByteBuffer from) {
        return from.getLong() ^ Long.MIN_VALUE;
    }

    static String text(ByteBuffer from) {
        byte[] text = new byte[from.getInt()];
        from.get(text);
        return new String(text, StandardCharsets.UTF_8);
    }

    private ByteBuffer room(int more) {
        if (bytes.remaining() < more) {
            bytes = ByteBuffer.allocate(2 * bytes.capacity() + more).put(bytes.flip());
        }
        return bytes;
    }
}
