package millrace.kernel;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Writes the values of a state one after another; the static half reads them back. */
final class Bytes {
    private static final byte NULL = 0;
    private static final byte WHOLE = 1;
    private static final byte REAL = 2;
    private static final byte TEXT = 3;
    private static final byte FLAG = 4;

    private byte[] bytes = new byte[128];
    private int size;

    /** Leaves room for the size of what follows; {@link #close} fills it in. */
    int open() {
        size = room(4);
        return size;
    }

    void close(int start) {
        putInt(start - 4, size - start);
    }

    void putLong(long value) {
        int at = size;
        size = room(8);
        putInt(at, (int) (value >>> 32));
        putInt(at + 4, (int) value);
    }

    void putValue(Object value) {
        if (value == null) {
            putByte(NULL);
        } else if (value instanceof Long) {
            putByte(WHOLE);
            putLong((Long) value);
        } else if (value instanceof Double) {
            putByte(REAL);
            putLong(Double.doubleToRawLongBits((Double) value));
        } else if (value instanceof Boolean) {
            putByte(FLAG);
            putByte((byte) ((Boolean) value ? 1 : 0));
        } else {
            byte[] text = ((String) value).getBytes(StandardCharsets.UTF_8);
            putByte(TEXT);
            int start = open();
            int at = size;
            size = room(text.length);
            System.arraycopy(text, 0, bytes, at, text.length);
            close(start);
        }
    }

    byte[] taken() {
        return Arrays.copyOf(bytes, size);
    }

    static int getSize(ByteBuffer from) {
        return from.getInt();
    }

    static Object getValue(ByteBuffer from) {
        switch (from.get()) {
            case WHOLE:
                return from.getLong();
            case REAL:
                return Double.longBitsToDouble(from.getLong());
            case FLAG:
                return from.get() == 1;
            case TEXT:
                byte[] text = new byte[from.getInt()];
                from.get(text);
                return new String(text, StandardCharsets.UTF_8);
            default:
                return null;
        }
    }

    private void putByte(byte value) {
        int at = size;
        size = room(1);
        bytes[at] = value;
    }

    private void putInt(int at, int value) {
        bytes[at] = (byte) (value >>> 24);
        bytes[at + 1] = (byte) (value >>> 16);
        bytes[at + 2] = (byte) (value >>> 8);
        bytes[at + 3] = (byte) value;
    }

    private int room(int more) {
        if (size + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, size + more));
        }
        return size + more;
    }
}
