package millrace.flink.arrivals;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.connector.base.source.reader.RecordEmitter;
import org.apache.flink.connector.base.source.reader.SingleThreadMultiplexSourceReaderBase;
import org.apache.flink.connector.base.source.reader.splitreader.SplitReader;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.table.data.RowData;

/** Several topics with equally many partitions, read as one stream for each partition number. */
final class ArrivalSource implements Source<RowData, ArrivalSplit, ArrivalEnumerator.State> {
    private static final long serialVersionUID = 1L;

    private final Properties kafka;
    private final Rows rows;
    private final String accepted;

    /** With the accepted losses, as JSON. */
    ArrivalSource(Properties kafka, Rows rows, String accepted) {
        this.kafka = kafka;
        this.rows = rows;
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
        Function<ConsumerRecord<byte[], byte[]>, RowData> reader = rows.reader();
        AtomicReference<Collection<ArrivalSplit>> checkpointed = new AtomicReference<>(List.of());
        Map<TopicPartition, Reached> reached = new ConcurrentHashMap<>();
        return new Reader(
                new Resumption(
                        () -> Topics.of(kafka, rows.topics()),
                        kafka.getProperty("group.id"),
                        rows.topics(),
                        Loss.parse(accepted)),
                checkpointed,
                reached,
                () -> new ArrivalReader(
                        ArrivalReader.consumer(kafka), rows.topics(), checkpointed, reached, context.metricGroup()),
                (message, output, progress) -> {
                    output.collect(reader.apply(message), message.timestamp());
                    progress.handedOn(message.topic(), message.offset());
                },
                context);
    }

    private static final class Reader extends SingleThreadMultiplexSourceReaderBase<
            ConsumerRecord<byte[], byte[]>, RowData, ArrivalSplit, ArrivalSplit.Progress> {
        private final Resumption resumption;
        private final AtomicReference<Collection<ArrivalSplit>> checkpointed;
        private final Map<TopicPartition, Reached> reached;
        private final NavigableMap<Long, List<ArrivalSplit>> checkpoints = new TreeMap<>();

        Reader(
                Resumption resumption,
                AtomicReference<Collection<ArrivalSplit>> checkpointed,
                Map<TopicPartition, Reached> reached,
                Supplier<SplitReader<ConsumerRecord<byte[], byte[]>, ArrivalSplit>> splitReaders,
                RecordEmitter<ConsumerRecord<byte[], byte[]>, RowData, ArrivalSplit.Progress> emitter,
                SourceReaderContext context) {
            super(splitReaders, emitter, context.getConfiguration(), context);
            this.resumption = resumption;
            this.checkpointed = checkpointed;
            this.reached = reached;
        }

        @Override
        public void addSplits(List<ArrivalSplit> splits) {
            super.addSplits(resumption.of(splits));
        }

        @Override
        public List<ArrivalSplit> snapshotState(long checkpoint) {
            List<ArrivalSplit> splits = super.snapshotState(checkpoint);
            checkpoints.put(checkpoint, splits);
            return splits;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) throws Exception {
            super.notifyCheckpointComplete(checkpoint);
            Map.Entry<Long, List<ArrivalSplit>> last = checkpoints.floorEntry(checkpoint);
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
