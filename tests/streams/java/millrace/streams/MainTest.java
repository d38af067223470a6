package millrace.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import millrace.kafka.Job;
import org.apache.kafka.streams.StreamsConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The configuration of Kafka Streams that follows from a job. */
final class MainTest {
    @Test
    void whoeverTakesOverAPartitionOfASharedJobHasItsStateAlready() {
        assertEquals(1, of(2, Map.of()).get(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG));
        assertEquals(0, of(1, Map.of()).get(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG));
        String own = StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG;
        assertEquals("2", of(2, Map.of(own, "2")).get(own));
    }

    @Test
    void theGroupIsThePatternsAndTheGuaranteeIsAsItPromises() {
        assertEquals("p", of(1, Map.of()).get(StreamsConfig.APPLICATION_ID_CONFIG));
        assertEquals("exactly_once_v2", of(1, Map.of()).get(StreamsConfig.PROCESSING_GUARANTEE_CONFIG));
    }

    @Test
    void stateOfLongAgoOrOfOtherTopicsIsNotTakenUp(@TempDir Path folder) throws IOException {
        Path mark = Files.writeString(folder.resolve("clean"), "{a=1}");
        Instant written = Files.getLastModifiedTime(mark).toInstant();
        assertTrue(Main.isClean(mark, "{a=1}", written.plusSeconds(3_599)));
        assertFalse(Main.isClean(mark, "{a=1}", written.plusSeconds(3_600)));
        assertFalse(Main.isClean(mark, "{a=2}", written));
        assertFalse(Main.isClean(folder.resolve("none"), "{a=1}", written));
    }

    private static Properties of(int instances, Map<String, String> settings) {
        return Main.settings(new Job("p", "p-streams", "127.0.0.1:1", Map.of(), Map.of(), List.of(), "pays", "enriched",
                List.of(), "{}", null, Job.EXACTLY_ONCE, 1, instances, 0, 0, 0, false, Path.of("state"), List.of(),
                settings));
    }
}
