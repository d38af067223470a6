package millrace.storm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import millrace.kernel.Json;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * At most once: how far the committed offsets of a job's worker are ahead of its complete outputs.
 *
 * <p>Beside each committed offset stands the offset before which all outputs were acknowledged. What lies between the two
 * when a worker ends was in flight, and may be lost: the next worker notes it in a file, for the verdict.
 */
final class Ahead {
    private static final Map<String, Ahead> OF_JOBS = new ConcurrentHashMap<>(); // which the tasks of a job share
    private static final String COMPLETE = "complete";
    private static final String FILE = "in-flight.jsonl";

    private final Map<TopicPartition, Long> complete = new ConcurrentHashMap<>();

    /** What the tasks of a topology share. */
    static Ahead of(String topology) {
        return OF_JOBS.computeIfAbsent(topology, id -> new Ahead());
    }

    /** Notes where a worker begins, and what the one before had in flight. */
    void begin(Map<TopicPartition, OffsetAndMetadata> committed, Path folder, long nowMs) {
        List<String> lines = new ArrayList<>();
        committed.forEach((place, next) -> {
            if (next == null) {
                return; // reference data that was not read yet
            }
            complete.put(place, next.offset());
            Object through = next.metadata().startsWith("{") ? Json.object(Json.parse(next.metadata())).get(COMPLETE) : null;
            if (through != null && (Long) through < next.offset()) {
                Map<String, Object> line = new LinkedHashMap<>();
                line.put("topic", place.topic());
                line.put("partition", (long) place.partition());
                line.put("first", through);
                line.put("end", next.offset());
                line.put("at_ms", nowMs);
                lines.add(Json.text(line) + "\n");
            }
        });
        try {
            Files.writeString(folder.resolve(FILE), String.join("", lines),
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Notes that all outputs of what lies before these offsets are acknowledged. */
    void reach(Map<TopicPartition, Long> next) {
        next.forEach((place, offset) -> complete.merge(place, offset, Math::max));
    }

    /** What is committed for these offsets. */
    Map<TopicPartition, OffsetAndMetadata> noted(Map<TopicPartition, Long> next, Map<String, String> topicIds) {
        Map<TopicPartition, OffsetAndMetadata> noted = new HashMap<>();
        next.forEach((place, offset) -> {
            Map<String, Object> note = new LinkedHashMap<>();
            if (topicIds.containsKey(place.topic())) {
                note.put("topic_id", topicIds.get(place.topic()));
            }
            note.put(COMPLETE, complete.getOrDefault(place, 0L));
            noted.put(place, new OffsetAndMetadata(offset, Json.text(note)));
        });
        return noted;
    }
}
