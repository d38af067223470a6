package millrace.flink.arrivals;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;
import millrace.kernel.ArrivalMerge;
import millrace.kernel.Unasked;
import org.apache.flink.connector.base.source.reader.RecordsWithSplitIds;
import org.apache.flink.connector.base.source.reader.splitreader.SplitReader;
import org.apache.flink.connector.base.source.reader.splitreader.SplitsChange;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.Consumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.Metric;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.PartitionInfo;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.errors.WakeupException;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;

/**
 * Reads all its partitions of all topics as one, in the order of their messages' arrival: see {@link ArrivalMerge}.
 *
 * <p>Within a split the order is what rules mean. Across splits it keeps a backlog's time together: a partition that ran
 * ahead of another would make the other's events late for all who take their time from both.
 */
final class ArrivalReader implements SplitReader<ConsumerRecord<byte[], byte[]>, ArrivalSplit> {
    private static final Duration PATIENCE = Duration.ofSeconds(1); // for messages; then checkpointed offsets are committed
    private static final Duration BRIEFLY = Duration.ofMillis(100); // an answer without messages ends no poll
    private static final long HELD_MOST_BYTES = 4 << 20; // by topic and partition, of which a fetch brings 1 MB at most
    private static final int OVERHEAD_BYTES = 200; // of a message in memory

    private final Consumer<byte[], byte[]> consumer;
    private final List<String> topics;
    private final AtomicReference<Collection<Checkpointed>> checkpointed;
    private final Map<TopicPartition, Reached> reached;
    private final Reading reading;
    private final Unasked<TopicPartition> unasked;
    private final Map<TopicPartition, Partition> partitions = new HashMap<>();
    private final ArrivalMerge<TopicPartition, ConsumerRecord<byte[], byte[]>> merge;
    private volatile long pending;

    /**
     * Commits the splits of the last complete checkpoint, once there is one; updates how far it has polled. The consumer has
     * had so many {@code answers}.
     */
    ArrivalReader(
            Consumer<byte[], byte[]> consumer,
            DoubleSupplier answers,
            List<String> topics,
            AtomicReference<Collection<Checkpointed>> checkpointed,
            Map<TopicPartition, Reached> reached,
            Reading reading,
            SourceReaderMetricGroup metrics) {
        this.topics = topics;
        this.checkpointed = checkpointed;
        this.reached = reached;
        this.reading = reading;
        this.consumer = consumer;
        unasked = new Unasked<>(answers, () -> patiently(() -> brokers(consumer)));
        merge = new ArrivalMerge<>(
                ConsumerRecord::timestamp,
                place -> topics.indexOf(place.topic()),
                place -> partitions.get(place).isBehind());
        metrics.setPendingRecordsGauge(() -> pending);
    }

    /** A consumer that reads committed messages from given offsets, and fails where they were deleted. */
    static Consumer<byte[], byte[]> consumer(Properties kafka) {
        Properties settings = new Properties();
        settings.putAll(kafka);
        settings.put("enable.auto.commit", "false"); // offsets are in the checkpoints
        settings.put("isolation.level", "read_committed"); // an aborted transaction has no messages
        settings.put("auto.offset.reset", "none"); // a person accepts the loss of unread messages
        // A message that stays in the consumer keeps its partition out of the next request.
        settings.put("max.poll.records", String.valueOf(Integer.MAX_VALUE));
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** How many answers a consumer has had to its requests for messages. */
    static DoubleSupplier answers(Consumer<?, ?> consumer) {
        Metric fetches = consumer.metrics().values().stream()
                .filter(each -> each.metricName().name().equals("fetch-total")).findFirst().orElseThrow();
        return () -> (Double) fetches.metricValue();
    }

    /** How many brokers lead the partitions of the topics that a consumer reads. */
    static int brokers(Consumer<?, ?> consumer) {
        return (int) consumer.assignment().stream().map(TopicPartition::topic).distinct()
                .flatMap(topic -> consumer.partitionsFor(topic).stream()).map(PartitionInfo::leader).distinct().count();
    }

    @Override
    public void handleSplitsChanges(SplitsChange<ArrivalSplit> change) {
        Map<TopicPartition, Long> starts = new HashMap<>();
        for (ArrivalSplit split : change.splits()) {
            for (String topic : topics) {
                TopicPartition place = new TopicPartition(topic, split.partition());
                partitions.put(place, new Partition(place, split.splitId()));
                merge.open(place);
                starts.put(place, split.next().get(topic));
            }
        }
        Set<TopicPartition> all = new HashSet<>(consumer.assignment());
        all.addAll(starts.keySet());
        consumer.assign(all);
        starts.forEach(consumer::seek);
        // What lies there by now is certain to come.
        patiently(() -> consumer.endOffsets(starts.keySet())).forEach((place, end) -> partitions.get(place).end = end);
    }

    @Override
    public RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>> fetch() {
        commitCheckpointed();
        try {
            Duration within = partitions.keySet().stream().anyMatch(unasked::has) ? BRIEFLY : PATIENCE;
            take(unasked.poll(() -> consumer.poll(within))); // all that Kafka's client has received
        } catch (WakeupException stopped) {
            // What has been taken is held.
        }
        InTurn released = new InTurn();
        merge.release((place, message) -> released.add(partitions.get(place).released(message), message));
        partitions.values().forEach(Partition::resumeIfShort);
        partitions.forEach((place, partition) -> reached.put(place, partition.reached()));
        pending = partitions.values().stream().mapToLong(Partition::pending).sum();
        reading.released(released.size(), pending == 0 && partitions.values().stream().noneMatch(Partition::isBehind));
        return released;
    }

    @Override
    public void wakeUp() {
        consumer.wakeup();
    }

    @Override
    public void close() {
        consumer.close();
    }

    /** Commits the last checkpoint's offsets for observers of the group; the job resumes from its checkpoints. */
    private void commitCheckpointed() {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (Checkpointed each : checkpointed.getAndSet(List.of())) {
            ArrivalSplit split = each.split();
            for (String topic : topics) {
                TopicPartition place = new TopicPartition(topic, split.partition());
                long next = partitions.get(place).reached().from(split.next().getOrDefault(topic, 0L));
                offsets.put(place, new OffsetAndMetadata(next, each.note()));
            }
        }
        if (!offsets.isEmpty()) {
            consumer.commitAsync(offsets, null);
        }
    }

    private void take(ConsumerRecords<byte[], byte[]> polled) {
        for (TopicPartition place : polled.partitions()) {
            partitions.get(place).add(polled.records(place));
        }
    }

    private static <T> T patiently(Supplier<T> question) {
        while (true) {
            try {
                return question.get();
            } catch (WakeupException early) {
                // Meant for a poll; it is given up once, and the answer is needed.
            }
        }
    }

    /** How far one partition has been read, and how much of it waits for its turn. */
    private final class Partition {
        final TopicPartition place;
        final String split;
        private long seen = -1; // the offset of the newest message
        long end; // there were messages up to here when the reading began
        private long bytes;
        private boolean isPaused;

        Partition(TopicPartition place, String split) {
            this.place = place;
            this.split = split;
        }

        void add(List<ConsumerRecord<byte[], byte[]>> more) {
            merge.add(place, more);
            for (ConsumerRecord<byte[], byte[]> message : more) {
                seen = message.offset();
                bytes += size(message);
            }
            if (bytes > HELD_MOST_BYTES && !isPaused) {
                consumer.pause(List.of(place));
                unasked.pause(place);
                isPaused = true;
            }
        }

        Reached reached() {
            return new Reached(seen, patiently(() -> consumer.position(place)));
        }

        /** Counts a message as no longer held; gives the split that it belongs to. */
        String released(ConsumerRecord<byte[], byte[]> message) {
            bytes -= size(message);
            return split;
        }

        /** Whether more lies in Kafka. By the position, since no message need stand at the last offsets. */
        boolean isBehind() {
            return unasked.has(place) || patiently(() -> consumer.position(place)) < end
                    || consumer.currentLag(place).orElse(0) > 0;
        }

        void resumeIfShort() {
            if (isPaused && bytes < HELD_MOST_BYTES / 2) {
                consumer.resume(List.of(place));
                unasked.resume(place);
                isPaused = false;
            }
        }

        long pending() {
            return merge.held(place) + consumer.currentLag(place).orElse(0);
        }

        private int size(ConsumerRecord<byte[], byte[]> message) {
            return OVERHEAD_BYTES + Math.max(0, message.serializedValueSize());
        }
    }

    /** Messages of several splits in one order: a split has its turn again and again. */
    private static final class InTurn implements RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>> {
        private record Message(String split, ConsumerRecord<byte[], byte[]> content) {}

        private final ArrayDeque<Message> messages = new ArrayDeque<>();
        private String turn;

        int size() {
            return messages.size();
        }

        void add(String split, ConsumerRecord<byte[], byte[]> content) {
            messages.add(new Message(split, content));
        }

        @Override
        public String nextSplit() {
            turn = messages.isEmpty() ? null : messages.element().split;
            return turn;
        }

        @Override
        public ConsumerRecord<byte[], byte[]> nextRecordFromSplit() {
            boolean isItsTurn = !messages.isEmpty() && messages.element().split.equals(turn);
            return isItsTurn ? messages.remove().content : null;
        }

        @Override
        public Set<String> finishedSplits() {
            return Set.of();
        }
    }
}
