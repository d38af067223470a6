package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.record.TimestampType;
import org.apache.flink.table.data.RowData;
import org.junit.jupiter.api.Test;

final class RowsTest {
    private static final List<String> COLUMNS = List.of("who", "phones.at_ms", "at_ms", "_stream", "_topic",
            "_partition", "_offset", "_ingest_ms", "_at", "_refused", "_value", "_backlog", "_behind");
    private static final String EVENT = """
            {\\"max_bytes\\": 100, \\"max_depth\\": 8, \\"past_ms\\": 10000, \\"future_ms\\": 100, \\"time\\": \\"at_ms\\",
             \\"forbidden\\": [], \\"fields\\": [
              {\\"name\\": \\"who\\", \\"kind\\": \\"text\\", \\"required\\": true, \\"may_pass_luhn\\": false,
               \\"max_length\\": 8, \\"pattern\\": \\"[a-z]+\\"},
              {\\"name\\": \\"at_ms\\", \\"kind\\": \\"whole\\", \\"required\\": true, \\"may_pass_luhn\\": false,
               \\"least\\": 0, \\"most\\": 99999}]}""".replace("\n", " ");
    private static final Rows ROWS = new Rows("[" + String.join(",",
            stream("phones", "phones.at_ms", false, false),
            stream("pays", "at_ms", true, false),
            stream("shops", "at_ms", false, true)) + "]", "pays", COLUMNS);

    @Test
    void theTopicsStandInTheOrderOfTheirStreams() {
        assertEquals(List.of("p.phones", "p.pays", "p.shops"), ROWS.topics());
    }

    @Test
    void anEventFillsTheColumnsOfItsStream() {
        RowData row = row("p.pays", "{\"who\":\"anna\",\"at_ms\":5000}");
        assertEquals("anna", row.getString(0).toString());
        assertTrue(row.isNullAt(1));
        assertEquals(5_000, row.getLong(2));
        assertEquals("pays p.pays", row.getString(3) + " " + row.getString(4));
        assertEquals(List.of(3, 41L, 6_000L, 5_000L),
                List.of(row.getInt(5), row.getLong(6), row.getLong(7), row.getTimestamp(8, 3).getMillisecond()));
        assertTrue(row.isNullAt(9));
        assertTrue(row.getBoolean(11));
        assertEquals("{\"who\":\"anna\",\"at_ms\":5000}", new String(row.getBinary(10), StandardCharsets.UTF_8));
    }

    @Test
    void onlyTheStreamThatSaysSoKeepsTheBytesOfAnAcceptedEvent() {
        RowData row = row("p.phones", "{\"who\":\"anna\",\"at_ms\":5000}");
        assertEquals(5_000, row.getLong(1));
        assertTrue(row.isNullAt(2));
        assertTrue(row.isNullAt(10));
    }

    @Test
    void aRefusedMessageHasItsReasonItsBytesAndNoTime() {
        RowData row = row("p.phones", "{\"who\":\"anna\"}");
        assertEquals("missing:at_ms", row.getString(9).toString());
        assertEquals(0, row.getTimestamp(8, 3).getMillisecond());
        assertTrue(row.isNullAt(0));
        assertArrayEquals("{\"who\":\"anna\"}".getBytes(StandardCharsets.UTF_8), row.getBinary(10));
    }

    @Test
    void nothingAtAllIsRefusedOnlyWhereItDeletesNoKey() {
        assertNull(row("p.shops", null).isNullAt(9) ? null : "refused");
        assertEquals("empty", row("p.pays", null).getString(9).toString());
    }

    @Test
    void onlyAcceptedEventsOfTheLeadingStreamMoveTimeAndNotBeyondTheirArrival() {
        Rows.Reader reader = ROWS.reader();
        assertEquals(5_000, reader.momentMs(row("p.pays", "{\"who\":\"anna\",\"at_ms\":5000}")));
        assertEquals(6_000, reader.momentMs(row("p.pays", "{\"who\":\"anna\",\"at_ms\":6050}")));
        assertEquals(0, reader.momentMs(row("p.pays", "{\"who\":\"anna\"}")));
        assertEquals(0, reader.momentMs(row("p.phones", "{\"who\":\"anna\",\"at_ms\":5000}")));
    }

    @Test
    void anAcceptedEventBeforeTheMomentThatWindowsHavePassedIsBehind() {
        assertEquals(List.of(false, true), List.of(
                row("p.pays", "{\"who\":\"anna\",\"at_ms\":5000}", 5_000).getBoolean(12),
                row("p.pays", "{\"who\":\"anna\",\"at_ms\":4999}", 5_000).getBoolean(12)));
    }

    private static RowData row(String topic, String value) {
        return row(topic, value, 0);
    }

    private static RowData row(String topic, String value, long passedMs) {
        byte[] bytes = value == null ? null : value.getBytes(StandardCharsets.UTF_8);
        int size = bytes == null ? -1 : bytes.length;
        return ROWS.reader().read(new ConsumerRecord<>(topic, 3, 41, 6_000, TimestampType.LOG_APPEND_TIME, 0, size,
                new byte[0], bytes, new RecordHeaders(), Optional.empty()), true, passedMs);
    }

    private static String stream(String name, String atMs, boolean keeps, boolean deletes) {
        return """
                {"stream": "%s", "topic": "p.%s", "event": "%s", "time": "at_ms",
                 "columns": {"who": "who", "at_ms": "%s"}, "keeps": %s, "deletes": %s}"""
                .formatted(name, name, EVENT, atMs, keeps, deletes);
    }
}
