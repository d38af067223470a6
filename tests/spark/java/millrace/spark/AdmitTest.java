package millrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TwsTester;
import org.junit.jupiter.api.Test;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Which events pass a second time, in one batch and in several. */
final class AdmitTest {
    private static final int ID = 0;
    private static final int AT_MS = 1;
    private static final int PARTITION = 2;
    private static final int OFFSET = 3;
    private static final int INGEST_MS = 4;

    @Test
    void aPlaceIsAdmittedOnce() {
        TwsTester<String, Row, Row> places = tester(new Admit(ID, AT_MS, INGEST_MS, 0, 0, PARTITION, OFFSET));
        assertEquals(List.of("1-3", "0-7", "0-8"), admitted(places, at(0, 8), at(1, 3), at(0, 7), at(0, 8)));
        assertEquals(Map.of(0L, 8L, 1L, 3L), reached(places));
        assertEquals(List.of("1-4", "0-9"), admitted(places, at(0, 7), at(0, 9), at(0, 8), at(1, 3), at(1, 4)));
        assertEquals(Map.of(0L, 9L, 1L, 4L), reached(places));
    }

    @Test
    void aBatchOfRepetitionsAdmitsNothing() {
        TwsTester<String, Row, Row> places = tester(new Admit(ID, AT_MS, INGEST_MS, 0, 0, PARTITION, OFFSET));
        admitted(places, at(0, 0), at(0, 5));
        assertEquals(List.of(), admitted(places, at(0, 5), at(0, 0)));
        assertEquals(Map.of(0L, 5L), reached(places));
    }

    @Test
    void theOffsetsOfATopicThatWasCreatedAnewAreNew() {
        TwsTester<String, Row, Row> places = tester(new Admit(ID, AT_MS, INGEST_MS, 0, 0, PARTITION, OFFSET));
        admitted(places, at(0, 8, 100));
        assertEquals(List.of("0-9", "0-0", "0-1"), admitted(places, at(0, 1, 200), at(0, 9, 101), at(0, 0, 200)));
        assertEquals(List.of("0-2"), admitted(places, at(0, 1, 200), at(0, 2, 200), at(0, 0, 200)));
    }

    @Test
    void aClockThatIsSetBackRepeatsNothing() {
        TwsTester<String, Row, Row> places = tester(new Admit(ID, AT_MS, INGEST_MS, 0, 0, PARTITION, OFFSET));
        assertEquals(List.of("0-5", "0-6"), admitted(places, at(0, 6, 90), at(0, 5, 100)));
        assertEquals(List.of("0-7"), admitted(places, at(0, 6, 90), at(0, 5, 100), at(0, 7, 91)));
    }

    @Test
    void anIdIsAdmittedOnce() {
        TwsTester<String, Row, Row> ids = tester(new Admit(ID, AT_MS, INGEST_MS, 60_000, 90_000, -1, -1));
        assertEquals(List.of("a", "b"), admitted(ids, named("a"), named("b"), named("a")));
        assertEquals(List.of("c"), admitted(ids, named("b"), named("c")));
    }

    @Test
    void anIdCountsForTheTimeBetweenArrivals() {
        TwsTester<String, Row, Row> ids = tester(new Admit(ID, AT_MS, INGEST_MS, 60_000, 90_000, -1, -1));
        assertEquals(List.of("a"), admitted(ids, named("a", 100)));
        assertEquals(List.of(), admitted(ids, named("a", 60_100)));
        assertEquals(List.of("a"), admitted(ids, named("a", 60_101)));
        assertEquals(List.of(), admitted(ids, named("a", 100))); // a copy of the first, of another engine's restart
    }

    @Test
    void aRowWithoutIdPassesEachTime() {
        TwsTester<String, Row, Row> places = tester(new Admit(ID, AT_MS, INGEST_MS, 0, 0, PARTITION, OFFSET));
        Row tick = RowFactory.create(null, 1L, null, null, null);
        assertEquals(2, admitted(places, tick, tick).size());
        assertEquals(1, admitted(places, tick).size());
    }

    private static Row at(long partition, long offset) {
        return at(partition, offset, 100);
    }

    private static Row at(long partition, long offset, long ingestMs) {
        return RowFactory.create(partition + "-" + offset, 1L, partition, offset, ingestMs);
    }

    private static Row named(String id) {
        return named(id, 100);
    }

    private static Row named(String id, long ingestMs) {
        return RowFactory.create(id, 1L, 0L, 0L, ingestMs);
    }

    private static TwsTester<String, Row, Row> tester(Admit admit) {
        return new TwsTester<>(admit, CollectionConverters.asScala(List.<scala.Tuple2<String, Object>>of()).toList(),
                TimeMode.ProcessingTime(), OutputMode.Append(), Option.empty());
    }

    private static List<String> admitted(TwsTester<String, Row, Row> tester, Row... rows) {
        List<String> ids = new ArrayList<>();
        tester.test("key", CollectionConverters.asScala(List.of(rows)).toList()).foreach(row -> ids.add(row.getString(ID)));
        return ids;
    }

    private static Map<Long, Long> reached(TwsTester<String, Row, Row> tester) {
        return CollectionConverters.asJava(tester.<Long, Long>peekMapState("reached", "key"));
    }
}
