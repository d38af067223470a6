package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class MessageTest {
    private static final Expression FIRST = row -> row[0];
    private static final Expression SECOND = row -> row[1];

    private final Message message = new Message(List.of("z", "a"), Map.of("a", SECOND, "z", FIRST));

    @Test
    void valuesAreInTheDeclaredOrder() {
        assertEquals("{\"z\":1,\"a\":\"x\\\"y\"}", text(message, 1L, "x\"y"));
    }

    @Test
    void aMessageHasNothingOfTheOneBefore() {
        text(message, 1_000_000L, "long");
        assertEquals("{\"z\":null,\"a\":true}", text(message, null, true));
    }

    @Test
    void whatIsDeclaredAndWhatHasAValueAreTheSame() {
        for (List<String> names : List.of(List.of("z"), List.of("z", "a", "b"))) {
            assertThrows(IllegalArgumentException.class, () -> new Message(names, Map.of("a", SECOND, "z", FIRST)));
        }
    }

    private static String text(Message message, Object... row) {
        return new String(message.of(row), StandardCharsets.UTF_8);
    }
}
