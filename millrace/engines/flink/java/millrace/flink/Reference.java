package millrace.flink;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import millrace.kernel.ReferenceTable;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.PartitionInfo;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.errors.WakeupException;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A compacted topic held in memory: read to its end before anything is looked up, then followed in the background.
 *
 * <p>One for all the tasks of a worker that look at the same topic, for as long as one of them is open.
 */
final class Reference {
    private static final Logger LOG = LoggerFactory.getLogger(Reference.class);
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration PARTITIONS_WITHIN = Duration.ofSeconds(30);
    private static final Map<Source, Reference> OPEN = new HashMap<>();

    /** Where the reference data is and how it is read. */
    record Source(String bootstrap, String topic, String declaration, String key) {}

    private final Source source;
    private final ReferenceTable table;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread follower;
    private volatile RuntimeException problem;
    private int users;

    /** The reference for a source; each caller must {@link #release} it once. */
    static Reference acquire(Source source) throws IOException {
        synchronized (OPEN) {
            Reference reference = OPEN.get(source);
            if (reference == null) {
                reference = new Reference(source);
                OPEN.put(source, reference);
            }
            reference.users++;
            return reference;
        }
    }

    void release() {
        synchronized (OPEN) {
            users--;
            if (users == 0) {
                OPEN.remove(source);
                consumer.wakeup();
            }
        }
    }

    /** The event that the key had at that moment, as {@link EventReader#read} gives it, or null. */
    Object[] get(String key, long atMs) {
        if (problem != null) { // the job restarts, and reads it anew
            throw new IllegalStateException(source.topic + " can no longer be followed", problem);
        }
        return table.get(key, atMs);
    }

    int[] columns(Iterable<?> fields) {
        return table.columns(fields);
    }

    private Reference(Source source) throws IOException {
        this.source = source;
        table = new ReferenceTable(source.declaration, source.key);
        consumer = consumer(source.bootstrap);
        try {
            readToEnd();
        } catch (IOException | RuntimeException error) {
            consumer.close();
            throw error;
        }
        follower = new Thread(this::follow, "reference " + source.topic);
        follower.setDaemon(true);
        follower.start();
    }

    private void readToEnd() throws IOException {
        List<TopicPartition> partitions = partitions();
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            take(consumer.poll(POLL));
        }
        table.complete();
        LOG.info("{}: {} keys of reference data read", source.topic, table.size());
    }

    private List<TopicPartition> partitions() throws IOException {
        List<PartitionInfo> found = consumer.partitionsFor(source.topic, PARTITIONS_WITHIN);
        if (found == null || found.isEmpty()) {
            throw new IOException("the reference topic '" + source.topic + "' does not exist on " + source.bootstrap
                    + "; provision the pattern first");
        }
        List<TopicPartition> partitions = new ArrayList<>();
        found.forEach(each -> partitions.add(new TopicPartition(each.topic(), each.partition())));
        return partitions;
    }

    private void follow() {
        try {
            while (true) {
                take(consumer.poll(POLL));
            }
        } catch (WakeupException released) {
            LOG.info("{}: no longer followed", source.topic);
        } catch (RuntimeException error) {
            LOG.error("{}: can no longer be followed", source.topic, error);
            problem = error;
        } finally {
            consumer.close();
        }
    }

    private void take(ConsumerRecords<byte[], byte[]> records) {
        for (ConsumerRecord<byte[], byte[]> message : records) {
            String reason = table.take(
                    message.partition(), message.offset(), message.key(), message.value(), message.timestamp());
            if (reason != null) {
                LOG.warn("{}-{} offset {} is no reference data: {}",
                        message.topic(), message.partition(), message.offset(), reason);
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        // A plain read of all partitions: no group, and nothing that depends on where another job stands.
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
