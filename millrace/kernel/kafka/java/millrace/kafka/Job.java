package millrace.kafka;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import millrace.kernel.Json;
import millrace.kernel.Loss;

/** A job as millrace/patterns/kafka_job.py declares it. */
public record Job(
        String pattern,
        String name,
        String bootstrap,
        Map<String, String> topics,
        Map<String, String> kinds,
        List<String> raw,
        String judged,
        String enriched,
        List<Reference> references,
        String stage,
        String windows,
        String delivery,
        int threads,
        int instances,
        long disorderMs,
        long idleMs,
        long liveMs,
        boolean isFinite,
        Path folder,
        List<Loss> accepted,
        Map<String, String> settings) {
    public static final String EXACTLY_ONCE = "exactly-once";
    public static final String AT_MOST_ONCE = "at-most-once";

    /** Reference data: its kind, the text of {@code EventType.reader()} and the name of its key. */
    public record Reference(String kind, String event, String key) {}

    public static Job read(Path file) throws IOException {
        return parse(Files.readString(file));
    }

    public static Job parse(String text) {
        Map<String, Object> declared = Json.object(Json.parse(text));
        Map<String, String> topics = texts(declared.get("topics"));
        Map<String, String> kinds = new HashMap<>();
        topics.forEach((kind, topic) -> kinds.put(topic, kind));
        List<Reference> references = new ArrayList<>();
        Json.list(declared.get("references")).forEach(each -> {
            Map<String, Object> reference = Json.object(each);
            references.add(new Reference(
                    (String) reference.get("name"), (String) reference.get("event"), (String) reference.get("key")));
        });
        return new Job(
                (String) declared.get("pattern"),
                (String) declared.get("name"),
                (String) declared.get("bootstrap"),
                topics,
                kinds,
                Json.list(declared.get("raw")),
                (String) declared.get("judged"),
                (String) declared.get("enriched"),
                references,
                (String) declared.get("stage"),
                (String) declared.get("windows"),
                (String) declared.get("delivery"),
                ((Long) declared.get("threads")).intValue(),
                ((Long) declared.get("instances")).intValue(),
                (Long) declared.get("disorder_ms"),
                (Long) declared.get("idle_ms"),
                (Long) declared.get("live_ms"),
                (Boolean) declared.get("finite"),
                Path.of((String) declared.get("folder")),
                Loss.parse(Json.list(declared.get("accepted"))),
                texts(declared.get("settings")));
    }

    public String topic(String kind) {
        return topics.get(kind);
    }

    /** The topics whose messages are judged or remembered, in the order in which those of one millisecond count. */
    public List<String> rawTopics() {
        return raw.stream().map(topics::get).toList();
    }

    /** Whether other processes run the job, too. */
    public boolean isShared() {
        return instances > 1;
    }

    public boolean isExactlyOnce() {
        return delivery.equals(EXACTLY_ONCE);
    }

    public boolean isAtMostOnce() {
        return delivery.equals(AT_MOST_ONCE);
    }

    private static Map<String, String> texts(Object declared) {
        Map<String, String> texts = new LinkedHashMap<>();
        Json.object(declared).forEach((name, value) -> texts.put(name, (String) value));
        return texts;
    }
}
