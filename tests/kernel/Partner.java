import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiPredicate;
import millrace.kernel.CardNumbers;
import millrace.kernel.Distance;
import millrace.kernel.EventReader;
import millrace.kernel.Json;
import millrace.kernel.Measures;
import millrace.kernel.Outputs;
import millrace.kernel.ReferenceTable;
import millrace.kernel.Stage;
import millrace.kernel.State;
import millrace.kernel.Windows;

/** Answers the tests' questions to the kernel, one line of JSON for another; run from its source. */
public class Partner {
    private static final Map<String, EventReader> READERS = new HashMap<>();
    private static final Map<String, Measures> MEASURES = new HashMap<>();
    private static final int FORGOTTEN_EVERY = 4; // messages, more than come again after a crash

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> question = Json.object(Json.parse(line));
            answers.println(question.containsKey("reason") ? kept(question)
                    : question.containsKey("text") ? json(new Object[] {CardNumbers.areIn((String) question.get("text"))})
                    : question.containsKey("event_type") ? read(question)
                    : question.containsKey("stage") ? stage(question)
                    : question.containsKey("places") ? km(question) : fold(question));
        }
    }

    private static String read(Map<String, Object> question) {
        EventReader reader = READERS.computeIfAbsent((String) question.get("event_type"), EventReader::new);
        byte[] value = bytes(question.get("value"));
        return json(reader.read(value, (Long) question.get("ingest_ms")));
    }

    private static String kept(Map<String, Object> question) {
        EventReader reader = READERS.computeIfAbsent((String) question.get("event_type"), EventReader::new);
        byte[] kept = reader.kept(bytes(question.get("value")), (String) question.get("reason"));
        return json(new Object[] {kept == null ? null : Base64.getEncoder().encodeToString(kept)});
    }

    private static String km(Map<String, Object> question) {
        List<Double> at = Json.list(question.get("places"));
        return json(new Object[] {Distance.km(at.get(0), at.get(1), at.get(2), at.get(3))});
    }

    /** One event after another, with the state saved and restored in between as an engine would. */
    private static String fold(Map<String, Object> question) {
        Measures measures = MEASURES.computeIfAbsent(
                (String) question.get("measures"), text -> new Measures(Json.list(Json.parse(text))));
        String stream = (String) question.get("stream");
        Map<String, Object> event = Json.object(question.get("event"));
        Object[] values = measures.inputs(stream).stream().map(event::get).toArray();
        measures.restore(bytes(question.get("state")));
        Object[] before = (Boolean) question.get("is_judged") ? measures.before(values) : new Object[0];
        measures.learn(stream, values);
        String state = Base64.getEncoder().encodeToString(measures.save());
        return json(new Object[] {json(measures.outputs().toArray()), json(before), state});
    }

    /** A tape, judged by a stage that is started anew wherever the question has a crash: how many messages come again. */
    private static String stage(Map<String, Object> question) {
        Map<String, String> topics = new HashMap<>();
        Json.object(question.get("topics")).forEach((kind, topic) -> topics.put(kind, (String) topic));
        Map<String, ReferenceTable> references = new HashMap<>();
        Json.object(question.get("references")).forEach((kind, declared) -> references.put(kind, new ReferenceTable(
                (String) Json.object(declared).get("event"), (String) Json.object(declared).get("key"))));
        Heap state = new Heap();
        List<Object> sent = new ArrayList<>();
        List<Object[]> events = new ArrayList<>();
        Outputs outputs = new Outputs() {
            @Override
            public void send(String kind, String key, byte[] value) {
                sent.addAll(List.of(kind, key, new String(value, StandardCharsets.UTF_8)));
            }

            @Override
            public void accept(Object[] event) {
                events.add(event);
            }
        };
        String declaration = (String) question.get("stage");
        Stage stage = new Stage(declaration, topics, references);
        List<Object> tape = Json.list(question.get("tape"));
        List<Object> crashes = Json.list(question.get("crashes"));
        for (int i = 0; i < tape.size(); i++) {
            take(Json.object(tape.get(i)), stage, references, state, outputs);
            if (i % FORGOTTEN_EVERY == 0) {
                stage.forget(null, Integer.MAX_VALUE, state);
                stage.settle();
            }
            int again = ((Long) crashes.get(i)).intValue();
            if (again > 0) {
                stage = new Stage(declaration, topics, references);
                for (int j = Math.max(0, i + 1 - again); j <= i; j++) {
                    if (!references.containsKey((String) Json.object(tape.get(j)).get("stream"))) {
                        take(Json.object(tape.get(j)), stage, references, state, outputs);
                    }
                }
            }
        }
        if (question.get("windows") != null) {
            sent.clear();
            windows((String) question.get("windows"), events, !crashes.isEmpty() && (Long) crashes.get(0) > 0, outputs);
        }
        return json(sent.toArray());
    }

    /** The windows over these events, each closed as soon as no later event can be in it. */
    private static void windows(String declaration, List<Object[]> events, boolean isCrashing, Outputs outputs) {
        Windows windows = new Windows(declaration);
        Heap state = new Heap();
        for (int i = 0; i < events.size(); i++) {
            Windows now = windows;
            now.deal(events.get(i), (key, value) -> now.add(key, value, state));
            long nextMs = events.subList(i + 1, events.size()).stream().mapToLong(now::atMs).min().orElse(Long.MAX_VALUE);
            now.advance(nextMs, state, outputs);
            if (isCrashing) {
                Windows again = new Windows(declaration);
                for (Object[] event : events.subList(Math.max(0, i - 2), i + 1)) {
                    again.deal(event, (key, value) -> again.add(key, value, state));
                }
                again.advance(nextMs, state, outputs);
                windows = again;
            }
        }
    }

    private static void take(Map<String, Object> message, Stage stage, Map<String, ReferenceTable> references,
            State state, Outputs outputs) {
        String stream = (String) message.get("stream");
        byte[] value = bytes(message.get("value"));
        long ingestMs = (Long) message.get("ingest_ms");
        int partition = ((Long) message.get("partition")).intValue();
        long offset = (Long) message.get("offset");
        if (references.containsKey(stream)) {
            references.get(stream).take(partition, offset, bytes(message.get("key")), value, ingestMs);
        } else {
            stage.take(stream, partition, offset, ingestMs, value, state, outputs);
        }
    }

    /** A state in memory. */
    private static final class Heap implements State {
        private final TreeMap<byte[], byte[]> entries = new TreeMap<>(Arrays::compareUnsigned);

        @Override
        public byte[] get(byte[] key) {
            return entries.get(key);
        }

        @Override
        public void put(byte[] key, byte[] value) {
            entries.put(key, value);
        }

        @Override
        public void remove(byte[] key) {
            entries.remove(key);
        }

        @Override
        public void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor) {
            for (Map.Entry<byte[], byte[]> each : List.copyOf(entries.subMap(from, to).entrySet())) {
                if (!visitor.test(each.getKey(), each.getValue())) {
                    return;
                }
            }
        }
    }

    private static byte[] bytes(Object base64) {
        return base64 == null ? null : Base64.getDecoder().decode((String) base64);
    }

    private static String json(Object[] values) {
        StringBuilder text = new StringBuilder("[");
        for (Object value : values) {
            text.append(text.length() > 1 ? "," : "");
            if (value instanceof String) {
                quote((String) value, text);
            } else {
                text.append(value);
            }
        }
        return text.append(']').toString();
    }

    private static void quote(String value, StringBuilder text) {
        text.append('"');
        for (char c : value.toCharArray()) {
            text.append(c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : c);
        }
        text.append('"');
    }
}
