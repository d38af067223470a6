package millrace.flink.submission;

import java.util.List;
import java.util.Map;
import millrace.kernel.Json;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamStatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A job as millrace/engines/flink/job.py writes it down: its SQL, its settings and its name. */
public final class Submission {
    private static final Logger LOG = LoggerFactory.getLogger(Submission.class);

    private final Map<String, Object> job;

    /** Reads a submission from JSON. */
    public Submission(String text) {
        job = Json.object(Json.parse(text));
    }

    /** Puts the whole job into an environment as one graph. */
    public void build(StreamExecutionEnvironment environment) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        texts("definitions").forEach(tables::executeSql);
        for (Object each : Json.<Object>list(job.get("views"))) {
            List<String> view = Json.list(each);
            tables.createTemporaryView(view.get(0), tables.sqlQuery(view.get(1)));
        }
        StreamStatementSet inserts = tables.createStatementSet();
        texts("inserts").forEach(inserts::addInsertSql);
        inserts.attachAsDataStream();
        OperatorIds.ensureStable(environment.getTransformations());
    }

    /** Submits the job to the cluster that its settings name; returns its id. */
    String submit() throws Exception {
        long began = System.nanoTime();
        StreamExecutionEnvironment environment = environment();
        build(environment);
        long planned = System.nanoTime();
        JobClient client = environment.executeAsync((String) job.get("name"));
        LOG.info("{}: planned in {} ms, taken by the cluster after {} ms", job.get("name"),
                (planned - began) / 1_000_000, (System.nanoTime() - planned) / 1_000_000);
        return client.getJobID().toString();
    }

    /** Of these settings alone: getExecutionEnvironment() makes a local one outside of `flink run`. */
    private StreamExecutionEnvironment environment() {
        Configuration configuration = new Configuration();
        Json.object(job.get("settings")).forEach((name, value) -> configuration.setString(name, (String) value));
        return new StreamExecutionEnvironment(configuration);
    }

    private List<String> texts(String name) {
        return Json.list(job.get(name));
    }
}
