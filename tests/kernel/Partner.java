import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.kernel.CardNumbers;
import millrace.kernel.Distance;
import millrace.kernel.EventReader;
import millrace.kernel.Json;
import millrace.kernel.Measures;

/** Answers the tests' questions to the kernel, one line of JSON for another; run from its source. */
public class Partner {
    private static final Map<String, EventReader> READERS = new HashMap<>();
    private static final Map<String, Measures> MEASURES = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> question = Json.object(Json.parse(line));
            answers.println(question.containsKey("reason") ? kept(question)
                    : question.containsKey("text") ? json(new Object[] {CardNumbers.areIn((String) question.get("text"))})
                    : question.containsKey("event_type") ? read(question)
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
