package millrace.streams;

import java.nio.charset.StandardCharsets;
import millrace.kafka.Job;
import millrace.kernel.Refusals;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/** Writes the dead letters of reference data; lookups read their references themselves. */
final class Refuse extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private final Job job;
    private Refusals refusals;

    Refuse(Job job) {
        this.job = job;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
        super.init(context);
        refusals = new Refusals(job.stage(), job.topics());
    }

    @Override
    public void process(Record<byte[], byte[]> message) {
        RecordMetadata place = context().recordMetadata().orElseThrow();
        refusals.take(job.kinds().get(place.topic()), place.partition(), place.offset(), message.timestamp(),
                message.value(), (kind, key, value) -> context().forward(
                        new Record<>(key.getBytes(StandardCharsets.UTF_8), value, message.timestamp())));
    }
}
