package millrace.kernel;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** How a value lies in a key's memory: a byte for its kind, then the value. */
final class Values {
    private static final byte NULL = 0;
    private static final byte WHOLE = 1;
    private static final byte REAL = 2;
    private static final byte TEXT = 3;
    private static final byte FLAG = 4;

    private Values() {}

    static void write(Object value, DataOutputStream to) throws IOException {
        if (value == null) {
            to.writeByte(NULL);
        } else if (value instanceof Long whole) {
            to.writeByte(WHOLE);
            to.writeLong(whole);
        } else if (value instanceof Double real) {
            to.writeByte(REAL);
            to.writeLong(Double.doubleToRawLongBits(real));
        } else if (value instanceof Boolean flag) {
            to.writeByte(FLAG);
            to.writeBoolean(flag);
        } else {
            byte[] text = ((String) value).getBytes(StandardCharsets.UTF_8);
            to.writeByte(TEXT);
            to.writeInt(text.length);
            to.write(text);
        }
    }

    static Object read(ByteBuffer from) {
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

    /** Whether a field of a kind may have the value. */
    static boolean isOf(Object kind, Object value) {
        if (value == null) {
            return true;
        }
        switch ((String) kind) {
            case "whole":
                return value instanceof Long;
            case "real":
                return value instanceof Double;
            case "flag":
                return value instanceof Boolean;
            default:
                return value instanceof String;
        }
    }
}
