package millrace.kernel;

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
 * What a key's earlier events left behind, as millrace/rules/measures.py declares it and millrace/oracle.py means it.
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

    /** From {@code EventStage.measures} as parsed JSON. */
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
            measure.clear();
        }
        ByteBuffer from = saved == null ? ByteBuffer.allocate(0) : ByteBuffer.wrap(saved);
        for (int i = 0; from.hasRemaining(); i++) {
            long signature = from.getLong();
            int end = Bytes.getSize(from) + from.position();
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
        Bytes to = new Bytes();
        for (Measure measure : measures) {
            if (!measure.isEmpty()) {
                to.putLong(measure.signature);
                int start = to.open();
                measure.write(to);
                to.close(start);
            }
        }
        return to.taken();
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
                return new Extreme(signature, stream, columns[0], 1);
            case "min":
                return new Extreme(signature, stream, columns[0], -1);
            case "sum":
                return new Sum(signature, stream, columns[0]);
            case "count":
                return new Count(signature, stream);
            case "last":
                return new Last(signature, stream, columns);
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

    private abstract static class Measure {
        final long signature;
        final String stream;

        Measure(long signature, String stream) {
            this.signature = signature;
            this.stream = stream;
        }

        abstract void clear();

        abstract boolean isEmpty();

        abstract void read(ByteBuffer from, int end);

        abstract void write(Bytes to);

        /** Puts the measure's values at {@code at} and says where the next one's begin. */
        abstract int before(Object[] now, Object[] values, int at);

        abstract void learn(Object[] event);
    }

    /** The largest or the smallest value. */
    private static final class Extreme extends Measure {
        private final int field;
        private final int sign;
        private Object held;

        Extreme(long signature, String stream, int field, int sign) {
            super(signature, stream);
            this.field = field;
            this.sign = sign;
        }

        @Override
        void clear() {
            held = null;
        }

        @Override
        boolean isEmpty() {
            return held == null;
        }

        @Override
        void read(ByteBuffer from, int end) {
            held = Bytes.getValue(from);
        }

        @Override
        void write(Bytes to) {
            to.putValue(held);
        }

        @Override
        int before(Object[] now, Object[] values, int at) {
            values[at] = held;
            return at + 1;
        }

        @Override
        @SuppressWarnings("unchecked")
        void learn(Object[] event) {
            Object value = event[field];
            if (held == null || value != null && sign * ((Comparable<Object>) value).compareTo(held) > 0) {
                held = value;
            }
        }
    }

    private static final class Sum extends Measure {
        private final int field;
        private Object held;

        Sum(long signature, String stream, int field) {
            super(signature, stream);
            this.field = field;
        }

        @Override
        void clear() {
            held = null;
        }

        @Override
        boolean isEmpty() {
            return held == null;
        }

        @Override
        void read(ByteBuffer from, int end) {
            held = Bytes.getValue(from);
        }

        @Override
        void write(Bytes to) {
            to.putValue(held);
        }

        @Override
        int before(Object[] now, Object[] values, int at) {
            values[at] = held;
            return at + 1;
        }

        @Override
        void learn(Object[] event) {
            Object value = event[field];
            if (held == null) {
                held = value;
            } else if (value instanceof Double) {
                held = (Double) held + (Double) value;
            } else if (value != null) {
                held = saturated((Long) held, (Long) value);
            }
        }

        /** A sum that would not fit stays at the limit: wrapping around would lie, and failing would stop the job. */
        private static long saturated(long a, long b) {
            long sum = a + b;
            boolean isOverflow = ((a ^ sum) & (b ^ sum)) < 0;
            return !isOverflow ? sum : a < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
        }
    }

    private static final class Count extends Measure {
        private long held;

        Count(long signature, String stream) {
            super(signature, stream);
        }

        @Override
        void clear() {
            held = 0;
        }

        @Override
        boolean isEmpty() {
            return held == 0;
        }

        @Override
        void read(ByteBuffer from, int end) {
            held = from.getLong();
        }

        @Override
        void write(Bytes to) {
            to.putLong(held);
        }

        @Override
        int before(Object[] now, Object[] values, int at) {
            values[at] = held;
            return at + 1;
        }

        @Override
        void learn(Object[] event) {
            held++;
        }
    }

    /** Some fields of a stream's last event. */
    private static final class Last extends Measure {
        private final int[] fields;
        private final Object[] held;
        private boolean isEmpty = true;

        Last(long signature, String stream, int[] fields) {
            super(signature, stream);
            this.fields = fields;
            this.held = new Object[fields.length];
        }

        @Override
        void clear() {
            isEmpty = true;
            java.util.Arrays.fill(held, null);
        }

        @Override
        boolean isEmpty() {
            return isEmpty;
        }

        @Override
        void read(ByteBuffer from, int end) {
            isEmpty = false;
            for (int i = 0; i < held.length; i++) {
                held[i] = Bytes.getValue(from);
            }
        }

        @Override
        void write(Bytes to) {
            for (Object value : held) {
                to.putValue(value);
            }
        }

        @Override
        int before(Object[] now, Object[] values, int at) {
            System.arraycopy(held, 0, values, at, held.length);
            return at + held.length;
        }

        @Override
        void learn(Object[] event) {
            isEmpty = false;
            for (int i = 0; i < held.length; i++) {
                held[i] = event[fields[i]];
            }
        }
    }

    /** How many values other than the event's own were seen lately; a value too old to count again is forgotten. */
    private static final class Others extends Measure {
        private final int field;
        private final int time;
        private final long withinMs;
        private final Map<Object, Long> latest = new LinkedHashMap<>();

        Others(long signature, String stream, int field, int time, long withinMs) {
            super(signature, stream);
            this.field = field;
            this.time = time;
            this.withinMs = withinMs;
        }

        @Override
        void clear() {
            latest.clear();
        }

        @Override
        boolean isEmpty() {
            return latest.isEmpty();
        }

        @Override
        void read(ByteBuffer from, int end) {
            while (from.position() < end) {
                Object value = Bytes.getValue(from);
                latest.put(value, from.getLong());
            }
        }

        @Override
        void write(Bytes to) {
            latest.forEach((value, atMs) -> {
                to.putValue(value);
                to.putLong(atMs);
            });
        }

        @Override
        int before(Object[] now, Object[] values, int at) {
            long since = newest((Long) now[time]) - withinMs;
            long others = 0;
            for (Map.Entry<Object, Long> seen : latest.entrySet()) {
                if (seen.getValue() >= since && !java.util.Objects.equals(seen.getKey(), now[field])) {
                    others++;
                }
            }
            values[at] = others;
            return at + 1;
        }

        @Override
        void learn(Object[] event) {
            long atMs = (Long) event[time];
            long since = newest(atMs) - withinMs;
            latest.merge(event[field], atMs, Math::max);
            latest.values().removeIf(seenMs -> seenMs < since);
        }

        private long newest(long atMs) {
            long newest = atMs;
            for (long seenMs : latest.values()) {
                newest = Math.max(newest, seenMs);
            }
            return newest;
        }
    }
}
