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
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.AdminClient;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.TopicDescription;
import org.apache.flink.util.FlinkRuntimeException;

/** Finds out once, when a job starts, how many partitions there are, and hands each number to one task. */
final class ArrivalEnumerator implements SplitEnumerator<ArrivalSplit, ArrivalEnumerator.State> {
    private static final int ANSWER_WITHIN_S = 60;

    private final Properties kafka;
    private final List<String> topics;
    private final SplitEnumeratorContext<ArrivalSplit> context;
    private final State state;

    ArrivalEnumerator(
            Properties kafka, List<String> topics, SplitEnumeratorContext<ArrivalSplit> context, State state) {
        this.kafka = kafka;
        this.topics = topics;
        this.context = context;
        this.state = state;
    }

    @Override
    public void start() {
        context.callAsync(this::partitions, this::found);
    }

    @Override
    public void handleSplitRequest(int subtask, String host) {
        // Nobody needs to ask.
    }

    @Override
    public void addSplitsBack(List<ArrivalSplit> splits, int subtask) {
        state.waiting.addAll(splits);
        assign();
    }

    @Override
    public void addReader(int subtask) {
        assign();
    }

    @Override
    public State snapshotState(long checkpoint) {
        return new State(state.known, state.waiting);
    }

    @Override
    public void close() {}

    private int partitions() throws Exception {
        try (AdminClient admin = AdminClient.create(kafka)) {
            Map<String, TopicDescription> described =
                    admin.describeTopics(topics).allTopicNames().get(ANSWER_WITHIN_S, TimeUnit.SECONDS);
            Map<String, Integer> counts = new HashMap<>();
            described.forEach((topic, description) -> counts.put(topic, description.partitions().size()));
            if (Set.copyOf(counts.values()).size() != 1) {
                throw new IOException("a key's messages cannot be put in order: these topics must have equally many "
                        + "partitions, and have " + counts);
            }
            return counts.values().iterator().next();
        }
    }

    private void found(Integer partitions, Throwable error) {
        if (error != null) {
            throw new FlinkRuntimeException("the partitions of " + topics + " could not be found out", error);
        }
        for (int partition = 0; partition < partitions; partition++) {
            if (state.known.add(partition)) {
                state.waiting.add(new ArrivalSplit(partition, Map.of()));
            }
        }
        assign();
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
                return 1;
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
                    state.waiting.add(ArrivalSplit.Serializer.read(in));
                }
                return state;
            }
        }
    }
}
