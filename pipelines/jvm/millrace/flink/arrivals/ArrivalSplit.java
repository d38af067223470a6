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

/**
 * The partitions of one number of all topics: a key is in the same one everywhere, so its messages are read by one task
 * however many there are, before and after a change of their number.
 */
final class ArrivalSplit implements SourceSplit {
    private final int partition;
    private final Map<String, Long> next;

    /** With the offset of the next message by topic; a topic that is not among them is read from its beginning. */
    ArrivalSplit(int partition, Map<String, Long> next) {
        this.partition = partition;
        this.next = Map.copyOf(next);
    }

    int partition() {
        return partition;
    }

    Map<String, Long> next() {
        return next;
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

        Progress(ArrivalSplit split) {
            partition = split.partition;
            next = new HashMap<>(split.next);
        }

        void handedOn(String topic, long offset) {
            next.put(topic, offset + 1);
        }

        ArrivalSplit split() {
            return new ArrivalSplit(partition, next);
        }
    }

    static final class Serializer implements SimpleVersionedSerializer<ArrivalSplit> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(ArrivalSplit split) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            write(split, new DataOutputStream(bytes));
            return bytes.toByteArray();
        }

        @Override
        public ArrivalSplit deserialize(int version, byte[] serialized) throws IOException {
            return read(new DataInputStream(new ByteArrayInputStream(serialized)));
        }

        static void write(ArrivalSplit split, DataOutputStream out) throws IOException {
            out.writeInt(split.partition);
            out.writeInt(split.next.size());
            for (Map.Entry<String, Long> each : split.next.entrySet()) {
                out.writeUTF(each.getKey());
                out.writeLong(each.getValue());
            }
        }

        static ArrivalSplit read(DataInputStream in) throws IOException {
            int partition = in.readInt();
            Map<String, Long> next = new HashMap<>();
            for (int left = in.readInt(); left > 0; left--) {
                next.put(in.readUTF(), in.readLong());
            }
            return new ArrivalSplit(partition, next);
        }
    }
}
