package millrace.kernel;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiPredicate;

/** A state in memory that writes down what was done to it. */
final class HeapState implements State {
    final TreeMap<byte[], byte[]> entries = new TreeMap<>(Arrays::compareUnsigned);
    final List<String> log = new ArrayList<>();

    @Override
    public byte[] get(byte[] key) {
        return entries.get(key);
    }

    @Override
    public void put(byte[] key, byte[] value) {
        log.add("put " + (char) key[0]);
        entries.put(key, value);
    }

    @Override
    public void remove(byte[] key) {
        log.add("remove " + (char) key[0]);
        entries.remove(key);
    }

    @Override
    public void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor) {
        for (Map.Entry<byte[], byte[]> each : List.copyOf(entries.subMap(from, to).entrySet())) {
            if (!visitor.test(each.getKey(), each.getValue())) {
                return;
            }
        }
    }

    /** The entries of a kind, by their keys. */
    List<String> of(char what) {
        return entries.keySet().stream().filter(key -> key[0] == what).map(HexFormat.of()::formatHex).toList();
    }
}
