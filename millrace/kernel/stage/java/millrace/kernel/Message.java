package millrace.kernel;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.io.SerializedString;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Messages of one kind: named values over a row, written as a JSON object in the declared order. For one thread. */
final class Message {
    private static final JsonFactory FACTORY = new JsonFactory();

    private final SerializedString[] names;
    private final Expression[] values;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);

    Message(List<String> names, Map<String, Expression> values) {
        if (!values.keySet().equals(Set.copyOf(names))) {
            throw new IllegalArgumentException("declared are " + names + ", and there are values for " + values.keySet());
        }
        this.names = names.stream().map(SerializedString::new).toArray(SerializedString[]::new);
        this.values = names.stream().map(values::get).toArray(Expression[]::new);
    }

    /** The values of a message, in their order. */
    Object[] values(Object[] row) {
        Object[] found = new Object[values.length];
        for (int i = 0; i < found.length; i++) {
            found[i] = values[i].of(row);
        }
        return found;
    }

    /** A message over a row. */
    byte[] of(Object[] row) {
        return written(values(row));
    }

    /** A message of these values. */
    byte[] written(Object[] found) {
        bytes.reset();
        try (JsonGenerator to = FACTORY.createGenerator(bytes)) {
            to.writeStartObject();
            for (int i = 0; i < names.length; i++) {
                to.writeFieldName(names[i]);
                Json.write(found[i], to);
            }
            to.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }
}
