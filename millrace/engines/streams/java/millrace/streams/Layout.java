package millrace.streams;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.kafka.Job;
import millrace.kafka.Pace;
import millrace.kernel.ReferenceTable;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * The topology of a job. Names of nodes and stores are those of topics that outlive a job: a changelog is
 * {@code <pattern>-<store>-changelog}. They stay.
 */
final class Layout {
    static final String MEMORY = "memory";
    static final String WINDOWS = "windows";
    static final String DEALT = "to-dealt";
    static final String BACKLOG = "backlog";
    private static final String RAW = "raw";
    private static final String JUDGE = "judge";
    private static final String REFERENCES = "references";
    private static final String REFUSE = "refuse";

    private static final String DEAL = "dealt";
    private static final String CLOSE = "close";
    private static final byte TIME = 'T';

    private Layout() {}

    static Topology of(Job job, Map<String, ReferenceTable> references, Pace pace, Clock clock) {
        Topology topology = new Topology();
        events(topology, job, references, pace, clock);
        if (job.windows() != null) {
            windows(topology, job, clock);
        }
        return topology;
    }

    static String sinkOfWindows(String kind) {
        return sink(kind) + "-of-windows";
    }

    /** The topic through which events come to the tasks of their windows. */
    static String dealt(String pattern) {
        return pattern + "-dealt";
    }

    /** The key of a message with the time that one task has reached; it goes to all tasks of windows. */
    static byte[] timeKey(int partition) {
        return ByteBuffer.allocate(1 + Integer.BYTES).put(TIME).putInt(partition).array();
    }

    static boolean isTime(byte[] key) {
        return key[0] == TIME;
    }

    static int partitionOf(byte[] timeKey) {
        return ByteBuffer.wrap(timeKey).getInt(1);
    }

    static String sink(String kind) {
        return "to-" + kind;
    }

    static String changelog(String pattern, String store) {
        return pattern + "-" + store + "-changelog";
    }

    /** When a message arrived, of its time among those of a task. */
    static long arrivedMs(long time) {
        return time >> 1;
    }

    private static void events(
            Topology topology, Job job, Map<String, ReferenceTable> references, Pace pace, Clock clock) {
        List<String> raw = job.rawTopics();
        topology.addSource(AutoOffsetReset.none(), RAW, arrivals(job.topic(job.judged())), new ByteArrayDeserializer(),
                new ByteArrayDeserializer(), raw.toArray(String[]::new));
        topology.addProcessor(JUDGE, () -> new Judge(job, references, pace, clock), RAW);
        topology.addStateStore(memory(), JUDGE);
        for (String kind : List.of(job.enriched(), "alerts", "dead-letters")) {
            topology.addSink(
                    sink(kind), job.topic(kind), new ByteArraySerializer(), new ByteArraySerializer(), JUDGE);
        }
        if (job.windows() != null) {
            topology.addSink(DEALT, dealt(job.pattern()), new ByteArraySerializer(), new ByteArraySerializer(),
                    Layout::partitions, JUDGE);
        }
        if (!job.references().isEmpty()) {
            // A part of its own, with other numbers of partitions.
            topology.addSource(AutoOffsetReset.earliest(), REFERENCES, new ByteArrayDeserializer(),
                    new ByteArrayDeserializer(),
                    job.references().stream().map(each -> job.topic(each.kind())).toArray(String[]::new));
            topology.addProcessor(REFUSE, () -> new Refuse(job), REFERENCES);
            topology.addSink(sink(REFERENCES), job.topic("dead-letters"), new ByteArraySerializer(),
                    new ByteArraySerializer(), REFUSE);
        }
    }

    private static void windows(Topology topology, Job job, Clock clock) {
        topology.addSource(AutoOffsetReset.earliest(), DEAL, new ByteArrayDeserializer(), new ByteArrayDeserializer(),
                dealt(job.pattern()));
        topology.addProcessor(CLOSE, () -> new Close(job, clock), DEAL);
        // Not cached: puts stay in their order.
        topology.addStateStore(Stores.keyValueStoreBuilder(
                        Stores.persistentKeyValueStore(WINDOWS), Serdes.Bytes(), Serdes.ByteArray())
                .withCachingDisabled()
                .withLoggingEnabled(Map.of()), CLOSE);
        for (String kind : List.of("alerts", "windows")) {
            topology.addSink(sinkOfWindows(kind), job.topic(kind), new ByteArraySerializer(),
                    new ByteArraySerializer(), CLOSE);
        }
    }

    private static Optional<Set<Integer>> partitions(String topic, byte[] key, byte[] value, int partitions) {
        if (!isTime(key)) {
            return Optional.of(Set.of(Utils.toPositive(Utils.murmur2(key)) % partitions));
        }
        return Optional.of(IntStream.range(0, partitions).boxed().collect(Collectors.toSet()));
    }

    /**
     * A task takes the message with the least time of all its topics, and waits for what is known to lie in Kafka. Of
     * the same millisecond, side streams come before the judged event.
     */
    private static TimestampExtractor arrivals(String judged) {
        return (ConsumerRecord<Object, Object> message, long partitionTime) ->
                message.timestamp() << 1 | (message.topic().equals(judged) ? 1 : 0);
    }

    private static StoreBuilder<KeyValueStore<Bytes, byte[]>> memory() {
        // Cached: what changes between two commits goes to the changelog once, in the order of the last changes.
        return Stores.keyValueStoreBuilder(
                        Stores.persistentKeyValueStore(MEMORY), Serdes.Bytes(), Serdes.ByteArray())
                .withCachingEnabled()
                .withLoggingEnabled(Map.of());
    }
}
