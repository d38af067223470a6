package millrace.flink.arrivals;

import java.util.HashMap;
import java.util.Map;

/** Which tasks of a job have caught up, as far as complete checkpoints cover it. */
final class LiveTasks {
    private final Map<Integer, Long> caughtUp = new HashMap<>();
    private long complete = Backlog.CaughtUp.AT_START;

    void caughtUp(int task, long checkpoint) {
        // The earliest report since it was behind counts: a later one waits for a later checkpoint.
        caughtUp.putIfAbsent(task, checkpoint);
    }

    void fellBehind(int task) {
        caughtUp.remove(task);
    }

    void complete(long checkpoint) {
        complete = Math.max(complete, checkpoint);
    }

    /** Whether all of so many tasks have caught up, and all that they handed on before is written. */
    boolean areAll(int tasks) {
        return caughtUp.size() == tasks && caughtUp.values().stream().allMatch(checkpoint -> checkpoint <= complete);
    }
}
