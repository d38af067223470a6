package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The bytes of a key's memory. Running jobs restore what an earlier build wrote: no byte here may ever change. */
final class MeasuresTest {
    private static final HexFormat HEX = HexFormat.of();

    private static final String HIGHEST = measure("max(transactions.amount_cents)", "max", "amount_cents", "whole");
    private static final String SOUTHERNMOST = measure("min(transactions.latitude)", "min", "latitude", "real");
    private static final String FIRST_NAME = measure("min(transactions.merchant)", "min", "merchant", "text");
    private static final String TOTAL = measure("sum(transactions.amount_cents)", "sum", "amount_cents", "whole");
    private static final String DEGREES = measure("sum(transactions.latitude)", "sum", "latitude", "real");
    private static final String COUNT = """
            {"signature": "count(transactions)", "op": "count", "stream": "transactions", "fields": [], "kinds": [],
             "outputs": {"n": "whole"}}""";
    private static final String PHONE = """
            {"signature": "last(device-locations.latitude,longitude,at_ms)", "op": "last",
             "stream": "device-locations", "fields": ["latitude", "longitude", "at_ms"],
             "kinds": ["real", "real", "whole"],
             "outputs": {"phone_latitude": "real", "phone_longitude": "real", "phone_at_ms": "whole"}}""";
    private static final String PREVIOUS = """
            {"signature": "last(transactions.merchant,sent_ms)", "op": "last", "stream": "transactions",
             "fields": ["merchant", "sent_ms"], "kinds": ["text", "whole"],
             "outputs": {"previous_merchant": "text", "previous_sent_ms": "whole"}}""";
    private static final String FLAGGED = """
            {"signature": "last(transactions.flagged)", "op": "last", "stream": "transactions",
             "fields": ["flagged"], "kinds": ["flag"], "outputs": {"previous_flagged": "flag"}}""";
    private static final String MERCHANTS = """
            {"signature": "others(transactions.merchant,120000)", "op": "others", "stream": "transactions",
             "fields": ["merchant"], "kinds": ["text"], "outputs": {"merchants": "whole"},
             "time": "at_ms", "within_ms": 120000}""";

    // Each measure: the first 8 bytes of the SHA-256 of its signature and kinds, the size of what follows, its values.
    // A value: 00 nothing, 01 a whole number, 02 a real one, 03 a text with its size, 04 a flag.
    private static final String SAVED_HIGHEST = "c330ad1f0789d435 00000009 01 00000000000001f4";
    private static final String SAVED_SOUTHERNMOST = "a0fe4b90af500f11 00000009 02 bfe0000000000000";
    private static final String SAVED_FIRST_NAME = "36570cb8138d357e 00000007 03 00000002 4d31";
    private static final String SAVED_TOTAL = "0d4ac2b2810ea5b5 00000009 01 00000000000001f7";
    private static final String SAVED_DEGREES = "8750af7075da6c86 00000009 02 4048000000000000";
    private static final String SAVED_COUNT = "52707c0fa20e3f1d 00000008 0000000000000002";
    private static final String SAVED_PREVIOUS = "9c918ba7fdee780f 00000008 03 00000002 4d31 00";
    private static final String SAVED_FLAGGED = "efb9fcb019800299 00000002 04 01";
    private static final String SAVED_MERCHANTS = "592ccd46aca4cf0c 00000026"
            + " 03 0000000a c39c6e616c20f09f9880 00000000000003e8" // in the order in which they came, each with its time
            + " 03 00000002 4d31 00000000000007d0";
    private static final String SAVED_PHONE = "40e37fa22c825207 0000001b"
            + " 02 4048400000000000 02 4023800000000000 01 000000000001d4c1";

    private static final String ALL = String.join(",", HIGHEST, SOUTHERNMOST, FIRST_NAME, TOTAL, DEGREES, COUNT,
            PREVIOUS, FLAGGED, MERCHANTS, PHONE);
    private static final String SAVED = String.join(" ", SAVED_HIGHEST, SAVED_SOUTHERNMOST, SAVED_FIRST_NAME,
            SAVED_TOTAL, SAVED_DEGREES, SAVED_COUNT, SAVED_PREVIOUS, SAVED_FLAGGED, SAVED_MERCHANTS, SAVED_PHONE);

    @Test
    void everyMeasureIsSavedInTheseBytes() {
        Measures measures = measures(ALL);
        assertEquals(List.of("amount_cents", "latitude", "merchant", "sent_ms", "flagged", "at_ms"),
                measures.inputs("transactions"));
        measures.restore(null);
        measures.learn("transactions", new Object[] {500L, 48.5, "Ünal 😀", 7L, false, 1_000L});
        measures.learn("transactions", new Object[] {3L, -0.5, "M1", null, true, 2_000L});
        measures.learn("device-locations", new Object[] {48.5, 9.75, 120_001L});
        assertEquals(SAVED.replace(" ", ""), HEX.formatHex(measures.save()));
    }

    @Test
    void theseBytesAreWhatAConditionSees() {
        Measures measures = measures(ALL);
        measures.restore(bytes(SAVED));
        assertArrayEquals(
                new Object[] {500L, -0.5, "M1", 503L, 48.0, 2L, "M1", null, true, 1L, 48.5, 9.75, 120_001L},
                measures.before(new Object[] {1L, 0.0, "M1", null, null, 2_000L}));
        assertEquals(SAVED.replace(" ", ""), HEX.formatHex(measures.save()));
    }

    @Test
    void measuresAreFoundByTheirSignatureWhereverTheyStand() {
        Measures measures = measures(String.join(",", PHONE, COUNT, HIGHEST));
        measures.restore(bytes(SAVED));
        assertArrayEquals(new Object[] {48.5, 9.75, 120_001L, 2L, 500L}, measures.before(new Object[] {1L}));
        String kept = String.join("", SAVED_PHONE, SAVED_COUNT, SAVED_HIGHEST);
        assertEquals(kept.replace(" ", ""), HEX.formatHex(measures.save()), "an undeclared measure is dropped");
    }

    @Test
    void aNewKeyRemembersNothingAndTakesNoBytes() {
        Measures measures = measures(ALL);
        measures.restore(bytes(SAVED));
        measures.restore(null);
        assertArrayEquals(
                new Object[] {null, null, null, null, null, 0L, null, null, null, 0L, null, null, null},
                measures.before(new Object[] {1L, 0.0, "M1", null, null, 2_000L}));
        assertEquals(0, measures.save().length);
    }

    @Test
    void aFieldThatIsAbsentChangesNoExtremeAndNoSum() {
        Measures measures = measures(String.join(",", HIGHEST, TOTAL));
        measures.restore(null);
        measures.learn("transactions", new Object[] {null});
        assertEquals(0, measures.save().length);
        measures.learn("transactions", new Object[] {5L});
        measures.learn("transactions", new Object[] {null});
        assertArrayEquals(new Object[] {5L, 5L}, measures.before(new Object[] {1L}));
    }

    @Test
    void aLastEventWithoutItsFieldsIsStillTheLast() {
        Measures measures = measures(PREVIOUS);
        measures.restore(null);
        measures.learn("transactions", new Object[] {null, null});
        assertEquals("9c918ba7fdee780f000000020000", HEX.formatHex(measures.save()));
    }

    @Test
    void aSumThatDoesNotFitStaysAtTheLimit() {
        Measures measures = measures(TOTAL);
        measures.restore(null);
        measures.learn("transactions", new Object[] {Long.MAX_VALUE});
        measures.learn("transactions", new Object[] {1L});
        assertArrayEquals(new Object[] {Long.MAX_VALUE}, measures.before(new Object[] {1L}));
        measures.restore(null);
        measures.learn("transactions", new Object[] {Long.MIN_VALUE});
        measures.learn("transactions", new Object[] {-1L});
        assertArrayEquals(new Object[] {Long.MIN_VALUE}, measures.before(new Object[] {1L}));
    }

    @Test
    void aValueThatComesAgainKeepsItsPlaceAndItsLatestTime() {
        Measures measures = measures(MERCHANTS);
        measures.restore(null);
        measures.learn("transactions", new Object[] {"M1", 3_000L});
        measures.learn("transactions", new Object[] {"M2", 2_000L});
        measures.learn("transactions", new Object[] {"M1", 1_000L});
        String saved = "592ccd46aca4cf0c 0000001e 03 00000002 4d31 0000000000000bb8 03 00000002 4d32 00000000000007d0";
        assertEquals(saved.replace(" ", ""), HEX.formatHex(measures.save()));
    }

    @Test
    void anUnknownMeasureIsRefusedByItsName() {
        String median = HIGHEST.replace("\"op\": \"max\"", "\"op\": \"median\"");
        Exception refused = assertThrows(IllegalArgumentException.class, () -> measures(median));
        assertEquals("no measure is called 'median'", refused.getMessage());
    }

    private static String measure(String signature, String op, String field, String kind) {
        return """
                {"signature": "%s", "op": "%s", "stream": "transactions", "fields": ["%s"], "kinds": ["%s"],
                 "outputs": {"%s": "%s"}}""".formatted(signature, op, field, kind, signature, kind);
    }

    private static Measures measures(String declared) {
        return new Measures(Json.list(Json.parse("[" + declared + "]")));
    }

    private static byte[] bytes(String hex) {
        return HEX.parseHex(hex.replace(" ", ""));
    }
}
