package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

final class LossTest {
    private static final Loss LOSS = new Loss("t", 1, 2, 3, 4, "now", "now");

    @Test
    void itIsReadAsItWasWritten() {
        assertEquals(
                "{\"topic\":\"t\",\"partition\":1,\"wanted\":2,\"first\":3,\"end\":4,\"topic_id\":\"now\","
                        + "\"was_id\":\"now\"}",
                Json.text(LOSS.fields()));
        assertEquals(List.of(LOSS, LOSS), Loss.parse(List.of(LOSS.fields(), LOSS.fields())));
        assertEquals(List.of(), Loss.parse(List.of()));
    }

    @Test
    void onlyTheSameLossWasAccepted() {
        assertTrue(LOSS.isIn(List.of(LOSS)));
        assertTrue(new Loss("t", 1, 2, 3, 9, "now", "").isIn(List.of(LOSS)), "more came since");
        assertFalse(LOSS.isIn(List.of()));
        for (Loss other : List.of(
                new Loss("u", 1, 2, 3, 4, "now", "now"),
                new Loss("t", 0, 2, 3, 4, "now", "now"),
                new Loss("t", 1, 1, 3, 4, "now", "now"),
                new Loss("t", 1, 2, 4, 4, "now", "now"),
                new Loss("t", 1, 2, 3, 4, "then", "now"))) {
            assertFalse(LOSS.isIn(List.of(other)), other.toString());
        }
    }

    @Test
    void itNamesThePlaceAndWhatIsThere() {
        assertEquals("t[1]: offset 2 is next, offsets 3 to 4 are there", LOSS.toString());
        assertEquals("t[1]: offset 2 is next, the topic was deleted and created anew, offsets 3 to 4 are there",
                new Loss("t", 1, 2, 3, 4, "now", "was").toString());
    }
}
