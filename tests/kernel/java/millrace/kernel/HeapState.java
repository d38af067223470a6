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
    final List<byte[][]> changes = new ArrayList<>(); // key and value; a removal has no value
    int visited;

    /** As a crash leaves it: these changes on top of what was there before. */
    static HeapState of(Map<byte[], byte[]> before, List<byte[][]> changes) {
        HeapState state = new HeapState();
        state.entries.putAll(before);
        for (byte[][] each : changes) {
            if (each[1] == null) {
                state.entries.remove(each[0]);
            } else {
                state.entries.put(each[0], each[1]);
            }
        }
        return state;
    }

    @Override
    public byte[] get(byte[] key) {
        return entries.get(key);
    }

    @Override
    public void put(byte[] key, byte[] value) {
        log.add("put " + (char) key[0]);
        changes.add(new byte[][] {key, value});
        entries.put(key, value);
    }

    @Override
    public void remove(byte[] key) {
        log.add("remove " + (char) key[0]);
        changes.add(new byte[][] {key, null});
        entries.remove(key);
    }

    @Override
    public void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor) {
        for (Map.Entry<byte[], byte[]> each : List.copyOf(entries.subMap(from, to).entrySet())) {
            visited++;
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
