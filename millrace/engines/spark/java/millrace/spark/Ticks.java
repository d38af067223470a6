package millrace.spark;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A source of moments, for a query whose time its own events do not move: no events come, or not in order.
 *
 * <p>Each call of {@link #advance} makes one row, the moment it was given; the moment is the offset too, so a batch that
 * is run again sees the same.
 */
public final class Ticks implements TableProvider {
    private static final StructType SCHEMA = new StructType().add("at_ms", DataTypes.LongType, false);
    private static final Map<String, Long> CLOCKS = new ConcurrentHashMap<>();

    /** Moves the clock of that name forward; a moment that is not later than the last one changes nothing. */
    public static void advance(String clock, long atMs) {
        CLOCKS.merge(clock, atMs, Math::max);
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Clock(properties.get("clock"));
    }

    private static final class Clock implements SupportsRead, Scan {
        private final String name;

        Clock(String name) {
            this.name = name;
        }

        @Override
        public String name() {
            return "ticks of " + name;
        }

        @Override
        @Deprecated
        public StructType schema() {
            return SCHEMA;
        }

        @Override
        public StructType readSchema() {
            return SCHEMA;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return () -> this;
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
            return new Moments(name);
        }
    }

    private static final class Moments implements MicroBatchStream, AcceptsLatestSeenOffset {
        private final String clock;

        Moments(String clock) {
            this.clock = clock;
        }

        @Override
        public Offset initialOffset() {
            return new Moment(0);
        }

        @Override
        public Offset latestOffset() {
            return new Moment(CLOCKS.getOrDefault(clock, 0L));
        }

        @Override
        public void setLatestSeenOffset(Offset offset) {
            // After a restart the clock continues where it was, never earlier.
            advance(clock, deserializeOffset(offset.json()).atMs);
        }

        @Override
        public Moment deserializeOffset(String json) {
            return new Moment(Long.parseLong(json));
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            long atMs = ((Moment) end).atMs;
            return atMs > ((Moment) start).atMs ? new InputPartition[] {new One(atMs)} : new InputPartition[0];
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return partition -> new OneReader(((One) partition).atMs);
        }

        @Override
        public void commit(Offset end) {}

        @Override
        public void stop() {}
    }

    private static final class Moment extends Offset {
        private final long atMs;

        Moment(long atMs) {
            this.atMs = atMs;
        }

        @Override
        public String json() {
            return Long.toString(atMs);
        }
    }

    private static final class One implements InputPartition {
        private static final long serialVersionUID = 1L;
        private final long atMs;

        One(long atMs) {
            this.atMs = atMs;
        }
    }

    private static final class OneReader implements PartitionReader<InternalRow> {
        private final long atMs;
        private boolean isRead;

        OneReader(long atMs) {
            this.atMs = atMs;
        }

        @Override
        public boolean next() {
            boolean isFirst = !isRead;
            isRead = true;
            return isFirst;
        }

        @Override
        public InternalRow get() {
            return new GenericInternalRow(new Object[] {atMs});
        }

        @Override
        public void close() {}
    }
}
