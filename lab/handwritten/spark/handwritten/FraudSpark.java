package handwritten;

import static org.apache.spark.sql.functions.coalesce;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.get_json_object;
import static org.apache.spark.sql.functions.least;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.timestamp_millis;
import static org.apache.spark.sql.functions.unix_millis;
import static org.apache.spark.sql.functions.when;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
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

/**
 * The rules of fraud on Spark, as one writes them by hand: {@code FraudSpark PROPERTIES}, a file.
 *
 * <p>A second grouping would send every output through another shuffle, so the uses of a card stay with its customer. Time
 * moves with messages only: the last bursts before a silence come with the next purchase.
 */
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
        boolean hasBursts = given.containsKey("version.burst");
        if (hasBursts) {
            builder.config("spark.sql.streaming.noDataMicroBatches.enabled", "true"); // a batch closes what the last one ended
        }
        SparkSession spark = builder.getOrCreate();
        Dataset<Row> read = spark.readStream()
                .format("kafka")
                .option("kafka.bootstrap.servers", given.getProperty("bootstrap.servers"))
                .option("subscribe", given.getProperty("kind.transactions") + "," + given.getProperty("kind.device-locations"))
                .option("startingOffsets", "earliest")
                .option("failOnDataLoss", "true")
                .option("kafka.isolation.level", "read_committed")
                .load()
                .coalesce(1);
        Dataset<Row> messages = (hasBursts ? timed(read, given.getProperty("kind.transactions")) : read).select(
                coalesce(col("key").cast("string"), lit("")).as("customer"),
                col("topic"), col("partition"), col("offset"), unix_millis(col("timestamp")), col("value"));
        messages.groupBy("customer")
                .as(Encoders.STRING(), Encoders.row(messages.schema()))
                .transformWithState(
                        new JudgeMessages(given), hasBursts ? TimeMode.EventTime() : TimeMode.ProcessingTime(),
                        OutputMode.Append(),
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

    /** The messages with a watermark behind the newest purchase; its column is read no more, or Spark drops late rows. */
    private static Dataset<Row> timed(Dataset<Row> messages, String purchases) {
        Column atMs = get_json_object(col("value").cast("string"), "$.at_ms").cast("long");
        return messages
                .withColumn("moment", when(col("topic").equalTo(purchases), least(timestamp_millis(atMs), col("timestamp"))))
                .withWatermark("moment", (CardUse.DISORDER_MS + 1) + " milliseconds");
    }

    private static final class JudgeMessages extends StatefulProcessor<String, Row, Tuple3<String, String, byte[]>>
            implements Memory, Judge.Outputs {
        private static final long serialVersionUID = 1;
        private static final int TOPIC = 1;
        private static final int PARTITION = 2;
        private static final int OFFSET = 3;
        private static final int ARRIVED_MS = 4;
        private static final int VALUE = 5;
        private static final long DAY_MS = 86_400_000;

        private final Properties given;
        private final String burst;
        private transient Judge judge;
        private transient Writing writing;
        private transient References references;
        private transient Comparator<Row> byArrival;
        private transient ValueState<Long> highest;
        private transient ValueState<byte[]> phones;
        private transient MapState<String, Long> seen;
        private transient ValueState<byte[]> uses;
        private transient List<Tuple3<String, String, byte[]>> out;
        // State of the customer at hand: it is read and written once for all rows, since each access encodes.
        private transient Long highestCents;
        private transient Phone phone;
        private transient OpenUses open;
        private transient long watermarkMs;

        JudgeMessages(Properties given) {
            this.given = given;
            burst = given.getProperty("version.burst");
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
            // State that expires needs the mode of processing time; with bursts, a timer forgets what is old.
            TTLConfig forgotten = burst == null ? new TTLConfig(Duration.ofMillis(Rules.REMEMBERED_MS)) : TTLConfig.NONE();
            seen = getHandle().getMapState("seen", Encoders.STRING(), Encoders.LONG(), forgotten);
            judge = new Judge(given, this, this);
            if (burst != null) {
                writing = new Writing();
                uses = getHandle().getValueState("uses", Encoders.BINARY(), TTLConfig.NONE());
            }
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
            watermarkMs = times.getCurrentWatermarkInMs();
            open = burst == null ? null : OpenUses.of(uses.get());
            long endBeforeMs = burst == null ? 0 : open.endMs();
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
            if (burst != null && open.hasChanged) {
                keepOpen(endBeforeMs);
            }
            if (burst != null && highestBefore == null && highestCents != null) {
                getHandle().registerTimer(nextDayMs(arrived.get(0).getLong(ARRIVED_MS)));
            }
            return CollectionConverters.asScala(out.iterator());
        }

        @Override
        public Iterator<Tuple3<String, String, byte[]>> handleExpiredTimer(
                String customer, TimerValues times, ExpiredTimerInfo timer) {
            out = new ArrayList<>();
            open = OpenUses.of(uses.get());
            for (List<CardUse> chain : open.ended(times.getCurrentWatermarkInMs())) {
                send(given.getProperty("kind.alerts"), customer, writing.burst(burst, chain), 0);
            }
            if (open.hasChanged) {
                keepOpen(timer.getExpiryTimeInMs());
            }
            if (timer.getExpiryTimeInMs() % DAY_MS == 0) {
                forget(timer.getExpiryTimeInMs());
            }
            return CollectionConverters.asScala(out.iterator());
        }

        /** Keeps what is open, with a timer for the chain that ends first. */
        private void keepOpen(long timerMs) {
            long endMs = open.endMs();
            if (endMs == Long.MAX_VALUE) {
                uses.clear();
                return;
            }
            uses.update(open.bytes());
            if (endMs != timerMs) {
                getHandle().registerTimer(endMs);
            }
        }

        /** Once a day: a timer for each id would cost more than all else. */
        private void forget(long nowMs) {
            List<String> old = new ArrayList<>();
            seen.iterator().foreach(each -> each._2 <= nowMs && old.add(each._1));
            old.forEach(seen::removeKey);
            getHandle().registerTimer(nextDayMs(nowMs));
        }

        private static long nextDayMs(long afterMs) {
            return (afterMs / DAY_MS + 1) * DAY_MS;
        }

        @Override
        public void send(String topic, String key, byte[] value, long arrivedMs) {
            out.add(new Tuple3<>(topic, key, value));
        }

        @Override
        public void accept(Purchase purchase, Place place) {
            if (burst == null) {
                return;
            }
            if (purchase.atMs() <= watermarkMs) {
                send(given.getProperty("kind.dead-letters"), place.topic(), writing.late(place), 0);
            } else {
                open.add(CardUse.of(purchase, place));
            }
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
            seen.updateValue(purchase.id(), arrivedMs + Rules.REMEMBERED_MS);
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

    /** The uses of a customer's cards that others may still join. */
    private static final class OpenUses {
        private final Map<String, List<CardUse>> byCard = new HashMap<>();
        boolean hasChanged;

        static OpenUses of(byte[] bytes) {
            OpenUses open = new OpenUses();
            for (ByteBuffer from = ByteBuffer.wrap(bytes == null ? new byte[0] : bytes); from.hasRemaining(); ) {
                byte[] card = new byte[from.getInt()];
                byte[] uses = new byte[from.getInt()];
                from.get(card).get(uses);
                String name = new String(card, StandardCharsets.UTF_8);
                open.byCard.put(name, CardUse.all(name, uses));
            }
            return open;
        }

        byte[] bytes() {
            List<byte[]> all = new ArrayList<>();
            byCard.forEach((name, list) -> {
                byte[] card = name.getBytes(StandardCharsets.UTF_8);
                byte[] uses = CardUse.bytes(list);
                all.add(ByteBuffer.allocate(8).putInt(card.length).putInt(uses.length).array());
                all.add(card);
                all.add(uses);
            });
            return CardUse.joined(all.toArray(byte[][]::new));
        }

        void add(CardUse use) {
            byCard.computeIfAbsent(use.card(), card -> new ArrayList<>()).add(use);
            hasChanged = true;
        }

        /** Takes out the chains that no use after this time can join; gives the bursts. */
        List<List<CardUse>> ended(long timeMs) {
            List<List<CardUse>> bursts = new ArrayList<>();
            for (List<CardUse> uses : byCard.values()) {
                int before = uses.size();
                bursts.addAll(CardUse.ended(uses, timeMs));
                hasChanged |= uses.size() < before;
            }
            byCard.values().removeIf(List::isEmpty);
            return bursts;
        }

        /** When the first chain ends. */
        long endMs() {
            return byCard.values().stream().mapToLong(CardUse::endMs).min().orElse(Long.MAX_VALUE);
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
