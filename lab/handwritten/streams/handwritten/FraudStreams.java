package handwritten;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
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
        topology.addProcessor("judge", () -> new JudgeMessages(given), "raw");
        topology.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("highest"), Serdes.String(), Serdes.Long()).withCachingEnabled(), "judge");
        topology.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("phones"), Serdes.String(), Serdes.ByteArray()).withCachingEnabled(), "judge");
        topology.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("seen"), Serdes.String(), Serdes.Long()).withCachingEnabled(), "judge");
        for (String kind : List.of("enriched", "alerts", "dead-letters")) {
            String topic = given.getProperty("kind." + kind);
            topology.addSink(topic, topic, new StringSerializer(), new ByteArraySerializer(), "judge");
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

    private static final class JudgeMessages extends ContextualProcessor<String, byte[], String, byte[]> implements Memory {
        private final Judge judge;
        private final Reading reading = new Reading();
        private final Read<Merchant> shops = new Read<>(reading::merchant);
        private final Read<String> segments = new Read<>(reading::segment);
        private KeyValueStore<String, Long> highest;
        private KeyValueStore<String, byte[]> phones;
        private KeyValueStore<String, Long> seen;
        private KeyValueStore<String, byte[]> merchants;
        private KeyValueStore<String, byte[]> customers;

        JudgeMessages(Properties given) {
            judge = new Judge(given, this, (topic, key, value, arrivedMs) ->
                    context().forward(new Record<>(key, value, arrivedMs), topic));
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
            try {
                judge.take(new Place(at.topic(), at.partition(), at.offset(), message.timestamp()), message.value());
            } catch (RuntimeException error) {
                throw error;
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public Merchant merchant(String name) throws Refused {
            return shops.of(name, merchants.get(name));
        }

        @Override
        public String segment(String customer) throws Refused {
            return segments.of(customer, customers.get(customer));
        }

        @Override
        public boolean isNew(Purchase purchase, long arrivedMs) {
            String identity = purchase.customer() + "|" + purchase.id();
            Long until = seen.get(identity);
            if (until != null && until >= arrivedMs) {
                return false;
            }
            seen.put(identity, arrivedMs + Rules.REMEMBERED_MS);
            return true;
        }

        @Override
        public Long highestCents(String customer) {
            return highest.get(customer);
        }

        @Override
        public void keepHighest(String customer, long cents) {
            highest.put(customer, cents);
        }

        @Override
        public Phone phone(String customer) {
            byte[] known = phones.get(customer);
            return known == null ? null : Phone.of(customer, known);
        }

        @Override
        public void keep(Phone phone) {
            phones.put(phone.customer(), phone.bytes());
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
