package millrace.samza;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiPredicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import millrace.kafka.Job;
import millrace.kafka.ReferenceData;
import millrace.kernel.Outputs;
import millrace.kernel.Refusals;
import millrace.kernel.Stage;
import millrace.kernel.State;
import org.apache.samza.application.LegacyTaskApplication;
import org.apache.samza.checkpoint.kafka.KafkaCheckpointManagerFactory;
import org.apache.samza.config.MapConfig;
import org.apache.samza.container.grouper.task.SingleContainerGrouperFactory;
import org.apache.samza.context.Context;
import org.apache.samza.runtime.ApplicationRunner;
import org.apache.samza.runtime.ApplicationRunners;
import org.apache.samza.runtime.LocalApplicationRunner;
import org.apache.samza.serializers.ByteSerdeFactory;
import org.apache.samza.standalone.PassthroughJobCoordinatorFactory;
import org.apache.samza.storage.kv.Entry;
import org.apache.samza.storage.kv.KeyValueIterator;
import org.apache.samza.storage.kv.KeyValueStore;
import org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory;
import org.apache.samza.system.IncomingMessageEnvelope;
import org.apache.samza.system.OutgoingMessageEnvelope;
import org.apache.samza.system.SystemStream;
import org.apache.samza.system.kafka.KafkaSystemFactory;
import org.apache.samza.task.InitableTask;
import org.apache.samza.task.MessageCollector;
import org.apache.samza.task.StreamTask;
import org.apache.samza.task.TaskCoordinator;
import org.apache.samza.task.WindowableTask;

/**
 * The per-event stage of a declared job as a task of Samza: the kernel's {@link Stage} over a store in RocksDB with a
 * changelog, in one process without ZooKeeper. {@code OnSamza JOB}, the file that {@link Job} reads.
 *
 * <p>Samza's producer writes no headers, so that no event is marked as one of a backlog. Its clients are those of Kafka
 * 2.4, which know no ids of topics: here their names stand for them.
 */
public final class OnSamza implements StreamTask, InitableTask, WindowableTask {
    static final String JOB = "millrace.job";
    private static final String KAFKA = "kafka";
    private static final String MEMORY = "memory";
    private static final String FORGET_EVERY_MS = "1000";
    private static final int FORGOTTEN_MOST = 2_000;

    private Job job;
    private ReferenceData references;
    private Stage stage;
    private Refusals refusals;
    private State state;
    private byte[] forgetFrom;

    public static void main(String[] arguments) throws IOException {
        Job job = Job.read(Path.of(arguments[0]));
        ApplicationRunner runner = ApplicationRunners.getApplicationRunner(
                new LegacyTaskApplication(OnSamza.class.getName()), new MapConfig(settings(job, arguments[0])));
        runner.run();
        runner.waitForFinish();
    }

    private static Map<String, String> settings(Job job, String file) {
        Map<String, String> settings = new HashMap<>();
        settings.put(JOB, file);
        settings.put("app.name", job.pattern());
        settings.put("job.name", job.pattern());
        settings.put("app.runner.class", LocalApplicationRunner.class.getName());
        settings.put("job.default.system", KAFKA);
        settings.put("job.coordinator.factory", PassthroughJobCoordinatorFactory.class.getName());
        settings.put("job.coordinator.replication.factor", "1");
        settings.put("job.changelog.replication.factor", "1");
        settings.put("job.logged.store.base.dir", job.folder().toString());
        settings.put("job.non-logged.store.base.dir", job.folder().toString());
        settings.put("job.jmx.enabled", "false"); // it would listen on all addresses
        settings.put("processor.id", "0");
        settings.put("task.class", OnSamza.class.getName());
        settings.put("task.name.grouper.factory", SingleContainerGrouperFactory.class.getName());
        settings.put("task.chooser.class", ByArrival.class.getName());
        settings.put("task.checkpoint.factory", KafkaCheckpointManagerFactory.class.getName());
        settings.put("task.checkpoint.replication.factor", "1");
        settings.put("task.commit.ms", job.settings().get("commit.interval.ms"));
        settings.put("task.window.ms", FORGET_EVERY_MS);
        Stream<String> read = Stream.concat(
                job.rawTopics().stream(), job.references().stream().map(each -> job.topic(each.kind())));
        settings.put("task.inputs", read.map(topic -> KAFKA + "." + topic).collect(Collectors.joining(",")));
        settings.put("systems.kafka.samza.factory", KafkaSystemFactory.class.getName());
        settings.put("systems.kafka.consumer.bootstrap.servers", job.bootstrap());
        settings.put("systems.kafka.producer.bootstrap.servers", job.bootstrap());
        settings.put("systems.kafka.default.stream.samza.offset.default", "oldest");
        job.settings().forEach((name, value) -> {
            if (name.startsWith("producer.")) {
                settings.put("systems.kafka." + name, value);
            }
        });
        settings.put("serializers.registry.byte.class", ByteSerdeFactory.class.getName());
        settings.put("stores.memory.factory", RocksDbKeyValueStorageEngineFactory.class.getName());
        settings.put("stores.memory.key.serde", "byte");
        settings.put("stores.memory.msg.serde", "byte");
        settings.put("stores.memory.changelog", KAFKA + "." + job.pattern() + "-memory-changelog");
        return settings;
    }

    @Override
    @SuppressWarnings("unchecked")
    public void init(Context context) throws IOException {
        job = Job.read(Path.of(context.getJobContext().getConfig().get(JOB)));
        references = new ReferenceData(job);
        stage = new Stage(job.stage(), job.topics(), references.tables());
        refusals = new Refusals(job.stage(), job.topics());
        job.raw().forEach(kind -> stage.identify(kind, job.topic(kind)));
        state = new StoreState((KeyValueStore<byte[], byte[]>) context.getTaskContext().getStore(MEMORY));
    }

    @Override
    public void process(IncomingMessageEnvelope message, MessageCollector collector, TaskCoordinator coordinator) {
        if (references.problem() != null) {
            throw references.problem();
        }
        String topic = message.getSystemStreamPartition().getStream();
        String kind = job.kinds().get(topic);
        int partition = message.getSystemStreamPartition().getPartition().getPartitionId();
        long offset = Long.parseLong(message.getOffset());
        byte[] value = (byte[]) message.getMessage();
        Outputs outputs = (to, key, out) -> collector.send(new OutgoingMessageEnvelope(
                new SystemStream(KAFKA, job.topic(to)), null, key.getBytes(StandardCharsets.UTF_8), out));
        if (job.raw().contains(kind)) {
            stage.take(kind, partition, offset, message.getEventTime(), value, state, outputs);
        } else {
            refusals.take(kind, partition, offset, message.getEventTime(), value, outputs);
        }
    }

    @Override
    public void window(MessageCollector collector, TaskCoordinator coordinator) {
        forgetFrom = stage.forget(forgetFrom, FORGOTTEN_MOST, state);
        stage.settle();
    }

    /** A state in a store of Samza, whose ranges end before their end, in the order of unsigned bytes. */
    private record StoreState(KeyValueStore<byte[], byte[]> store) implements State {
        @Override
        public byte[] get(byte[] key) {
            return store.get(key);
        }

        @Override
        public void put(byte[] key, byte[] value) {
            store.put(key, value);
        }

        @Override
        public void remove(byte[] key) {
            store.delete(key);
        }

        @Override
        public void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor) {
            KeyValueIterator<byte[], byte[]> entries = store.range(from, to);
            try {
                while (entries.hasNext()) {
                    Entry<byte[], byte[]> each = entries.next();
                    if (!visitor.test(each.getKey(), each.getValue())) {
                        return;
                    }
                }
            } finally {
                entries.close();
            }
        }
    }
}
