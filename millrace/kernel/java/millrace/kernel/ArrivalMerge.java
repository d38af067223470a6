package millrace.kernel;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import java.util.function.ToIntFunction;
import java.util.function.ToLongFunction;

/**
 * Merges the messages of several partitions into one sequence, in the order of their arrival.
 *
 * <p>A message is released when no partition can still have an earlier one: each holds its next message, or is not
 * behind. Only what is known to lie in a partition is waited for, so a live message is released at once. The order
 * within a partition is kept, whatever its times.
 *
 * @param <P> a partition
 * @param <M> a message
 */
public final class ArrivalMerge<P, M> {
    private final Map<P, ArrayDeque<M>> held = new LinkedHashMap<>();
    private final ToLongFunction<M> arrivedMs;
    private final ToIntFunction<P> rank;
    private final Predicate<P> isBehind;

    /** Of the same millisecond, the partition of the lower rank comes first; one that is behind has more to be read. */
    public ArrivalMerge(ToLongFunction<M> arrivedMs, ToIntFunction<P> rank, Predicate<P> isBehind) {
        this.arrivedMs = arrivedMs;
        this.rank = rank;
        this.isBehind = isBehind;
    }

    /** Merges this partition, too; nothing of it is held yet. */
    public void open(P partition) {
        held.put(partition, new ArrayDeque<>());
    }

    /** Takes in the next messages of a partition. */
    public void add(P partition, Collection<M> messages) {
        held.get(partition).addAll(messages);
    }

    /** How many messages of a partition wait for their turn. */
    public int held(P partition) {
        return held.get(partition).size();
    }

    /** Hands on all messages whose turn it is. */
    public void release(BiConsumer<P, M> to) {
        PriorityQueue<Head<P, M>> heads = new PriorityQueue<>(Head.ORDER);
        for (Map.Entry<P, ArrayDeque<M>> each : held.entrySet()) {
            if (!each.getValue().isEmpty()) {
                heads.add(head(each.getKey(), each.getValue()));
            } else if (isBehind.test(each.getKey())) {
                return;
            }
        }
        while (!heads.isEmpty()) {
            Head<P, M> first = heads.remove();
            to.accept(first.partition, first.messages.remove());
            if (!first.messages.isEmpty()) {
                heads.add(head(first.partition, first.messages));
            } else if (isBehind.test(first.partition)) {
                return;
            }
        }
    }

    private Head<P, M> head(P partition, ArrayDeque<M> messages) {
        return new Head<>(arrivedMs.applyAsLong(messages.element()), rank.applyAsInt(partition), partition, messages);
    }

    /** A partition by the arrival of its next message. */
    private record Head<P, M>(long arrivedMs, int rank, P partition, ArrayDeque<M> messages) {
        static final Comparator<Head<?, ?>> ORDER =
                Comparator.<Head<?, ?>>comparingLong(Head::arrivedMs).thenComparingInt(Head::rank);
    }
}
