package millrace.kernel;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The events of a compacted topic by key: a key's last message counts, and one without a value deletes it. */
public final class ReferenceTable {
    private final EventReader reader;
    private final int keyColumn;
    private final Map<String, Object[]> rows = new ConcurrentHashMap<>();

    /** From the JSON text of {@code EventType.reader()} and the name of its key. */
    public ReferenceTable(String declaration, String key) {
        reader = new EventReader(declaration);
        keyColumn = columns(List.of(key))[0];
    }

    /** Takes in the next message; gives the reason why it is refused, or null. For one thread at a time. */
    public String take(byte[] key, byte[] value, long ingestMs) {
        if (value == null) {
            if (key != null) {
                rows.remove(new String(key, StandardCharsets.UTF_8));
            }
            return null;
        }
        Object[] event = reader.read(value, ingestMs);
        if (event[0] == null) {
            rows.put((String) event[keyColumn], event);
        }
        return (String) event[0];
    }

    /** The event with that key, as {@link EventReader#read} gives it, or null. */
    public Object[] get(String key) {
        return rows.get(key);
    }

    public int size() {
        return rows.size();
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
