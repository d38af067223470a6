package millrace.flink.arrivals;

/** The newest message that was polled of a partition, and the position of its consumer behind it. */
record Reached(long seen, long position) {
    /**
     * The next offset of a job that has handed on all before {@code next}: past markers and what was taken back, too,
     * or what is deleted of those would pass for lost.
     */
    long from(long next) {
        return seen < next ? Math.max(next, position) : next;
    }
}
