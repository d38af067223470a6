package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

final class DeadLettersTest {
    private final DeadLetters letters = new DeadLetters("events",
            List.of("value_base64", "reason", "stage", "topic", "partition", "offset", "ingest_ms"));
    private final List<String> sent = new ArrayList<>();

    @Test
    void aLetterHasThePlaceTheReasonAndTheBytes() {
        send("length:who", 1, new byte[] {(byte) 0xff, 0});
        assertEquals(List.of("dead-letters t.pays {\"value_base64\":\"/wA=\",\"reason\":\"length:who\",\"stage\":\"events\","
                + "\"topic\":\"t.pays\",\"partition\":1,\"offset\":2,\"ingest_ms\":3}"), sent);
    }

    @Test
    void aLetterWithoutBytesHasNoneOfTheOneBefore() {
        send("not-json", 1, new byte[] {1});
        send("forbidden:card", 2, null);
        assertEquals("dead-letters t.pays {\"value_base64\":null,\"reason\":\"forbidden:card\",\"stage\":\"events\","
                + "\"topic\":\"t.pays\",\"partition\":2,\"offset\":2,\"ingest_ms\":3}", sent.get(1));
    }

    private void send(String reason, long partition, byte[] kept) {
        letters.send(reason, "t.pays", partition, 2, 3, kept, (kind, key, value) ->
                sent.add(kind + " " + key + " " + new String(value, StandardCharsets.UTF_8)));
    }
}
