package millrace.kafka;

import java.util.function.DoubleSupplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** How many answers a consumer has had to its requests for messages, and of how many brokers they are. */
public final class Answers implements DoubleSupplier {
    private final Metric fetches;

    public Answers(Consumer<?, ?> consumer) {
        fetches = consumer.metrics().values().stream()
                .filter(each -> each.metricName().name().equals("fetch-total")).findFirst().orElseThrow();
    }

    @Override
    public double getAsDouble() {
        return (Double) fetches.metricValue();
    }

    /** How many brokers lead the partitions of the topics that a consumer reads. */
    public static int brokers(Consumer<?, ?> consumer) {
        return (int) consumer.assignment().stream().map(TopicPartition::topic).distinct()
                .flatMap(topic -> consumer.partitionsFor(topic).stream()).map(PartitionInfo::leader).distinct().count();
    }
}
