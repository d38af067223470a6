package handwritten;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
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

/** The rules of fraud on Kafka Streams, as one writes them by hand: {@code FraudStreams PROPERTIES}, a file. */
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
        if (given.containsKey("version.burst")) {
            addBursts(topology, given);
        }
        return topology;
    }

    /** The rule on bursts, with the purchases grouped by card. What is open is little, and so in memory. */
    private static void addBursts(Topology topology, Properties given) {
        String uses = given.getProperty("kind.card-uses");
        topology.addSink(uses, uses, new StringSerializer(), new ByteArraySerializer(), "judge");
        topology.addSource(
                AutoOffsetReset.earliest(), "card-uses", new StringDeserializer(), new ByteArrayDeserializer(), uses);
        topology.addProcessor("bursts", () -> new JudgeBursts(given), "card-uses");
        topology.addStateStore(Stores.keyValueStoreBuilder(
                Stores.inMemoryKeyValueStore("open"), Serdes.String(), Serdes.ByteArray()).withCachingEnabled(), "bursts");
        for (String kind : List.of("alerts", "dead-letters")) {
            topology.addSink(kind + "-of-bursts", given.getProperty("kind." + kind), new StringSerializer(),
                    new ByteArraySerializer(), "bursts");
        }
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

    private static final class JudgeMessages extends ContextualProcessor<String, byte[], String, byte[]>
            implements Memory, Judge.Outputs {
        private final Judge judge;
        private final String uses;
        private final Reading reading = new Reading();
        private final Read<Merchant> shops = new Read<>(reading::merchant);
        private final Read<String> segments = new Read<>(reading::segment);
        private KeyValueStore<String, Long> highest;
        private KeyValueStore<String, byte[]> phones;
        private KeyValueStore<String, Long> seen;
        private KeyValueStore<String, byte[]> merchants;
        private KeyValueStore<String, byte[]> customers;

        JudgeMessages(Properties given) {
            judge = new Judge(given, this, this);
            uses = given.containsKey("version.burst") ? given.getProperty("kind.card-uses") : null;
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
        public void send(String topic, String key, byte[] value, long arrivedMs) {
            context().forward(new Record<>(key, value, arrivedMs), topic);
        }

        @Override
        public void accept(Purchase purchase, Place place) {
            if (uses != null) {
                byte[] use = CardUse.of(purchase, place).bytes();
                context().forward(new Record<>(purchase.card(), use, place.arrivedMs()), uses);
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

    /**
     * Keeps the uses of a card until no other can join them. Time is that of the slowest partition of purchases, and does
     * not wait for one without any; where all are silent it moves on as the clock does.
     */
    private static final class JudgeBursts extends ContextualProcessor<String, byte[], String, byte[]> {
        private static final long QUIET_MS = 5_000;

        private record Due(long ms, String card) {}

        private record Reached(long newestMs, long sinceMs) {}

        private final String purchases;
        private final String version;
        private final Writing writing = new Writing();
        private final Map<Integer, Reached> partitions = new HashMap<>();
        private final PriorityQueue<Due> due = new PriorityQueue<>(Comparator.comparingLong(Due::ms));
        private long timeMs = Long.MIN_VALUE;
        private KeyValueStore<String, byte[]> open;

        JudgeBursts(Properties given) {
            purchases = given.getProperty("kind.transactions");
            version = given.getProperty("version.burst");
        }

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            super.init(context);
            open = context.getStateStore("open");
            try (KeyValueIterator<String, byte[]> all = open.all()) {
                all.forEachRemaining(each -> CardUse.all(each.key, each.value).forEach(this::wait));
            }
            context.schedule(Duration.ofMillis(500), PunctuationType.WALL_CLOCK_TIME, this::advance);
        }

        @Override
        public void process(Record<String, byte[]> message) {
            String card = message.key();
            CardUse use = CardUse.of(card, ByteBuffer.wrap(message.value()));
            if (use.atMs() <= timeMs) {
                Place place = new Place(purchases, use.partition(), use.offset(), use.arrivedMs());
                context().forward(new Record<>(purchases, writing.late(place), use.arrivedMs()), "dead-letters-of-bursts");
            } else {
                byte[] others = open.get(card);
                open.put(card, others == null ? message.value() : CardUse.joined(others, message.value()));
                wait(use);
            }
            long nowMs = context().currentSystemTimeMs();
            partitions.merge(use.partition(), new Reached(use.momentMs(), nowMs),
                    (before, now) -> new Reached(Math.max(before.newestMs, now.newestMs), nowMs));
            advance(nowMs);
        }

        private void wait(CardUse use) {
            due.add(new Due(use.atMs() + CardUse.GAP_MS, use.card()));
        }

        private void advance(long nowMs) {
            timeMs = Math.max(timeMs, reachedMs(nowMs));
            while (!due.isEmpty() && due.element().ms <= timeMs) {
                close(due.remove().card);
            }
        }

        /** No use of this moment or before it is still to come, or it is late. */
        private long reachedMs(long nowMs) {
            long slowestMs = Long.MAX_VALUE;
            long newestMs = Long.MIN_VALUE;
            long sinceMs = 0;
            for (Reached each : partitions.values()) {
                newestMs = Math.max(newestMs, each.newestMs);
                sinceMs = Math.max(sinceMs, each.sinceMs);
                if (nowMs - each.sinceMs <= QUIET_MS) {
                    slowestMs = Math.min(slowestMs, each.newestMs);
                }
            }
            if (newestMs == Long.MIN_VALUE) {
                return newestMs;
            }
            long ms = slowestMs < Long.MAX_VALUE ? slowestMs : newestMs + nowMs - sinceMs - QUIET_MS;
            return ms - CardUse.DISORDER_MS - 1;
        }

        private void close(String card) {
            byte[] kept = open.get(card);
            if (kept == null) {
                return; // with a later use of the same chain
            }
            List<CardUse> uses = CardUse.all(card, kept);
            int before = uses.size();
            for (List<CardUse> burst : CardUse.ended(uses, timeMs)) {
                byte[] alert = writing.burst(version, burst);
                long arrivedMs = burst.get(burst.size() - 1).arrivedMs();
                context().forward(new Record<>(Writing.subject(burst), alert, arrivedMs), "alerts-of-bursts");
            }
            if (uses.size() < before) {
                open.put(card, uses.isEmpty() ? null : CardUse.bytes(uses));
            }
        }
    }
}
