package millrace.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import millrace.kafka.Job;
import millrace.kafka.Pace;
import millrace.kernel.Outputs;
import millrace.kernel.ReferenceTable;
import millrace.kernel.Stage;
import millrace.kernel.Windows;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The per-event stage: {@link Stage} over the store of a task. Where windows follow, it deals out the events that are not
 * late, and sends the time of the job as far as it is committed: after a crash no window is closed that it may reopen.
 */
final class Judge extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private static final byte[] MARK = {1};
    private static final Duration FORGET_EVERY = Duration.ofSeconds(1);
    private static final Duration TIME_EVERY = Duration.ofMillis(50);
    private static final long REPEAT_EVERY_MS = 5_000;
    private static final int FORGOTTEN_MOST = 2_000; // of the entries that are looked at each time
    private static final long REST_MS = 60_000; // after all were looked at
    // A task that has read nothing since its start commits its state, but no offsets that could be counted.
    private static final long COMMITTED_WITHIN_MS = 10_000;

    private final Job job;
    private final Map<String, ReferenceTable> references;
    private final Pace pace;
    private final Clock clock;
    private Stage stage;
    private Windows windows;
    private StoreState state;
    private byte[] forgetFrom;
    private long forgetAtMs;
    private Reached reached;
    private int source;
    private long keptAtCommit;
    private long keptAtMs;
    private long sentMs;
    private long sentAtMs;

    /** The newest moment of the task's events, the judged message that came last, and the time of the job. */
    private record Reached(long newestMs, int source, long offset, long timeMs) {
        private static final byte[] KEY = {'n'};
        private static final Reached NOTHING = new Reached(Long.MIN_VALUE, 0, -1, Long.MIN_VALUE);

        static Reached of(StoreState state) {
            byte[] kept = state.get(KEY);
            if (kept == null) {
                return NOTHING;
            }
            ByteBuffer from = ByteBuffer.wrap(kept);
            return new Reached(from.getLong(), from.getInt(), from.getLong(), from.getLong());
        }

        void keep(StoreState state) {
            state.put(KEY, ByteBuffer.allocate(28)
                    .putLong(newestMs).putInt(source).putLong(offset).putLong(timeMs).array());
        }

        boolean has(int source, long offset) {
            return this.source == source && offset <= this.offset;
        }
    }

    Judge(Job job, Map<String, ReferenceTable> references, Pace pace, Clock clock) {
        this.job = job;
        this.references = references;
        this.pace = pace;
        this.clock = clock;
    }

    /** Begins, or begins anew: Kafka Streams revives a task whose transaction failed with the same instance. */
    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
        super.init(context);
        forgetFrom = null;
        sentMs = Long.MIN_VALUE;
        sentAtMs = 0;
        keptAtMs = 0;
        KeyValueStore<Bytes, byte[]> store = context.getStateStore(Layout.MEMORY);
        state = new StoreState(store);
        stage = new Stage(job.stage(), job.topics(), references);
        job.raw().forEach(stream -> stage.identify(stream, pace.idOf(job.topic(stream))));
        source = pace.idOf(job.topic(job.judged())).hashCode();
        context.schedule(FORGET_EVERY, PunctuationType.WALL_CLOCK_TIME, this::forget);
        if (job.windows() != null) {
            windows = new Windows(job.windows());
            reached = Reached.of(state);
            keptAtCommit = -1; // what is restored is committed
            clock.join(context.taskId().partition(), reached.newestMs, reached.timeMs);
            context.schedule(TIME_EVERY, PunctuationType.WALL_CLOCK_TIME, this::sendTime);
        }
    }

    @Override
    public void close() {
        if (reached != null) {
            clock.leave(context().taskId().partition());
        }
    }

    @Override
    public void process(Record<byte[], byte[]> message) {
        RecordMetadata place = context().recordMetadata().orElseThrow();
        long ingestMs = Layout.arrivedMs(message.timestamp());
        boolean isBacklog = pace.handOn(place.topic(), place.partition(), place.offset(), ingestMs);
        boolean isJudged = place.topic().equals(job.topic(job.judged()));
        if (isJudged && windows != null && reached.has(source, place.offset())) {
            return; // it came before a crash, and all that followed from it is kept
        }
        Long momentMs = stage.take(job.kinds().get(place.topic()), place.partition(), place.offset(), ingestMs,
                message.value(), state, new Sinks(ingestMs, isBacklog));
        if (momentMs != null) {
            pace.move(place.partition(), momentMs);
        }
        if (isJudged && windows != null) {
            long newestMs = momentMs == null ? reached.newestMs : clock.move(place.partition(), momentMs);
            reached = new Reached(newestMs, source, place.offset(), reached.timeMs);
        }
        if (windows != null) {
            reached.keep(state); // the last put of each message: where it is kept, all others are
        }
    }

    private void forget(long nowMs) {
        if (nowMs >= forgetAtMs) {
            forgetFrom = stage.forget(forgetFrom, FORGOTTEN_MOST, state);
            stage.settle(); // it is committed before the next look
            forgetAtMs = forgetFrom == null ? nowMs + REST_MS : nowMs;
        }
    }

    private void sendTime(long nowMs) {
        long commits = pace.commitsOf(Thread.currentThread().getName());
        boolean isCommitted = commits > keptAtCommit || nowMs > keptAtMs + COMMITTED_WITHIN_MS;
        // Tasks of windows that came to another process meanwhile do not know what was sent.
        boolean isDueAgain = job.isShared() && sentMs > Long.MIN_VALUE && nowMs > sentAtMs + REPEAT_EVERY_MS;
        if (isCommitted && reached.timeMs > sentMs || isDueAgain) {
            sentMs = isCommitted ? reached.timeMs : sentMs;
            sentAtMs = nowMs;
            byte[] value = ByteBuffer.allocate(Long.BYTES).putLong(sentMs).array();
            byte[] key = Layout.timeKey(context().taskId().partition());
            context().forward(new Record<>(key, value, nowMs), Layout.DEALT);
        }
        long timeMs = clock.timeMs();
        if (timeMs > reached.timeMs && reached.timeMs <= sentMs) { // one at a time
            reached = new Reached(reached.newestMs, reached.source, reached.offset, timeMs);
            reached.keep(state);
            keptAtCommit = commits;
            keptAtMs = nowMs;
        }
    }

    /** The sinks of a message that arrived at some time. */
    private final class Sinks implements Outputs {
        private final long ingestMs;
        private final boolean isBacklog;

        Sinks(long ingestMs, boolean isBacklog) {
            this.ingestMs = ingestMs;
            this.isBacklog = isBacklog;
        }

        @Override
        public void send(String kind, String key, byte[] value) {
            Headers headers = new RecordHeaders();
            if (isBacklog && kind.equals(job.enriched())) {
                headers.add(Layout.BACKLOG, MARK);
            }
            context().forward(
                    new Record<>(key.getBytes(StandardCharsets.UTF_8), value, ingestMs, headers), Layout.sink(kind));
        }

        @Override
        public void accept(Object[] event) {
            if (windows == null) {
                return;
            }
            // Until all tasks are there, the job has no time, but this one has sent on what it had kept.
            if (windows.atMs(event) < Math.max(clock.timeMs(), reached.timeMs)) {
                windows.refuse(event, this);
            } else {
                windows.deal(event,
                        (key, value) -> context().forward(new Record<>(key, value, ingestMs), Layout.DEALT));
            }
        }
    }
}
