package millrace.kafka;

import java.util.function.DoubleSupplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;

/** How many answers a consumer has had to its requests for messages. */
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
}
