package millrace.storm;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import millrace.kafka.Job;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.topology.TopologyBuilder;

/** Submits a job: {@code Submit DECLARATION}, a file. */
public final class Submit {
    static final String ARRIVALS = "arrivals";
    static final String JUDGE = "judge";
    private static final String OF_TOPOLOGIES = "topology.";

    private Submit() {}

    public static void main(String[] arguments) throws Exception {
        String declaration = Files.readString(Path.of(arguments[0]));
        Job job = Job.parse(declaration);
        StormSubmitter.submitTopology(job.name(), config(job), topology(declaration, job.threads()));
    }

    /** What each spout reads goes to one bolt, so the order of arrival is kept. */
    static StormTopology topology(String declaration, int tasks) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(ARRIVALS, new Arrivals(declaration), tasks);
        builder.setBolt(JUDGE, new Judge(declaration), tasks)
                .customGrouping(ARRIVALS, Arrivals.MESSAGES, new ByTask())
                .customGrouping(ARRIVALS, Arrivals.POSITIONS, new ByTask());
        return builder.createTopology();
    }

    private static Config config(Job job) {
        Config config = new Config();
        for (Map.Entry<String, String> each : job.settings().entrySet()) {
            if (each.getKey().startsWith(OF_TOPOLOGIES)) {
                String value = each.getValue();
                config.put(each.getKey(), value.matches("\\d+") ? (Object) Long.valueOf(value) : value);
            }
        }
        return config;
    }

    /** To the bolt with the number of the spout. */
    static final class ByTask implements CustomStreamGrouping {
        private List<Integer> targets;

        @Override
        public void prepare(WorkerTopologyContext context, GlobalStreamId stream, List<Integer> targetTasks) {
            targets = List.copyOf(targetTasks);
        }

        @Override
        public List<Integer> chooseTasks(int taskId, List<Object> values) {
            return List.of(targets.get((Integer) values.get(Arrivals.TASK)));
        }
    }
}
