package millrace.flink.arrivals;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.BiPredicate;
import millrace.kafka.Job;
import millrace.kafka.Losses;
import millrace.kafka.ReferenceData;
import millrace.kernel.Json;
import millrace.kernel.Outputs;
import millrace.kernel.Refusals;
import millrace.kernel.Stage;
import millrace.kernel.State;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.Header;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.Collector;

/**
 * The per-event stage of a declared job as one function: the product's source, the kernel's {@link Stage} over the state of
 * a key, one sink. {@code OnStage JOB}, the file that {@link Job} reads.
 *
 * <p>As on Kafka Streams, the key of a message counts as that of its event. Nothing behind the stage needs event time, and
 * none is made.
 */
public final class OnStage {
    private static final List<Header> MARK = List.of(new RecordHeader("backlog", new byte[] {1}));

    private OnStage() {}

    public static void main(String[] arguments) throws Exception {
        String declaration = Files.readString(Path.of(arguments[0]));
        Job job = Job.parse(declaration);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        KafkaSink<Output> sink = sink(job);
        arrivals(env, job, job.rawTopics(), "arrivals")
                .keyBy(message -> message.getString(Rows.KEY).toString(), Types.STRING)
                .process(new Judge(declaration), Types.POJO(Output.class))
                .sinkTo(sink);
        List<String> references = job.references().stream().map(each -> job.topic(each.kind())).toList();
        arrivals(env, job, references, "references")
                .process(new Refuse(declaration), Types.POJO(Output.class))
                .sinkTo(sink);
        env.execute(job.name());
    }

    public record Output(String topic, byte[] key, byte[] value, boolean isMarked) {}

    private static DataStream<RowData> arrivals(
            StreamExecutionEnvironment env, Job job, List<String> topics, String name) {
        Properties kafka = new Properties();
        kafka.put("bootstrap.servers", job.bootstrap());
        kafka.put("group.id", job.pattern());
        ArrivalSource source =
                new ArrivalSource(kafka, new Rows(topics), new Reading(job.liveMs()), job.disorderMs(), "[]");
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), name, Rows.TYPE);
    }

    private static KafkaSink<Output> sink(Job job) {
        Properties settings = new Properties();
        settings.putAll(job.settings());
        return KafkaSink.<Output>builder()
                .setBootstrapServers(job.bootstrap())
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .setKafkaProducerConfig(settings)
                .setRecordSerializer((out, context, ms) -> new ProducerRecord<>(
                        out.topic(), null, out.key(), out.value(), out.isMarked() ? MARK : null))
                .build();
    }

    private static Output output(Job job, String kind, String key, byte[] value, boolean isBacklog) {
        return new Output(
                job.topic(kind), key.getBytes(StandardCharsets.UTF_8), value, isBacklog && kind.equals(job.enriched()));
    }

    private static byte[] value(RowData message) {
        return message.isNullAt(Rows.VALUE) ? null : message.getBinary(Rows.VALUE);
    }

    private static final class Judge extends KeyedProcessFunction<String, RowData, Output> implements Outputs {
        private static final long serialVersionUID = 1L;

        private final String declaration;
        private transient Job job;
        private transient ReferenceData references;
        private transient Stage stage;
        private transient State state;
        private transient Collector<Output> out;
        private transient boolean isBacklog;

        Judge(String declaration) {
            this.declaration = declaration;
        }

        @Override
        public void open(OpenContext context) {
            job = Job.parse(declaration);
            references = new ReferenceData(job);
            stage = new Stage(job.stage(), job.topics(), references.tables());
            try (Losses losses = new Losses(job)) {
                losses.ids().forEach((topic, id) -> stage.identify(job.kinds().get(topic), id));
            }
            Map<String, Object> declared = Json.object(Json.parse(job.stage()));
            state = new KeyedState(
                    getRuntimeContext(), Duration.ofMillis(((Number) declared.get("remembered_ms")).longValue()));
        }

        @Override
        public void close() {
            if (references != null) {
                references.close();
            }
        }

        @Override
        public void processElement(RowData message, Context context, Collector<Output> collector) {
            if (references.problem() != null) {
                throw references.problem();
            }
            out = collector;
            isBacklog = message.getBoolean(Rows.BACKLOG);
            stage.take(job.raw().get(message.getInt(Rows.TOPIC)), message.getInt(Rows.PARTITION),
                    message.getLong(Rows.OFFSET), message.getLong(Rows.INGEST_MS), value(message), state, this);
        }

        @Override
        public void send(String kind, String key, byte[] value) {
            out.collect(output(job, kind, key, value, isBacklog));
        }
    }

    private static final class Refuse extends ProcessFunction<RowData, Output> {
        private static final long serialVersionUID = 1L;

        private final String declaration;
        private transient Job job;
        private transient Refusals refusals;

        Refuse(String declaration) {
            this.declaration = declaration;
        }

        @Override
        public void open(OpenContext context) {
            job = Job.parse(declaration);
            refusals = new Refusals(job.stage(), job.topics());
        }

        @Override
        public void processElement(RowData message, Context context, Collector<Output> out) {
            refusals.take(job.references().get(message.getInt(Rows.TOPIC)).kind(), message.getInt(Rows.PARTITION),
                    message.getLong(Rows.OFFSET), message.getLong(Rows.INGEST_MS), value(message),
                    (kind, key, value) -> out.collect(output(job, kind, key, value, false)));
        }
    }

    /** What a stage keeps of the present key. Flink forgets ids by itself, and lists no entries of other keys. */
    private static final class KeyedState implements State {
        private static final byte MEMORY = 'm'; // as the stage names its keys

        private final ValueState<byte[]> memory;
        private final MapState<byte[], byte[]> seen;

        KeyedState(RuntimeContext context, Duration remembered) {
            TypeInformation<byte[]> bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
            memory = context.getState(new ValueStateDescriptor<>("memory", bytes));
            MapStateDescriptor<byte[], byte[]> ids = new MapStateDescriptor<>("seen", bytes, bytes);
            ids.enableTimeToLive(StateTtlConfig.newBuilder(remembered).build());
            seen = context.getMapState(ids);
        }

        @Override
        public byte[] get(byte[] key) {
            try {
                return key[0] == MEMORY ? memory.value() : seen.get(id(key));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void put(byte[] key, byte[] value) {
            try {
                if (key[0] == MEMORY) {
                    memory.update(value);
                } else {
                    seen.put(id(key), value);
                }
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void remove(byte[] key) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void visit(byte[] from, byte[] to, BiPredicate<byte[], byte[]> visitor) {
            throw new UnsupportedOperationException();
        }

        /** The part behind the text of Flink's own key. */
        private static byte[] id(byte[] key) {
            int own = ByteBuffer.wrap(key, 1, Integer.BYTES).getInt();
            return Arrays.copyOfRange(key, 1 + Integer.BYTES + own, key.length);
        }
    }
}
