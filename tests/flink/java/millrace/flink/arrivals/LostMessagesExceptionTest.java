package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import millrace.kernel.Loss;
import org.junit.jupiter.api.Test;

final class LostMessagesExceptionTest {
    @Test
    void itNamesTheRemedyAndHasTheLossesOnALineOfTheirOwn() {
        Loss lost = new Loss("t", 1, 2, 3, 4, "now", "now");
        String message = new LostMessagesException("p", List.of(lost, lost)).getMessage();
        assertTrue(message.contains("`millrace deploy p --accept-loss` continues without them\nlost: [{"), message);
        assertTrue(message.endsWith("}, {\"topic\":\"t\",\"partition\":1,\"wanted\":2,\"first\":3,\"end\":4,"
                + "\"topic_id\":\"now\",\"was_id\":\"now\"}]"), message);
    }
}
