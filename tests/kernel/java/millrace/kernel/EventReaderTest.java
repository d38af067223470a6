package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** What a reader has of its own; which messages it accepts, tests/kernel/test_reading.py compares with the oracle. */
final class EventReaderTest {
    private static final long NOW_MS = 1_000_000;
    private static final String DECLARED = """
            {"max_bytes": 200, "max_depth": 8, "past_ms": 1000, "future_ms": 100, "time": "at_ms",
             "forbidden": ["pin", "cvv"], "fields": [
              {"name": "who", "kind": "text", "required": true, "may_pass_luhn": false, "max_length": 8,
               "pattern": "[a-z]+"},
              {"name": "at_ms", "kind": "whole", "required": true, "may_pass_luhn": false, "least": 0,
               "most": 9000000000000000},
              {"name": "degrees", "kind": "real", "required": false, "may_pass_luhn": false, "least": -90,
               "most": 90}]}""";

    private final EventReader reader = new EventReader(DECLARED);

    @Test
    void itGivesTheReasonAndThenTheFieldsAsDeclared() {
        assertArrayEquals(new String[] {"who", "at_ms", "degrees"}, reader.names());
        assertEquals("text whole real", String.join(" ", reader.kind("who"), reader.kind("at_ms"), reader.kind("degrees")));
        assertArrayEquals(new Object[] {null, "anna", NOW_MS, -0.5},
                read("{\"degrees\":-0.5,\"at_ms\":1000000,\"more\":[1,{}],\"who\":\"anna\"}"));
    }

    @Test
    void aMessageLeavesNothingToTheNext() {
        read("{\"who\":\"anna\",\"at_ms\":1000000,\"degrees\":7}");
        assertArrayEquals(new Object[] {null, "berta", NOW_MS, null}, read("{\"who\":\"berta\",\"at_ms\":1000000}"));
        assertEquals("forbidden:pin", read("{\"who\":\"anna\",\"at_ms\":1000000,\"P-I-N\":1}")[0]);
        assertEquals("missing:at_ms", read("{\"who\":\"anna\"}")[0]);
        assertEquals("json", read("{\"who\":\"anna\",\"at_ms\":1000000")[0]);
        assertNull(read("{\"who\":\"anna\",\"at_ms\":1000000}")[0]);
    }

    @Test
    void aRefusedMessageGivesNoField() {
        assertArrayEquals(new Object[] {"pattern:who", null, null, null}, read("{\"who\":\"ANNA\",\"at_ms\":1000000}"));
    }

    @Test
    void itsTimeIsComparedWithItsArrivalToTheMillisecond() {
        assertEquals("past:at_ms", read("{\"who\":\"anna\",\"at_ms\":998999}")[0]);
        assertNull(read("{\"who\":\"anna\",\"at_ms\":999000}")[0]);
        assertNull(read("{\"who\":\"anna\",\"at_ms\":1000100}")[0]);
        assertEquals("future:at_ms", read("{\"who\":\"anna\",\"at_ms\":1000101}")[0]);
    }

    @Test
    void aDeadLetterKeepsNoForbiddenNameAndNoCardNumber() {
        assertEquals("{\"who\":\"****************\"}", kept("{\"who\":\"4111111111111111\"}", "card-number:who"));
        assertNull(kept("{\"cvv\":1}", "forbidden:cvv"));
        assertNull(kept("{\"c_v_v\":1", "json"));
        assertEquals("{\"cvvs\":1", kept("{\"cvvs\":1", "json"));
        assertNull(kept("x".repeat(201), "oversized"));
    }

    private Object[] read(String message) {
        return reader.read(message.getBytes(StandardCharsets.UTF_8), NOW_MS);
    }

    private String kept(String message, String reason) {
        byte[] kept = reader.kept(message.getBytes(StandardCharsets.UTF_8), reason);
        return kept == null ? null : new String(kept, StandardCharsets.UTF_8);
    }
}
