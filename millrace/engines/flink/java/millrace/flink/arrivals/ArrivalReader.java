package millrace.flink.arrivals;

import static java.util.Comparator.comparingLong;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
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
 * Reads all its partitions of all topics as one, in the order of their messages' arrival.
 *
 * <p>A message is handed on when no other partition can still have an earlier one: when each has shown its next message,
 * or has none. Only what is known to lie in Kafka is waited for, never what may yet come: a live message goes straight
 * on. Within a split the order is what rules mean. Across splits it keeps a backlog's time together: a partition that
 * ran ahead of another would make the other's events late for whoever takes their time from all.
 */
final class ArrivalReader implements SplitReader<ConsumerRecord<byte[], byte[]>, ArrivalSplit> {
    private static final Duration PATIENCE = Duration.ofSeconds(1); // for messages; then it says how far it has come
    private static final int POLLED_MOST = 2_000;
    private static final long HELD_MOST_BYTES = 4 << 20; // by topic and partition, of which a fetch brings 1 MB at most
    private static final int OVERHEAD_BYTES = 200; // of a message in memory

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final List<String> topics;
    private final AtomicReference<Collection<ArrivalSplit>> dealtWith;
    private final Map<TopicPartition, Reached> reached;
    private final Map<TopicPartition, Queue> queues = new HashMap<>();
    private volatile long pending;

    /** With the splits of the last complete checkpoint, once there is one; it keeps up how far it has polled. */
    ArrivalReader(
            Properties kafka,
            List<String> topics,
            AtomicReference<Collection<ArrivalSplit>> dealtWith,
            Map<TopicPartition, Reached> reached,
            SourceReaderMetricGroup metrics) {
        Properties settings = new Properties();
        settings.putAll(kafka);
        settings.put("enable.auto.commit", "false"); // offsets are in the checkpoints
        settings.put("isolation.level", "read_committed"); // what a transaction took back was never said
        settings.put("auto.offset.reset", "none"); // what was deleted before it was read is for a person to give up
        settings.put("max.poll.records", String.valueOf(POLLED_MOST));
        this.topics = topics;
        this.dealtWith = dealtWith;
        this.reached = reached;
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        metrics.setPendingRecordsGauge(() -> pending);
    }

    @Override
    public void handleSplitsChanges(SplitsChange<ArrivalSplit> change) {
        Map<TopicPartition, Long> starts = new HashMap<>();
        for (ArrivalSplit split : change.splits()) {
            for (String topic : topics) {
                TopicPartition place = new TopicPartition(topic, split.partition());
                queues.put(place, new Queue(place, split.splitId()));
                starts.put(place, split.next().get(topic));
            }
        }
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
        InTurn released = released();
        queues.values().forEach(Queue::resumeIfShort);
        queues.forEach((place, queue) -> reached.put(place, queue.reached()));
        pending = queues.values().stream().mapToLong(Queue::pending).sum();
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

    /** For whoever wants to know, as a consumer group; the job itself goes on from its checkpoints. */
    private void sayHowFar() {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ArrivalSplit split : dealtWith.getAndSet(List.of())) {
            for (String topic : topics) {
                Queue queue = queues.get(new TopicPartition(topic, split.partition()));
                long next = queue.reached().from(split.next().getOrDefault(topic, 0L));
                if (next > 0) {
                    offsets.put(queue.place, new OffsetAndMetadata(next));
                }
            }
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
    private InTurn released() {
        InTurn released = new InTurn();
        PriorityQueue<Queue> heads = new PriorityQueue<>(
                comparingLong(Queue::headMs).thenComparingInt(queue -> topics.indexOf(queue.place.topic())));
        for (Queue queue : queues.values()) {
            if (!queue.messages.isEmpty()) {
                heads.add(queue);
            } else if (queue.isBehind()) {
                return released;
            }
        }
        while (!heads.isEmpty()) {
            Queue first = heads.remove(); // of the same moment, the earlier topic's
            released.add(first.split, first.remove());
            if (!first.messages.isEmpty()) {
                heads.add(first);
            } else if (first.isBehind()) {
                break;
            }
        }
        return released;
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
        final String split;
        final ArrayDeque<ConsumerRecord<byte[], byte[]>> messages = new ArrayDeque<>();
        private long seen = -1; // the offset of the newest message
        long end; // there were messages up to here when the reading began
        private long bytes;
        private boolean isPaused;

        Queue(TopicPartition place, String split) {
            this.place = place;
            this.split = split;
        }

        void add(List<ConsumerRecord<byte[], byte[]>> more) {
            for (ConsumerRecord<byte[], byte[]> message : more) {
                messages.add(message);
                seen = message.offset();
                bytes += size(message);
            }
            if (bytes > HELD_MOST_BYTES && !isPaused) {
                consumer.pause(List.of(place));
                isPaused = true;
            }
        }

        Reached reached() {
            return new Reached(seen, patiently(() -> consumer.position(place)));
        }

        long headMs() {
            return messages.element().timestamp();
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

    /** Messages of several splits in one order: a split has its turn again and again. */
    private static final class InTurn implements RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>> {
        private record Message(String split, ConsumerRecord<byte[], byte[]> content) {}

        private final ArrayDeque<Message> messages = new ArrayDeque<>();
        private String turn;

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
