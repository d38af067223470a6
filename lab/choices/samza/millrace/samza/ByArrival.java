package millrace.samza;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import millrace.kafka.Job;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.samza.config.Config;
import org.apache.samza.metrics.MetricsRegistry;
import org.apache.samza.system.IncomingMessageEnvelope;
import org.apache.samza.system.SystemStreamPartition;
import org.apache.samza.system.chooser.MessageChooser;
import org.apache.samza.system.chooser.MessageChooserFactory;

/**
 * Chooses the message that arrived first, of all partitions. It waits for what lay in Kafka when the job started: Samza
 * shows a chooser what was fetched, not what is still to be fetched.
 */
public final class ByArrival implements MessageChooserFactory {
    @Override
    public MessageChooser getChooser(Config config, MetricsRegistry registry) {
        try {
            return new Chooser(Job.read(Path.of(config.get(OnSamza.JOB))));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static final class Chooser implements MessageChooser {
        private final Job job;
        private final List<String> raw;
        private final TreeSet<IncomingMessageEnvelope> fetched;
        private final Map<SystemStreamPartition, Long> starts = new HashMap<>();
        private final Map<SystemStreamPartition, Long> ends = new HashMap<>();
        private final Set<SystemStreamPartition> awaited = new HashSet<>();

        Chooser(Job job) {
            this.job = job;
            raw = job.rawTopics(); // of the same millisecond, in this order
            fetched = new TreeSet<>(Comparator.comparingLong(IncomingMessageEnvelope::getEventTime)
                    .thenComparingInt(each -> raw.indexOf(each.getSystemStreamPartition().getStream()))
                    .thenComparing(each -> each.getSystemStreamPartition()));
        }

        @Override
        public void register(SystemStreamPartition partition, String offset) {
            starts.put(partition, Long.parseLong(offset));
        }

        @Override
        public void start() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", job.bootstrap());
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                    settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                starts.forEach((partition, start) -> {
                    TopicPartition own =
                            new TopicPartition(partition.getStream(), partition.getPartition().getPartitionId());
                    ends.put(partition, consumer.endOffsets(List.of(own)).get(own));
                    if (start < ends.get(partition)) {
                        awaited.add(partition);
                    }
                });
            }
        }

        @Override
        public void stop() {}

        @Override
        public void update(IncomingMessageEnvelope message) {
            fetched.add(message);
            awaited.remove(message.getSystemStreamPartition());
        }

        @Override
        public IncomingMessageEnvelope choose() {
            if (!awaited.isEmpty() || fetched.isEmpty()) {
                return null;
            }
            IncomingMessageEnvelope first = fetched.pollFirst();
            SystemStreamPartition partition = first.getSystemStreamPartition();
            if (Long.parseLong(first.getOffset()) + 1 < ends.get(partition)) {
                awaited.add(partition);
            }
            return first;
        }
    }
}
