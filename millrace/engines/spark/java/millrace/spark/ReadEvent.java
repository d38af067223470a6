package millrace.spark;

import millrace.kernel.EventReader;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/** The kernel's reader as a column: a struct of {@code reason} and the event's fields. */
public final class ReadEvent implements UDF2<byte[], Long, Row> {
    private static final long serialVersionUID = 1L;

    private final String declaration;
    // A task works on a copy of its own, so the reader never meets a second thread.
    private transient EventReader reader;

    private ReadEvent(String declaration) {
        this.declaration = declaration;
    }

    public static Column of(String declaration, StructType type, Column value, Column ingestMs) {
        // Said to be non-deterministic, or the optimizer would read the message again for each field that is used.
        return functions.udf(new ReadEvent(declaration), type).asNondeterministic().apply(value, ingestMs);
    }

    @Override
    public Row call(byte[] value, Long ingestMs) {
        if (reader == null) {
            reader = new EventReader(declaration);
        }
        return RowFactory.create(reader.read(value, ingestMs));
    }
}
