package millrace.kernel;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a key's earlier events left behind, as millrace/rules/measures.py declares and millrace/oracle.py defines it.
 *
 * <p>Use: {@link #restore} the key's state, take {@link #before} for the event at hand, {@link #learn} from it, and keep
 * the bytes that {@link #save} gives. The bytes hold each measure under its signature, so a rule that is added, removed
 * or moved leaves the memory of the others as it was. One object serves one key after another, for one thread.
 */
public final class Measures {
    private final Measure[] measures;
    private final Map<Long, Measure> bySignature = new HashMap<>();
    private final Map<String, List<String>> inputs = new LinkedHashMap<>();
    private final Map<String, String> kinds = new LinkedHashMap<>();
    private final List<String> outputs = new ArrayList<>();
    private final ByteArrayOutputStream saved = new ByteArrayOutputStream();
    private final DataOutputStream toSaved = new DataOutputStream(saved);
    private final ByteArrayOutputStream part = new ByteArrayOutputStream();
    private final DataOutputStream toPart = new DataOutputStream(part);

    /** From {@code StageMemory.measures} as parsed JSON. */
    public Measures(List<Object> declared) {
        measures = new Measure[declared.size()];
        for (int i = 0; i < measures.length; i++) {
            measures[i] = measure(Json.object(declared.get(i)));
            bySignature.put(measures[i].signature, measures[i]);
        }
    }

    /** Columns that {@link #before} gives, in order. */
    public List<String> outputs() {
        return outputs;
    }

    /** The kind of an output: whole, real, text or flag. */
    public String kind(String output) {
        return kinds.get(output);
    }

    /** The fields of a stream that {@link #learn} and {@link #before} want to be given, in order. */
    public List<String> inputs(String stream) {
        return inputs.getOrDefault(stream, List.of());
    }

    /** Takes up a key's state; null is that of a new key. */
    public void restore(byte[] saved) {
        for (Measure measure : measures) {
            measure.rows.clear();
        }
        ByteBuffer from = saved == null ? ByteBuffer.allocate(0) : ByteBuffer.wrap(saved);
        for (int i = 0; from.hasRemaining(); i++) {
            long signature = from.getLong();
            int size = from.getInt();
            int end = from.position() + size;
            // Nearly always the declared order is the one that was saved in.
            boolean inPlace = i < measures.length && measures[i].signature == signature;
            Measure measure = inPlace ? measures[i] : bySignature.get(signature);
            if (measure != null) {
                measure.read(from, end);
            }
            from.position(end);
        }
    }

    /** The remembered values as a condition sees them when {@code now} arrives. */
    public Object[] before(Object[] now) {
        Object[] values = new Object[outputs.size()];
        int at = 0;
        for (Measure measure : measures) {
            at = measure.before(now, values, at);
        }
        return values;
    }

    /** Takes in an event that has been judged, or one of another stream. */
    public void learn(String stream, Object[] event) {
        for (Measure measure : measures) {
            if (measure.stream.equals(stream)) {
                measure.learn(event);
            }
        }
    }

    /** The key's state as it is now. */
    public byte[] save() {
        saved.reset();
        try {
            for (Measure measure : measures) {
                if (!measure.rows.isEmpty()) {
                    part.reset();
                    measure.write(toPart);
                    toSaved.writeLong(measure.signature);
                    toSaved.writeInt(part.size());
                    part.writeTo(toSaved);
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return saved.toByteArray();
    }

    private Measure measure(Map<String, Object> declared) {
        String op = (String) declared.get("op");
        String stream = (String) declared.get("stream");
        List<String> fieldKinds = Json.list(declared.get("kinds"));
        long signature = signature(declared.get("signature") + " " + fieldKinds);
        List<String> wanted = inputs.computeIfAbsent(stream, s -> new ArrayList<>());
        int[] columns = Json.<String>list(declared.get("fields")).stream().mapToInt(f -> column(wanted, f)).toArray();
        Json.object(declared.get("outputs")).forEach((name, kind) -> {
            outputs.add(name);
            kinds.put(name, (String) kind);
        });
        switch (op) {
            case "max":
                return OneRow.max(signature, stream, columns[0]);
            case "min":
                return OneRow.min(signature, stream, columns[0]);
            case "sum":
                return OneRow.sum(signature, stream, columns[0]);
            case "count":
                return OneRow.count(signature, stream);
            case "last":
                return OneRow.last(signature, stream, columns);
            case "recent":
                return new Recent(signature, stream, column(wanted, (String) declared.get("time")),
                        ((Number) declared.get("within_ms")).longValue());
            case "others":
                int time = column(wanted, (String) declared.get("time"));
                return new Others(signature, stream, columns[0], time, ((Number) declared.get("within_ms")).longValue());
            default:
                throw new IllegalArgumentException("no measure is called '" + op + "'");
        }
    }

    private static int column(List<String> wanted, String field) {
        if (!wanted.contains(field)) {
            wanted.add(field);
        }
        return wanted.indexOf(field);
    }

    private static long signature(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return ByteBuffer.wrap(digest).getLong();
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
