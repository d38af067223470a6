package millrace.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;
import java.util.function.ToLongFunction;
import millrace.kernel.ArrivalMerge;
import millrace.kernel.Json;
import millrace.kernel.Measures;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Gives each judged event what its key's earlier events left behind, and takes it in.
 *
 * <p>Rows carry {@code stream}, when and where they arrived ({@code ingest_ms}, {@code topic}, {@code partition},
 * {@code offset}), {@code reason} if they are refused, and the event as a struct in the column named after its stream. Out
 * come the judged events and all that is refused, where {@code reason} is now {@code duplicate} for an id that came again.
 * A batch holds the rows of a key in no order, so they are put in that of their arrival first: see {@link ArrivalMerge}.
 */
public final class Remember extends StatefulProcessor<String, Row, Row> {
    private static final long serialVersionUID = 1L;
    private static final String DUPLICATE = "duplicate";

    private final StructType schema;
    private final String judged;
    private final String id;
    private final long rememberedMs;
    private final long keptMs;
    private final String declaration;

    private transient Measures measures;
    private transient Map<String, Input> inputs;
    private transient ToLongFunction<Row> arrivedMs;
    private transient ToIntFunction<Place> rank;
    private transient int topic;
    private transient int partition;
    private transient int offset;
    private transient int stream;
    private transient int reason;
    private transient int idInEvent;
    private transient ValueState<byte[]> memory;
    private transient MapState<String, Long> arrived;

    Remember(StructType schema, String declaration) {
        this.schema = schema;
        this.declaration = declaration;
        Map<String, Object> declared = Json.object(Json.parse(declaration));
        this.judged = (String) declared.get("stream");
        this.id = (String) declared.get("id");
        this.rememberedMs = ((Number) declared.get("remembered_ms")).longValue();
        this.keptMs = ((Number) declared.get("kept_ms")).longValue();
    }

    /**
     * The rows with a column for each remembered value. The declaration is JSON: the judged stream and all streams in the
     * order in which messages of the same millisecond are taken, id, remembered_ms, kept_ms, measures.
     */
    public static Dataset<Row> over(Dataset<Row> rows, String key, String declaration) {
        Remember remember = new Remember(rows.schema(), declaration);
        StructType output = rows.schema();
        Measures measures = remember.declared();
        for (String name : measures.outputs()) {
            output = output.add(name, type(measures.kind(name)));
        }
        return Rows.through(remember, rows, key, output);
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        memory = getHandle().getValueState("memory", Encoders.BINARY(), TTLConfig.NONE());
        // By the clock, so later than it counts: a repetition may be judged long after it arrived.
        TTLConfig forgotten = new TTLConfig(Duration.ofMillis(keptMs));
        arrived = getHandle().getMapState("arrived", Encoders.STRING(), Encoders.LONG(), forgotten);
        measures = declared();
        inputs = new HashMap<>();
        stream = schema.fieldIndex("stream");
        reason = schema.fieldIndex("reason");
        idInEvent = id == null ? -1 : event(judged).fieldIndex(id);
        topic = schema.fieldIndex("topic");
        partition = schema.fieldIndex("partition");
        offset = schema.fieldIndex("offset");
        int ingestMs = schema.fieldIndex("ingest_ms");
        arrivedMs = row -> row.getLong(ingestMs);
        List<Object> streams = Json.list(Json.object(Json.parse(declaration)).get("streams"));
        rank = place -> streams.indexOf(place.stream);
    }

    @Override
    public Iterator<Row> handleInputRows(String key, Iterator<Row> rows, TimerValues times) {
        List<Row> results = new ArrayList<>();
        boolean isRestored = false;
        for (Row row : inOrder(rows)) {
            if (!row.isNullAt(reason)) {
                results.add(refused(row));
                continue;
            }
            if (!isRestored) {
                measures.restore(memory.get());
                isRestored = true;
            }
            String own = row.getString(stream);
            Input input = inputs.computeIfAbsent(own, this::input);
            Object[] event = input.of(row);
            if (own.equals(judged)) {
                if (idInEvent >= 0) {
                    String identity = row.getStruct(input.column).getString(idInEvent);
                    long nowMs = arrivedMs.applyAsLong(row);
                    if (arrived.containsKey(identity) && nowMs - arrived.getValue(identity) <= rememberedMs) {
                        results.add(refused(renamed(row)));
                        continue;
                    }
                    arrived.updateValue(identity, nowMs);
                }
                results.add(Rows.with(row, measures.before(event)));
            }
            measures.learn(own, event);
        }
        if (isRestored) {
            memory.update(measures.save());
        }
        return CollectionConverters.asScala(results.iterator());
    }

    private List<Row> inOrder(Iterator<Row> rows) {
        Map<Place, List<Row>> byPlace = new LinkedHashMap<>();
        rows.foreach(row -> byPlace.computeIfAbsent(place(row), each -> new ArrayList<>()).add(row));
        ArrivalMerge<Place, Row> merge = new ArrivalMerge<>(arrivedMs, rank, place -> false);
        byPlace.forEach((place, own) -> {
            own.sort(Comparator.comparingLong(row -> row.getLong(offset)));
            merge.open(place);
            merge.add(place, own);
        });
        List<Row> ordered = new ArrayList<>();
        merge.release((place, row) -> ordered.add(row));
        return ordered;
    }

    private Place place(Row row) {
        return new Place(row.getString(stream), row.getString(topic), row.getInt(partition));
    }

    private Measures declared() {
        return new Measures(Json.list(Json.object(Json.parse(declaration)).get("measures")));
    }

    private Row refused(Row row) {
        return Rows.with(row, new Object[measures.outputs().size()]);
    }

    private Row renamed(Row row) {
        Object[] values = new Object[row.size()];
        Arrays.setAll(values, row::get);
        values[reason] = DUPLICATE;
        return org.apache.spark.sql.RowFactory.create(values);
    }

    private Input input(String name) {
        int[] fields = measures.inputs(name).stream().mapToInt(event(name)::fieldIndex).toArray();
        return new Input(schema.fieldIndex(name), fields);
    }

    private StructType event(String name) {
        return (StructType) schema.apply(name).dataType();
    }

    private static DataType type(String kind) {
        switch (kind) {
            case "whole":
                return DataTypes.LongType;
            case "real":
                return DataTypes.DoubleType;
            case "flag":
                return DataTypes.BooleanType;
            default:
                return DataTypes.StringType;
        }
    }

    private record Place(String stream, String topic, int partition) {}

    /** Where a stream's event is in a row, and which of its fields the measures want. */
    private static final class Input {
        private final int column;
        private final int[] fields;

        Input(int column, int[] fields) {
            this.column = column;
            this.fields = fields;
        }

        Object[] of(Row row) {
            Row event = row.getStruct(column);
            Object[] values = new Object[fields.length];
            for (int i = 0; i < fields.length; i++) {
                values[i] = event.get(fields[i]);
            }
            return values;
        }
    }
}
