package millrace.flink.arrivals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import millrace.kernel.Loss;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.util.FlinkRuntimeException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Where to read splits from, in the topics as they are now; fails where messages are gone that were not read. */
final class Resumption {
    private static final Logger LOG = LoggerFactory.getLogger(Resumption.class);

    private final Supplier<Topics> kafka;
    private final String pattern;
    private final List<String> topics;
    private final List<Loss> accepted;

    Resumption(Supplier<Topics> kafka, String pattern, List<String> topics, List<Loss> accepted) {
        this.kafka = kafka;
        this.pattern = pattern;
        this.topics = topics;
        this.accepted = accepted;
    }

    /** The splits with an offset for every topic, and the id of the topic that it belongs to. */
    List<ArrivalSplit> of(List<ArrivalSplit> splits) {
        try (Topics now = kafka.get()) {
            return resumed(splits, now);
        }
    }

    private List<ArrivalSplit> resumed(List<ArrivalSplit> splits, Topics now) {
        Map<String, Topics.Topic> described = now.described();
        List<TopicPartition> places = new ArrayList<>();
        for (ArrivalSplit split : splits) {
            described.forEach((name, topic) -> places.add(place(name, topic, split.partition())));
        }
        Map<TopicPartition, Long> firsts = now.firstOffsets(places);
        Map<TopicPartition, Long> ends = now.endOffsets(places);
        List<ArrivalSplit> resumed = new ArrayList<>();
        List<Loss> lost = new ArrayList<>();
        for (ArrivalSplit split : splits) {
            Map<String, Long> next = new HashMap<>();
            Map<String, String> ids = new HashMap<>();
            for (String topic : topics) {
                TopicPartition place = new TopicPartition(topic, split.partition());
                String id = described.get(topic).id();
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
            resumed.add(new ArrivalSplit(split.partition(), next, ids, split.newestMs()));
        }
        if (!lost.isEmpty()) {
            throw new LostMessagesException(pattern, lost);
        }
        return resumed;
    }

    private static TopicPartition place(String name, Topics.Topic topic, int partition) {
        if (partition >= topic.partitions()) {
            throw new FlinkRuntimeException("topic " + name + " has " + topic.partitions()
                    + " partitions, and the job's state has partition " + partition + "; provision the pattern");
        }
        return new TopicPartition(name, partition);
    }
}
