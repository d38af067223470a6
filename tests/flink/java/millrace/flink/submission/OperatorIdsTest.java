package millrace.flink.submission;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamStatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.junit.jupiter.api.Test;

/** A window keeps its id while it is the same, and only then, in the plans that Flink makes. */
final class OperatorIdsTest {
    private static final String OF = "TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '3' SECOND)";
    private static final String SESSION = "SESSION(TABLE timely PARTITION BY who, DESCRIPTOR(ts), INTERVAL '3' SECOND)";

    @Test
    void windowsOfOtherFieldsHaveOtherIds() {
        assertEquals(2, windows(query("SUM(a)", OF), query("SUM(b)", OF)).size());
        assertEquals(2, windows(query("SUM(a)", SESSION), query("SUM(b)", SESSION)).size());
    }

    @Test
    void windowsOfOtherConditionsOrExpressionsHaveOtherIds() {
        for (String of : new String[] {OF, SESSION}) {
            assertEquals(2, windows(query(counted("a > 1"), of), query(counted("a > 2"), of)).size());
            assertEquals(2, windows(query(counted("w = 'x, y'"), of), query(counted("w = 'x, z'"), of)).size());
            assertEquals(2, windows(query("SUM(CAST(a AS DECIMAL(19, 0)))", of),
                    query("SUM(CAST(b AS DECIMAL(19, 0)))", of)).size());
        }
    }

    @Test
    void aWindowKeepsItsIdBesideOthers() {
        for (String of : new String[] {OF, SESSION}) {
            String[] queries = {query(counted("a > 1"), of), query("SUM(b)", of), query("MAX(CONCAT(w, '1'))", of)};
            Set<String> all = windows(queries);
            assertEquals(3, all.size());
            for (String alone : queries) {
                assertTrue(all.containsAll(windows(alone)), alone);
            }
        }
    }

    @Test
    void sinksHaveTheLastPartOfTheirNamesUnlessOthersHaveIt() {
        assertEquals(Set.of("sink rate", "sink alerts"), sinks("windows.rate", "alerts"));
        assertEquals(Set.of("sink windows.eu.rate", "sink windows.us.rate", "sink windows.alerts", "sink alerts"),
                sinks("windows.eu.rate", "windows.us.rate", "windows.alerts", "alerts"));
    }

    @Test
    void computedColumnsAreReadOfADescription() {
        assertEquals(Map.of("$f1", "MAX(ARRAY[1, 2], 'it''s, ] AS $f9')", "$f2", "b"), OperatorIds.computed(
                "Calc(select=[a, MAX(ARRAY[1, 2], 'it''s, ] AS $f9') AS $f1, b AS $f2], where=[c AS $f3])"));
        assertTrue(true);
    }

    /** The ids of the sinks into these tables. */
    private static Set<String> sinks(String... names) {
        StreamExecutionEnvironment environment = new StreamExecutionEnvironment(new Configuration());
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        StreamStatementSet inserts = tables.createStatementSet();
        for (String name : names) {
            tables.executeSql("CREATE TABLE `" + name + "` (n INT) WITH ('connector' = 'blackhole')");
            inserts.addInsertSql("INSERT INTO `" + name + "` VALUES (1)");
        }
        inserts.attachAsDataStream();
        OperatorIds.ensureStable(environment.getTransformations());
        Set<String> found = new HashSet<>();
        environment.getTransformations().forEach(each -> found.add(each.getUid()));
        found.removeIf(each -> each == null || !each.startsWith("sink "));
        return found;
    }

    private static String counted(String condition) {
        return "COUNT(*) FILTER (WHERE " + condition + ")";
    }

    private static String query(String measured, String windows) {
        return "SELECT who, " + measured + " AS n FROM TABLE(" + windows + ") GROUP BY who, window_start, window_end";
    }

    /** The ids of the windows' last phases, in one plan of these queries. */
    private static Set<String> windows(String... queries) {
        StreamExecutionEnvironment environment = new StreamExecutionEnvironment(new Configuration());
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.executeSql("CREATE TABLE events (who STRING, a BIGINT, b BIGINT, w STRING, ts TIMESTAMP(3),"
                + " WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')");
        tables.createTemporaryView("timely", tables.sqlQuery("SELECT who, a, b, w, ts FROM events WHERE a <> 7"));
        StreamStatementSet inserts = tables.createStatementSet();
        for (int n = 0; n < queries.length; n++) {
            String column = queries[n].contains("MAX(CONCAT") ? "STRING" : "DECIMAL(38, 0)";
            tables.executeSql("CREATE TABLE sink" + n + " (who STRING, n " + column + ") WITH ('connector' = 'blackhole')");
            inserts.addInsertSql("INSERT INTO sink" + n + " SELECT who, CAST(n AS " + column + ") FROM (" + queries[n]
                    + ")");
        }
        inserts.attachAsDataStream();
        OperatorIds.ensureStable(environment.getTransformations());
        Set<String> ids = new HashSet<>();
        environment.getTransformations().forEach(each -> collect(each, ids));
        return ids;
    }

    private static void collect(Transformation<?> transformation, Set<String> ids) {
        transformation.getInputs().forEach(each -> collect(each, ids));
        String name = transformation.getName();
        if (Arrays.asList("GlobalWindowAggregate", "WindowAggregate").contains(name.replaceAll("\\[.*", ""))) {
            ids.add(transformation.getUid());
        }
    }
}
