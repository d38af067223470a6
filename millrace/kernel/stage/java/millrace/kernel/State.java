package millrace.kernel;

import java.util.function.BiPredicate;

/** What a stage keeps: bytes by key, which an engine makes durable. Keys are in the order of their unsigned bytes. */
public interface State {
    /** The value of a key, or null. */
    byte[] get(byte[] key);

    void put(byte[] key, byte[] value);

    void remove(byte[] key);

    /** Visits the entries from a key on, up to another one, as long as the visitor returns true. */
    void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor);
}
