package millrace.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import millrace.kafka.Job;
import millrace.kernel.Outputs;
import millrace.kernel.Windows;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** The windows stage: {@link Windows} over the store of a task. Time is the least that all tasks before it have sent. */
final class Close extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private static final Duration LOOK_EVERY = Duration.ofMillis(500);

    private final Job job;
    private final Clock clock;
    private final Map<Integer, Long> times = new HashMap<>();
    private Windows windows;
    private StoreState state;

    Close(Job job, Clock clock) {
        this.job = job;
        this.clock = clock;
    }

    /** Begins, or begins anew: Kafka Streams revives a task whose transaction failed with the same instance. */
    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
        super.init(context);
        times.clear();
        KeyValueStore<Bytes, byte[]> store = context.getStateStore(Layout.WINDOWS);
        state = new StoreState(store);
        windows = new Windows(job.windows());
        context.schedule(LOOK_EVERY, PunctuationType.WALL_CLOCK_TIME, this::look);
    }

    @Override
    public void process(Record<byte[], byte[]> message) {
        if (!Layout.isTime(message.key())) {
            windows.add(message.key(), message.value(), state);
            return;
        }
        times.put(Layout.partitionOf(message.key()), ByteBuffer.wrap(message.value()).getLong());
        long toMs = times.values().stream().mapToLong(each -> each).min().orElseThrow();
        if (times.size() == clock.tasks() && toMs > windows.timeMs(state)) {
            windows.advance(toMs, state, outputs(message.timestamp()));
        }
    }

    /** Closes again what a crash may have left half closed, and reports how far the task has come. */
    private void look(long nowMs) {
        long closedMs = windows.timeMs(state);
        windows.advance(closedMs, state, outputs(nowMs));
        // Of all open windows: only while there is nothing else to do.
        Long lastEndMs = clock.isSilent() ? windows.lastEndMs(state) : null;
        clock.close(context().taskId().partition(), closedMs, lastEndMs);
    }

    private Outputs outputs(long atMs) {
        return (kind, key, value) -> context().forward(
                new Record<>(key.getBytes(StandardCharsets.UTF_8), value, atMs), Layout.sinkOfWindows(kind));
    }
}
