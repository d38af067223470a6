package millrace.spark;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import millrace.kernel.ReferenceTable;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A compacted topic held in memory and read on before each use: one for all tasks of a JVM that look at it.
 *
 * <p>To read it anew in each batch, as a data frame of its own, took most of a small batch's time.
 */
final class Reference {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Map<Source, Reference> OPEN = new HashMap<>();

    /** Where the reference data is and how it is read. */
    record Source(String bootstrap, String topic, String declaration, String key) {}

    private final Source source;
    final ReferenceTable table;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private List<TopicPartition> partitions;

    Reference(Source source) {
        this.source = source;
        table = new ReferenceTable(source.declaration, source.key);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", source.bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        // A plain read of all partitions: no group. What was not read and is gone ends the task.
        settings.put("auto.offset.reset", "none");
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** The reference data with all that is in its topic now. */
    static Reference caughtUp(Source source) {
        synchronized (OPEN) {
            Reference reference = OPEN.computeIfAbsent(source, Reference::new);
            try {
                reference.catchUp();
            } catch (RuntimeException error) {
                OPEN.remove(source);
                reference.consumer.close();
                throw error;
            }
            return reference;
        }
    }

    /** The event that the key had at that moment, or null. */
    Object[] get(String key, long atMs) {
        return table.get(key, atMs);
    }

    int[] columns(Iterable<?> fields) {
        return table.columns(fields);
    }

    private void catchUp() {
        if (partitions == null) {
            partitions = consumer.partitionsFor(source.topic).stream()
                    .map(each -> new TopicPartition(each.topic(), each.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
        }
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            for (ConsumerRecord<byte[], byte[]> message : consumer.poll(POLL)) {
                table.take(message.partition(), message.offset(), message.key(), message.value(), message.timestamp());
            }
        }
        table.complete();
    }
}
