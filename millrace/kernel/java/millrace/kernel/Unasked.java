package millrace.kernel;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.DoubleSupplier;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * Partitions that a consumer of Kafka did not ask for while it asked for others: what it knows of their ends is old, and
 * there may be messages that are older than those it has read of the others.
 *
 * <p>It asks for no partition that is paused. A request may be on its way when one is resumed; the next one covers it. An
 * answer counts once its messages are taken: it lies in the consumer until a poll. Of several brokers, one may answer again
 * and again while another one, which has the partition, holds back the request that was on its way.
 *
 * @param <P> a partition
 */
public final class Unasked<P> {
    private static final int COVERED_AFTER = 2;
    private static final long COVERED_AFTER_NS = 1_000_000_000; // a request is held back for half of it: fetch.max.wait.ms
    private static final Count NEVER = new Count(Double.POSITIVE_INFINITY, 0);

    private final DoubleSupplier answers;
    private final IntSupplier brokers;
    private final LongSupplier clock;
    private final Map<P, Count> coveredFrom = new HashMap<>();
    private Count taken;

    /** How many answers there were at a time. */
    private record Count(double answers, long ns) {}

    /** With the number of answers that the consumer has had, and of the brokers that have what it reads. */
    public Unasked(DoubleSupplier answers, IntSupplier brokers) {
        this(answers, brokers, System::nanoTime);
    }

    Unasked(DoubleSupplier answers, IntSupplier brokers, LongSupplier clock) {
        this.answers = answers;
        this.brokers = brokers;
        this.clock = clock;
        taken = now();
    }

    /** Polls the consumer. A poll takes all answers from before it, unless it fails; others come at any time. */
    public <T> T poll(Supplier<T> consumer) {
        Count before = now();
        T polled = consumer.get();
        taken = before;
        return polled;
    }

    public void pause(P partition) {
        coveredFrom.put(partition, NEVER);
    }

    public void resume(P partition) {
        coveredFrom.computeIfPresent(partition, (each, from) -> from == NEVER ? next() : from);
    }

    /** Forgets the partitions that others read now. */
    public void retain(Set<P> partitions) {
        coveredFrom.keySet().retainAll(partitions);
    }

    /** Whether no answer has been taken yet to a request that covers a partition. */
    public boolean has(P partition) {
        Count from = coveredFrom.get(partition);
        if (from == null) {
            return false;
        }
        boolean isCovered = taken.answers >= from.answers && taken.ns - from.ns >= 0;
        if (isCovered) {
            coveredFrom.remove(partition);
        }
        return !isCovered;
    }

    private Count now() {
        return new Count(answers.getAsDouble(), clock.getAsLong());
    }

    private Count next() {
        Count now = now();
        return new Count(now.answers + COVERED_AFTER, brokers.getAsInt() > 1 ? now.ns + COVERED_AFTER_NS : now.ns);
    }
}
