package millrace.kernel;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Declarations as plain maps and lists; events are read by {@link EventReader}, which builds no tree. */
public final class Json {
    private Json() {}

    public static Object parse(String text) {
        try (JsonParser parser = new JsonFactory().createParser(text)) {
            parser.nextToken();
            return value(parser);
        } catch (IOException error) {
            throw new IllegalArgumentException("a declaration is no JSON: " + error.getMessage(), error);
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
