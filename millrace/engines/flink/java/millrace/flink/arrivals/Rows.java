package millrace.flink.arrivals;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.kernel.EventReader;
import millrace.kernel.Json;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;

/**
 * What becomes of a message: a row with its stream's columns filled, and those that every message has.
 *
 * <p>The declaration is a list of {"stream", "topic", "event", "time", "columns": {field: column}, "keeps", "deletes"}.
 * Of streams whose messages arrived in the same millisecond, the one that stands earlier in the list counts as earlier.
 * The bytes are kept for the streams that declare it, and of refused messages as far as {@link EventReader#kept} allows.
 * Where nothing at all deletes a key, it is not refused.
 */
final class Rows implements Serializable {
    static final String STREAM = "_stream";
    static final String BACKLOG = "_backlog";
    static final String BEHIND = "_behind";
    static final String REFUSED = "_refused";
    private static final long serialVersionUID = 1L;

    private final String declaration;
    private final String leads;
    private final Serializable columns;

    /** Only accepted events of the stream that leads move time. */
    Rows(String declaration, String leads, List<String> columns) {
        this.declaration = declaration;
        this.leads = leads;
        this.columns = columns.toArray(new String[0]);
    }

    /** The topics in the order in which messages of the same millisecond are taken. */
    List<String> topics() {
        List<String> topics = new ArrayList<>();
        Json.list(Json.parse(declaration)).forEach(each -> topics.add((String) Json.object(each).get("topic")));
        return topics;
    }

    /** A new reader, for one thread. */
    Reader reader() {
        return new Reader(declaration, leads, Arrays.asList((String[]) columns));
    }

    /** Makes rows of messages. */
    static final class Reader {
        private final Map<String, Stream> streams = new HashMap<>();
        private final StringData leads;
        private final int inStream;
        private final int inIngestMs;
        private final int inAt;
        private final int inRefused;

        private Reader(String declaration, String leads, List<String> columns) {
            Json.list(Json.parse(declaration)).forEach(each -> {
                Map<String, Object> declared = Json.object(each);
                streams.put((String) declared.get("topic"), new Stream(declared, columns));
            });
            this.leads = StringData.fromString(leads);
            inStream = columns.indexOf(STREAM);
            inIngestMs = columns.indexOf("_ingest_ms");
            inAt = columns.indexOf("_at");
            inRefused = columns.indexOf(REFUSED);
        }

        /** The row of a message; an event before a given moment is behind the windows. */
        RowData read(ConsumerRecord<byte[], byte[]> message, boolean isBacklog, long passedMs) {
            return streams.get(message.topic()).row(message, isBacklog, passedMs);
        }

        /** The moment to which a row moves time: that of its event, but not beyond its arrival; 0 for none. */
        long momentMs(RowData row) {
            boolean moves = row.isNullAt(inRefused) && row.getString(inStream).equals(leads);
            return moves ? Math.min(row.getTimestamp(inAt, 3).getMillisecond(), row.getLong(inIngestMs)) : 0;
        }
    }

    private static final class Stream {
        private final StringData name;
        private final StringData topic;
        private final boolean keepsBytes;
        private final boolean isDeletedByNull;
        private final EventReader reader;
        private final int width;
        private final int time;
        private final int[] fields;
        private final int inStream;
        private final int inBacklog;
        private final int inBehind;
        private final int inTopic;
        private final int inPartition;
        private final int inOffset;
        private final int inIngestMs;
        private final int inAt;
        private final int inRefused;
        private final int inValue;

        Stream(Map<String, Object> declared, List<String> columns) {
            name = StringData.fromString((String) declared.get("stream"));
            topic = StringData.fromString((String) declared.get("topic"));
            keepsBytes = (Boolean) declared.get("keeps");
            isDeletedByNull = (Boolean) declared.get("deletes");
            reader = new EventReader((String) declared.get("event"));
            List<String> names = Arrays.asList(reader.names());
            Map<String, Object> columnOf = Json.object(declared.get("columns"));
            width = columns.size();
            time = names.indexOf(declared.get("time")) + 1;
            fields = names.stream().mapToInt(field -> columns.indexOf(columnOf.get(field))).toArray();
            inStream = columns.indexOf(STREAM);
            inBacklog = columns.indexOf(BACKLOG);
            inBehind = columns.indexOf(BEHIND);
            inTopic = columns.indexOf("_topic");
            inPartition = columns.indexOf("_partition");
            inOffset = columns.indexOf("_offset");
            inIngestMs = columns.indexOf("_ingest_ms");
            inAt = columns.indexOf("_at");
            inRefused = columns.indexOf(REFUSED);
            inValue = columns.indexOf("_value");
        }

        RowData row(ConsumerRecord<byte[], byte[]> message, boolean isBacklog, long passedMs) {
            Object[] event = reader.read(message.value(), message.timestamp());
            Object refused = isDeletedByNull && message.value() == null ? null : event[0];
            boolean isAccepted = refused == null;
            byte[] kept = isAccepted ? keepsBytes ? message.value() : null : reader.kept(message.value(), (String) refused);
            long atMs = isAccepted && time > 0 && event[time] != null ? (Long) event[time] : 0;
            GenericRowData row = new GenericRowData(width);
            row.setField(inStream, name);
            row.setField(inBacklog, isBacklog);
            row.setField(inBehind, atMs < passedMs);
            row.setField(inTopic, topic);
            row.setField(inPartition, message.partition());
            row.setField(inOffset, message.offset());
            row.setField(inIngestMs, message.timestamp());
            row.setField(inAt, TimestampData.fromEpochMillis(atMs));
            row.setField(inRefused, isAccepted ? null : StringData.fromString((String) refused));
            row.setField(inValue, kept);
            for (int i = 0; i < fields.length; i++) {
                Object value = event[i + 1];
                row.setField(fields[i], value instanceof String ? StringData.fromString((String) value) : value);
            }
            return row;
        }
    }
}
