package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class JsonTest {
    @Test
    void aDeclarationBecomesMapsAndListsInItsOrder() {
        Map<String, Object> read = Json.object(Json.parse("{\"b\":[1,2.5,\"x\",true,false,null,{}],\"a\":{\"c\":[]}}"));
        assertEquals(List.of("b", "a"), List.copyOf(read.keySet()));
        assertEquals(java.util.Arrays.asList(1L, 2.5, "x", true, false, null, Map.of()), read.get("b"));
        assertEquals(Map.of("c", List.of()), read.get("a"));
    }

    @Test
    void anObjectIsWrittenAsItIsRead() {
        Map<String, Object> object = new LinkedHashMap<>();
        object.put("z", "Ü\"\n");
        object.put("whole", Long.MIN_VALUE);
        object.put("real", 0.1);
        object.put("flag", true);
        object.put("none", null);
        assertEquals("{\"z\":\"Ü\\\"\\n\",\"whole\":-9223372036854775808,\"real\":0.1,\"flag\":true,\"none\":null}",
                Json.text(object));
        assertEquals(object, Json.parse(Json.text(object)));
    }

    @Test
    void aTextThatIsNotJsonIsRefused() {
        Exception refused = assertThrows(IllegalArgumentException.class, () -> Json.parse("{\"a\":"));
        assertTrue(refused.getMessage().startsWith("a declaration is not JSON: "), refused.getMessage());
    }
}
