package millrace.flink.arrivals;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.util.FlinkRuntimeException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts the partitions once, when a job starts, and assigns each number to one task.
 *
 * <p>Then it watches the topics' ids: a consumer continues at its offset in a topic that was deleted and created anew.
 * On another id the job is restarted, and its readers find what they lost. It announces to all tasks whether the job is
 * live: see {@link Backlog}; and it sends a task that waits how far the others are: see {@link TaskTime}.
 */
final class ArrivalEnumerator implements SplitEnumerator<ArrivalSplit, ArrivalEnumerator.State> {
    private static final Logger LOG = LoggerFactory.getLogger(ArrivalEnumerator.class);
    private static final long LOOK_EVERY_MS = 10_000;

    private final Topics topics;
    private final SplitEnumeratorContext<ArrivalSplit> context;
    private final State state;
    private final LiveTasks live = new LiveTasks();
    private final TaskTime.Tasks times = new TaskTime.Tasks();
    private boolean isLive;
    private Map<String, String> ids;

    ArrivalEnumerator(Topics topics, SplitEnumeratorContext<ArrivalSplit> context, State state) {
        this.topics = topics;
        this.context = context;
        this.state = state;
    }

    @Override
    public void start() {
        context.callAsync(topics::described, this::found, 0, LOOK_EVERY_MS);
    }

    @Override
    public void handleSplitRequest(int subtask, String host) {
        // Splits are assigned without a request.
    }

    @Override
    public void addSplitsBack(List<ArrivalSplit> splits, int subtask) {
        state.waiting.addAll(splits);
        assign();
    }

    @Override
    public void addReader(int subtask) {
        live.fellBehind(subtask);
        times.forget(subtask);
        announce();
        assign();
    }

    @Override
    public void handleSourceEvent(int subtask, SourceEvent event) {
        if (event instanceof TaskTime.Reported) {
            times.report(subtask, (TaskTime.Reported) event);
            moveThoseThatWait();
            return;
        }
        if (event instanceof Backlog.CaughtUp) {
            live.caughtUp(subtask, ((Backlog.CaughtUp) event).checkpoint());
        } else {
            live.fellBehind(subtask);
        }
        announce();
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
        live.complete(checkpoint);
        announce();
    }

    @Override
    public State snapshotState(long checkpoint) {
        return new State(state.known, state.waiting);
    }

    @Override
    public void close() {
        topics.close();
    }

    private void moveThoseThatWait() {
        long ms = times.ms(context.currentParallelism());
        times.waitingBefore(ms).stream().filter(context.registeredReaders()::containsKey).forEach(
                subtask -> context.sendEventToSourceReader(subtask, new TaskTime.OfOthers(ms)));
    }

    private void announce() {
        boolean was = isLive;
        isLive = live.areAll(context.currentParallelism());
        if (isLive != was) {
            context.registeredReaders().keySet().forEach(
                    subtask -> context.sendEventToSourceReader(subtask, new Backlog.Announced(isLive)));
        }
    }

    private void found(Map<String, Topics.Topic> described, Throwable error) {
        if (ids != null) {
            failOnOthers(described, error);
            return;
        }
        if (error != null) {
            throw new FlinkRuntimeException("the number of partitions is unknown", error);
        }
        for (int partition = 0; partition < partitions(described); partition++) {
            if (state.known.add(partition)) {
                state.waiting.add(new ArrivalSplit(partition, Map.of(), Map.of()));
            }
        }
        ids = ids(described);
        assign();
    }

    private static int partitions(Map<String, Topics.Topic> described) {
        Map<String, Integer> counts = new HashMap<>();
        described.forEach((topic, description) -> counts.put(topic, description.partitions()));
        if (Set.copyOf(counts.values()).size() != 1) {
            throw new FlinkRuntimeException("a key's messages cannot be put in order: these topics must have equally "
                    + "many partitions, and have " + counts);
        }
        return counts.values().iterator().next();
    }

    private static Map<String, String> ids(Map<String, Topics.Topic> described) {
        Map<String, String> ids = new HashMap<>();
        described.forEach((topic, description) -> ids.put(topic, description.id()));
        return ids;
    }

    private void failOnOthers(Map<String, Topics.Topic> described, Throwable error) {
        if (error != null) {
            LOG.warn("whether a topic was created anew is unknown", error);
        } else if (!ids(described).equals(ids)) {
            throw new FlinkRuntimeException(
                    "a topic was deleted and created anew while it was read: ids " + ids + " became " + ids(described));
        }
    }

    private void assign() {
        Map<Integer, List<ArrivalSplit>> assigned = new HashMap<>();
        state.waiting.removeIf(split -> {
            int owner = split.partition() % context.currentParallelism();
            boolean isThere = context.registeredReaders().containsKey(owner);
            if (isThere) {
                assigned.computeIfAbsent(owner, each -> new ArrayList<>()).add(split);
            }
            return isThere;
        });
        if (!assigned.isEmpty()) {
            context.assignSplits(new SplitsAssignment<>(assigned));
        }
        if (ids != null) {
            context.registeredReaders().keySet().stream().filter(subtask -> subtask >= state.known.size()).forEach(
                    subtask -> context.sendEventToSourceReader(subtask, new Backlog.NothingToRead()));
        }
    }

    /** Which partitions were ever handed out, and which wait for their task. */
    static final class State {
        private final Set<Integer> known = new TreeSet<>();
        private final List<ArrivalSplit> waiting = new ArrayList<>();

        State() {}

        private State(Set<Integer> known, List<ArrivalSplit> waiting) {
            this.known.addAll(known);
            this.waiting.addAll(waiting);
        }

        static final class Serializer implements SimpleVersionedSerializer<State> {
            @Override
            public int getVersion() {
                return ArrivalSplit.Serializer.VERSION;
            }

            @Override
            public byte[] serialize(State state) throws IOException {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                DataOutputStream out = new DataOutputStream(bytes);
                out.writeInt(state.known.size());
                for (int partition : state.known) {
                    out.writeInt(partition);
                }
                out.writeInt(state.waiting.size());
                for (ArrivalSplit split : state.waiting) {
                    ArrivalSplit.Serializer.write(split, out);
                }
                return bytes.toByteArray();
            }

            @Override
            public State deserialize(int version, byte[] serialized) throws IOException {
                DataInputStream in = new DataInputStream(new ByteArrayInputStream(serialized));
                State state = new State();
                for (int left = in.readInt(); left > 0; left--) {
                    state.known.add(in.readInt());
                }
                for (int left = in.readInt(); left > 0; left--) {
                    state.waiting.add(ArrivalSplit.Serializer.read(version, in));
                }
                return state;
            }
        }
    }
}
