package millrace.flink.arrivals;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.apache.flink.connector.base.source.reader.RecordsBySplits;
import org.apache.flink.connector.base.source.reader.RecordsWithSplitIds;
import org.apache.flink.connector.base.source.reader.splitreader.SplitReader;
import org.apache.flink.connector.base.source.reader.splitreader.SplitsChange;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.errors.WakeupException;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;

/**
 * Reads the partitions of one number of all topics as one, in the order of their messages' arrival.
 *
 * <p>A message is handed on when no other topic can still have an earlier one: when each has shown its next message, or
 * has none. Only what is known to lie in Kafka is waited for, never what may yet come: a live message goes straight on.
 */
final class ArrivalReader implements SplitReader<ConsumerRecord<byte[], byte[]>, ArrivalSplit> {
    private static final Duration PATIENCE = Duration.ofSeconds(1); // for messages; then it says how far it has come
    private static final int POLLED_MOST = 2_000;
    private static final long HELD_MOST_BYTES = 4 << 20; // by topic and partition, of which a fetch brings 1 MB at most
    private static final int OVERHEAD_BYTES = 200; // of a message in memory

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final List<String> topics;
    private final AtomicReference<Collection<ArrivalSplit>> dealtWith;
    private final Map<TopicPartition, Queue> queues = new HashMap<>();
    private final Map<String, List<Queue>> splits = new LinkedHashMap<>();
    private volatile long pending;

    /** With the splits of the last complete checkpoint, once there is one. */
    ArrivalReader(
            Properties kafka,
            List<String> topics,
            AtomicReference<Collection<ArrivalSplit>> dealtWith,
            SourceReaderMetricGroup metrics) {
        Properties settings = new Properties();
        settings.putAll(kafka);
        settings.put("enable.auto.commit", "false"); // offsets are in the checkpoints
        settings.put("auto.offset.reset", "earliest"); // of what was deleted before it was read
        settings.put("max.poll.records", String.valueOf(POLLED_MOST));
        this.topics = topics;
        this.dealtWith = dealtWith;
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        metrics.setPendingRecordsGauge(() -> pending);
    }

    @Override
    public void handleSplitsChanges(SplitsChange<ArrivalSplit> change) {
        Map<TopicPartition, Long> starts = new HashMap<>();
        List<TopicPartition> fromBeginning = new ArrayList<>();
        for (ArrivalSplit split : change.splits()) {
            List<Queue> own = new ArrayList<>();
            for (String topic : topics) {
                TopicPartition place = new TopicPartition(topic, split.partition());
                own.add(new Queue(place));
                Long next = split.next().get(topic);
                if (next == null) {
                    fromBeginning.add(place);
                } else {
                    starts.put(place, next);
                }
            }
            own.forEach(queue -> queues.put(queue.place, queue));
            splits.put(split.splitId(), own);
        }
        starts.putAll(patiently(() -> consumer.beginningOffsets(fromBeginning)));
        Set<TopicPartition> all = new HashSet<>(consumer.assignment());
        all.addAll(starts.keySet());
        consumer.assign(all);
        starts.forEach(consumer::seek);
        // What lies there by now is certain to come.
        patiently(() -> consumer.endOffsets(starts.keySet())).forEach((place, end) -> queues.get(place).end = end);
    }

    @Override
    public RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>> fetch() {
        sayHowFar();
        try {
            // To the end of all that Kafka's client has received: the next full batch may hold what arrived before.
            for (Duration patience = PATIENCE; take(consumer.poll(patience)); patience = Duration.ZERO) {}
        } catch (WakeupException stopped) {
            // What has been taken is held.
        }
        Map<String, Collection<ConsumerRecord<byte[], byte[]>>> ordered = new LinkedHashMap<>();
        splits.forEach((split, own) -> {
            List<ConsumerRecord<byte[], byte[]>> released = released(own);
            if (!released.isEmpty()) {
                ordered.put(split, released);
            }
        });
        queues.values().forEach(Queue::resumeIfShort);
        pending = queues.values().stream().mapToLong(Queue::pending).sum();
        return new RecordsBySplits<>(ordered, Set.of());
    }

    @Override
    public void wakeUp() {
        consumer.wakeup();
    }

    @Override
    public void close() {
        consumer.close();
    }

    /** For whoever wants to know, as a consumer group; the job itself goes on from its checkpoints. */
    private void sayHowFar() {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ArrivalSplit split : dealtWith.getAndSet(List.of())) {
            split.next().forEach((topic, next) ->
                    offsets.put(new TopicPartition(topic, split.partition()), new OffsetAndMetadata(next)));
        }
        if (!offsets.isEmpty()) {
            consumer.commitAsync(offsets, null);
        }
    }

    private boolean take(ConsumerRecords<byte[], byte[]> polled) {
        for (TopicPartition place : polled.partitions()) {
            queues.get(place).add(polled.records(place));
        }
        return polled.count() >= POLLED_MOST;
    }

    /** Messages in the order of their arrival, up to the first that may have a predecessor which is not yet here. */
    private static List<ConsumerRecord<byte[], byte[]>> released(List<Queue> queues) {
        List<ConsumerRecord<byte[], byte[]>> released = new ArrayList<>();
        while (true) {
            Queue first = null;
            long firstMs = Long.MAX_VALUE;
            for (Queue queue : queues) {
                ConsumerRecord<byte[], byte[]> head = queue.messages.peek();
                if (head == null) {
                    if (queue.isBehind()) {
                        return released;
                    }
                } else if (first == null || head.timestamp() < firstMs) { // of the same moment, the earlier topic's
                    first = queue;
                    firstMs = head.timestamp();
                }
            }
            if (first == null) {
                return released;
            }
            released.add(first.remove());
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

    /** What has been read of one partition and waits for its turn. */
    private final class Queue {
        final TopicPartition place;
        final ArrayDeque<ConsumerRecord<byte[], byte[]>> messages = new ArrayDeque<>();
        long end; // there were messages up to here when the reading began
        private long bytes;
        private boolean isPaused;

        Queue(TopicPartition place) {
            this.place = place;
        }

        void add(List<ConsumerRecord<byte[], byte[]>> more) {
            for (ConsumerRecord<byte[], byte[]> message : more) {
                messages.add(message);
                bytes += size(message);
            }
            if (bytes > HELD_MOST_BYTES && !isPaused) {
                consumer.pause(List.of(place));
                isPaused = true;
            }
        }

        ConsumerRecord<byte[], byte[]> remove() {
            ConsumerRecord<byte[], byte[]> message = messages.remove();
            bytes -= size(message);
            return message;
        }

        /** Whether Kafka is known to have more. The position, since no message need stand at the last offsets. */
        boolean isBehind() {
            return patiently(() -> consumer.position(place)) < end || consumer.currentLag(place).orElse(0) > 0;
        }

        void resumeIfShort() {
            if (isPaused && bytes < HELD_MOST_BYTES / 2) {
                consumer.resume(List.of(place));
                isPaused = false;
            }
        }

        long pending() {
            return messages.size() + consumer.currentLag(place).orElse(0);
        }

        private int size(ConsumerRecord<byte[], byte[]> message) {
            return OVERHEAD_BYTES + Math.max(0, message.serializedValueSize());
        }
    }
}
