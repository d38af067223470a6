package millrace.kernel;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;

/**
 * The windows stage: keeps the events of each window until time has passed it, then measures and judges it, as
 * {@code window_findings} and {@code summary_rows} of millrace/oracle.py define it. For one thread and one state.
 *
 * <p>Events are dealt out by the keys of rules and summaries, each of which may be on another task, and come back to
 * {@link #add}. What comes again after a crash changes nothing: an event is kept under its place, behind its timer;
 * time is put before a window is closed, and what a window was made of is removed only behind its outputs, the timer
 * first. A session is closed by the timer of its last event alone: removed in part, it is not closed again, and the
 * rest goes with the next one of its key. This rests on a state that keeps puts in their order.
 */
public final class Windows {
    private static final String NAME = "windows";
    private static final char TIME = 'w';
    private static final char TIMER = 't';
    private static final char EVENT = 'e';
    private static final int REMOVED_TOGETHER = 1_000; // the first of them waits until all outputs are acknowledged
    private static final Comparator<String> CODE_POINTS = (a, b) -> Arrays.compareUnsigned(
            a.getBytes(StandardCharsets.UTF_8), b.getBytes(StandardCharsets.UTF_8));

    private final Map<String, Windowed> windowed = new LinkedHashMap<>();
    private final Map<String, Integer> columns = new HashMap<>();
    private final Map<String, Object> kinds = new HashMap<>();
    private final int time;
    private final DeadLetters deadLetters;
    private Long closedMs; // as the state has it; null until it was read
    private byte[] nextTimer = new Key(TIMER).bytes(); // none is before it; a store is slow to pass what was removed

    /** From the JSON text of {@code windows_data()}. */
    public Windows(String declaration) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        List<String> names = Json.list(declared.get("columns"));
        names.forEach(name -> columns.put(name, columns.size()));
        kinds.putAll(Json.object(declared.get("kinds")));
        time = columns.get((String) declared.get("time"));
        deadLetters = new DeadLetters(NAME, Json.list(declared.get("dead_letters")));
        Json.list(declared.get("rules")).forEach(each -> {
            Rule rule = new Rule(Json.object(each), declared);
            windowed.put(rule.name, rule);
        });
        Json.list(declared.get("summaries")).forEach(each -> {
            Summary summary = new Summary(Json.object(each), declared);
            windowed.put(summary.name, summary);
        });
    }

    /** The time of an event, of the columns of the intermediate topic. */
    public long atMs(Object[] event) {
        return (Long) event[time];
    }

    /** Sends the dead letter of an event that comes too late for its windows. */
    public void refuse(Object[] event, Outputs outputs) {
        deadLetters.send("late", (String) event[columns.get("source_topic")], (Long) event[columns.get("source_partition")],
                (Long) event[columns.get("source_offset")], (Long) event[columns.get("ingest_ms")], null, outputs);
    }

    /** Deals an event out: a key and a value for each rule and summary. */
    public void deal(Object[] event, BiConsumer<byte[], byte[]> to) {
        for (Windowed each : windowed.values()) {
            Key key = new Key(EVENT).text(each.name).text(each.key(event));
            to.accept(key.bytes(), each.values(event));
        }
    }

    /** Keeps an event that was dealt out, unless its windows are closed. */
    public void add(byte[] key, byte[] value, State state) {
        ByteBuffer from = ByteBuffer.wrap(key).position(1);
        Windowed own = windowed.get(Key.text(from));
        if (own != null) { // of an earlier version
            own.add(Key.text(from), value, timeMs(state), state);
        }
    }

    /** The time up to which windows are closed. */
    public long timeMs(State state) {
        if (closedMs == null) {
            byte[] kept = state.get(new Key(TIME).bytes());
            closedMs = kept == null ? Long.MIN_VALUE : Key.whole(ByteBuffer.wrap(kept));
        }
        return closedMs;
    }

    /** Closes all windows that no event from this moment on belongs to. */
    public void advance(long toMs, State state, Outputs outputs) {
        if (toMs > timeMs(state)) {
            state.put(new Key(TIME).bytes(), Arrays.copyOfRange(new Key(TIME).whole(toMs).bytes(), 1, 1 + Long.BYTES));
            closedMs = toMs;
        }
        List<byte[]> due = new ArrayList<>();
        byte[] end = toMs == Long.MAX_VALUE ? new Key(TIMER).end() : new Key(TIMER).whole(toMs + 1).bytes();
        state.visit(nextTimer, end, (timer, none) -> due.add(timer));
        List<byte[]> gone = new ArrayList<>();
        for (byte[] timer : due) {
            gone.add(timer);
            ByteBuffer from = ByteBuffer.wrap(timer).position(1 + Long.BYTES);
            String name = Key.text(from);
            Windowed own = windowed.get(name);
            String key = Key.text(from);
            if (own == null) { // of an earlier version
                Key events = new Key(EVENT).text(name).text(key);
                state.visit(events.bytes(), events.end(), (event, value) -> gone.add(event));
            } else {
                own.close(key, Key.whole(from), gone, state, outputs);
            }
            if (gone.size() >= REMOVED_TOGETHER) {
                gone.forEach(state::remove);
                gone.clear();
            }
        }
        gone.forEach(state::remove);
        nextTimer = Arrays.compareUnsigned(end, nextTimer) > 0 ? end : nextTimer;
    }

    /** When the last open window closes, or null if none is open. */
    public Long lastEndMs(State state) {
        Long[] last = new Long[1];
        state.visit(nextTimer, new Key(TIMER).end(), (timer, none) -> {
            last[0] = Key.whole(ByteBuffer.wrap(timer).position(1));
            return true;
        });
        return last[0];
    }

    /** Whether what was due at a moment was closed, and removed, before. */
    private boolean isPassed(long dueMs) {
        return Arrays.compareUnsigned(new Key(TIMER).whole(dueMs).bytes(), nextTimer) < 0;
    }

    /** An event of a window, with the columns that the window needs. */
    private record Event(byte[] key, long atMs, Object[] values) {}

    private record Measure(String op, int field, Expression where) {}

    /** A rule or a summary: which windows it has, and what it makes of a complete one. */
    private abstract class Windowed {
        final String name;
        final List<String> fields = new ArrayList<>();
        private final int[] from;
        private final Map<String, Integer> outputs = new LinkedHashMap<>();
        private final List<Measure> declared = new ArrayList<>();
        private final boolean isSession;
        private final long gapMs;
        private final long sizeMs;
        private final long stepMs;

        Windowed(Map<String, Object> declaration, List<String> needed) {
            // Another version has other windows: it begins anew.
            name = declaration.get("name") + "." + declaration.get("version");
            needed.forEach(this::field);
            List<String> arrival = List.of("ingest_ms", "source_partition", "source_offset");
            arrival.forEach(this::field);
            Map<String, Object> window = Json.object(declaration.get("window"));
            isSession = window.containsKey("gap_ms");
            gapMs = isSession ? (Long) window.get("gap_ms") : 0;
            sizeMs = isSession ? 0 : (Long) window.get("size_ms");
            stepMs = isSession ? 0 : (Long) window.get("step_ms");
            Json.list(declaration.get("measures")).forEach(each -> {
                Map<String, Object> measure = Json.object(each);
                String of = (String) measure.get("field");
                Object where = measure.get("where");
                Expression condition = where == null ? null : Expression.of(Json.object(where), (owner, n) -> field(n));
                outputs.put((String) measure.get("name"), declared.size());
                declared.add(new Measure((String) measure.get("op"), of == null ? -1 : field(of), condition));
            });
            from = fields.stream().mapToInt(columns::get).toArray();
        }

        /** Where an event of a window has a field. */
        final int field(String field) {
            if (!fields.contains(field)) {
                fields.add(field);
            }
            return fields.indexOf(field);
        }

        final int measure(String measure) {
            return outputs.get(measure);
        }

        final int measures() {
            return outputs.size();
        }

        abstract String key(Object[] event);

        /** Writes what follows from a complete window: its key, its events in the order of their time, its measures. */
        abstract void write(String key, long startMs, List<Event> events, Object[] measured, Outputs outputs);

        byte[] values(Object[] event) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
            try (DataOutputStream out = new DataOutputStream(bytes)) {
                out.writeLong((Long) event[time]);
                for (int column : from) {
                    Values.write(event[column], out);
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            return bytes.toByteArray();
        }

        void add(String key, byte[] value, long nowMs, State state) {
            Object[] values = read(value);
            if (values == null) {
                return;
            }
            long atMs = ByteBuffer.wrap(value).getLong();
            boolean isOpen = false;
            if (isSession) {
                isOpen = atMs + gapMs >= nowMs;
                put(isOpen, atMs + gapMs + 1, key, atMs, state);
            } else {
                long last = atMs - Math.floorMod(atMs, stepMs);
                for (long start = last - sizeMs + stepMs; start <= last; start += stepMs) {
                    boolean isThisOpen = start + sizeMs > nowMs;
                    put(isThisOpen, start + sizeMs, key, start, state);
                    isOpen |= isThisOpen;
                }
            }
            if (isOpen) {
                long partition = (Long) values[field("source_partition")];
                long offset = (Long) values[field("source_offset")];
                state.put(events(key).whole(atMs).whole(partition).whole(offset).bytes(), value);
            }
        }

        private void put(boolean isOpen, long dueMs, String key, long startMs, State state) {
            if (isOpen) {
                state.put(new Key(TIMER).whole(dueMs).text(name).text(key).whole(startMs).bytes(), new byte[0]);
            }
        }

        private Key events(String key) {
            return new Key(EVENT).text(name).text(key);
        }

        /** Writes what follows from a window whose timer is due, and adds to {@code gone} what is needed no longer. */
        void close(String key, long startMs, List<byte[]> gone, State state, Outputs outputs) {
            if (isSession && isContinued(key, startMs, state)) {
                return; // a later timer closes it
            }
            List<Event> events = isSession ? session(key, startMs, gone, state)
                    : among(events(key).whole(startMs).bytes(), events(key).whole(startMs + sizeMs).bytes(), state);
            if (!events.isEmpty()) {
                write(key, isSession ? events.get(0).atMs : startMs, events, measured(events), outputs);
            }
            for (Event each : events) {
                if (isSession || each.atMs < startMs + stepMs) { // the others are in the next window, too
                    gone.add(each.key);
                }
            }
        }

        private List<Event> among(byte[] from, byte[] to, State state) {
            List<Event> events = new ArrayList<>();
            List<byte[]> others = new ArrayList<>();
            state.visit(from, to, (key, value) -> {
                Object[] values = read(value);
                return values == null ? others.add(key)
                        : events.add(new Event(key, ByteBuffer.wrap(value).getLong(), values));
            });
            others.forEach(state::remove);
            return events;
        }

        /** Whether an event follows one of this time within the gap. */
        private boolean isContinued(String key, long atMs, State state) {
            boolean[] found = new boolean[1];
            state.visit(events(key).whole(atMs + 1).bytes(), events(key).whole(atMs + gapMs + 1).bytes(),
                    (event, value) -> {
                        found[0] = true;
                        return false;
                    });
            return found[0];
        }

        /**
         * The session whose last event is of this time; empty if that was closed. Adds to {@code gone} what a crash has
         * left of earlier ones, whose timers are gone.
         */
        private List<Event> session(String key, long lastMs, List<byte[]> gone, State state) {
            List<Event> events = among(events(key).bytes(), events(key).whole(lastMs + 1).bytes(), state);
            if (events.isEmpty() || events.get(events.size() - 1).atMs != lastMs) {
                return List.of();
            }
            int first = events.size() - 1;
            while (first > 0 && events.get(first).atMs - events.get(first - 1).atMs <= gapMs) {
                first--;
            }
            for (Event each : events.subList(0, first)) {
                if (isPassed(each.atMs + gapMs + 1)) {
                    gone.add(each.key);
                }
            }
            return events.subList(first, events.size());
        }

        /**
         * The fields of an event; null if it was dealt out when the events had another id or a field of another kind,
         * which no version tells: its windows begin anew.
         */
        private Object[] read(byte[] value) {
            ByteBuffer from = ByteBuffer.wrap(value).position(Long.BYTES);
            Object[] values = new Object[fields.size()];
            for (int i = 0; i < values.length; i++) {
                if (!from.hasRemaining()) {
                    return null;
                }
                Object kind = kinds.get(fields.get(i));
                Object each = Values.read(from);
                values[i] = kind.equals("real") && each instanceof Long whole ? Double.valueOf(whole) : each;
                if (!Values.isOf(kind, values[i])) {
                    return null;
                }
            }
            return from.hasRemaining() ? null : values;
        }

        private Object[] measured(List<Event> events) {
            return declared.stream().map(each -> measured(each, events)).toArray();
        }

        private Object measured(Measure measure, List<Event> events) {
            if (measure.op.equals("count")) {
                return events.stream().filter(each -> measure.where == null || measure.where.holds(each.values)).count();
            }
            List<Event> present = events.stream().filter(each -> each.values[measure.field] != null).toList();
            List<Object> values = present.stream().map(each -> each.values[measure.field]).toList();
            switch (measure.op) {
                case "distinct":
                    return values.stream().distinct().count();
                case "sum":
                    return total(values);
                case "max":
                    return values.stream().max(OneRow::compare).orElse(null);
                case "min":
                    return values.stream().min(OneRow::compare).orElse(null);
                case "last":
                    return present.stream().max(this::byArrival).map(each -> each.values[measure.field]).orElse(null);
                default:
                    throw new IllegalArgumentException("no measure of a window is called '" + measure.op + "'");
            }
        }

        /** The sum of a window's values: a whole number is exact, and at its end within the 64 bits. */
        private static Object total(List<Object> values) {
            if (values.isEmpty()) {
                return null;
            }
            if (values.get(0) instanceof Double) {
                return values.stream().reduce(0.0, (sum, each) -> (Double) sum + (Double) each);
            }
            BigInteger sum = values.stream()
                    .map(each -> BigInteger.valueOf((Long) each))
                    .reduce(BigInteger.ZERO, BigInteger::add);
            return sum.max(BigInteger.valueOf(Long.MIN_VALUE)).min(BigInteger.valueOf(Long.MAX_VALUE)).longValue();
        }

        private int byArrival(Event a, Event b) {
            for (String each : List.of("ingest_ms", "source_partition", "source_offset")) {
                int order = Long.compare((Long) a.values[field(each)], (Long) b.values[field(each)]);
                if (order != 0) {
                    return order;
                }
            }
            return 0;
        }
    }

    /** A rule; the row of its condition has the measures, then what an alert has besides. */
    private final class Rule extends Windowed {
        private final int key;
        private final int subject;
        private final int sent;
        private final int ingest;
        private final int id;
        private final long idsMost;
        private final Expression condition;
        private final Alerts alerts;

        Rule(Map<String, Object> rule, Map<String, Object> declared) {
            super(rule, needed(rule, declared));
            key = columns.get((String) rule.get("key"));
            subject = field((String) declared.get("key"));
            sent = field("sent_ms");
            ingest = field("ingest_ms");
            id = declared.get("id") == null ? -1 : field((String) declared.get("id"));
            idsMost = (Long) rule.get("ids_most");
            condition = Expression.of(Json.object(rule.get("condition")), (owner, name) -> measure(name));
            int own = measures();
            List<String> span = List.of("first_ms", "last_ms");
            List<String> added = List.of("key", "subject", "window_start_ms", "event_ids", "first_ms", "last_ms", "sent_ms",
                    "ingest_ms");
            Map<String, Expression> values = new HashMap<>();
            for (String name : List.of("key", "subject", "window_start_ms", "event_ids", "sent_ms", "ingest_ms")) {
                values.put(name, row -> row[own + added.indexOf(name)]);
            }
            values.put("at_ms", row -> row[own + added.indexOf("last_ms")]);
            Map<String, Expression> operands = new LinkedHashMap<>();
            Json.<String>list(rule.get("operands")).forEach(name -> {
                int at = span.contains(name) ? own + added.indexOf(name) : measure(name);
                operands.put(name, row -> row[at]);
            });
            values.put("operands", Alerts.operands(operands));
            alerts = new Alerts(rule, Json.list(declared.get("alerts")), values.get("window_start_ms"), values);
        }

        private static List<String> needed(Map<String, Object> rule, Map<String, Object> declared) {
            List<String> needed = new ArrayList<>(List.of((String) declared.get("key"), "sent_ms"));
            if (declared.get("id") != null) {
                needed.add((String) declared.get("id"));
            }
            return needed;
        }

        @Override
        String key(Object[] event) {
            return (String) event[key];
        }

        @Override
        void write(String key, long startMs, List<Event> events, Object[] measured, Outputs outputs) {
            Object[] row = Arrays.copyOf(measured, measured.length + 8);
            if (!condition.holds(row)) {
                return;
            }
            int at = measured.length;
            row[at++] = key;
            row[at++] = events.stream().map(each -> (String) each.values()[subject]).max(CODE_POINTS).orElseThrow();
            row[at++] = startMs;
            row[at++] = id < 0 ? List.of() : events.stream().map(each -> String.valueOf(each.values()[id]))
                    .sorted(CODE_POINTS).limit(idsMost).toList();
            row[at++] = events.get(0).atMs();
            row[at++] = events.get(events.size() - 1).atMs();
            row[at++] = newest(events, sent);
            row[at] = newest(events, ingest);
            alerts.send(row, outputs);
        }

        private static Object newest(List<Event> events, int field) {
            return events.stream().map(each -> (Long) each.values()[field]).filter(each -> each != null)
                    .max(Long::compare).orElse(null);
        }
    }

    /** A summary; a row of it has the start, the end, the keys and the measures. */
    private final class Summary extends Windowed {
        private final int[] keys;
        private final int[] keyFields;
        private final long sizeMs;
        private final Message message;

        Summary(Map<String, Object> summary, Map<String, Object> declared) {
            super(summary, Json.list(summary.get("keys")));
            List<String> names = Json.list(summary.get("keys"));
            keys = names.stream().mapToInt(columns::get).toArray();
            keyFields = names.stream().mapToInt(this::field).toArray();
            sizeMs = (Long) Json.object(summary.get("window")).get("size_ms");
            Map<String, Expression> values = new HashMap<>();
            Object title = summary.get("name");
            values.put("summary", row -> title);
            values.put("window_start_ms", row -> row[0]);
            values.put("window_end_ms", row -> row[1]);
            values.put("emit_ms", row -> System.currentTimeMillis());
            for (int i = 0; i < keys.length; i++) {
                int at = 2 + i;
                values.put(names.get(i), row -> row[at]);
            }
            Json.list(summary.get("measures")).forEach(each -> {
                String name = (String) Json.object(each).get("name");
                int at = 2 + keys.length + measure(name);
                values.put(name, row -> row[at]);
            });
            message = new Message(Json.list(summary.get("columns")), values);
        }

        @Override
        String key(Object[] event) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (DataOutputStream out = new DataOutputStream(bytes)) {
                for (int each : keys) {
                    Values.write(event[each], out);
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            return bytes.toString(StandardCharsets.ISO_8859_1);
        }

        @Override
        void write(String key, long startMs, List<Event> events, Object[] measured, Outputs outputs) {
            Object[] row = new Object[2 + keys.length + measured.length];
            row[0] = startMs;
            row[1] = startMs + sizeMs;
            StringBuilder named = new StringBuilder(String.valueOf(startMs));
            for (int i = 0; i < keys.length; i++) {
                row[2 + i] = events.get(0).values()[keyFields[i]];
                named.append('|').append(row[2 + i]);
            }
            System.arraycopy(measured, 0, row, 2 + keys.length, measured.length);
            outputs.send(NAME, named.toString(), message.of(row));
        }
    }
}
