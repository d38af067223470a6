package millrace.spark;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.StructType;

/** What the stateful steps share: rows that go in come out with columns added at their end. */
final class Rows {
    private Rows() {}

    /** The rows of each key through a processor of their own. State that expires needs the mode of processing time. */
    static Dataset<Row> through(
            StatefulProcessor<String, Row, Row> processor, Dataset<Row> rows, String key, StructType output) {
        return rows.groupBy(key)
                .as(Encoders.STRING(), Encoders.row(rows.schema()))
                .transformWithState(processor, TimeMode.ProcessingTime(), OutputMode.Append(), Encoders.row(output));
    }

    static Row with(Row row, Object... added) {
        Object[] values = new Object[row.size() + added.length];
        for (int i = 0; i < row.size(); i++) {
            values[i] = row.get(i);
        }
        System.arraycopy(added, 0, values, row.size(), added.length);
        return RowFactory.create(values);
    }
}
