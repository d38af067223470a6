package millrace.kernel;

import java.util.Objects;

/**
 * How many values other than the event's own were seen lately; a row for each value, with the time it was last seen.
 *
 * <p>A value too old to count again is forgotten. Null is no value: its row only keeps the newest time.
 */
final class Others extends Measure {
    private static final int VALUE = 0;
    private static final int SEEN = 1;

    private final int field;
    private final int time;
    private final long withinMs;

    Others(long signature, String stream, int field, int time, long withinMs) {
        super(signature, stream, 1, 2);
        this.field = field;
        this.time = time;
        this.withinMs = withinMs;
    }

    @Override
    int before(Object[] now, Object[] outputs, int at) {
        long since = newest(SEEN, (Long) now[time]) - withinMs;
        long others = 0;
        for (Object[] row : rows) {
            if ((Long) row[SEEN] >= since && row[VALUE] != null && !row[VALUE].equals(now[field])) {
                others++;
            }
        }
        outputs[at] = others;
        return at + 1;
    }

    @Override
    void learn(Object[] event) {
        long atMs = (Long) event[time];
        long since = newest(SEEN, atMs) - withinMs;
        boolean isNew = true;
        for (Object[] row : rows) {
            if (Objects.equals(row[VALUE], event[field])) {
                row[SEEN] = Math.max((Long) row[SEEN], atMs);
                isNew = false;
            }
        }
        if (isNew) {
            rows.add(new Object[] {event[field], atMs});
        }
        rows.removeIf(row -> (Long) row[SEEN] < since);
    }
}
