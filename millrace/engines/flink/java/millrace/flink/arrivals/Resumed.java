package millrace.flink.arrivals;

/**
 * How far event time had come in a task before its restart. The windows behind it have restored their time and drop what
 * is older, but no watermark shows that until the task has read an event.
 */
final class Resumed {
    private final long disorderMs;
    private volatile long newestMs;

    Resumed(long disorderMs) {
        this.disorderMs = disorderMs;
    }

    /** Adds a split of the task; all of them are read in one order of arrival. */
    void add(ArrivalSplit split) {
        newestMs = Math.max(newestMs, split.newestMs());
    }

    /** An event before this moment was late for windows before the restart, too; the least if the task begins anew. */
    long passedMs() {
        return newestMs == 0 ? Long.MIN_VALUE : newestMs - disorderMs;
    }
}
