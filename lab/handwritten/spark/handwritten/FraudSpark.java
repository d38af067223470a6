package handwritten;

import static org.apache.spark.sql.functions.coalesce;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.unix_millis;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** The two per-event rules of fraud on Spark, as one writes them by hand: {@code FraudSpark PROPERTIES}, a file. */
public final class FraudSpark {
    private FraudSpark() {}

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            given.load(file);
        }
        SparkSession.Builder builder = SparkSession.builder();
        given.stringPropertyNames().stream()
                .filter(name -> name.startsWith("spark."))
                .forEach(name -> builder.config(name, given.getProperty(name)));
        SparkSession spark = builder.getOrCreate();
        Dataset<Row> messages = spark.readStream()
                .format("kafka")
                .option("kafka.bootstrap.servers", given.getProperty("bootstrap.servers"))
                .option("subscribe", given.getProperty("kind.transactions") + "," + given.getProperty("kind.device-locations"))
                .option("startingOffsets", "earliest")
                .option("failOnDataLoss", "true")
                .option("kafka.isolation.level", "read_committed")
                .load()
                .coalesce(1)
                .select(
                        coalesce(col("key").cast("string"), lit("")).as("customer"),
                        col("topic"), col("partition"), col("offset"), unix_millis(col("timestamp")), col("value"));
        messages.groupBy("customer")
                .as(Encoders.STRING(), Encoders.row(messages.schema()))
                .transformWithState(
                        new JudgeMessages(given), TimeMode.ProcessingTime(), OutputMode.Append(),
                        Encoders.tuple(Encoders.STRING(), Encoders.STRING(), Encoders.BINARY()))
                .toDF("topic", "key", "value")
                .writeStream()
                .format("kafka")
                .option("kafka.bootstrap.servers", given.getProperty("bootstrap.servers"))
                .option("kafka.acks", "all")
                .option("checkpointLocation", given.getProperty("checkpoint"))
                .trigger(Trigger.ProcessingTime(given.getProperty("every")))
                .start()
                .awaitTermination();
    }

    private static final class JudgeMessages extends StatefulProcessor<String, Row, Tuple3<String, String, byte[]>>
            implements Memory {
        private static final long serialVersionUID = 1;
        private static final int TOPIC = 1;
        private static final int PARTITION = 2;
        private static final int OFFSET = 3;
        private static final int ARRIVED_MS = 4;
        private static final int VALUE = 5;

        private final Properties given;
        private transient Judge judge;
        private transient References references;
        private transient Comparator<Row> byArrival;
        private transient ValueState<Long> highest;
        private transient ValueState<byte[]> phones;
        private transient MapState<String, Boolean> seen;
        private transient List<Tuple3<String, String, byte[]>> out;
        // State of the customer at hand: it is read and written once for all rows, since each access encodes.
        private transient Long highestCents;
        private transient Phone phone;

        JudgeMessages(Properties given) {
            this.given = given;
        }

        @Override
        public void init(OutputMode outputMode, TimeMode timeMode) {
            references = CaughtUp.references(given);
            String purchases = given.getProperty("kind.transactions");
            byArrival = Comparator.<Row>comparingLong(row -> row.getLong(ARRIVED_MS))
                    .thenComparing(row -> row.getString(TOPIC).equals(purchases))
                    .thenComparingLong(row -> row.getLong(OFFSET));
            highest = getHandle().getValueState("highest", Encoders.LONG(), TTLConfig.NONE());
            phones = getHandle().getValueState("phone", Encoders.BINARY(), TTLConfig.NONE());
            TTLConfig forgotten = new TTLConfig(Duration.ofMillis(Rules.REMEMBERED_MS));
            seen = getHandle().getMapState("seen", Encoders.STRING(), Encoders.BOOLEAN(), forgotten);
            judge = new Judge(given, this, (topic, key, value, arrivedMs) -> out.add(new Tuple3<>(topic, key, value)));
        }

        @Override
        public Iterator<Tuple3<String, String, byte[]>> handleInputRows(String customer, Iterator<Row> rows, TimerValues times) {
            out = new ArrayList<>();
            List<Row> arrived = new ArrayList<>();
            rows.foreach(arrived::add);
            arrived.sort(byArrival); // a batch holds the rows of a key in no order
            Long highestBefore = highest.get();
            byte[] phoneBefore = phones.get();
            highestCents = highestBefore;
            phone = phoneBefore == null ? null : Phone.of(customer, phoneBefore);
            Phone known = phone;
            for (Row row : arrived) {
                Place place = new Place(row.getString(TOPIC), row.getInt(PARTITION), row.getLong(OFFSET), row.getLong(ARRIVED_MS));
                take(place, row.getAs(VALUE));
            }
            if (highestCents != null && !highestCents.equals(highestBefore)) {
                highest.update(highestCents);
            }
            if (phone != known) {
                phones.update(phone.bytes());
            }
            return CollectionConverters.asScala(out.iterator());
        }

        private void take(Place place, byte[] value) {
            try {
                judge.take(place, value);
            } catch (RuntimeException error) {
                throw error;
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public Merchant merchant(String name) {
            return references.merchant(name);
        }

        @Override
        public String segment(String customer) {
            return references.segment(customer);
        }

        @Override
        public boolean isNew(Purchase purchase, long arrivedMs) {
            if (seen.containsKey(purchase.id())) {
                return false;
            }
            seen.updateValue(purchase.id(), true);
            return true;
        }

        @Override
        public Long highestCents(String customer) {
            return highestCents;
        }

        @Override
        public void keepHighest(String customer, long cents) {
            highestCents = cents;
        }

        @Override
        public Phone phone(String customer) {
            return phone;
        }

        @Override
        public void keep(Phone phone) {
            this.phone = phone;
        }
    }

    /** Reference data, read on before each batch: one for all tasks of the JVM. */
    private static final class CaughtUp {
        private static CaughtUp shared;

        private final References known = new References();
        private final String merchants;
        private final List<TopicPartition> places = new ArrayList<>();
        private final KafkaConsumer<byte[], byte[]> consumer;

        private CaughtUp(Properties given) {
            merchants = given.getProperty("kind.merchants");
            consumer = new KafkaConsumer<>(
                    Map.of("bootstrap.servers", given.getProperty("bootstrap.servers"), "isolation.level", "read_committed"),
                    new ByteArrayDeserializer(), new ByteArrayDeserializer());
            for (String topic : List.of(merchants, given.getProperty("kind.customers"))) {
                consumer.partitionsFor(topic).forEach(each -> places.add(new TopicPartition(topic, each.partition())));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
        }

        static synchronized References references(Properties given) {
            if (shared == null) {
                shared = new CaughtUp(given);
            }
            shared.catchUp();
            return shared.known;
        }

        private void catchUp() {
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            while (places.stream().anyMatch(place -> consumer.position(place) < ends.get(place))) {
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
}
