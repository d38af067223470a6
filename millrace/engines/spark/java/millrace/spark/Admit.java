package millrace.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets each event pass once, by its id or by its place, and drops what comes again; marks each that is late.
 *
 * <p>Spark's own operators drop late rows without a trace, before they are read, and with them the
 * difference between an event that was not counted and a repetition of one that was. Here an event is late if its time
 * is not after the watermark; no operator behind this one has a reason to drop anything. Rows without an id pass as
 * they are. Events known by their place come in its order, key by key, so the last place of a key and partition is all
 * that is kept of them, and when the newest of its events arrived: one that arrived later has a place of its own, even if
 * its offset is smaller, because its topic was created anew.
 */
public final class Admit extends StatefulProcessor<String, Row, Row> {
    public static final String IS_LATE = "_is_late";
    public static final String WATERMARK_MS = "_watermark_ms";
    private static final long serialVersionUID = 1L;
    private static final long UNKNOWN = Long.MAX_VALUE;

    private final int id;
    private final int atMs;
    private final long rememberedMs;
    private final long keptMs;
    private final int partition;
    private final int offset;
    private final int ingestMs;
    private transient MapState<String, Long> known;
    private transient MapState<Long, Long> reached;
    private transient MapState<Long, Long> arrived;

    /** The last place of a partition, and when its newest event arrived, which an older state does not have. */
    private record Last(long offset, long arrivedMs) {}

    Admit(int id, int atMs, int ingestMs, long rememberedMs, long keptMs, int partition, int offset) {
        this.id = id;
        this.atMs = atMs;
        this.rememberedMs = rememberedMs;
        this.keptMs = keptMs;
        this.partition = partition;
        this.offset = offset;
        this.ingestMs = ingestMs;
    }

    /**
     * The events, each id of a key once within the remembered time, with {@link #IS_LATE} and {@link #WATERMARK_MS}. The
     * time is between arrivals; the state expires by the clock, so it is kept for longer.
     */
    public static Dataset<Row> over(Dataset<Row> events, String key, String id, String atMs, String ingestMs,
            long rememberedMs, long keptMs) {
        StructType schema = events.schema();
        Admit admit = new Admit(schema.fieldIndex(id), schema.fieldIndex(atMs), schema.fieldIndex(ingestMs),
                rememberedMs, keptMs, -1, -1);
        return through(admit, events, key);
    }

    /** The events, each place of a key once; rows whose {@code id} is null pass. */
    public static Dataset<Row> overPlaces(
            Dataset<Row> events, String key, String id, String atMs, String ingestMs, String partition, String offset) {
        StructType schema = events.schema();
        Admit admit = new Admit(schema.fieldIndex(id), schema.fieldIndex(atMs), schema.fieldIndex(ingestMs),
                0, 0, schema.fieldIndex(partition), schema.fieldIndex(offset));
        return through(admit, events, key);
    }

    private static Dataset<Row> through(Admit admit, Dataset<Row> events, String key) {
        StructType output = events.schema().add(IS_LATE, DataTypes.BooleanType).add(WATERMARK_MS, DataTypes.LongType);
        return Rows.through(admit, events, key, output);
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        if (offset < 0) {
            TTLConfig forgotten = new TTLConfig(Duration.ofMillis(keptMs));
            known = getHandle().getMapState("known", Encoders.STRING(), Encoders.LONG(), forgotten);
        } else {
            reached = getHandle().getMapState("reached", Encoders.LONG(), Encoders.LONG(), TTLConfig.NONE());
            arrived = getHandle().getMapState("arrived", Encoders.LONG(), Encoders.LONG(), TTLConfig.NONE());
        }
    }

    @Override
    public Iterator<Row> handleInputRows(String key, Iterator<Row> rows, TimerValues times) {
        long watermarkMs = times.getCurrentWatermarkInMs();
        List<Row> found = new ArrayList<>();
        rows.foreach(found::add);
        Map<Long, Last> newest = new HashMap<>();
        if (offset >= 0) {
            // A batch holds the rows of a key in no order.
            found.sort(inOrder(found, newest));
        }
        List<Row> admitted = new ArrayList<>();
        for (Row row : found) {
            if (row.isNullAt(id)) {
                admitted.add(Rows.with(row, false, watermarkMs));
            } else if (offset < 0 ? isNewId(row) : isNewPlace(row, newest)) {
                admitted.add(Rows.with(row, row.getLong(atMs) <= watermarkMs, watermarkMs));
            }
        }
        newest.forEach((from, last) -> {
            reached.updateValue(from, last.offset);
            if (last.arrivedMs < UNKNOWN) {
                arrived.updateValue(from, last.arrivedMs);
            }
        });
        return CollectionConverters.asScala(admitted.iterator());
    }

    private boolean isNewId(Row row) {
        String event = row.getString(id);
        long arrivedMs = row.getLong(ingestMs);
        boolean isNew = !known.containsKey(event) || arrivedMs - known.getValue(event) > rememberedMs;
        if (isNew) {
            known.updateValue(event, arrivedMs);
        }
        return isNew;
    }

    private boolean isNewPlace(Row row, Map<Long, Last> newest) {
        Last last = last(row, newest);
        boolean isNew = row.getLong(offset) > last.offset || isAnew(row, last);
        if (isNew) {
            long own = row.getLong(ingestMs);
            long arrivedMs = last.arrivedMs == UNKNOWN ? own : Math.max(last.arrivedMs, own);
            newest.put(row.getLong(partition), new Last(row.getLong(offset), arrivedMs));
        }
        return isNew;
    }

    /** By offset; by arrival first, where a topic was created anew, since a batch may have events of both. */
    private Comparator<Row> inOrder(List<Row> rows, Map<Long, Last> newest) {
        Comparator<Row> byOffset = Comparator.comparingLong(row -> row.isNullAt(offset) ? -1 : row.getLong(offset));
        boolean isAnew = rows.stream().anyMatch(row -> !row.isNullAt(id) && isAnew(row, last(row, newest)));
        return isAnew
                ? Comparator.<Row>comparingLong(row -> row.isNullAt(ingestMs) ? -1 : row.getLong(ingestMs))
                        .thenComparing(byOffset)
                : byOffset;
    }

    private boolean isAnew(Row row, Last last) {
        return row.getLong(offset) <= last.offset && row.getLong(ingestMs) > last.arrivedMs;
    }

    /** State is read and written once for all rows of a partition: each access encodes and decodes. */
    private Last last(Row row, Map<Long, Last> newest) {
        return newest.computeIfAbsent(row.getLong(partition), from -> reached.containsKey(from)
                ? new Last(reached.getValue(from), arrived.containsKey(from) ? arrived.getValue(from) : UNKNOWN)
                : new Last(-1, Long.MIN_VALUE));
    }
}
