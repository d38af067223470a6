package millrace.flink.arrivals;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.BooleanType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.VarBinaryType;
import org.apache.flink.table.types.logical.VarCharType;

/** Messages as they are, in place of the product's rows of events: the stage behind the source reads them. */
final class Rows implements Serializable {
    static final int KEY = 0;
    /** Which of the topics. */
    static final int TOPIC = 1;
    static final int PARTITION = 2;
    static final int OFFSET = 3;
    static final int INGEST_MS = 4;
    static final int BACKLOG = 5;
    static final int VALUE = 6;
    static final InternalTypeInfo<RowData> TYPE = InternalTypeInfo.ofFields(new LogicalType[] {
        new VarCharType(VarCharType.MAX_LENGTH), new IntType(), new IntType(), new BigIntType(), new BigIntType(),
        new BooleanType(), new VarBinaryType(VarBinaryType.MAX_LENGTH)
    });
    private static final long serialVersionUID = 1L;

    private final String[] topics;

    Rows(List<String> topics) {
        this.topics = topics.toArray(new String[0]);
    }

    /** The topics in the order in which messages of the same millisecond are taken. */
    List<String> topics() {
        return List.of(topics);
    }

    Reader reader() {
        return new Reader(topics());
    }

    static final class Reader {
        private final List<String> topics;

        private Reader(List<String> topics) {
            this.topics = topics;
        }

        RowData read(ConsumerRecord<byte[], byte[]> message, boolean isBacklog, long passedMs) {
            byte[] key = message.key() == null ? new byte[0] : message.key();
            return GenericRowData.of(
                    StringData.fromString(new String(key, StandardCharsets.UTF_8)), topics.indexOf(message.topic()),
                    message.partition(), message.offset(), message.timestamp(), isBacklog, message.value());
        }

        /** No time: only the stage reads the moment of an event. */
        long momentMs(RowData row) {
            return 0;
        }
    }
}
