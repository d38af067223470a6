package millrace.streams;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import millrace.kafka.Answers;
import millrace.kafka.Pace;
import millrace.kernel.Unasked;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaClientSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The clients of a job: they report to its {@link Pace} how far it has come, and commit its notes. */
final class Clients implements KafkaClientSupplier {
    private static final Logger LOG = LoggerFactory.getLogger(Clients.class);

    private final Pace pace;
    private final Set<String> raw;
    private final Predicate<ProducerRecord<byte[], byte[]>> waits;
    private final Supplier<Map<TopicPartition, Map<String, Object>>> more;
    private final boolean isShared;
    private final LongSupplier steadyMs;

    /**
     * {@code waits} gives whether a message must not be written before all messages that were sent earlier; {@code more}
     * is noted beside what the pace notes. Where other processes follow the notes ({@code isShared}), they are fresh.
     * {@code steadyMs} is the clock of {@link Clock}.
     */
    Clients(Pace pace, List<String> raw, Predicate<ProducerRecord<byte[], byte[]>> waits,
            Supplier<Map<TopicPartition, Map<String, Object>>> more, boolean isShared, LongSupplier steadyMs) {
        this.pace = pace;
        this.more = more;
        this.isShared = isShared;
        this.steadyMs = steadyMs;
        this.raw = Set.copyOf(raw);
        this.waits = waits;
    }

    @Override
    public Admin getAdmin(Map<String, Object> config) {
        return Admin.create(config);
    }

    @Override
    public Consumer<byte[], byte[]> getConsumer(Map<String, Object> config) {
        return new Reader(config);
    }

    @Override
    public Consumer<byte[], byte[]> getRestoreConsumer(Map<String, Object> config) {
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Consumer<byte[], byte[]> getGlobalConsumer(Map<String, Object> config) {
        return getRestoreConsumer(config);
    }

    @Override
    public Producer<byte[], byte[]> getProducer(Map<String, Object> config) {
        return new Writer(config);
    }

    private static String thread(Map<String, Object> config) {
        return String.valueOf(config.get("client.id")).replaceFirst("-(consumer|producer)$", "");
    }

    /**
     * Until when it is known what came: of two answers, the second was asked for after the first. With the time before a
     * poll, and how many had come by then: those are taken.
     */
    static final class Known {
        private double counted;
        private long countedMs = Long.MIN_VALUE;
        private long knownMs = Long.MIN_VALUE;

        long until(double answers, long nowMs) {
            if (answers >= counted + 2) {
                knownMs = countedMs;
                counted = answers;
                countedMs = nowMs;
            }
            return knownMs;
        }
    }

    private final class Reader extends KafkaConsumer<byte[], byte[]> {
        private static final long NOTE_EVERY_MS = 500;
        private static final Duration NOTE_WITHIN = Duration.ofSeconds(1);

        private final String thread;
        private long notedAtMs;
        private final Answers answers = new Answers(this);
        private final Known known = new Known();
        private final Unasked<TopicPartition> unasked = new Unasked<>(answers, () -> Answers.brokers(this));

        Reader(Map<String, Object> config) {
            super(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            thread = thread(config);
        }

        @Override
        public ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
            long beforeMs = steadyMs.getAsLong();
            double before = answers.getAsDouble(); // those that had come by that time, at least
            ConsumerRecords<byte[], byte[]> polled = unasked.poll(() -> super.poll(timeout));
            pace.retain(thread, assignment());
            unasked.retain(assignment());
            long knownMs = known.until(before, beforeMs);
            for (TopicPartition place : assignment()) {
                List<ConsumerRecord<byte[], byte[]>> own = polled.records(place);
                long newest = own.isEmpty() ? -1 : own.get(own.size() - 1).offset();
                pace.poll(place, newest, currentLag(place).orElse(-1), knownMs);
            }
            if (isShared && System.currentTimeMillis() > notedAtMs + NOTE_EVERY_MS && pace.isCommitted(thread)) {
                note();
            }
            return polled;
        }

        @Override
        public void pause(Collection<TopicPartition> places) {
            super.pause(places);
            places.forEach(unasked::pause);
        }

        @Override
        public void resume(Collection<TopicPartition> places) {
            super.resume(places);
            places.forEach(unasked::resume);
        }

        /** What is known to lie in a partition; a task waits for one of which nothing is known. */
        @Override
        public OptionalLong currentLag(TopicPartition place) {
            return unasked.has(place) ? OptionalLong.empty() : super.currentLag(place);
        }

        /** Commits notes alone: Kafka Streams commits nothing for tasks that have read nothing yet. */
        private void note() {
            Map<TopicPartition, OffsetAndMetadata> noted = noted(Map.of());
            try {
                if (!noted.isEmpty()) {
                    super.commitSync(noted, NOTE_WITHIN); // the offsets that this thread has committed already
                }
            } catch (CommitFailedException | RebalanceInProgressException | TimeoutException later) {
                LOG.debug("the next note comes with the next commit, or with that of another process", later);
            }
        }

        private Map<TopicPartition, OffsetAndMetadata> noted(Map<TopicPartition, OffsetAndMetadata> offsets) {
            notedAtMs = System.currentTimeMillis();
            return pace.noted(thread, offsets, more.get());
        }

        /** Where the job continues. Its notes are none of Kafka Streams' own. */
        @Override
        public Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> places) {
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
            Map<TopicPartition, Long> next = new HashMap<>();
            super.committed(places).forEach((place, each) -> {
                found.put(place, each == null ? null : new OffsetAndMetadata(each.offset()));
                if (raw.contains(place.topic())) {
                    next.put(place, each == null ? 0 : each.offset());
                }
            });
            if (!next.isEmpty()) {
                pace.assign(thread, next);
            }
            return found;
        }

        @Override
        public void commitSync(Map<TopicPartition, OffsetAndMetadata> offsets) {
            Map<TopicPartition, OffsetAndMetadata> noted = noted(offsets);
            super.commitSync(noted);
            pace.commit(thread, noted);
        }
    }

    private final class Writer extends KafkaProducer<byte[], byte[]> {
        private final String thread;
        private Map<TopicPartition, OffsetAndMetadata> inTransaction = Map.of();
        private volatile Exception failed;
        private boolean isPending;

        Writer(Map<String, Object> config) {
            super(config, new ByteArraySerializer(), new ByteArraySerializer());
            thread = thread(config);
        }

        @Override
        public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> message, Callback callback) {
            if (!waits.test(message)) {
                isPending = true;
            } else if (isPending) {
                isPending = false;
                flush();
                if (failed != null) {
                    throw new KafkaException("an output was not acknowledged, so the state behind it is not kept", failed);
                }
            }
            return super.send(message, (written, error) -> {
                failed = error == null ? failed : error;
                callback.onCompletion(written, error);
            });
        }

        @Override
        public void sendOffsetsToTransaction(
                Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata group) {
            inTransaction = pace.noted(thread, offsets, more.get());
            super.sendOffsetsToTransaction(inTransaction, group);
        }

        @Override
        public void commitTransaction() {
            super.commitTransaction();
            pace.commit(thread, inTransaction);
            inTransaction = Map.of();
        }
    }
}
