package millrace.kernel;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BinaryOperator;

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
                return new One(signature, stream, folded(columns[0], (a, b) -> compare(a, b) < 0 ? b : a));
            case "min":
                return new One(signature, stream, folded(columns[0], (a, b) -> compare(a, b) > 0 ? b : a));
            case "sum":
                return new One(signature, stream, folded(columns[0], Measures::sum));
            case "count":
                return new One(signature, stream, 0, new Object[] {0L}, Measures::counted);
            case "last":
                return new One(signature, stream, columns.length, new Object[columns.length],
                        (held, event) -> Arrays.stream(columns).mapToObj(column -> event[column]).toArray());
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

    /** A value that takes in one event's field after another; an event without it changes nothing. */
    private static BinaryOperator<Object[]> folded(int field, BinaryOperator<Object> fold) {
        return (held, event) -> event[field] == null ? held
                : new Object[] {held == null ? event[field] : fold.apply(held[0], event[field])};
    }

    private static Object[] counted(Object[] held, Object[] event) {
        return new Object[] {held == null ? 1L : (Long) held[0] + 1};
    }

    /** Texts in the order of their code points: compareTo would put an emoji before some letters of Asian scripts. */
    @SuppressWarnings("unchecked")
    private static int compare(Object a, Object b) {
        if (a instanceof String text) {
            return Arrays.compareUnsigned(text.getBytes(StandardCharsets.UTF_8),
                    ((String) b).getBytes(StandardCharsets.UTF_8));
        }
        return ((Comparable<Object>) a).compareTo(b);
    }

    /** A sum that would not fit stays at the limit: wrapping around would lie, and failing would stop the job. */
    private static Object sum(Object a, Object b) {
        if (a instanceof Double) {
            return (Double) a + (Double) b;
        }
        long left = (Long) a;
        long right = (Long) b;
        long sum = left + right;
        boolean isOverflow = ((left ^ sum) & (right ^ sum)) < 0;
        return !isOverflow ? sum : left < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
    }

    /** Remembers rows of one width: first values, each behind a byte for its kind, then whole numbers without one. */
    private abstract static class Measure {
        final long signature;
        final String stream;
        final List<Object[]> rows = new ArrayList<>();
        private final int values;
        private final int width;

        Measure(long signature, String stream, int values, int width) {
            this.signature = signature;
            this.stream = stream;
            this.values = values;
            this.width = width;
        }

        /** Puts the measure's outputs at {@code at}; gives the place behind them. */
        abstract int before(Object[] now, Object[] outputs, int at);

        abstract void learn(Object[] event);

        final void read(ByteBuffer from, int end) {
            while (from.position() < end) {
                Object[] row = new Object[width];
                for (int i = 0; i < width; i++) {
                    row[i] = i < values ? Values.read(from) : (Object) from.getLong();
                }
                rows.add(row);
            }
        }

        final void write(DataOutputStream to) throws IOException {
            for (Object[] row : rows) {
                for (int i = 0; i < width; i++) {
                    if (i < values) {
                        Values.write(row[i], to);
                    } else {
                        to.writeLong((Long) row[i]);
                    }
                }
            }
        }
    }

    /** One row, made of the row before, which may be absent, and an event; its columns are the outputs. */
    private static final class One extends Measure {
        private final Object[] none;
        private final BinaryOperator<Object[]> next;

        One(long signature, String stream, BinaryOperator<Object[]> next) {
            this(signature, stream, 1, new Object[1], next);
        }

        One(long signature, String stream, int values, Object[] none, BinaryOperator<Object[]> next) {
            super(signature, stream, values, none.length);
            this.none = none;
            this.next = next;
        }

        @Override
        int before(Object[] now, Object[] outputs, int at) {
            System.arraycopy(rows.isEmpty() ? none : rows.get(0), 0, outputs, at, none.length);
            return at + none.length;
        }

        @Override
        void learn(Object[] event) {
            Object[] row = next.apply(rows.isEmpty() ? null : rows.get(0), event);
            rows.clear();
            if (row != null) {
                rows.add(row);
            }
        }
    }

    /** How many events there were lately; a row for each moment, with the number of its events. */
    private static final class Recent extends Measure {
        private final int time;
        private final long withinMs;

        Recent(long signature, String stream, int time, long withinMs) {
            super(signature, stream, 0, 2);
            this.time = time;
            this.withinMs = withinMs;
        }

        @Override
        int before(Object[] now, Object[] outputs, int at) {
            long since = newest((Long) now[time]) - withinMs;
            long recent = 0;
            for (Object[] moment : rows) {
                if ((Long) moment[0] >= since) {
                    recent += (Long) moment[1];
                }
            }
            outputs[at] = recent;
            return at + 1;
        }

        @Override
        void learn(Object[] event) {
            long atMs = (Long) event[time];
            long since = newest(atMs) - withinMs;
            boolean isNew = true;
            for (Object[] moment : rows) {
                if ((Long) moment[0] == atMs) {
                    moment[1] = (Long) moment[1] + 1;
                    isNew = false;
                }
            }
            if (isNew) {
                rows.add(new Object[] {atMs, 1L});
            }
            rows.removeIf(moment -> (Long) moment[0] < since);
        }

        private long newest(long atMs) {
            long newest = atMs;
            for (Object[] moment : rows) {
                newest = Math.max(newest, (Long) moment[0]);
            }
            return newest;
        }
    }

    /**
     * How many values other than the event's own were seen lately; a value too old to count again is forgotten. Null is
     * no value: its row only keeps the newest time.
     */
    private static final class Others extends Measure {
        private final int field;
        private final int time;
        private final long withinMs;

        Others(long signature, String stream, int field, int time, long withinMs) {
            super(signature, stream, 1, 2);
            this.field = field;
            this.time = time;
            this.withinMs = withinMs;
        }

        @Override
        int before(Object[] now, Object[] outputs, int at) {
            long since = newest((Long) now[time]) - withinMs;
            long others = 0;
            for (Object[] seen : rows) {
                if ((Long) seen[1] >= since && seen[0] != null && !seen[0].equals(now[field])) {
                    others++;
                }
            }
            outputs[at] = others;
            return at + 1;
        }

        @Override
        void learn(Object[] event) {
            long atMs = (Long) event[time];
            long since = newest(atMs) - withinMs;
            boolean isNew = true;
            for (Object[] seen : rows) {
                if (Objects.equals(seen[0], event[field])) {
                    seen[1] = Math.max((Long) seen[1], atMs);
                    isNew = false;
                }
            }
            if (isNew) {
                rows.add(new Object[] {event[field], atMs});
            }
            rows.removeIf(seen -> (Long) seen[1] < since);
        }

        private long newest(long atMs) {
            long newest = atMs;
            for (Object[] seen : rows) {
                newest = Math.max(newest, (Long) seen[1]);
            }
            return newest;
        }
    }
}
