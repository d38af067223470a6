package millrace.kernel;

import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Writes the dead letters of one stage. For one thread. */
final class DeadLetters {
    private static final String KIND = "dead-letters";

    private final Message message;
    private final Object[] row = new Object[6];

    DeadLetters(String stage, List<String> columns) {
        Map<String, Expression> values = new HashMap<>();
        List<String> places = List.of("reason", "topic", "partition", "offset", "ingest_ms", "value_base64");
        places.forEach(name -> values.put(name, each -> each[places.indexOf(name)]));
        values.put("stage", each -> stage);
        message = new Message(columns, values);
    }

    /** Sends the letter of a refused message; of its bytes what may be kept. */
    void send(String reason, String topic, long partition, long offset, long ingestMs, byte[] kept, Outputs outputs) {
        row[0] = reason;
        row[1] = topic;
        row[2] = partition;
        row[3] = offset;
        row[4] = ingestMs;
        row[5] = kept == null ? null : Base64.getEncoder().encodeToString(kept);
        outputs.send(KIND, topic, message.of(row));
    }
}
