package millrace.kernel;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The events of a compacted topic by key, as they were at any moment: a key's last message until then counts, and one
 * without a value deletes it.
 *
 * <p>An event that waits in a backlog is judged by the reference data that was there when it arrived. Compaction may have
 * deleted earlier versions of a key: where offsets are missing, the first that is left counts as there from the beginning.
 */
public final class ReferenceTable {
    private static final int VERSIONS_MOST = 100; // of a key, or a key that changes without end would fill the memory

    /** What a key had from a moment on; null if it was deleted. */
    private record Version(long sinceMs, Object[] event) {}

    private final EventReader reader;
    private final int keyColumn;
    private final Map<String, Version[]> versions = new ConcurrentHashMap<>();
    private final Map<Integer, Long> following = new HashMap<>();
    private final Map<Integer, Long> newestMs = new HashMap<>();
    private boolean isComplete;

    /** From the JSON text of {@code EventType.reader()} and the name of its key. */
    public ReferenceTable(String declaration, String key) {
        reader = new EventReader(declaration);
        keyColumn = columns(List.of(key))[0];
    }

    /** Takes in the next message of a partition; gives the reason why it is refused, or null. One thread at a time. */
    public String take(int partition, long offset, byte[] key, byte[] value, long ingestMs) {
        // A broker's clock may be set back; the order of the partition stands.
        long sinceMs = newestMs.merge(partition, ingestMs, Math::max);
        boolean isWhole = isComplete || following.getOrDefault(partition, 0L) == offset;
        following.put(partition, isWhole ? offset + 1 : -1);
        if (value == null) {
            if (key != null) {
                add(new String(key, StandardCharsets.UTF_8), new Version(sinceMs, null));
            }
            return null;
        }
        Object[] event = reader.read(value, ingestMs);
        if (event[0] == null) {
            String own = (String) event[keyColumn];
            boolean isFirstLeft = !isWhole && !versions.containsKey(own);
            add(own, new Version(isFirstLeft ? Long.MIN_VALUE : sinceMs, event));
        }
        return (String) event[0];
    }

    /** Marks the end of what lay in the topic: no message that comes from now on was ever preceded by a deleted one. */
    public void complete() {
        isComplete = true;
    }

    /** The event that the key had at that moment, as {@link EventReader#read} gives it, or null. */
    public Object[] get(String key, long atMs) {
        Version[] own = versions.getOrDefault(key, new Version[0]);
        for (int i = own.length - 1; i >= 0; i--) {
            if (own[i].sinceMs <= atMs) {
                return own[i].event;
            }
        }
        return null;
    }

    public int size() {
        return versions.size();
    }

    private void add(String key, Version version) {
        versions.merge(key, new Version[] {version}, (old, more) -> {
            int dropped = old.length < VERSIONS_MOST ? 0 : 1;
            Version[] joined = Arrays.copyOfRange(old, dropped, old.length + 1);
            joined[joined.length - 1] = version;
            return joined;
        });
    }

    /** Where an event of {@link #get} holds these fields. */
    public int[] columns(Iterable<?> fields) {
        List<String> names = Arrays.asList(reader.names());
        int[] columns = new int[names.size()];
        int count = 0;
        for (Object field : fields) {
            columns[count++] = names.indexOf(field) + 1;
        }
        return Arrays.copyOf(columns, count);
    }
}
