package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class RefusalsTest {
    private static final String EVENT = "{\\\"max_bytes\\\": 20, \\\"max_depth\\\": 8, \\\"past_ms\\\": 0,"
            + " \\\"future_ms\\\": 0, \\\"time\\\": null, \\\"forbidden\\\": [], \\\"fields\\\": [{\\\"name\\\": \\\"%s\\\","
            + " \\\"kind\\\": \\\"whole\\\", \\\"required\\\": true, \\\"may_pass_luhn\\\": false, \\\"least\\\": 0,"
            + " \\\"most\\\": 9}]}";
    private static final String DECLARED = """
            {"references": [{"name": "shops", "event": "%s"}, {"name": "prices", "event": "%s"}],
             "dead_letters": ["reason", "topic", "partition", "offset", "ingest_ms", "stage", "value_base64"]}"""
            .formatted(EVENT.formatted("n"), EVENT.formatted("cents"));

    private final Refusals refusals = new Refusals(DECLARED, Map.of("shops", "t.shops", "prices", "t.prices"));
    private final List<String> sent = new ArrayList<>();

    @Test
    void whatCanBeReadAndADeletionAreNotRefused() {
        take("shops", "{\"n\": 1}");
        take("prices", "{\"cents\": 1}");
        take("shops", null);
        assertEquals(List.of(), sent);
    }

    @Test
    void eachKindIsReadByItsOwnDeclarationAndNamesItsTopic() {
        take("prices", "{\"n\": 1}");
        assertEquals(List.of("dead-letters t.prices {\"reason\":\"missing:cents\",\"topic\":\"t.prices\",\"partition\":4,"
                + "\"offset\":5,\"ingest_ms\":6,\"stage\":\"events\",\"value_base64\":\"eyJuIjogMX0=\"}"), sent);
    }

    private void take(String kind, String value) {
        refusals.take(kind, 4, 5, 6, value == null ? null : value.getBytes(StandardCharsets.UTF_8), (to, key, letter) ->
                sent.add(to + " " + key + " " + new String(letter, StandardCharsets.UTF_8)));
    }
}
