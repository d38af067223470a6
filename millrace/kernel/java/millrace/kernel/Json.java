package millrace.kernel;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Declarations as plain maps and lists; events are read by {@link EventReader}, which builds no tree. */
public final class Json {
    private static final JsonFactory FACTORY = new JsonFactory();

    private Json() {}

    public static Object parse(String text) {
        try (JsonParser parser = FACTORY.createParser(text)) {
            parser.nextToken();
            return value(parser);
        } catch (IOException error) {
            throw new IllegalArgumentException("a declaration is not JSON: " + error.getMessage(), error);
        }
    }

    /** An object as text; its values are texts, numbers, booleans, nulls, and lists and objects of these. */
    public static String text(Map<String, Object> object) {
        StringWriter text = new StringWriter();
        try (JsonGenerator to = FACTORY.createGenerator(text)) {
            write(object, to);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return text.toString();
    }

    static void write(Object value, JsonGenerator to) throws IOException {
        if (value == null) {
            to.writeNull();
        } else if (value instanceof String text) {
            to.writeString(text);
        } else if (value instanceof Long whole) {
            to.writeNumber(whole);
        } else if (value instanceof Double real) {
            to.writeNumber(real);
        } else if (value instanceof Boolean flag) {
            to.writeBoolean(flag);
        } else if (value instanceof List<?> list) {
            to.writeStartArray();
            for (Object each : list) {
                write(each, to);
            }
            to.writeEndArray();
        } else {
            to.writeStartObject();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                to.writeFieldName((String) each.getKey());
                write(each.getValue(), to);
            }
            to.writeEndObject();
        }
    }

    @SuppressWarnings("unchecked")
    public static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    public static <T> List<T> list(Object value) {
        return (List<T>) value;
    }

    private static Object value(JsonParser parser) throws IOException {
        switch (parser.currentToken()) {
            case START_OBJECT: {
                Map<String, Object> read = new LinkedHashMap<>();
                while (parser.nextToken() != JsonToken.END_OBJECT) {
                    String name = parser.currentName();
                    parser.nextToken();
                    read.put(name, value(parser));
                }
                return read;
            }
            case START_ARRAY: {
                List<Object> read = new ArrayList<>();
                while (parser.nextToken() != JsonToken.END_ARRAY) {
                    read.add(value(parser));
                }
                return read;
            }
            case VALUE_STRING:
                return parser.getText();
            case VALUE_NUMBER_INT:
                return parser.getLongValue();
            case VALUE_NUMBER_FLOAT:
                return parser.getDoubleValue();
            case VALUE_TRUE:
                return true;
            case VALUE_FALSE:
                return false;
            default:
                return null;
        }
    }
}
