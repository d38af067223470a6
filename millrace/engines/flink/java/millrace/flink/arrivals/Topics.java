package millrace.flink.arrivals;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.AdminClient;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.KafkaFuture;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.util.FlinkRuntimeException;

/** The topics of a source as they are in Kafka now. */
interface Topics extends AutoCloseable {
    /** The id of a topic, which changes when it is deleted and created anew, and the number of its partitions. */
    record Topic(String id, int partitions) {}

    Map<String, Topic> described();

    Map<TopicPartition, Long> firstOffsets(Collection<TopicPartition> places);

    Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> places);

    @Override
    void close();

    /** Those with these names, by a client of their own. */
    static Topics of(Properties kafka, List<String> names) {
        AdminClient admin = AdminClient.create(kafka);
        return new Topics() {
            private static final int ANSWER_WITHIN_S = 60;

            @Override
            public Map<String, Topic> described() {
                Map<String, Topic> found = new HashMap<>();
                answer(admin.describeTopics(names).allTopicNames()).forEach(
                        (name, each) -> found.put(name, new Topic(each.topicId().toString(), each.partitions().size())));
                return found;
            }

            @Override
            public Map<TopicPartition, Long> firstOffsets(Collection<TopicPartition> places) {
                return offsets(places, OffsetSpec.earliest());
            }

            @Override
            public Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> places) {
                return offsets(places, OffsetSpec.latest());
            }

            @Override
            public void close() {
                admin.close(Duration.ZERO);
            }

            private Map<TopicPartition, Long> offsets(Collection<TopicPartition> places, OffsetSpec which) {
                Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
                places.forEach(place -> wanted.put(place, which));
                Map<TopicPartition, Long> found = new HashMap<>();
                answer(admin.listOffsets(wanted).all()).forEach((place, each) -> found.put(place, each.offset()));
                return found;
            }

            private <T> T answer(KafkaFuture<T> awaited) {
                try {
                    return awaited.get(ANSWER_WITHIN_S, TimeUnit.SECONDS);
                } catch (ExecutionException | TimeoutException error) {
                    throw new FlinkRuntimeException("the topics " + names + " could not be described", error);
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                    throw new FlinkRuntimeException(stopped);
                }
            }
        };
    }
}
