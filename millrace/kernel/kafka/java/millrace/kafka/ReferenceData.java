package millrace.kafka;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import millrace.kernel.ReferenceTable;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The reference topics held in memory: read to their ends before anything is judged, then followed in the background. */
public final class ReferenceData implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ReferenceData.class);
    private static final Duration POLL = Duration.ofMillis(200);

    private final Map<String, ReferenceTable> tables = new HashMap<>();
    private final Map<String, String> kinds;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread follower = new Thread(this::follow, "reference-data");
    private volatile RuntimeException problem;

    public ReferenceData(Job job) {
        job.references().forEach(each -> tables.put(each.kind(), new ReferenceTable(each.event(), each.key())));
        kinds = job.kinds();
        Properties settings = new Properties();
        settings.put("bootstrap.servers", job.bootstrap());
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        // A plain read of all partitions: no group, and nothing that depends on where another job stands.
        settings.put("auto.offset.reset", "earliest");
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> places = job.references().stream()
                .flatMap(each -> consumer.partitionsFor(job.topic(each.kind())).stream())
                .map(each -> new TopicPartition(each.topic(), each.partition()))
                .toList();
        consumer.assign(places);
        consumer.seekToBeginning(places);
        Map<TopicPartition, Long> ends = consumer.endOffsets(places);
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            take(consumer.poll(POLL));
        }
        tables.values().forEach(ReferenceTable::complete);
        follower.setDaemon(true);
        if (!places.isEmpty()) {
            follower.start();
        }
    }

    /** The tables by kind. */
    public Map<String, ReferenceTable> tables() {
        return tables;
    }

    /** Why it is no longer followed, or null. */
    public RuntimeException problem() {
        return problem;
    }

    @Override
    public void close() {
        if (follower.isAlive()) {
            consumer.wakeup();
        } else {
            consumer.close();
        }
    }

    private void follow() {
        try (consumer) {
            while (true) {
                take(consumer.poll(POLL));
            }
        } catch (WakeupException closed) {
            LOG.info("reference data is no longer followed");
        } catch (RuntimeException error) {
            problem = error;
        }
    }

    private void take(ConsumerRecords<byte[], byte[]> polled) {
        for (ConsumerRecord<byte[], byte[]> each : polled) {
            tables.get(kinds.get(each.topic())).take(
                    each.partition(), each.offset(), each.key(), each.value(), each.timestamp());
        }
    }
}
