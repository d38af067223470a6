package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.HexFormat;
import java.util.Map;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** The bytes of a split. Savepoints hold them: no byte here may ever change without a new version that reads the old. */
final class ArrivalSplitTest {
    private static final HexFormat HEX = HexFormat.of();
    // The partition; of each topic the next offset; from version 2 on, of each topic its id; from version 3 on, the newest
    // moment. A text has its size in front.
    static final String PARTITION_3_AT_41 = "00000003 00000001 0001 74 0000000000000029";
    static final String VERSION_1 = PARTITION_3_AT_41;
    static final String VERSION_2 = PARTITION_3_AT_41 + " 00000001 0001 74 0002 6964";
    static final String VERSION_3 = VERSION_2 + " 0000000000001388";
    private static final ArrivalSplit SPLIT = new ArrivalSplit(3, Map.of("t", 41L), Map.of("t", "id"), 5_000);

    private final ArrivalSplit.Serializer serializer = new ArrivalSplit.Serializer();

    @Test
    void aSplitIsWrittenInTheseBytes() throws IOException {
        assertEquals(3, serializer.getVersion());
        assertEquals(VERSION_3.replace(" ", ""), HEX.formatHex(serializer.serialize(SPLIT)));
        assertEquals("partition-3", SPLIT.splitId());
    }

    @Test
    void itIsReadAsEachVersionWroteIt() throws IOException {
        assertSame(SPLIT, serializer.deserialize(3, bytes(VERSION_3)));
        assertSame(new ArrivalSplit(3, Map.of("t", 41L), Map.of("t", "id")), serializer.deserialize(2, bytes(VERSION_2)));
        assertSame(new ArrivalSplit(3, Map.of("t", 41L), Map.of()), serializer.deserialize(1, bytes(VERSION_1)));
    }

    @Test
    void severalTopicsAreReadAsTheyWereWritten() throws IOException {
        ArrivalSplit split = new ArrivalSplit(7, Map.of("a", 1L, "b", 2L, "Ü", 3L), Map.of("a", "x", "b", "y", "Ü", "z"));
        assertSame(split, serializer.deserialize(3, serializer.serialize(split)));
    }

    @Test
    void progressGoesOnBehindTheMessageThatWasHandedOn() {
        ArrivalSplit.Progress progress = new ArrivalSplit.Progress(SPLIT);
        progress.handedOn("t", 41, 0);
        progress.handedOn("u", 0, 0);
        assertSame(new ArrivalSplit(3, Map.of("t", 42L, "u", 1L), Map.of("t", "id"), 5_000), progress.split(Map.of()));
        progress.handedOn("t", 42, 6_000);
        progress.handedOn("t", 43, 5_500);
        assertEquals(6_000, progress.split(Map.of()).newestMs());
    }

    @Test
    void progressPassesMarkersOnlyWhenAllThatWasPolledIsHandedOn() {
        Map<TopicPartition, Reached> polled = Map.of(new TopicPartition("t", 3), new Reached(43, 46));
        ArrivalSplit.Progress progress = new ArrivalSplit.Progress(SPLIT);
        progress.handedOn("t", 42, 0);
        assertEquals(Map.of("t", 43L), progress.split(polled).next());
        progress.handedOn("t", 43, 0);
        assertEquals(Map.of("t", 46L), progress.split(polled).next());
    }

    static void assertSame(ArrivalSplit wanted, ArrivalSplit found) {
        assertEquals(wanted.partition(), found.partition());
        assertEquals(wanted.next(), found.next());
        assertEquals(wanted.ids(), found.ids());
        assertEquals(wanted.newestMs(), found.newestMs());
    }

    static byte[] bytes(String hex) {
        return HEX.parseHex(hex.replace(" ", ""));
    }
}
