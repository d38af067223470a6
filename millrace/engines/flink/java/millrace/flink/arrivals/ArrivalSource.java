package millrace.flink.arrivals;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import millrace.kernel.Json;
import millrace.kernel.Loss;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.connector.base.source.reader.RecordEmitter;
import org.apache.flink.connector.base.source.reader.SingleThreadMultiplexSourceReaderBase;
import org.apache.flink.connector.base.source.reader.splitreader.SplitReader;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.Consumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.table.data.RowData;

/** Several topics with equally many partitions, read as one stream for each partition number. */
final class ArrivalSource implements Source<RowData, ArrivalSplit, ArrivalEnumerator.State> {
    private static final long serialVersionUID = 1L;

    private final Properties kafka;
    private final Rows rows;
    private final Reading reading;
    private final long disorderMs;
    private final String accepted;

    /** An event that is so far behind the newest is late for windows; with the accepted losses, as JSON. */
    ArrivalSource(Properties kafka, Rows rows, Reading reading, long disorderMs, String accepted) {
        this.kafka = kafka;
        this.rows = rows;
        this.reading = reading;
        this.disorderMs = disorderMs;
        this.accepted = accepted;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SplitEnumerator<ArrivalSplit, ArrivalEnumerator.State> createEnumerator(
            SplitEnumeratorContext<ArrivalSplit> context) {
        return restoreEnumerator(context, new ArrivalEnumerator.State());
    }

    @Override
    public SplitEnumerator<ArrivalSplit, ArrivalEnumerator.State> restoreEnumerator(
            SplitEnumeratorContext<ArrivalSplit> context, ArrivalEnumerator.State state) {
        return new ArrivalEnumerator(Topics.of(kafka, rows.topics()), context, state);
    }

    @Override
    public SimpleVersionedSerializer<ArrivalSplit> getSplitSerializer() {
        return new ArrivalSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<ArrivalEnumerator.State> getEnumeratorCheckpointSerializer() {
        return new ArrivalEnumerator.State.Serializer();
    }

    @Override
    public SourceReader<RowData, ArrivalSplit> createReader(SourceReaderContext context) {
        Rows.Reader reader = rows.reader();
        Backlog backlog = new Backlog(reading, context::sendSourceEventToCoordinator);
        if (context.currentParallelism() > 1) {
            reading.time().start(context::sendSourceEventToCoordinator, System::nanoTime);
        }
        AtomicReference<Collection<Checkpointed>> checkpointed = new AtomicReference<>(List.of());
        Map<TopicPartition, Reached> reached = new ConcurrentHashMap<>();
        Resumed resumed = new Resumed(disorderMs);
        return new Reader(
                new Resumption(
                        () -> Topics.of(kafka, rows.topics()),
                        kafka.getProperty("group.id"),
                        rows.topics(),
                        Loss.parse(Json.list(Json.parse(accepted)))),
                resumed,
                backlog,
                reading.time(),
                checkpointed,
                reached,
                () -> {
                    Consumer<byte[], byte[]> consumer = ArrivalReader.consumer(kafka);
                    return new ArrivalReader(consumer, ArrivalReader.answers(consumer), rows.topics(), checkpointed,
                            reached, reading, context.metricGroup());
                },
                (message, output, progress) -> {
                    boolean isBacklog = backlog.holds(message.timestamp(), System.currentTimeMillis());
                    RowData row = reader.read(message, isBacklog, resumed.passedMs());
                    progress.handedOn(message.topic(), message.offset(), reader.momentMs(row));
                    output.collect(row, message.timestamp());
                },
                context);
    }

    private static final class Reader extends SingleThreadMultiplexSourceReaderBase<
            ConsumerRecord<byte[], byte[]>, RowData, ArrivalSplit, ArrivalSplit.Progress> {
        private final Resumption resumption;
        private final Resumed resumed;
        private final Backlog backlog;
        private final TaskTime time;
        private final AtomicReference<Collection<Checkpointed>> checkpointed;
        private final Map<TopicPartition, Reached> reached;
        private final NavigableMap<Long, List<Checkpointed>> checkpoints = new TreeMap<>();

        Reader(
                Resumption resumption,
                Resumed resumed,
                Backlog backlog,
                TaskTime time,
                AtomicReference<Collection<Checkpointed>> checkpointed,
                Map<TopicPartition, Reached> reached,
                Supplier<SplitReader<ConsumerRecord<byte[], byte[]>, ArrivalSplit>> splitReaders,
                RecordEmitter<ConsumerRecord<byte[], byte[]>, RowData, ArrivalSplit.Progress> emitter,
                SourceReaderContext context) {
            super(splitReaders, emitter, context.getConfiguration(), context);
            this.resumption = resumption;
            this.resumed = resumed;
            this.backlog = backlog;
            this.time = time;
            this.checkpointed = checkpointed;
            this.reached = reached;
        }

        @Override
        public void addSplits(List<ArrivalSplit> splits) {
            splits.forEach(resumed::add);
            super.addSplits(resumption.of(splits));
        }

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) throws Exception {
            InputStatus status = super.pollNext(output);
            backlog.look();
            return status;
        }

        @Override
        public void handleSourceEvents(SourceEvent event) {
            if (event instanceof TaskTime.OfOthers) {
                time.received((TaskTime.OfOthers) event);
            } else if (event instanceof Backlog.NothingToRead) {
                backlog.nothingToRead();
            } else {
                backlog.announced((Backlog.Announced) event);
            }
        }

        @Override
        public List<ArrivalSplit> snapshotState(long checkpoint) {
            List<ArrivalSplit> splits = super.snapshotState(checkpoint);
            boolean isLive = backlog.isLiveAt(checkpoint);
            long nowMs = System.currentTimeMillis();
            checkpoints.put(checkpoint, splits.stream()
                    .map(split -> Checkpointed.at(split, isLive, nowMs))
                    .toList());
            return splits;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) throws Exception {
            super.notifyCheckpointComplete(checkpoint);
            Map.Entry<Long, List<Checkpointed>> last = checkpoints.floorEntry(checkpoint);
            if (last != null) {
                checkpointed.set(last.getValue());
                checkpoints.headMap(checkpoint, true).clear();
            }
        }

        @Override
        protected void onSplitFinished(Map<String, ArrivalSplit.Progress> finished) {}

        @Override
        protected ArrivalSplit.Progress initializedState(ArrivalSplit split) {
            return new ArrivalSplit.Progress(split);
        }

        @Override
        protected ArrivalSplit toSplitType(String id, ArrivalSplit.Progress progress) {
            return progress.split(reached);
        }
    }
}
