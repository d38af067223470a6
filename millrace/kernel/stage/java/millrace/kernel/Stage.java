package millrace.kernel;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The per-event stage: reads each message, looks its event up, drops duplicates, judges and remembers, as {@code judge}
 * of millrace/oracle.py defines it. For one thread.
 *
 * <p>A message that comes again after a crash may find a state that is ahead of it. Outputs are sent before the state
 * that covers them is put, so a message that the memory of its key already has is passed over. This rests on a state that
 * keeps puts in their order: what a crash leaves is what was put up to some moment.
 */
public final class Stage {
    static final String NAME = "events";
    private static final char MEMORY = 'm';
    private static final char SEEN = 's';

    private final String judged;
    private final boolean hasIds;
    private final long rememberedMs;
    private final Map<String, Stream> streams = new HashMap<>();
    private final List<LookUp> lookUps = new ArrayList<>();
    private final Measures measures;
    private final boolean remembers;
    private final List<Rule> rules = new ArrayList<>();
    private final String enrichedKind;
    private final Message enriched;
    private final DeadLetters deadLetters;
    private final Row columns = new Row();
    private final int key;
    private final int id;
    private final int time;
    private final int firstRemembered;
    private final Object[] row;
    private final Memory memory = new Memory();
    private final Map<Integer, Long> arrivedMs = new HashMap<>(); // the newest judged message of each partition
    private final Map<Integer, Long> settledMs = new HashMap<>(); // the same, of those that do not come again

    /** From the JSON text of {@code stage_data()}, the topic of each kind and the reference data by kind. */
    public Stage(String declaration, Map<String, String> topics, Map<String, ReferenceTable> references) {
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        judged = (String) declared.get("judged");
        hasIds = declared.get("id") != null;
        rememberedMs = ((Number) declared.get("remembered_ms")).longValue();
        measures = new Measures(Json.list(declared.get("measures")));
        remembers = !measures.outputs().isEmpty();
        Json.list(declared.get("streams")).forEach(each -> {
            Map<String, Object> stream = Json.object(each);
            streams.put((String) stream.get("name"), new Stream(stream, topics, measures));
        });
        for (String name : streams.get(judged).reader.names()) {
            columns.add("now", name);
        }
        Json.list(declared.get("lookups")).forEach(each -> lookUps.add(new LookUp(Json.object(each), references)));
        firstRemembered = columns.size();
        measures.outputs().forEach(name -> columns.add("column", name));
        for (String name : List.of("flags", "source_topic", "source_partition", "source_offset", "ingest_ms")) {
            columns.add("message", name);
        }
        key = columns.of("now", (String) declared.get("key"));
        id = hasIds ? columns.of("now", (String) declared.get("id")) : -1;
        time = columns.of("now", (String) declared.get("time"));
        List<String> alerts = Json.list(declared.get("alerts"));
        Json.list(declared.get("rules")).forEach(each -> rules.add(new Rule(Json.object(each), alerts)));
        Map<String, Object> written = Json.object(declared.get("enriched"));
        enrichedKind = (String) written.get("name");
        enriched = new Message(List.copyOf(Json.object(written.get("columns")).keySet()),
                compiled(Json.object(written.get("columns")), Json.object(written.get("remembers"))));
        deadLetters = new DeadLetters(NAME, Json.list(declared.get("dead_letters")));
        row = new Object[columns.size()];
    }

    /** Names the topic of a stream: one that is deleted and created anew has another id, and its offsets begin again. */
    public void identify(String stream, String id) {
        streams.get(stream).source = id.hashCode();
    }

    /** Judges the next message of a raw stream. Gives the moment to which an accepted, judged event moves time, or null. */
    public Long take(
            String stream, int partition, long offset, long ingestMs, byte[] value, State state, Outputs outputs) {
        Stream from = streams.get(stream);
        boolean isJudged = stream.equals(judged);
        if (isJudged) {
            arrivedMs.merge(partition, ingestMs, Math::max);
        }
        Object[] event = from.reader.read(value, ingestMs);
        if (event[0] != null) {
            refuse(from, (String) event[0], partition, offset, ingestMs, value, outputs);
            return null;
        }
        if (!isJudged && from.inputs.length == 0) {
            return null;
        }
        String own = String.valueOf(event[from.key]);
        byte[] memoryKey = null;
        if (remembers) {
            memoryKey = new Key(MEMORY).text(own).bytes();
            memory.restore(state.get(memoryKey));
        }
        byte[] seenKey = isJudged && hasIds ? new Key(SEEN).text(own).text(String.valueOf(event[id + 1])).bytes() : null;
        Long momentMs = isJudged ? Math.min((Long) event[time + 1], ingestMs) : null;
        boolean isKept = remembers && memory.has(stream, from.source, partition, offset);
        if (isKept && seenKey == null) {
            return momentMs;
        }
        if (!isJudged) {
            measures.learn(stream, from.inputsOf(event));
            state.put(memoryKey, memory.save(stream, from.source, partition, offset));
            return null;
        }
        System.arraycopy(event, 1, row, 0, event.length - 1);
        String unknown = lookUp(ingestMs);
        if (isKept) {
            if (unknown == null && state.get(seenKey) == null) { // a cache may let the memory outlive it
                state.put(seenKey, seen(from.source, partition, offset, ingestMs));
            }
            return momentMs;
        }
        if (unknown != null) {
            refuse(from, "unknown:" + unknown, partition, offset, ingestMs, value, outputs);
            return null;
        }
        if (seenKey != null && isDuplicate(state.get(seenKey), from.source, partition, offset, ingestMs)) {
            refuse(from, "duplicate", partition, offset, ingestMs, value, outputs);
            return null;
        }
        Object[] inputs = from.inputsOf(event);
        if (remembers) {
            System.arraycopy(measures.before(inputs), 0, row, firstRemembered, measures.outputs().size());
        }
        write(own, from.topic, partition, offset, ingestMs, outputs);
        if (seenKey != null) {
            state.put(seenKey, seen(from.source, partition, offset, ingestMs)); // before the memory, which must not outlive it
        }
        if (remembers) {
            measures.learn(stream, inputs);
            state.put(memoryKey, memory.save(stream, from.source, partition, offset));
        }
        return momentMs;
    }

    /**
     * Removes ids that are no longer remembered, of at most so many entries; gives where to continue, or null.
     *
     * <p>The arrivals in its partition count, and not the clock: in a backlog, a repetition is judged long after it came.
     * Only settled ones count: what comes again after a crash must find the ids that it found.
     */
    public byte[] forget(byte[] from, int most, State state) {
        byte[] begin = from == null ? new Key(SEEN).bytes() : from;
        List<byte[]> old = new ArrayList<>();
        byte[][] next = new byte[1][];
        int[] left = {most};
        state.visit(begin, new Key(SEEN).end(), (each, value) -> {
            if (left[0]-- == 0) {
                next[0] = each;
                return false;
            }
            if (untilMs(value) < settledMs.getOrDefault(partitionOf(value), Long.MIN_VALUE)) {
                old.add(each);
            }
            return true;
        });
        old.forEach(state::remove);
        return next[0];
    }

    /** Notes that no message that was judged until now comes again. */
    public void settle() {
        settledMs.putAll(arrivedMs);
    }

    private void write(String own, String topic, int partition, long offset, long ingestMs, Outputs outputs) {
        List<String> flags = new ArrayList<>();
        int at = columns.of("message", "flags");
        row[at] = flags;
        row[at + 1] = topic;
        row[at + 2] = (long) partition;
        row[at + 3] = offset;
        row[at + 4] = ingestMs;
        for (Rule rule : rules) {
            if (rule.condition.holds(row)) {
                flags.add(rule.name);
                rule.alerts.send(row, outputs);
            }
        }
        Object[] event = enriched.values(row);
        outputs.send(enrichedKind, own, enriched.written(event));
        outputs.accept(event);
    }

    private void refuse(
            Stream from, String reason, int partition, long offset, long ingestMs, byte[] value, Outputs outputs) {
        byte[] kept = from.reader.kept(value, reason);
        deadLetters.send(reason, from.topic, partition, offset, ingestMs, kept, outputs);
    }

    /** Puts what the lookups find of the event's arrival into the row; gives the first reference that lacks the event's key, or null. */
    private String lookUp(long ingestMs) {
        for (LookUp each : lookUps) {
            Object[] found = row[each.by] instanceof String text ? each.table.get(text, ingestMs) : null;
            if (found == null) {
                return each.reference;
            }
            for (int i = 0; i < each.from.length; i++) {
                row[each.to + i] = found[each.from[i]];
            }
        }
        return null;
    }

    private byte[] seen(int source, int partition, long offset, long ingestMs) {
        return ByteBuffer.allocate(24).putLong(ingestMs + rememberedMs)
                .putInt(source).putInt(partition).putLong(offset).array();
    }

    private static long untilMs(byte[] seen) {
        return ByteBuffer.wrap(seen).getLong();
    }

    private static int partitionOf(byte[] seen) {
        return ByteBuffer.wrap(seen).getInt(Long.BYTES + Integer.BYTES);
    }

    /** Whether another message had this id; the same one may come again after a crash. */
    private static boolean isDuplicate(byte[] seen, int source, int partition, long offset, long ingestMs) {
        if (seen == null || untilMs(seen) < ingestMs) {
            return false;
        }
        ByteBuffer first = ByteBuffer.wrap(seen).position(Long.BYTES);
        return first.getInt() != source || first.getInt() != partition || first.getLong() != offset;
    }

    private Map<String, Expression> compiled(Map<String, Object> values, Map<String, Object> remembered) {
        Map<String, Expression> compiled = new LinkedHashMap<>();
        values.forEach((name, each) -> compiled.put(name, compiled(each, remembered)));
        return compiled;
    }

    private Expression compiled(Object value, Map<String, Object> remembered) {
        return Expression.of(Json.object(value), (owner, name) ->
                owner.equals("before") ? columns.of("column", (String) remembered.get(name)) : columns.of(owner, name));
    }

    /** A stream, its topic, and what the measures take of its events. */
    private static final class Stream {
        final String topic;
        final EventReader reader;
        final int key;
        final int[] inputs;
        int source; // of the topic's id

        Stream(Map<String, Object> declared, Map<String, String> topics, Measures measures) {
            String name = (String) declared.get("name");
            topic = topics.get(name);
            reader = new EventReader((String) declared.get("event"));
            List<String> names = Arrays.asList(reader.names());
            key = names.indexOf(declared.get("key")) + 1;
            inputs = measures.inputs(name).stream().mapToInt(field -> names.indexOf(field) + 1).toArray();
        }

        Object[] inputsOf(Object[] event) {
            Object[] values = new Object[inputs.length];
            for (int i = 0; i < values.length; i++) {
                values[i] = event[inputs[i]];
            }
            return values;
        }
    }

    /** What an event takes of its reference data. */
    private final class LookUp {
        final String reference;
        final ReferenceTable table;
        final int by;
        final int[] from;
        final int to;

        LookUp(Map<String, Object> declared, Map<String, ReferenceTable> references) {
            reference = (String) declared.get("reference");
            table = references.get(reference);
            by = columns.of("now", (String) declared.get("by"));
            Map<String, Object> take = Json.object(declared.get("take"));
            from = table.columns(take.values());
            to = columns.size();
            take.keySet().forEach(name -> columns.add("looked up", name));
        }
    }

    private final class Rule {
        final String name;
        final Expression condition;
        final Alerts alerts;

        Rule(Map<String, Object> declared, List<String> columnsOfAlerts) {
            Map<String, Object> remembered = Json.object(declared.get("columns"));
            name = (String) declared.get("name");
            condition = compiled(declared.get("condition"), remembered);
            int place = columns.of("message", "source_partition");
            Expression identity = hasIds ? row -> row[id] : row -> row[place] + "-" + row[place + 1];
            int sent = columns.of("now", "sent_ms");
            int ingest = columns.of("message", "ingest_ms");
            alerts = new Alerts(declared, columnsOfAlerts, identity, Map.of(
                    "key", row -> row[key],
                    "subject", row -> row[key],
                    "window_start_ms", row -> null,
                    "event_ids", row -> List.of(String.valueOf(identity.of(row))),
                    "operands", Alerts.operands(compiled(Json.object(declared.get("operands")), remembered)),
                    "at_ms", row -> row[time],
                    "sent_ms", row -> row[sent],
                    "ingest_ms", row -> row[ingest]));
        }
    }

    /** What a key's memory has learnt: the last message of each stream, then the measures. */
    private final class Memory {
        private record Place(int source, int partition, long offset) {}

        private final Map<String, Place> last = new TreeMap<>();

        void restore(byte[] saved) {
            last.clear();
            if (saved == null) {
                measures.restore(null);
                return;
            }
            try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(saved))) {
                for (int left = in.readUnsignedByte(); left > 0; left--) {
                    last.put(in.readUTF(), new Place(in.readInt(), in.readInt(), in.readLong()));
                }
                measures.restore(in.readAllBytes());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        boolean has(String stream, int source, int partition, long offset) {
            Place place = last.get(stream);
            return place != null && place.source == source && place.partition == partition && offset <= place.offset;
        }

        byte[] save(String stream, int source, int partition, long offset) {
            last.put(stream, new Place(source, partition, offset));
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(256);
            try (DataOutputStream out = new DataOutputStream(bytes)) {
                out.writeByte(last.size());
                for (Map.Entry<String, Place> each : last.entrySet()) {
                    out.writeUTF(each.getKey());
                    out.writeInt(each.getValue().source);
                    out.writeInt(each.getValue().partition);
                    out.writeLong(each.getValue().offset);
                }
                out.write(measures.save());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            return bytes.toByteArray();
        }
    }
}
