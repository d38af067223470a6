package millrace.streams;

import java.util.HashMap;
import java.util.Map;
import java.util.function.LongSupplier;
import millrace.kafka.Pace;

/**
 * The event time of a job, which all its tasks share: no event before it is still to come, or it is late.
 *
 * <p>Each partition has moved it to its own newest event, less the disorder, and the slowest one counts. One that is known
 * to have had no event for a while holds back none. While all are silent, time moves with the wall clock, as far as they
 * are known to be, until no window is open.
 */
final class Clock {
    static final long END = Long.MAX_VALUE;
    private static final long UNKNOWN = Long.MIN_VALUE;

    private final long disorderMs;
    private final long idleMs;
    private final Pace pace;
    private final LongSupplier wallMs;
    private final int tasks;
    private final Map<Integer, Partition> partitions = new HashMap<>();
    private final Map<Integer, Long> open = new HashMap<>();
    private final Map<Integer, Long> reached = new HashMap<>();
    private long timeMs = UNKNOWN;
    private boolean isEnding;

    private static final class Partition {
        final long keptMs;
        long newestMs;
        long sinceMs;

        Partition(long newestMs, long keptMs, long sinceMs) {
            this.newestMs = newestMs;
            this.keptMs = keptMs;
            this.sinceMs = sinceMs;
        }
    }

    /** Of so many tasks, as many as a topic has partitions. */
    Clock(int tasks, long disorderMs, long idleMs, Pace pace, LongSupplier wallMs) {
        this.tasks = tasks;
        this.disorderMs = disorderMs;
        this.idleMs = idleMs;
        this.pace = pace;
        this.wallMs = wallMs;
    }

    int tasks() {
        return tasks;
    }

    /** A task of a partition continues from here: from its newest event, and from the time that it has kept. */
    synchronized void join(int partition, long newestMs, long keptMs) {
        partitions.put(partition, new Partition(newestMs, keptMs, wallMs.getAsLong()));
    }

    synchronized void leave(int partition) {
        partitions.remove(partition);
    }

    /** Notes the moment to which an event of a partition moves time; gives the newest one. */
    synchronized long move(int partition, long momentMs) {
        Partition own = partitions.get(partition);
        own.sinceMs = wallMs.getAsLong();
        own.newestMs = Math.max(own.newestMs, momentMs);
        return own.newestMs;
    }

    /** The time now; it never moves back. */
    synchronized long timeMs() {
        if (isEnding) {
            timeMs = END;
        } else if (partitions.size() == tasks) { // one that is not there yet may have older events
            // A task may have kept a time before another had kept the events on which it rests.
            long keptMs = partitions.values().stream().mapToLong(each -> each.keptMs).min().orElse(UNKNOWN);
            timeMs = Math.max(timeMs, Math.max(keptMs, due()));
        }
        return timeMs;
    }

    /** Whether no partition had an event for a while. */
    synchronized boolean isSilent() {
        long nowMs = wallMs.getAsLong();
        return partitions.values().stream().allMatch(each -> nowMs - each.sinceMs > idleMs);
    }

    /** Nothing more comes: all windows close. */
    synchronized void end() {
        isEnding = true;
    }

    /** Notes up to which time a task has closed its windows, and when its last open one closes; null if that is unknown. */
    synchronized void close(int task, long closedMs, Long lastEndMs) {
        reached.put(task, closedMs);
        open.put(task, lastEndMs == null ? UNKNOWN : lastEndMs);
    }

    /** Whether all tasks have closed all windows. */
    synchronized boolean isOver() {
        return reached.size() >= tasks && reached.values().stream().allMatch(each -> each == END);
    }

    private long due() {
        long slowest = Long.MAX_VALUE;
        long newest = UNKNOWN;
        long sinceMs = 0;
        long untilMs = Long.MAX_VALUE;
        for (Map.Entry<Integer, Partition> each : partitions.entrySet()) {
            Partition partition = each.getValue();
            newest = Math.max(newest, partition.newestMs);
            sinceMs = Math.max(sinceMs, partition.sinceMs);
            long atEndUntilMs = pace.atEndUntilMs(each.getKey());
            untilMs = Math.min(untilMs, atEndUntilMs);
            if (atEndUntilMs <= partition.sinceMs + idleMs) {
                slowest = Math.min(slowest, partition.newestMs);
            }
        }
        if (newest == UNKNOWN || slowest == UNKNOWN) {
            return UNKNOWN;
        }
        if (slowest < Long.MAX_VALUE) {
            return slowest - disorderMs;
        }
        long lastEndMs = open.values().stream().mapToLong(each -> each).max().orElse(UNKNOWN);
        return Math.min(newest - disorderMs + untilMs - sinceMs, Math.max(lastEndMs, newest - disorderMs));
    }
}
