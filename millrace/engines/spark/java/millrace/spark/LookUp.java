package millrace.spark;

import java.util.Map;
import millrace.kernel.Json;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/**
 * The reference data that a key had at a moment, as a column: a struct of the fields to take, or null.
 *
 * <p>The declaration is {"bootstrap", "topic", "key", "event", "take": {new name: field}}. A task finds all that
 * was in the topic when it began.
 */
public final class LookUp implements UDF2<String, Long, Row> {
    private static final long serialVersionUID = 1L;

    private final String declaration;
    // A task works on a copy of its own, so this is the reference data as it was when the task began.
    private transient Reference reference;
    private transient int[] columns;

    LookUp(String declaration) {
        this.declaration = declaration;
    }

    public static Column of(String declaration, StructType type, Column key, Column atMs) {
        // Non-deterministic, or the optimizer would look up again for each field that is used.
        return functions.udf(new LookUp(declaration), type).asNondeterministic().apply(key, atMs);
    }

    @Override
    public Row call(String key, Long atMs) {
        if (key == null) {
            return null;
        }
        if (reference == null) {
            begin(Reference.caughtUp(source()));
        }
        Object[] event = reference.get(key, atMs);
        if (event == null) {
            return null;
        }
        Object[] taken = new Object[columns.length];
        for (int i = 0; i < taken.length; i++) {
            taken[i] = event[columns[i]];
        }
        return RowFactory.create(taken);
    }

    /** Takes this reference data. */
    void begin(Reference found) {
        reference = found;
        columns = found.columns(Json.object(declared().get("take")).values());
    }

    private Reference.Source source() {
        Map<String, Object> declared = declared();
        return new Reference.Source((String) declared.get("bootstrap"), (String) declared.get("topic"),
                (String) declared.get("event"), (String) declared.get("key"));
    }

    private Map<String, Object> declared() {
        return Json.object(Json.parse(declaration));
    }
}
