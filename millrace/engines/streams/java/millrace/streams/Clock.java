package millrace.streams;

import java.util.HashMap;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import millrace.kafka.Pace;

/**
 * The event time of a job, which all its tasks share: no event before it is still to come, or it is late.
 *
 * <p>Each partition has moved it to its own newest event, less the disorder, and the slowest one counts. One that is known
 * to have had no event for a while holds back as much as that is long ago: what has come since then is not read. While all
 * are silent, time moves with the wall clock, as far as they are known to be, until no window is open.
 *
 * <p>Of the partitions that other processes read it knows what these have committed, which is older and never beyond what
 * they have read. No process depends on the time of another: each task keeps what it has sent, and the least of all tasks
 * closes windows.
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
    private Map<Integer, Note> others = Map.of();
    private Map<Integer, Long> openElsewhere = Map.of();
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

    /** How far a partition has come: its newest moment, since when, and until when it is known to have no more. */
    record Note(long newestMs, long sinceMs, long atEndUntilMs) {}

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
        // The time until now may rest on what another process has read of it, and not kept. What a task has sent it keeps.
        timeMs = UNKNOWN;
    }

    /** Notes what all processes have committed: how far each partition has come, and when each task's last window closes. */
    synchronized void hear(Map<Integer, Note> notes, Map<Integer, Long> lastEnds) {
        others = Map.copyOf(notes);
        openElsewhere = Map.copyOf(lastEnds);
    }

    /** How far each of these partitions has come, as it is to be committed. */
    synchronized Map<Integer, Note> notes() {
        Map<Integer, Note> notes = new HashMap<>();
        partitions.keySet().forEach(number -> notes.put(number, note(number)));
        return notes;
    }

    /** When the last window of each task here closes, as it is to be committed; the least where it is unknown. */
    synchronized Map<Integer, Long> lastEnds() {
        return Map.copyOf(open);
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
        } else if (areAllThere()) { // one that is not there yet may have older events
            // A task may have kept a time before another had kept the events on which it rests.
            long keptMs = partitions.values().stream().mapToLong(each -> each.keptMs).min().orElse(UNKNOWN);
            timeMs = Math.max(timeMs, Math.max(keptMs, due()));
        }
        return timeMs;
    }

    /** Whether no partition had an event for a while. */
    synchronized boolean isSilent() {
        long nowMs = wallMs.getAsLong();
        return areAllThere()
                && IntStream.range(0, tasks).allMatch(number -> nowMs - note(number).sinceMs > idleMs);
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

    private boolean areAllThere() {
        return partitions.size() == tasks
                || IntStream.range(0, tasks).allMatch(each -> partitions.containsKey(each) || others.containsKey(each));
    }

    private Note note(int number) {
        Partition own = partitions.get(number);
        return own == null ? others.get(number) : new Note(own.newestMs, own.sinceMs, pace.atEndUntilMs(number));
    }

    private long due() {
        long slowest = Long.MAX_VALUE;
        long newest = UNKNOWN;
        long sinceMs = 0;
        long untilMs = Long.MAX_VALUE;
        long unknownMs = 0;
        long nowMs = wallMs.getAsLong();
        for (int number = 0; number < tasks; number++) {
            Note each = note(number);
            newest = Math.max(newest, each.newestMs);
            sinceMs = Math.max(sinceMs, each.sinceMs);
            untilMs = Math.min(untilMs, each.atEndUntilMs);
            if (each.atEndUntilMs <= each.sinceMs + idleMs) {
                slowest = Math.min(slowest, each.newestMs);
            } else if (partitions.containsKey(number)) { // another process has another clock
                unknownMs = Math.max(unknownMs, nowMs - each.atEndUntilMs);
            }
        }
        if (newest == UNKNOWN || slowest == UNKNOWN) {
            return UNKNOWN;
        }
        if (slowest < Long.MAX_VALUE) {
            return Math.min(slowest, newest - unknownMs) - disorderMs;
        }
        long lastEndMs = Stream.concat(open.values().stream(), openElsewhere.values().stream())
                .mapToLong(each -> each).max().orElse(UNKNOWN);
        return Math.min(newest - disorderMs + untilMs - sinceMs, Math.max(lastEndMs, newest - disorderMs));
    }
}
