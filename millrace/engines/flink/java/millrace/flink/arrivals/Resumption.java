package millrace.flink.arrivals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.AdminClient;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.TopicDescription;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.util.FlinkRuntimeException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Where to read splits from, in the topics as they are now; fails where messages are gone that were not read. */
final class Resumption {
    static final int ANSWER_WITHIN_S = 60;
    private static final Logger LOG = LoggerFactory.getLogger(Resumption.class);

    private final Properties kafka;
    private final List<String> topics;
    private final List<Loss> accepted;

    Resumption(Properties kafka, List<String> topics, List<Loss> accepted) {
        this.kafka = kafka;
        this.topics = topics;
        this.accepted = accepted;
    }

    /** The splits with an offset for every topic, and the id of the topic that it belongs to. */
    List<ArrivalSplit> of(List<ArrivalSplit> splits) {
        try (AdminClient admin = AdminClient.create(kafka)) {
            return resumed(splits, admin);
        } catch (ExecutionException | TimeoutException error) {
            throw new FlinkRuntimeException("the offsets of " + topics + " could not be read", error);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new FlinkRuntimeException(stopped);
        }
    }

    private List<ArrivalSplit> resumed(List<ArrivalSplit> splits, AdminClient admin)
            throws ExecutionException, InterruptedException, TimeoutException {
        Map<String, TopicDescription> described =
                admin.describeTopics(topics).allTopicNames().get(ANSWER_WITHIN_S, TimeUnit.SECONDS);
        List<TopicPartition> places = new ArrayList<>();
        for (ArrivalSplit split : splits) {
            for (TopicDescription topic : described.values()) {
                places.add(place(topic, split.partition()));
            }
        }
        Map<TopicPartition, Long> firsts = offsets(admin, places, OffsetSpec.earliest());
        Map<TopicPartition, Long> ends = offsets(admin, places, OffsetSpec.latest());
        List<ArrivalSplit> resumed = new ArrayList<>();
        List<Loss> lost = new ArrayList<>();
        for (ArrivalSplit split : splits) {
            Map<String, Long> next = new HashMap<>();
            Map<String, String> ids = new HashMap<>();
            for (String topic : topics) {
                TopicPartition place = new TopicPartition(topic, split.partition());
                String id = described.get(topic).topicId().toString();
                long first = firsts.get(place);
                long wanted = split.next().getOrDefault(topic, first);
                String was = split.ids().getOrDefault(topic, id);
                Loss loss = new Loss(topic, place.partition(), wanted, first, ends.get(place), id, was);
                boolean isThere = first <= wanted && wanted <= loss.end() && was.equals(id);
                if (!isThere && loss.isIn(accepted)) {
                    LOG.warn("given up: {}", loss);
                } else if (!isThere) {
                    lost.add(loss);
                }
                next.put(topic, isThere ? wanted : first);
                ids.put(topic, id);
            }
            resumed.add(new ArrivalSplit(split.partition(), next, ids));
        }
        if (!lost.isEmpty()) {
            throw new LostMessagesException(kafka.getProperty("group.id"), lost);
        }
        return resumed;
    }

    private static TopicPartition place(TopicDescription topic, int partition) {
        if (partition >= topic.partitions().size()) {
            throw new FlinkRuntimeException("topic " + topic.name() + " has " + topic.partitions().size()
                    + " partitions, and the job's state has partition " + partition + "; provision the pattern");
        }
        return new TopicPartition(topic.name(), partition);
    }

    private static Map<TopicPartition, Long> offsets(AdminClient admin, List<TopicPartition> places, OffsetSpec which)
            throws ExecutionException, InterruptedException, TimeoutException {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        places.forEach(place -> asked.put(place, which));
        Map<TopicPartition, ListOffsetsResultInfo> found =
                admin.listOffsets(asked).all().get(ANSWER_WITHIN_S, TimeUnit.SECONDS);
        Map<TopicPartition, Long> offsets = new HashMap<>();
        found.forEach((place, info) -> offsets.put(place, info.offset()));
        return offsets;
    }
}
