package millrace.flink.arrivals;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Properties;
import java.util.TreeMap;
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
import org.apache.flink.table.data.RowData;

/** Several topics with equally many partitions, read as one stream for each partition number. */
final class ArrivalSource implements Source<RowData, ArrivalSplit, ArrivalEnumerator.State> {
    private static final long serialVersionUID = 1L;

    private final Properties kafka;
    private final Rows rows;

    ArrivalSource(Properties kafka, Rows rows) {
        this.kafka = kafka;
        this.rows = rows;
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
        return new ArrivalEnumerator(kafka, rows.topics(), context, state);
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
        AtomicReference<Collection<ArrivalSplit>> dealtWith = new AtomicReference<>(List.of());
        return new Reader(
                dealtWith,
                () -> new ArrivalReader(kafka, rows.topics(), dealtWith, context.metricGroup()),
                (message, output, progress) -> {
                    output.collect(reader.apply(message), message.timestamp());
                    progress.handedOn(message.topic(), message.offset());
                },
                context);
    }

    private static final class Reader extends SingleThreadMultiplexSourceReaderBase<
            ConsumerRecord<byte[], byte[]>, RowData, ArrivalSplit, ArrivalSplit.Progress> {
        private final AtomicReference<Collection<ArrivalSplit>> dealtWith;
        private final NavigableMap<Long, List<ArrivalSplit>> checkpoints = new TreeMap<>();

        Reader(
                AtomicReference<Collection<ArrivalSplit>> dealtWith,
                Supplier<SplitReader<ConsumerRecord<byte[], byte[]>, ArrivalSplit>> splitReaders,
                RecordEmitter<ConsumerRecord<byte[], byte[]>, RowData, ArrivalSplit.Progress> emitter,
                SourceReaderContext context) {
            super(splitReaders, emitter, context.getConfiguration(), context);
            this.dealtWith = dealtWith;
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
                dealtWith.set(last.getValue());
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
            return progress.split();
        }
    }
}
