package millrace.kernel;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;

/**
 * Partitions that a consumer of Kafka did not ask for while it asked for others: what it knows of their ends is old, and
 * there may be messages that are older than those it has read of the others.
 *
 * <p>It asks for no partition that is paused. A request may be on its way when one is resumed; the next one covers it. An
 * answer counts once its messages are taken: it lies in the consumer until a poll.
 *
 * @param <P> a partition
 */
public final class Unasked<P> {
    private static final int COVERED_AFTER = 2;

    private final DoubleSupplier answers;
    private final Map<P, Double> since = new HashMap<>();
    private double taken;

    /** With the number of answers that the consumer has had. */
    public Unasked(DoubleSupplier answers) {
        this.answers = answers;
    }

    /** Polls the consumer. A poll takes all answers from before it, unless it fails; others come at any time. */
    public <T> T poll(Supplier<T> consumer) {
        double before = answers.getAsDouble();
        T polled = consumer.get();
        taken = before;
        return polled;
    }

    public void pause(P partition) {
        since.put(partition, Double.POSITIVE_INFINITY);
    }

    public void resume(P partition) {
        since.computeIfPresent(partition, (each, paused) -> paused.isInfinite() ? answers.getAsDouble() : paused);
    }

    /** Forgets the partitions that others read now. */
    public void retain(Set<P> partitions) {
        since.keySet().retainAll(partitions);
    }

    /** Whether no answer has been taken yet to a request that covers a partition. */
    public boolean has(P partition) {
        Double resumed = since.get(partition);
        if (resumed == null) {
            return false;
        }
        boolean isCovered = taken >= resumed + COVERED_AFTER;
        if (isCovered) {
            since.remove(partition);
        }
        return !isCovered;
    }
}
