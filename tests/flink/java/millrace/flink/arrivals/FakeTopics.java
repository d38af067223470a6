package millrace.flink.arrivals;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;

/** Topics as a test declares them. */
final class FakeTopics implements Topics {
    final Map<String, Topic> topics = new HashMap<>();
    final Map<TopicPartition, Long> firsts = new HashMap<>();
    final Map<TopicPartition, Long> ends = new HashMap<>();
    boolean isClosed;

    FakeTopics with(String name, String id, int partitions) {
        topics.put(name, new Topic(id, partitions));
        return this;
    }

    FakeTopics with(String name, int partition, long first, long end) {
        firsts.put(new TopicPartition(name, partition), first);
        ends.put(new TopicPartition(name, partition), end);
        return this;
    }

    @Override
    public Map<String, Topic> described() {
        return Map.copyOf(topics);
    }

    @Override
    public Map<TopicPartition, Long> firstOffsets(Collection<TopicPartition> places) {
        return of(firsts, places);
    }

    @Override
    public Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> places) {
        return of(ends, places);
    }

    @Override
    public void close() {
        isClosed = true;
    }

    private static Map<TopicPartition, Long> of(Map<TopicPartition, Long> offsets, Collection<TopicPartition> places) {
        Map<TopicPartition, Long> found = new HashMap<>(offsets);
        found.keySet().retainAll(places);
        return found;
    }
}
