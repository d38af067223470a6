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
 * that is kept of them.
 */
public final class Admit extends StatefulProcessor<String, Row, Row> {
    public static final String IS_LATE = "_is_late";
    public static final String WATERMARK_MS = "_watermark_ms";
    private static final long serialVersionUID = 1L;

    private final int id;
    private final int atMs;
    private final long rememberedMs;
    private final int partition;
    private final int offset;
    private transient MapState<String, Boolean> seen;
    private transient MapState<Long, Long> reached;

    Admit(int id, int atMs, long rememberedMs, int partition, int offset) {
        this.id = id;
        this.atMs = atMs;
        this.rememberedMs = rememberedMs;
        this.partition = partition;
        this.offset = offset;
    }

    /** The events, each id of a key once within the remembered time, with {@link #IS_LATE} and {@link #WATERMARK_MS}. */
    public static Dataset<Row> over(Dataset<Row> events, String key, String id, String atMs, long rememberedMs) {
        StructType schema = events.schema();
        return through(new Admit(schema.fieldIndex(id), schema.fieldIndex(atMs), rememberedMs, -1, -1), events, key);
    }

    /** The events, each place of a key once; rows whose {@code id} is null pass. */
    public static Dataset<Row> overPlaces(
            Dataset<Row> events, String key, String id, String atMs, String partition, String offset) {
        StructType schema = events.schema();
        Admit admit = new Admit(schema.fieldIndex(id), schema.fieldIndex(atMs), 0,
                schema.fieldIndex(partition), schema.fieldIndex(offset));
        return through(admit, events, key);
    }

    private static Dataset<Row> through(Admit admit, Dataset<Row> events, String key) {
        StructType output = events.schema().add(IS_LATE, DataTypes.BooleanType).add(WATERMARK_MS, DataTypes.LongType);
        return Rows.through(admit, events, key, output);
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        if (offset < 0) {
            TTLConfig forgotten = new TTLConfig(Duration.ofMillis(rememberedMs));
            seen = getHandle().getMapState("seen", Encoders.STRING(), Encoders.BOOLEAN(), forgotten);
        } else {
            reached = getHandle().getMapState("reached", Encoders.LONG(), Encoders.LONG(), TTLConfig.NONE());
        }
    }

    @Override
    public Iterator<Row> handleInputRows(String key, Iterator<Row> rows, TimerValues times) {
        long watermarkMs = times.getCurrentWatermarkInMs();
        List<Row> arrived = new ArrayList<>();
        rows.foreach(arrived::add);
        if (offset >= 0) {
            // A batch holds the rows of a key in no order.
            arrived.sort(Comparator.comparingLong(row -> row.isNullAt(offset) ? -1 : row.getLong(offset)));
        }
        List<Row> admitted = new ArrayList<>();
        Map<Long, Long> newest = new HashMap<>();
        for (Row row : arrived) {
            if (row.isNullAt(id)) {
                admitted.add(Rows.with(row, false, watermarkMs));
            } else if (offset < 0 ? isNewId(row.getString(id)) : isNewPlace(row, newest)) {
                admitted.add(Rows.with(row, row.getLong(atMs) <= watermarkMs, watermarkMs));
            }
        }
        newest.forEach((from, last) -> reached.updateValue(from, last));
        return CollectionConverters.asScala(admitted.iterator());
    }

    private boolean isNewId(String event) {
        boolean isNew = !seen.containsKey(event);
        if (isNew) {
            seen.updateValue(event, true);
        }
        return isNew;
    }

    /** State is read and written once for all rows of a partition: each access encodes and decodes. */
    private boolean isNewPlace(Row row, Map<Long, Long> newest) {
        long from = row.getLong(partition);
        long last = newest.computeIfAbsent(from, each -> reached.containsKey(each) ? reached.getValue(each) : -1L);
        boolean isNew = last < row.getLong(offset);
        if (isNew) {
            newest.put(from, row.getLong(offset));
        }
        return isNew;
    }
}
