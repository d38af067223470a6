package millrace.kernel;

/** How many events there were lately; a row for each moment, with the number of its events. */
final class Recent extends Measure {
    private static final int MOMENT = 0;
    private static final int EVENTS = 1;

    private final int time;
    private final long withinMs;

    Recent(long signature, String stream, int time, long withinMs) {
        super(signature, stream, 0, 2);
        this.time = time;
        this.withinMs = withinMs;
    }

    @Override
    int before(Object[] now, Object[] outputs, int at) {
        long since = newest(MOMENT, (Long) now[time]) - withinMs;
        long recent = 0;
        for (Object[] row : rows) {
            if ((Long) row[MOMENT] >= since) {
                recent += (Long) row[EVENTS];
            }
        }
        outputs[at] = recent;
        return at + 1;
    }

    @Override
    void learn(Object[] event) {
        long atMs = (Long) event[time];
        long since = newest(MOMENT, atMs) - withinMs;
        boolean isNew = true;
        for (Object[] row : rows) {
            if ((Long) row[MOMENT] == atMs) {
                row[EVENTS] = (Long) row[EVENTS] + 1;
                isNew = false;
            }
        }
        if (isNew) {
            rows.add(new Object[] {atMs, 1L});
        }
        rows.removeIf(row -> (Long) row[MOMENT] < since);
    }
}
