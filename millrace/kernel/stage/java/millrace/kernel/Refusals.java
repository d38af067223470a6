package millrace.kernel;

import java.util.HashMap;
import java.util.Map;

/** The dead letters of reference data: what is refused of it, and why. For one thread. */
public final class Refusals {
    private final Map<String, EventReader> readers = new HashMap<>();
    private final Map<String, String> topics;
    private final DeadLetters deadLetters;

    /** From the JSON text of {@code stage_data()} and the topic of each kind. */
    public Refusals(String declaration, Map<String, String> topics) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        this.topics = topics;
        Json.list(declared.get("references")).forEach(each -> {
            Map<String, Object> reference = Json.object(each);
            readers.put((String) reference.get("name"), new EventReader((String) reference.get("event")));
        });
        deadLetters = new DeadLetters(Stage.NAME, Json.list(declared.get("dead_letters")));
    }

    /** Sends the dead letter of a message that cannot be read; one without a value deletes its key. */
    public void take(String kind, int partition, long offset, long ingestMs, byte[] value, Outputs outputs) {
        if (value == null) {
            return;
        }
        EventReader reader = readers.get(kind);
        String reason = (String) reader.read(value, ingestMs)[0];
        if (reason != null) {
            byte[] kept = reader.kept(value, reason);
            deadLetters.send(reason, topics.get(kind), partition, offset, ingestMs, kept, outputs);
        }
    }
}
