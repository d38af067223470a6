package millrace.flink.arrivals;

import java.util.function.Consumer;
import org.apache.flink.api.connector.source.SourceEvent;

/**
 * Whether the messages of one task belong to a backlog: they are old when they are handed on, or another task of the job
 * has not caught up yet.
 *
 * <p>A task reports to the coordinator when it has caught up and when it falls behind; the coordinator announces to all
 * tasks whether the job is live.
 */
final class Backlog {
    /** A task has caught up; all that it handed on before is written once that checkpoint is complete. */
    record CaughtUp(long checkpoint) implements SourceEvent {
        /** Of a task that found no backlog when it started: nothing remains to be written. */
        static final long AT_START = 0;
    }

    /** A task that had caught up no longer keeps up. */
    record FellBehind() implements SourceEvent {}

    /** No partition is this task's: there are more tasks than partitions. */
    record NothingToRead() implements SourceEvent {}

    /** All tasks of the job have caught up, or one of them has not. */
    record Announced(boolean isLive) implements SourceEvent {}

    private final Reading reading;
    private final Consumer<SourceEvent> coordinator;
    private boolean isJobLive;
    private boolean isReported;
    private boolean hasBeenBehind;

    Backlog(Reading reading, Consumer<SourceEvent> coordinator) {
        this.reading = reading;
        this.coordinator = coordinator;
    }

    /** Counts a message as handed on; gives whether it belongs to a backlog. */
    boolean holds(long arrivedMs, long nowMs) {
        if (!reading.handOn(arrivedMs, nowMs)) {
            fallBehind();
            return true;
        }
        return !isJobLive;
    }

    /** Reports a task that has found no backlog since its start. */
    void look() {
        if (!isReported && !hasBeenBehind && reading.isAtEnd()) {
            isReported = true;
            coordinator.accept(new CaughtUp(CaughtUp.AT_START));
        }
    }

    /** Reports how the task is at a checkpoint; gives whether it keeps up. */
    boolean isLiveAt(long checkpoint) {
        boolean isLive = reading.isLive();
        if (!isLive) {
            fallBehind();
        } else if (!isReported) {
            isReported = true;
            coordinator.accept(new CaughtUp(checkpoint));
        }
        return isLive;
    }

    /** A task without a partition never fetches, and would hold back the time of all others. */
    void nothingToRead() {
        reading.released(0, true);
        look();
    }

    void announced(Announced announced) {
        isJobLive = announced.isLive;
    }

    private void fallBehind() {
        hasBeenBehind = true;
        if (isReported) {
            isReported = false;
            isJobLive = false;
            coordinator.accept(new FellBehind());
        }
    }
}
