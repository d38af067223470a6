package handwritten;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The two per-event rules of fraud on Kafka Streams, as one writes them by hand: {@code FraudStreams PROPERTIES}, a file. */
public final class FraudStreams {
    private FraudStreams() {}

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            given.load(file);
        }
        KafkaStreams streams = new KafkaStreams(topology(given), given);
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(30));
            stopped.countDown();
        }));
        streams.start();
        stopped.await();
    }

    private static Topology topology(Properties given) {
        String purchases = given.getProperty("kind.transactions");
        String phones = given.getProperty("kind.device-locations");
        StringDeserializer key = new StringDeserializer();
        ByteArrayDeserializer value = new ByteArrayDeserializer();
        Topology topology = new Topology();
        topology.addSource(AutoOffsetReset.earliest(), "raw", key, value, purchases, phones);
        topology.addProcessor("judge",
                () -> new Judge(purchases, given.getProperty("version.above"), given.getProperty("version.away")), "raw");
        topology.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("highest"), Serdes.String(), Serdes.Long()).withCachingEnabled(), "judge");
        topology.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("phones"), Serdes.String(), Serdes.ByteArray()).withCachingEnabled(), "judge");
        topology.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("seen"), Serdes.String(), Serdes.Long()).withCachingEnabled(), "judge");
        for (String kind : List.of("enriched", "alerts", "dead-letters")) {
            topology.addSink(kind, given.getProperty("kind." + kind), new StringSerializer(), new ByteArraySerializer(), "judge");
        }
        for (String kind : List.of("merchants", "customers")) {
            topology.addGlobalStore(Stores.keyValueStoreBuilder(
                            Stores.inMemoryKeyValueStore(kind), Serdes.String(), Serdes.ByteArray()).withLoggingDisabled(),
                    "from-" + kind, key, value, given.getProperty("kind." + kind), "keep-" + kind, () -> new Keep(kind));
        }
        return topology;
    }

    private static final class Keep implements Processor<String, byte[], Void, Void> {
        private final String store;
        private KeyValueStore<String, byte[]> kept;

        Keep(String store) {
            this.store = store;
        }

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            kept = context.getStateStore(store);
        }

        @Override
        public void process(Record<String, byte[]> message) {
            kept.put(message.key(), message.value());
        }
    }

    private interface Reader<T> {
        T read(byte[] value) throws Refused;
    }

    /** Reference data, read once for each version of a key. */
    private static final class Read<T> {
        private record Version<T>(byte[] value, T content) {}

        private final Map<String, Version<T>> versions = new HashMap<>();
        private final Reader<T> reader;

        Read(Reader<T> reader) {
            this.reader = reader;
        }

        T of(String key, byte[] value) throws Refused {
            if (value == null) {
                return null;
            }
            Version<T> known = versions.get(key);
            if (known == null || known.value != value) { // the store gives the same array until there is another version
                known = new Version<>(value, reader.read(value));
                versions.put(key, known);
            }
            return known.content;
        }
    }

    private static final class Judge extends ContextualProcessor<String, byte[], String, byte[]> {
        private final String purchases;
        private final String aboveVersion;
        private final String awayVersion;
        private final Reading reading = new Reading();
        private final Writing writing = new Writing();
        private final Read<Merchant> shops = new Read<>(reading::merchant);
        private final Read<String> segments = new Read<>(reading::segment);
        private KeyValueStore<String, Long> highest;
        private KeyValueStore<String, byte[]> phones;
        private KeyValueStore<String, Long> seen;
        private KeyValueStore<String, byte[]> merchants;
        private KeyValueStore<String, byte[]> customers;

        Judge(String purchases, String aboveVersion, String awayVersion) {
            this.purchases = purchases;
            this.aboveVersion = aboveVersion;
            this.awayVersion = awayVersion;
        }

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            super.init(context);
            highest = context.getStateStore("highest");
            phones = context.getStateStore("phones");
            seen = context.getStateStore("seen");
            merchants = context.getStateStore("merchants");
            customers = context.getStateStore("customers");
            context.schedule(Duration.ofMinutes(1), PunctuationType.WALL_CLOCK_TIME, this::forget);
        }

        @Override
        public void process(Record<String, byte[]> message) {
            RecordMetadata at = context().recordMetadata().orElseThrow();
            Place place = new Place(at.topic(), at.partition(), at.offset(), message.timestamp());
            try {
                if (place.topic().equals(purchases)) {
                    judge(reading.purchase(message.value(), place.arrivedMs()), place, message);
                } else {
                    Phone phone = reading.phone(message.value(), place.arrivedMs());
                    phones.put(phone.customer(), phone.bytes());
                }
            } catch (Refused refused) {
                byte[] letter = writing.deadLetter(refused.getMessage(), place, message.value());
                context().forward(new Record<>(place.topic(), letter, place.arrivedMs()), "dead-letters");
            }
        }

        private void judge(Purchase purchase, Place place, Record<String, byte[]> message) throws Refused {
            Merchant shop = shops.of(purchase.merchant(), merchants.get(purchase.merchant()));
            if (shop == null) {
                throw new Refused("unknown:merchants");
            }
            String segment = segments.of(purchase.customer(), customers.get(purchase.customer()));
            if (segment == null) {
                throw new Refused("unknown:customers");
            }
            String identity = purchase.customer() + "|" + purchase.id();
            Long until = seen.get(identity);
            if (until != null && until >= place.arrivedMs()) {
                throw new Refused("duplicate");
            }
            seen.put(identity, place.arrivedMs() + Rules.REMEMBERED_MS);
            Long highestCents = highest.get(purchase.customer());
            byte[] known = phones.get(purchase.customer());
            Phone phone = known == null ? null : Phone.of(purchase.customer(), known);
            List<String> flags = new ArrayList<>(2);
            if (Rules.isAboveMax(purchase, highestCents)) {
                flags.add(Rules.ABOVE_MAX);
                send("alerts", purchase, writing.aboveMax(aboveVersion, purchase, highestCents, place), place);
            }
            if (Rules.isAway(purchase, phone)) {
                flags.add(Rules.AWAY);
                send("alerts", purchase, writing.away(awayVersion, purchase, phone, place), place);
            }
            if (highestCents == null || purchase.amountCents() > highestCents) {
                highest.put(purchase.customer(), purchase.amountCents());
            }
            send("enriched", purchase, writing.enriched(purchase, shop, segment, phone, flags, place), place);
        }

        private void send(String sink, Purchase purchase, byte[] value, Place place) {
            context().forward(new Record<>(purchase.customer(), value, place.arrivedMs()), sink);
        }

        private void forget(long nowMs) {
            try (KeyValueIterator<String, Long> all = seen.all()) {
                while (all.hasNext()) {
                    KeyValue<String, Long> each = all.next();
                    if (each.value < nowMs) {
                        seen.delete(each.key);
                    }
                }
            }
        }
    }
}
