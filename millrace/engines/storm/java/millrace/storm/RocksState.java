package millrace.storm;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.BiPredicate;
import millrace.kernel.State;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Slice;
import org.rocksdb.WriteOptions;

/** A state on the worker's disk, of which a topic holds all that counts: it notes what has changed since it was asked. */
final class RocksState implements State, AutoCloseable {
    static {
        RocksDB.loadLibrary();
    }

    private final Options options = new Options().setCreateIfMissing(true).setWriteBufferSize(16 << 20);
    private final WriteOptions unlogged = new WriteOptions().setDisableWAL(true);
    private final RocksDB database;
    private final Map<ByteBuffer, byte[]> changes = new LinkedHashMap<>();

    RocksState(Path folder) {
        try {
            database = RocksDB.open(options, folder.toString());
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Takes over an entry that the topic has; null deletes it. */
    void restore(byte[] key, byte[] value) {
        try {
            if (value == null) {
                database.delete(unlogged, key);
            } else {
                database.put(unlogged, key, value);
            }
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Hands on what has changed, in the order of the last changes, and forgets that. */
    void drain(BiConsumer<byte[], byte[]> to) {
        changes.forEach((key, value) -> to.accept(key.array(), value));
        changes.clear();
    }

    @Override
    public byte[] get(byte[] key) {
        try {
            return database.get(key);
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void put(byte[] key, byte[] value) {
        change(key, value);
    }

    @Override
    public void remove(byte[] key) {
        change(key, null);
    }

    @Override
    public void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor) {
        try (Slice end = new Slice(to);
                ReadOptions until = new ReadOptions().setIterateUpperBound(end);
                RocksIterator entries = database.newIterator(until)) {
            for (entries.seek(from); entries.isValid(); entries.next()) {
                if (!visitor.test(entries.key(), entries.value())) {
                    return;
                }
            }
        }
    }

    @Override
    public void close() {
        database.close();
        unlogged.close();
        options.close();
    }

    private void change(byte[] key, byte[] value) {
        restore(key, value);
        ByteBuffer own = ByteBuffer.wrap(key);
        changes.remove(own); // the last change counts, and so does its place in the order
        changes.put(own, value);
    }
}
