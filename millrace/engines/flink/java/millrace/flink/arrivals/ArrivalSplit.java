package millrace.flink.arrivals;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;

/**
 * The partitions of one number of all topics: a key is in the same one everywhere, so its messages are read by one task
 * however many there are, before and after a change of their number.
 */
final class ArrivalSplit implements SourceSplit {
    private final int partition;
    private final Map<String, Long> next;
    private final Map<String, String> ids;
    private final long newestMs;

    /**
     * With the offset of the next message by topic, and the id of the topic that has it: one that is deleted and created
     * anew has another. A topic that is not among them is read from its beginning.
     */
    ArrivalSplit(int partition, Map<String, Long> next, Map<String, String> ids) {
        this(partition, next, ids, 0);
    }

    /** With the newest moment to which its events have moved time, or 0. */
    ArrivalSplit(int partition, Map<String, Long> next, Map<String, String> ids, long newestMs) {
        this.partition = partition;
        this.next = Map.copyOf(next);
        this.ids = Map.copyOf(ids);
        this.newestMs = newestMs;
    }

    int partition() {
        return partition;
    }

    Map<String, Long> next() {
        return next;
    }

    Map<String, String> ids() {
        return ids;
    }

    /** The newest moment to which its events have moved time, or 0. */
    long newestMs() {
        return newestMs;
    }

    @Override
    public String splitId() {
        return "partition-" + partition;
    }

    @Override
    public String toString() {
        return splitId() + next;
    }

    /** How far the messages of a split have been handed on. */
    static final class Progress {
        private final int partition;
        private final Map<String, Long> next;
        private final Map<String, String> ids;
        private long newestMs;

        Progress(ArrivalSplit split) {
            partition = split.partition;
            next = new HashMap<>(split.next);
            ids = split.ids;
            newestMs = split.newestMs;
        }

        /** Notes a message, and the moment to which it moves time, or 0. */
        void handedOn(String topic, long offset, long momentMs) {
            next.put(topic, offset + 1);
            newestMs = Math.max(newestMs, momentMs);
        }

        ArrivalSplit split(Map<TopicPartition, Reached> reached) {
            Map<String, Long> from = new HashMap<>(next);
            from.replaceAll((topic, offset) -> {
                Reached polled = reached.get(new TopicPartition(topic, partition));
                return polled == null ? offset : polled.from(offset);
            });
            return new ArrivalSplit(partition, from, ids, newestMs);
        }
    }

    /** Version 1 had no ids of topics, and version 2 no newest moment. */
    static final class Serializer implements SimpleVersionedSerializer<ArrivalSplit> {
        static final int VERSION = 3;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(ArrivalSplit split) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            write(split, new DataOutputStream(bytes));
            return bytes.toByteArray();
        }

        @Override
        public ArrivalSplit deserialize(int version, byte[] serialized) throws IOException {
            return read(version, new DataInputStream(new ByteArrayInputStream(serialized)));
        }

        static void write(ArrivalSplit split, DataOutputStream out) throws IOException {
            out.writeInt(split.partition);
            out.writeInt(split.next.size());
            for (Map.Entry<String, Long> each : split.next.entrySet()) {
                out.writeUTF(each.getKey());
                out.writeLong(each.getValue());
            }
            out.writeInt(split.ids.size());
            for (Map.Entry<String, String> each : split.ids.entrySet()) {
                out.writeUTF(each.getKey());
                out.writeUTF(each.getValue());
            }
            out.writeLong(split.newestMs);
        }

        static ArrivalSplit read(int version, DataInputStream in) throws IOException {
            int partition = in.readInt();
            Map<String, Long> next = new HashMap<>();
            for (int left = in.readInt(); left > 0; left--) {
                next.put(in.readUTF(), in.readLong());
            }
            Map<String, String> ids = new HashMap<>();
            for (int left = version == 1 ? 0 : in.readInt(); left > 0; left--) {
                ids.put(in.readUTF(), in.readUTF());
            }
            return new ArrivalSplit(partition, next, ids, version < 3 ? 0 : in.readLong());
        }
    }
}
