package millrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TwsTester;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** In which order a batch is taken, and how long an id is remembered. */
final class RememberTest {
    private static final StructType EVENT =
            new StructType().add("id", DataTypes.StringType).add("cents", DataTypes.LongType);
    private static final StructType ROWS = new StructType()
            .add("stream", DataTypes.StringType)
            .add("topic", DataTypes.StringType)
            .add("partition", DataTypes.IntegerType)
            .add("offset", DataTypes.LongType)
            .add("ingest_ms", DataTypes.LongType)
            .add("reason", DataTypes.StringType)
            .add("limits", EVENT)
            .add("buys", EVENT);
    private static final int REASON = ROWS.fieldIndex("reason");
    private static final int BUYS = ROWS.fieldIndex("buys");
    private static final int REMEMBERED = ROWS.size();
    /** By their names the streams stand the other way round. */
    private static final String DECLARATION = """
            {"stream": "buys", "streams": ["limits", "buys"], "id": "id", "remembered_ms": 60000, "kept_ms": 90000,
             "measures": [{"signature": "max(limits.cents)", "op": "max", "stream": "limits", "fields": ["cents"],
                           "kinds": ["whole"], "outputs": {"m0": "whole"}, "time": null, "within_ms": null}]}""";

    private final TwsTester<String, Row, Row> tester = new TwsTester<>(new Remember(ROWS, DECLARATION),
            CollectionConverters.asScala(List.<scala.Tuple2<String, Object>>of()).toList(),
            TimeMode.ProcessingTime(), OutputMode.Append(), Option.empty());

    @Test
    void theOrderOfAPartitionStandsThoughItsClockWasSetBack() {
        // limits: 5 at 1000 ms, then 7 at 400 ms, which counts as 1000 ms: a at 600 ms finds neither.
        assertEquals(List.of("a: null", "b: 7"),
                taken(buys("b", 1, 1_100), limits(1, 400, 7), buys("a", 0, 600), limits(0, 1_000, 5)));
        // Of an id that came twice, the message with the lower offset counts, though its clock was ahead.
        assertEquals(List.of("c: 7", "d: 7", "c: duplicate"),
                taken(buys("c", 4, 100), buys("d", 3, 500), buys("c", 2, 2_000)));
    }

    @Test
    void ofTheSameMillisecondTheStreamThatIsDeclaredFirstComesFirst() {
        assertEquals(List.of("a: 5"), taken(buys("a", 0, 1_000), limits(0, 1_000, 5)));
    }

    @Test
    void anIdCountsForTheTimeBetweenArrivals() {
        assertEquals(List.of("a: null"), taken(buys("a", 0, 100)));
        assertEquals(List.of("a: duplicate"), taken(buys("a", 1, 60_100)));
        assertEquals(List.of("a: null"), taken(buys("a", 2, 60_101)));
    }

    /** A tester's state never expires; Spark's does, by the time that it is declared with. */
    @Test
    void onlyIdsExpireAndAfterTheirTime() {
        Map<String, TTLConfig> declared = new HashMap<>();
        Remember remember = new Remember(ROWS, DECLARATION);
        Class<?>[] handle = {StatefulProcessorHandle.class};
        remember.setHandle((StatefulProcessorHandle) Proxy.newProxyInstance(
                StatefulProcessorHandle.class.getClassLoader(), handle, (proxy, method, arguments) -> {
                    declared.put((String) arguments[0], (TTLConfig) arguments[arguments.length - 1]);
                    return null;
                }));
        remember.init(OutputMode.Append(), TimeMode.ProcessingTime());
        assertEquals(Map.of("memory", TTLConfig.NONE(), "arrived", new TTLConfig(Duration.ofSeconds(90))), declared);
    }

    private static Row buys(String id, long offset, long ingestMs) {
        return RowFactory.create("buys", "t.buys", 0, offset, ingestMs, null, null, RowFactory.create(id, 1L));
    }

    private static Row limits(long offset, long ingestMs, long cents) {
        return RowFactory.create("limits", "t.limits", 0, offset, ingestMs, null, RowFactory.create("", cents), null);
    }

    /** The judged events in the order in which they were taken, each with what it found remembered or why it is refused. */
    private List<String> taken(Row... rows) {
        List<String> found = new ArrayList<>();
        tester.test("anna", CollectionConverters.asScala(Arrays.asList(rows)).toList()).foreach(row -> found.add(
                row.getStruct(BUYS).getString(0) + ": " + (row.isNullAt(REASON) ? row.get(REMEMBERED) : row.get(REASON))));
        return found;
    }
}
