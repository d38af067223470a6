package millrace.flink.arrivals;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.connector.source.SourceEvent;

/**
 * The time of one task, as its partitions have moved it; while none of them does, the time of the other tasks.
 *
 * <p>For Flink no task is ever idle. The end of idleness reaches its operators at different moments, and the first one that
 * it reaches moves the time of a window, while the events of a slower one are still on their way: they would be dropped,
 * and reported nowhere. So the coordinator sends a task that waits how far the others are, and the task repeats that as its
 * own time.
 */
final class TaskTime implements Serializable {
    /** The time of a task, and whether none of its partitions moves it. */
    record Reported(long ms, boolean waits) implements SourceEvent {}

    /** The time through which no task that moves time has any event to come. */
    record OfOthers(long ms) implements SourceEvent {}

    private static final long serialVersionUID = 1L;
    private static final long REPORT_EVERY_NS = 100_000_000;
    private static final long NONE = Long.MIN_VALUE;

    private transient List<Partition> partitions;
    private transient Consumer<SourceEvent> coordinator;
    private transient LongSupplier clock;
    private transient Reported reported;
    private transient long reportedNs;
    private transient OfOthers others;

    /** Begins to report: a task that is alone has nobody to wait for. */
    void start(Consumer<SourceEvent> coordinator, LongSupplier clock) {
        this.coordinator = coordinator;
        this.clock = clock;
    }

    /** Whether there is a partition, or the task's own part. */
    boolean isOpen() {
        return partitions != null;
    }

    /** One more partition, which moves time from now on. */
    Partition open() {
        if (partitions == null) {
            partitions = new ArrayList<>();
        }
        Partition opened = new Partition();
        partitions.add(opened);
        return opened;
    }

    /** Notes what the coordinator has sent. */
    void received(OfOthers newest) {
        others = newest;
    }

    /** Moves a partition that rests to where the other tasks are. */
    void follow(WatermarkOutput output) {
        if (others != null) {
            output.emitWatermark(new Watermark(others.ms));
        }
    }

    /** Reports what has changed, now and then. */
    void report() {
        if (coordinator == null) {
            return;
        }
        long nowNs = clock.getAsLong();
        Reported now = now();
        if (!now.equals(reported) && (reported == null || nowNs - reportedNs >= REPORT_EVERY_NS)) {
            reported = now;
            reportedNs = nowNs;
            coordinator.accept(now);
        }
    }

    private Reported now() {
        long least = Long.MAX_VALUE;
        long newest = NONE;
        boolean waits = true;
        for (Partition each : partitions) {
            newest = Math.max(newest, each.ms);
            if (!each.rests) {
                waits = false;
                least = Math.min(least, each.ms);
            }
        }
        return new Reported(waits ? newest : least, waits);
    }

    /** The time of one partition. */
    static final class Partition {
        private long ms = NONE;
        private boolean rests;

        private Partition() {}

        void reached(long ms) {
            this.ms = Math.max(this.ms, ms);
        }

        void move() {
            rests = false;
        }

        void rest() {
            rests = true;
        }

        boolean rests() {
            return rests;
        }
    }

    /** The times of all tasks of a job, for its coordinator. */
    static final class Tasks {
        private final Map<Integer, Reported> reported = new HashMap<>();

        void report(int task, Reported report) {
            reported.put(task, report);
        }

        void forget(int task) {
            reported.remove(task);
        }

        /** The least time of so many tasks, of which those that wait do not count; the newest if all of them wait. */
        long ms(int tasks) {
            if (reported.size() < tasks) {
                return NONE;
            }
            return reported.values().stream().filter(each -> !each.waits).mapToLong(Reported::ms).min().orElseGet(
                    () -> reported.values().stream().mapToLong(Reported::ms).max().orElse(NONE));
        }

        /** The tasks that wait, and have not come to this time. */
        List<Integer> waitingBefore(long ms) {
            return reported.entrySet().stream().filter(each -> each.getValue().waits && each.getValue().ms < ms)
                    .map(Map.Entry::getKey).toList();
        }
    }
}
