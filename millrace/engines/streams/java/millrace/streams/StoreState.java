package millrace.streams;

import java.util.function.BiPredicate;
import millrace.kernel.State;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** A state in a store of Kafka Streams. */
final class StoreState implements State {
    private final KeyValueStore<Bytes, byte[]> store;

    StoreState(KeyValueStore<Bytes, byte[]> store) {
        this.store = store;
    }

    @Override
    public byte[] get(byte[] key) {
        return store.get(Bytes.wrap(key));
    }

    @Override
    public void put(byte[] key, byte[] value) {
        store.put(Bytes.wrap(key), value);
    }

    @Override
    public void remove(byte[] key) {
        store.put(Bytes.wrap(key), null); // `delete` would read what was there
    }

    @Override
    public void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor) {
        Bytes end = Bytes.wrap(to);
        try (KeyValueIterator<Bytes, byte[]> entries = store.range(Bytes.wrap(from), end)) { // the end is inside
            while (entries.hasNext()) {
                KeyValue<Bytes, byte[]> each = entries.next();
                if (each.key.equals(end) || !visitor.test(each.key.get(), each.value)) {
                    return;
                }
            }
        }
    }
}
