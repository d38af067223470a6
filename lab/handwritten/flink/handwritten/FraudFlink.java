package handwritten;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
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
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.errors.WakeupException;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** The rules of fraud on Flink, as one writes them by hand: {@code FraudFlink PROPERTIES}, a file. */
public final class FraudFlink {
    private static final OutputTag<CardUse> USES = new OutputTag<>("uses", Types.POJO(CardUse.class));

    private FraudFlink() {}

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            given.load(file);
        }
        String purchases = given.getProperty("kind.transactions");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        KafkaSource<Message> source = KafkaSource.<Message>builder()
                .setBootstrapServers(given.getProperty("bootstrap.servers"))
                .setGroupId(given.getProperty("name"))
                .setTopics(purchases, given.getProperty("kind.device-locations"))
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setProperty("isolation.level", "read_committed")
                .setProperty("max.partition.fetch.bytes", "262144") // small, so that neither topic is far ahead
                .setDeserializer(new Reader())
                .build();
        KafkaSink<Output> sink = KafkaSink.<Output>builder()
                .setBootstrapServers(given.getProperty("bootstrap.servers"))
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .setProperty("linger.ms", "0")
                .setProperty("acks", "all")
                .setProperty("enable.idempotence", "true")
                .setRecordSerializer((out, context, ms) -> new ProducerRecord<>(out.topic(), out.key(), out.value()))
                .build();
        SingleOutputStreamOperator<Output> judged = env
                .fromSource(source, WatermarkStrategy.forGenerator(context -> new Arrived()), "messages")
                .transform("in order", Types.POJO(Message.class), new InOrder(purchases))
                .keyBy(Message::customer, Types.STRING)
                .process(new JudgeMessages(given), Types.POJO(Output.class));
        judged.sinkTo(sink);
        if (given.containsKey("version.burst")) {
            WatermarkStrategy<CardUse> happened = WatermarkStrategy.forGenerator(context -> new Happened());
            judged.getSideOutput(USES)
                    .assignTimestampsAndWatermarks(happened.withTimestampAssigner((use, ms) -> use.atMs()))
                    .keyBy(CardUse::card, Types.STRING)
                    .process(new JudgeBursts(given), Types.POJO(Output.class))
                    .sinkTo(sink); // not united with the other outputs: that would end the chain of their operators
        }
        env.execute(given.getProperty("name"));
    }

    /** A message by its key. */
    public record Message(String customer, Place place, byte[] value) {}

    public record Output(String topic, byte[] key, byte[] value) {}

    private static final class Reader implements KafkaRecordDeserializationSchema<Message> {
        private static final long serialVersionUID = 1;

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> from, Collector<Message> out) {
            String customer = from.key() == null ? "" : new String(from.key(), StandardCharsets.UTF_8);
            Place place = new Place(from.topic(), from.partition(), from.offset(), from.timestamp());
            out.collect(new Message(customer, place, from.value()));
        }

        @Override
        public TypeInformation<Message> getProducedType() {
            return Types.POJO(Message.class);
        }
    }

    /** For how long nothing has come, in looks: a clock goes on while the task is held up. */
    private static final class Silence {
        static final int EVERY_MS = 50;

        private int looks;
        private long lookedNs = System.nanoTime();

        Silence(int looks) {
            this.looks = looks;
        }

        void end() {
            looks = 0;
        }

        long atLeastMs() {
            long now = System.nanoTime();
            if (now - lookedNs > EVERY_MS * 1_000_000L / 2) { // Flink makes up for all that it has missed at once
                looks++;
            }
            lookedNs = now;
            return (long) EVERY_MS * looks;
        }
    }

    /** The time of a partition: that of its newest message, and the clock's where none has come for 2 s. */
    private static final class Arrived implements WatermarkGenerator<Message> {
        private static final long QUIET_MS = 2_000;

        private final Silence silence = new Silence(-1_000); // the first message may take longer
        private long newestMs = Long.MIN_VALUE + 1;

        @Override
        public void onEvent(Message message, long arrivedMs, WatermarkOutput output) {
            newestMs = arrivedMs;
            silence.end();
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {
            boolean isQuiet = silence.atLeastMs() > QUIET_MS;
            output.emitWatermark(new Watermark(isQuiet ? System.currentTimeMillis() - QUIET_MS : newestMs - 1));
        }
    }

    /** Holds messages until no partition can have an earlier one; of the same millisecond, phones come first. */
    private static final class InOrder extends AbstractStreamOperator<Message> implements OneInputStreamOperator<Message, Message> {
        private static final long serialVersionUID = 1;

        private final String purchases;
        private transient PriorityQueue<Message> held;
        private transient ListState<Message> kept;

        InOrder(String purchases) {
            this.purchases = purchases;
        }

        @Override
        public void initializeState(StateInitializationContext context) throws Exception {
            held = new PriorityQueue<>(Comparator.<Message>comparingLong(each -> each.place().arrivedMs())
                    .thenComparing(each -> each.place().topic().equals(purchases))
                    .thenComparingLong(each -> each.place().offset()));
            kept = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("held", Types.POJO(Message.class)));
            kept.get().forEach(held::add);
        }

        @Override
        public void snapshotState(StateSnapshotContext context) throws Exception {
            kept.update(new ArrayList<>(held));
        }

        @Override
        public void processElement(StreamRecord<Message> message) {
            held.add(message.getValue());
        }

        @Override
        public void processWatermark(org.apache.flink.streaming.api.watermark.Watermark mark) throws Exception {
            while (!held.isEmpty() && held.element().place().arrivedMs() <= mark.getTimestamp()) {
                output.collect(new StreamRecord<>(held.remove()));
            }
            super.processWatermark(mark);
        }
    }

    private static final class JudgeMessages extends KeyedProcessFunction<String, Message, Output>
            implements Memory, Judge.Outputs {
        private static final long serialVersionUID = 1;

        private final Properties given;
        private final boolean hasBursts;
        private transient Judge judge;
        private transient Context context;
        private transient Collector<Output> out;
        private transient Followed references;
        private transient ValueState<Long> highest;
        private transient ValueState<byte[]> phones;
        private transient MapState<String, Boolean> seen;

        JudgeMessages(Properties given) {
            this.given = given;
            hasBursts = given.containsKey("version.burst");
        }

        @Override
        public void open(OpenContext context) {
            references = new Followed(given);
            TypeInformation<byte[]> bytes = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
            highest = getRuntimeContext().getState(new ValueStateDescriptor<>("highest", Types.LONG));
            phones = getRuntimeContext().getState(new ValueStateDescriptor<>("phone", bytes));
            MapStateDescriptor<String, Boolean> ids = new MapStateDescriptor<>("seen", Types.STRING, Types.BOOLEAN);
            ids.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofMillis(Rules.REMEMBERED_MS)).build());
            seen = getRuntimeContext().getMapState(ids);
            judge = new Judge(given, this, this);
        }

        @Override
        public void close() {
            if (references != null) {
                references.close();
            }
        }

        @Override
        public void processElement(Message message, Context context, Collector<Output> collector) throws Exception {
            this.context = context;
            out = collector;
            judge.take(message.place(), message.value());
        }

        @Override
        public void send(String topic, String key, byte[] value, long arrivedMs) {
            out.collect(new Output(topic, key.getBytes(StandardCharsets.UTF_8), value));
        }

        @Override
        public void accept(Purchase purchase, Place place) {
            if (hasBursts) {
                context.output(USES, CardUse.of(purchase, place));
            }
        }

        @Override
        public Merchant merchant(String name) {
            return references.known.merchant(name);
        }

        @Override
        public String segment(String customer) {
            return references.known.segment(customer);
        }

        @Override
        public boolean isNew(Purchase purchase, long arrivedMs) throws Exception {
            if (seen.contains(purchase.id())) {
                return false;
            }
            seen.put(purchase.id(), true);
            return true;
        }

        @Override
        public Long highestCents(String customer) throws IOException {
            return highest.value();
        }

        @Override
        public void keepHighest(String customer, long cents) throws IOException {
            highest.update(cents);
        }

        @Override
        public Phone phone(String customer) throws IOException {
            byte[] known = phones.value();
            return known == null ? null : Phone.of(customer, known);
        }

        @Override
        public void keep(Phone phone) throws IOException {
            phones.update(phone.bytes());
        }
    }

    /** The event time of a task: behind its newest purchase; in a silence it moves on as the clock does. */
    private static final class Happened implements WatermarkGenerator<CardUse> {
        private static final long QUIET_MS = 5_000;

        private final Silence silence = new Silence(0);
        private long newestMs = Long.MIN_VALUE;

        @Override
        public void onEvent(CardUse use, long atMs, WatermarkOutput output) {
            newestMs = Math.max(newestMs, use.momentMs());
            silence.end();
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {
            long silentMs = Math.max(0, silence.atLeastMs() - QUIET_MS);
            if (newestMs > Long.MIN_VALUE) {
                output.emitWatermark(new Watermark(newestMs - CardUse.DISORDER_MS - 1 + silentMs));
            } else if (silentMs > 0) {
                output.markIdle();
            }
        }
    }

    /** Keeps the uses of a card until no other can join them: each costs one append, and one look when its timer fires. */
    private static final class JudgeBursts extends KeyedProcessFunction<String, CardUse, Output> {
        private static final long serialVersionUID = 1;

        private final Properties given;
        private transient Writing writing;
        private transient ListState<CardUse> open;

        JudgeBursts(Properties given) {
            this.given = given;
        }

        @Override
        public void open(OpenContext context) {
            writing = new Writing();
            open = getRuntimeContext().getListState(new ListStateDescriptor<>("open", Types.POJO(CardUse.class)));
        }

        @Override
        public void processElement(CardUse use, Context context, Collector<Output> out) throws Exception {
            if (use.atMs() <= context.timerService().currentWatermark()) {
                Place place = new Place(
                        given.getProperty("kind.transactions"), use.partition(), use.offset(), use.arrivedMs());
                send(out, "kind.dead-letters", place.topic(), writing.late(place));
                return;
            }
            open.add(use);
            context.timerService().registerEventTimeTimer(use.atMs() + CardUse.GAP_MS);
        }

        @Override
        public void onTimer(long ms, OnTimerContext context, Collector<Output> out) throws Exception {
            List<CardUse> uses = new ArrayList<>();
            open.get().forEach(uses::add);
            int kept = uses.size();
            for (List<CardUse> burst : CardUse.ended(uses, ms)) {
                send(out, "kind.alerts", Writing.subject(burst), writing.burst(given.getProperty("version.burst"), burst));
            }
            if (uses.size() < kept) {
                open.update(uses);
            }
        }

        private void send(Collector<Output> out, String kind, String key, byte[] value) {
            out.collect(new Output(given.getProperty(kind), key.getBytes(StandardCharsets.UTF_8), value));
        }
    }

    /** Reference data: read to its end first, then followed in the background. */
    private static final class Followed {
        final References known = new References();
        private final String merchants;
        private final KafkaConsumer<byte[], byte[]> consumer;

        Followed(Properties given) {
            merchants = given.getProperty("kind.merchants");
            consumer = new KafkaConsumer<>(
                    Map.of("bootstrap.servers", given.getProperty("bootstrap.servers"), "isolation.level", "read_committed"),
                    new ByteArrayDeserializer(), new ByteArrayDeserializer());
            List<TopicPartition> places = new ArrayList<>();
            for (String topic : List.of(merchants, given.getProperty("kind.customers"))) {
                consumer.partitionsFor(topic).forEach(each -> places.add(new TopicPartition(topic, each.partition())));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            while (places.stream().anyMatch(place -> consumer.position(place) < ends.get(place))) {
                take();
            }
            Thread follower = new Thread(this::follow, "reference data");
            follower.setDaemon(true);
            follower.start();
        }

        void close() {
            consumer.wakeup();
        }

        private void follow() {
            try (consumer) {
                while (true) {
                    take();
                }
            } catch (WakeupException closed) {
                // The job ends.
            }
        }

        private void take() {
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(200))) {
                if (each.topic().equals(merchants)) {
                    known.takeMerchant(each.key(), each.value());
                } else {
                    known.takeCustomer(each.key(), each.value());
                }
            }
        }
    }
}
