package millrace.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AheadTest {
    private static final TopicPartition PLACE = new TopicPartition("p.transactions", 1);
    private static final TopicPartition OTHER = new TopicPartition("p.merchants", 0);
    private static final Map<String, String> IDS = Map.of("p.transactions", "id");

    @TempDir
    private Path folder;

    private String lines() throws Exception {
        return Files.readString(folder.resolve("in-flight.jsonl"));
    }

    @Test
    void whatAWorkerHadCommittedAndNotCompletedIsInFlightForTheNextOne() throws Exception {
        Ahead first = new Ahead();
        first.begin(Map.of(PLACE, new OffsetAndMetadata(5)), folder, 1);
        first.reach(Map.of(PLACE, 7L));
        Map<TopicPartition, OffsetAndMetadata> committed = first.noted(Map.of(PLACE, 9L), IDS);
        assertEquals("", lines());
        new Ahead().begin(committed, folder, 42);
        assertEquals("{\"topic\":\"p.transactions\",\"partition\":1,\"first\":7,\"end\":9,\"at_ms\":42}\n", lines());
    }

    @Test
    void aWorkerThatHadCompletedAllLeavesNothingInFlight() throws Exception {
        Ahead first = new Ahead();
        first.begin(Map.of(PLACE, new OffsetAndMetadata(5)), folder, 1);
        first.reach(Map.of(PLACE, 9L));
        new Ahead().begin(first.noted(Map.of(PLACE, 9L), IDS), folder, 42);
        assertEquals("", lines());
    }

    @Test
    void aNoteOfAnotherGuaranteeAndReferenceDataThatIsNewAreNotInFlight() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
        committed.put(PLACE, new OffsetAndMetadata(5, "{\"topic_id\":\"id\",\"checkpoint\":3}"));
        committed.put(OTHER, null);
        Ahead next = new Ahead();
        next.begin(committed, folder, 42);
        assertEquals("", lines());
        assertEquals("{\"topic_id\":\"id\",\"complete\":5}", next.noted(Map.of(PLACE, 9L), IDS).get(PLACE).metadata());
    }
}
