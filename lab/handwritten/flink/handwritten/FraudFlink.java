package handwritten;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * The two per-event rules of fraud on Flink, as one writes them by hand: {@code FraudFlink PROPERTIES}, a file.
 *
 * <p>The source is the library's own, as for the declared rules: no source of Flink's reads two topics in the order of
 * arrival. It reads and refuses; all that follows is by hand.
 */
public final class FraudFlink {
    private static final String ROWS = """
            SELECT _stream, _refused, _value, _topic, _partition, _offset, _ingest_ms, customer, transaction_id, card,
                merchant, amount_cents, latitude, longitude, at_ms, sent_ms,
                `device-locations.latitude`, `device-locations.longitude`, `device-locations.at_ms`
            FROM arrivals""";
    private static final int STREAM = 0;
    private static final int REFUSED = 1;
    private static final int VALUE = 2;
    private static final int TOPIC = 3;
    private static final int CUSTOMER = 7;
    private static final int PURCHASE = 8;
    private static final int PHONE = 16;
    private static final OutputTag<Tuple2<String, byte[]>> ALERTS = tag("alerts");
    private static final OutputTag<Tuple2<String, byte[]>> DEAD_LETTERS = tag("dead-letters");

    private FraudFlink() {}

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            given.load(file);
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.executeSql(given.getProperty("arrivals"));
        DataStream<RowData> rows = tables.toDataStream(tables.sqlQuery(ROWS), rowType().bridgedTo(RowData.class));
        SingleOutputStreamOperator<Tuple2<String, byte[]>> enriched = rows
                .keyBy(row -> row.isNullAt(CUSTOMER) ? "" : row.getString(CUSTOMER).toString(), Types.STRING)
                .process(new Judge(given)).returns(Types.TUPLE(Types.STRING, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        enriched.sinkTo(sink(given, "enriched"));
        enriched.getSideOutput(ALERTS).sinkTo(sink(given, "alerts"));
        enriched.getSideOutput(DEAD_LETTERS).sinkTo(sink(given, "dead-letters"));
        env.execute(given.getProperty("name"));
    }

    private static DataType rowType() {
        DataType text = DataTypes.STRING();
        DataType whole = DataTypes.BIGINT();
        DataType real = DataTypes.DOUBLE();
        return DataTypes.ROW(text, text, DataTypes.BYTES(), text, DataTypes.INT(), whole, whole, text, text, text, text,
                whole, real, real, whole, whole, real, real, whole);
    }

    private static OutputTag<Tuple2<String, byte[]>> tag(String name) {
        return new OutputTag<>(name, Types.TUPLE(Types.STRING, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
    }

    private static KafkaSink<Tuple2<String, byte[]>> sink(Properties given, String kind) {
        return KafkaSink.<Tuple2<String, byte[]>>builder()
                .setBootstrapServers(given.getProperty("bootstrap.servers"))
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .setProperty("linger.ms", "0")
                .setProperty("acks", "all")
                .setProperty("enable.idempotence", "true")
                .setRecordSerializer(KafkaRecordSerializationSchema.<Tuple2<String, byte[]>>builder()
                        .setTopic(given.getProperty("topic." + kind))
                        .setKeySerializationSchema((Tuple2<String, byte[]> out) -> out.f0.getBytes(StandardCharsets.UTF_8))
                        .setValueSerializationSchema((Tuple2<String, byte[]> out) -> out.f1)
                        .build())
                .build();
    }

    private static final class Judge extends KeyedProcessFunction<String, RowData, Tuple2<String, byte[]>> {
        private static final long serialVersionUID = 1;

        private final Properties given;
        private transient Writing writing;
        private transient Map<String, Merchant> merchants;
        private transient Map<String, String> segments;
        private transient ValueState<Long> highest;
        private transient ValueState<byte[]> phones;
        private transient MapState<String, Long> seen;

        Judge(Properties given) {
            this.given = given;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            writing = new Writing();
            Reading reading = new Reading();
            merchants = new HashMap<>();
            segments = new HashMap<>();
            for (byte[] each : all("merchants")) {
                Merchant merchant = reading.merchant(each);
                merchants.put(merchant.name(), merchant);
            }
            for (Map.Entry<String, byte[]> each : byKey("customers").entrySet()) {
                segments.put(each.getKey(), reading.segment(each.getValue()));
            }
            highest = getRuntimeContext().getState(new ValueStateDescriptor<>("highest", Types.LONG));
            phones = getRuntimeContext().getState(
                    new ValueStateDescriptor<>("phone", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
            MapStateDescriptor<String, Long> ids = new MapStateDescriptor<>("seen", Types.STRING, Types.LONG);
            ids.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofMillis(Rules.REMEMBERED_MS)).build());
            seen = getRuntimeContext().getMapState(ids);
        }

        @Override
        public void processElement(RowData row, Context context, Collector<Tuple2<String, byte[]>> out) throws Exception {
            Place place = new Place(row.getString(TOPIC).toString(), row.getInt(TOPIC + 1), row.getLong(TOPIC + 2), row.getLong(TOPIC + 3));
            try {
                if (!row.isNullAt(REFUSED)) {
                    throw new Refused(row.getString(REFUSED).toString());
                }
                if (row.getString(STREAM).toString().equals("transactions")) {
                    judge(purchase(row), place, context, out);
                } else {
                    phones.update(new Phone(context.getCurrentKey(), row.getDouble(PHONE), row.getDouble(PHONE + 1), row.getLong(PHONE + 2)).bytes());
                }
            } catch (Refused refused) {
                byte[] value = row.isNullAt(VALUE) ? null : row.getBinary(VALUE);
                byte[] letter = writing.deadLetter(refused.getMessage(), place, value);
                context.output(DEAD_LETTERS, Tuple2.of(place.topic(), letter));
            }
        }

        private void judge(Purchase purchase, Place place, Context context, Collector<Tuple2<String, byte[]>> out)
                throws Refused, IOException, Exception {
            Merchant merchant = merchants.get(purchase.merchant());
            if (merchant == null) {
                throw new Refused("unknown:merchants");
            }
            String segment = segments.get(purchase.customer());
            if (segment == null) {
                throw new Refused("unknown:customers");
            }
            Long until = seen.get(purchase.id());
            if (until != null && until >= place.arrivedMs()) {
                throw new Refused("duplicate");
            }
            seen.put(purchase.id(), place.arrivedMs() + Rules.REMEMBERED_MS);
            Long highestCents = highest.value();
            byte[] known = phones.value();
            Phone phone = known == null ? null : Phone.of(purchase.customer(), known);
            List<String> flags = new ArrayList<>(2);
            if (Rules.isAboveMax(purchase, highestCents)) {
                flags.add(Rules.ABOVE_MAX);
                byte[] alert = writing.aboveMax(given.getProperty("version.above"), purchase, highestCents, place);
                context.output(ALERTS, Tuple2.of(purchase.customer(), alert));
            }
            if (Rules.isAway(purchase, phone)) {
                flags.add(Rules.AWAY);
                byte[] alert = writing.away(given.getProperty("version.away"), purchase, phone, place);
                context.output(ALERTS, Tuple2.of(purchase.customer(), alert));
            }
            if (highestCents == null || purchase.amountCents() > highestCents) {
                highest.update(purchase.amountCents());
            }
            out.collect(Tuple2.of(purchase.customer(), writing.enriched(purchase, merchant, segment, phone, flags, place)));
        }

        private static Purchase purchase(RowData row) {
            return new Purchase(
                    row.getString(PURCHASE).toString(),
                    row.getString(CUSTOMER).toString(),
                    row.getString(PURCHASE + 1).toString(),
                    row.getString(PURCHASE + 2).toString(),
                    row.getLong(PURCHASE + 3),
                    row.getDouble(PURCHASE + 4),
                    row.getDouble(PURCHASE + 5),
                    row.getLong(PURCHASE + 6),
                    row.isNullAt(PURCHASE + 7) ? null : row.getLong(PURCHASE + 7));
        }

        private Iterable<byte[]> all(String kind) {
            return byKey(kind).values();
        }

        /** The newest message of each key of a topic, as it is now. */
        private Map<String, byte[]> byKey(String kind) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", given.getProperty("bootstrap.servers"));
            Map<String, byte[]> found = new HashMap<>();
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                List<TopicPartition> places = List.of(new TopicPartition(given.getProperty("topic." + kind), 0));
                consumer.assign(places);
                consumer.seekToBeginning(places);
                long end = consumer.endOffsets(places).get(places.get(0));
                while (consumer.position(places.get(0)) < end) {
                    for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(200))) {
                        found.put(new String(each.key(), StandardCharsets.UTF_8), each.value());
                    }
                }
            }
            return found;
        }
    }
}
