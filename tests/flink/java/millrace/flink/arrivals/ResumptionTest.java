package millrace.flink.arrivals;

import static millrace.flink.arrivals.ArrivalSplitTest.assertSame;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import millrace.kernel.Json;
import millrace.kernel.Loss;
import org.apache.flink.util.FlinkRuntimeException;
import org.junit.jupiter.api.Test;

final class ResumptionTest {
    private final FakeTopics topics =
            new FakeTopics().with("t", "id-t", 2).with("u", "id-u", 2).with("t", 1, 10, 20).with("u", 1, 0, 5);

    @Test
    void aNewSplitIsReadFromTheBeginningsThatAreThere() {
        assertSame(split(Map.of("t", 10L, "u", 0L)), resumed(new ArrivalSplit(1, Map.of(), Map.of())));
        assertTrue(topics.isClosed);
    }

    @Test
    void aSplitIsReadFromWhereItStood() {
        assertSame(split(Map.of("t", 15L, "u", 5L)), resumed(split(Map.of("t", 15L, "u", 5L))));
        assertSame(split(Map.of("t", 10L, "u", 5L)), resumed(split(Map.of("t", 10L, "u", 5L))));
        assertSame(split(Map.of("t", 20L, "u", 5L)), resumed(split(Map.of("t", 20L, "u", 5L))));
    }

    @Test
    void aSplitOfVersion1TakesTheTopicsForItsOwn() {
        assertSame(split(Map.of("t", 15L, "u", 5L)),
                resumed(new ArrivalSplit(1, Map.of("t", 15L, "u", 5L), Map.of())));
    }

    @Test
    void aTopicThatIsNewToTheSplitIsReadFromItsBeginning() {
        ArrivalSplit before = new ArrivalSplit(1, Map.of("t", 15L), Map.of("t", "id-t"));
        assertSame(split(Map.of("t", 15L, "u", 0L)), resumed(before));
    }

    @Test
    void messagesThatWereDeletedUnreadAreALoss() {
        assertEquals(List.of(new Loss("t", 1, 9, 10, 20, "id-t", "id-t")), lost(split(Map.of("t", 9L, "u", 5L))));
    }

    @Test
    void anOffsetBehindTheEndIsALoss() {
        assertEquals(List.of(new Loss("t", 1, 21, 10, 20, "id-t", "id-t")), lost(split(Map.of("t", 21L, "u", 5L))));
    }

    @Test
    void aTopicThatWasCreatedAnewIsALossThoughItHasTheOffset() {
        ArrivalSplit before = new ArrivalSplit(1, Map.of("t", 15L, "u", 1L), Map.of("t", "id-t", "u", "id-was"));
        assertEquals(List.of(new Loss("u", 1, 1, 0, 5, "id-u", "id-was")), lost(before));
    }

    @Test
    void allLossesAreNamedAtOnce() {
        assertEquals(2, lost(split(Map.of("t", 9L, "u", 6L))).size());
    }

    @Test
    void behindAnAcceptedLossItIsReadFromWhatIsThere() {
        Loss loss = new Loss("t", 1, 9, 10, 20, "id-t", "id-t");
        assertSame(split(Map.of("t", 10L, "u", 5L)), resumed(split(Map.of("t", 9L, "u", 5L)), loss));
        assertThrows(LostMessagesException.class, () -> resumed(split(Map.of("t", 8L, "u", 5L)), loss));
    }

    @Test
    void aTopicWithFewerPartitionsThanTheStateIsRefusedByName() {
        Exception refused = assertThrows(FlinkRuntimeException.class,
                () -> resumed(new ArrivalSplit(2, Map.of(), Map.of())));
        assertTrue(refused.getMessage().endsWith(
                " has 2 partitions, and the job's state has partition 2; provision the pattern"), refused.getMessage());
    }

    private static ArrivalSplit split(Map<String, Long> next) {
        return new ArrivalSplit(1, next, Map.of("t", "id-t", "u", "id-u"));
    }

    private ArrivalSplit resumed(ArrivalSplit before, Loss... accepted) {
        return new Resumption(() -> topics, "pattern", List.of("t", "u"), List.of(accepted)).of(List.of(before)).get(0);
    }

    private List<Loss> lost(ArrivalSplit before) {
        String message = assertThrows(LostMessagesException.class, () -> resumed(before)).getMessage();
        assertTrue(message.contains("`millrace deploy pattern --accept-loss`"), message);
        return Loss.parse(Json.list(Json.parse(message.substring(message.indexOf("\nlost: ") + "\nlost: ".length()))));
    }
}
