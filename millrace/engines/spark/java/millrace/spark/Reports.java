package millrace.spark;

import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** Spark's reports on the batches of a query, for a driver that looks often: one call from Python where nothing is new. */
public final class Reports {
    private Reports() {}

    /** The last report as JSON; empty if there is none, or if it is the known one, by its run and time. */
    public static String later(StreamingQuery query, String known) {
        StreamingQueryProgress last = query.lastProgress();
        return last == null || known.equals(last.runId() + " " + last.timestamp()) ? "" : last.json();
    }
}
