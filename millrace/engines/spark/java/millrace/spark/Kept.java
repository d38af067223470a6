package millrace.spark;

import millrace.kernel.CardNumbers;
import millrace.kernel.EventReader;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/** What a dead letter keeps of a message, as a column of bytes. */
public final class Kept implements UDF2<byte[], String, byte[]> {
    private static final long serialVersionUID = 1L;

    private final String declaration;
    private transient EventReader reader;

    private Kept(String declaration) {
        this.declaration = declaration;
    }

    /** What is kept of a message that was refused for a reason when it was read. */
    public static Column of(String declaration, Column value, Column reason) {
        return functions.udf(new Kept(declaration), DataTypes.BinaryType).apply(value, reason);
    }

    /** The bytes without the card numbers: enough for a message that could be read. */
    public static Column masked(Column value) {
        UDF1<byte[], byte[]> masked = bytes -> bytes == null ? null : CardNumbers.masked(bytes);
        return functions.udf(masked, DataTypes.BinaryType).apply(value);
    }

    @Override
    public byte[] call(byte[] value, String reason) {
        if (reason == null) {
            return value;
        }
        if (reader == null) {
            reader = new EventReader(declaration);
        }
        return reader.kept(value, reason);
    }
}
