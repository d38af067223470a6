package millrace.storm;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import millrace.kafka.Job;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Kafka clients of a job's tasks, and what each task reads. */
final class Clients {
    private static final String OF_CONSUMERS = "consumer.";
    private static final String OF_PRODUCERS = "producer.";
    private static final String OF_KEEPERS = "keeper.";

    private Clients() {}

    /** A consumer of the group that is named like the pattern; partitions are assigned, so it has no members. */
    static KafkaConsumer<byte[], byte[]> consumer(Job job) {
        Map<String, Object> settings = settings(job, OF_CONSUMERS);
        settings.put("group.id", job.pattern());
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static KafkaProducer<byte[], byte[]> producer(Job job, int task) {
        Map<String, Object> settings = settings(job, OF_PRODUCERS);
        if (job.isExactlyOnce()) {
            settings.put("transactional.id", job.pattern() + "-" + task);
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** At most once: a producer of the state alone, which waits until it is flushed. */
    static KafkaProducer<byte[], byte[]> keeper(Job job) {
        Map<String, Object> settings = settings(job, OF_PRODUCERS);
        settings.putAll(settings(job, OF_KEEPERS));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** The partitions of raw topics, and of reference data, that one of several tasks reads: those of its numbers. */
    static List<TopicPartition> places(Job job, KafkaConsumer<byte[], byte[]> consumer, int task, int tasks) {
        Stream<String> topics = Stream.concat(
                job.rawTopics().stream(), job.references().stream().map(each -> job.topic(each.kind())));
        return topics.flatMap(topic -> consumer.partitionsFor(topic).stream())
                .filter(each -> each.partition() % tasks == task)
                .map(each -> new TopicPartition(each.topic(), each.partition()))
                .toList();
    }

    private static Map<String, Object> settings(Job job, String prefix) {
        Map<String, Object> settings = new HashMap<>();
        job.settings().forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                settings.put(name.substring(prefix.length()), value);
            }
        });
        settings.put("bootstrap.servers", job.bootstrap());
        return settings;
    }
}
