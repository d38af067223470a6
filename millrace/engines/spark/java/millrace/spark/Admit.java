package millrace.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
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
 * Lets the first event of each id pass and drops what comes again; marks each that is late.
 *
 * <p>Spark's own operators drop late rows without a trace, before they are read, and with them the
 * difference between an event that was not counted and a repetition of one that was. Here an event is late if its time
 * is not after the watermark; no operator behind this one has a reason to drop anything. Rows without an id pass as
 * they are.
 */
public final class Admit extends StatefulProcessor<String, Row, Row> {
    public static final String IS_LATE = "is_late";
    public static final String WATERMARK_MS = "watermark_ms";
    private static final long serialVersionUID = 1L;

    private final int id;
    private final int atMs;
    private final long rememberedMs;
    private transient MapState<String, Boolean> seen;

    private Admit(int id, int atMs, long rememberedMs) {
        this.id = id;
        this.atMs = atMs;
        this.rememberedMs = rememberedMs;
    }

    /** The events, each id of a key once within the remembered time, with {@link #IS_LATE} and {@link #WATERMARK_MS}. */
    public static Dataset<Row> over(Dataset<Row> events, String key, String id, String atMs, long rememberedMs) {
        StructType schema = events.schema();
        Admit admit = new Admit(schema.fieldIndex(id), schema.fieldIndex(atMs), rememberedMs);
        StructType output = schema.add(IS_LATE, DataTypes.BooleanType).add(WATERMARK_MS, DataTypes.LongType);
        return Rows.through(admit, events, key, output);
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        TTLConfig forgotten = new TTLConfig(Duration.ofMillis(rememberedMs));
        seen = getHandle().getMapState("seen", Encoders.STRING(), Encoders.BOOLEAN(), forgotten);
    }

    @Override
    public Iterator<Row> handleInputRows(String key, Iterator<Row> rows, TimerValues times) {
        long watermarkMs = times.getCurrentWatermarkInMs();
        List<Row> admitted = new ArrayList<>();
        while (rows.hasNext()) {
            Row row = rows.next();
            if (row.isNullAt(id)) {
                admitted.add(Rows.with(row, false, watermarkMs));
            } else if (!seen.containsKey(row.getString(id))) {
                seen.updateValue(row.getString(id), true);
                admitted.add(Rows.with(row, row.getLong(atMs) <= watermarkMs, watermarkMs));
            }
        }
        return CollectionConverters.asScala(admitted.iterator());
    }
}
