package millrace.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

final class ArrivalMergeTest {
    private static final int TAPES = 500;
    private static final Comparator<Message> ARRIVAL =
            Comparator.comparingLong(Message::atMs).thenComparingInt(message -> rank(message.partition));

    private final Set<String> behind = new HashSet<>();
    private final ArrivalMerge<String, Message> merge =
            new ArrivalMerge<>(Message::atMs, ArrivalMergeTest::rank, behind::contains);

    /** The message of this number in its partition; a partition is named for its topic, then its number: `b1`. */
    private record Message(String partition, int number, long atMs) {}

    @Test
    void messagesAreReleasedInTheOrderOfTheirArrival() {
        open("a0", "b0", "a1");
        add("b0", 2, 4);
        add("a0", 3, 5);
        add("a1", 1);
        assertEquals("a1@1 b0@2 a0@3 b0@4 a0@5", released());
        assertEquals("", released());
    }

    @Test
    void ofTheSameMillisecondTheLowerRankComesFirst() {
        open("b0", "a0", "c0");
        add("c0", 7, 7);
        add("b0", 7);
        add("a0", 7, 8);
        assertEquals("a0@7 b0@7 c0@7 c0@7 a0@8", released());
    }

    @Test
    void aPartitionThatIsBehindHoldsBackAllOthers() {
        open("a0", "b0");
        add("a0", 1, 2);
        behind.add("b0");
        assertEquals("", released());
        assertEquals(List.of(2, 0), List.of(merge.held("a0"), merge.held("b0")));
        add("b0", 2, 3);
        assertEquals("a0@1 a0@2 b0@2 b0@3", released());
    }

    @Test
    void theOthersAreHeldBackFromWhereAPartitionThatIsBehindRunsOut() {
        open("a0", "b0");
        add("a0", 1, 4);
        add("b0", 2, 3);
        behind.add("b0");
        assertEquals("a0@1 b0@2 b0@3", released());
        assertEquals(1, merge.held("a0"));
        behind.clear();
        assertEquals("a0@4", released());
    }

    @Test
    void aPartitionWithoutMessagesHoldsBackNobody() {
        open("a0", "b0");
        add("b0", 9);
        assertEquals("b0@9", released());
    }

    @Test
    void theOrderWithinAPartitionIsKeptThoughItsTimesRunBack() {
        open("a0", "b0");
        add("a0", 5, 1);
        add("b0", 2, 6);
        assertEquals("b0@2 a0@5 a0@1 b0@6", released());
    }

    @Test
    void aPartitionThatIsOpenedAgainHoldsNothing() {
        open("a0");
        add("a0", 1);
        open("a0");
        assertEquals("", released());
    }

    /** A backlog comes out as a stable sort of all of it would put it, however it is fetched. */
    @Test
    void anyBacklogIsReleasedAsIfItWereSorted() {
        for (int seed = 0; seed < TAPES; seed++) {
            Random random = new Random(seed);
            Log log = new Log(random);
            log.append(random.nextInt(60));
            List<Message> released = new ArrayList<>();
            while (log.isBehind()) {
                log.fetch();
                log.release(released);
            }
            assertEquals(keys(log.sorted()), keys(released), "seed " + seed);
            assertOrderWithinPartitions(released, seed);
        }
    }

    /** Messages that come while others are read: none overtakes one of an earlier millisecond, and none stays. */
    @Test
    void anyLiveMessageIsReleasedInOrderAndAtOnce() {
        for (int seed = 0; seed < TAPES; seed++) {
            Random random = new Random(seed);
            Log log = new Log(random);
            List<Message> released = new ArrayList<>();
            for (int step = 0; step < 40; step++) {
                if (random.nextBoolean()) {
                    log.append(random.nextInt(4));
                } else {
                    log.fetch();
                }
                log.release(released);
                assertTrue(log.isBehind() || released.size() == log.lying.size(), "held back without a reason, seed " + seed);
            }
            while (log.isBehind()) {
                log.fetch();
                log.release(released);
            }
            assertEquals(log.sorted().stream().map(Message::atMs).toList(),
                    released.stream().map(Message::atMs).toList(), "seed " + seed);
            assertEquals(new HashSet<>(log.lying), new HashSet<>(released), "seed " + seed);
            assertOrderWithinPartitions(released, seed);
        }
    }

    /** Some partitions of some topics, as Kafka has them: what lies there, and what of it has not been fetched. */
    private static final class Log {
        final List<Message> lying = new ArrayList<>();
        private final Map<String, ArrayDeque<Message>> unfetched = new LinkedHashMap<>();
        private final ArrivalMerge<String, Message> merge = new ArrivalMerge<>(
                Message::atMs, ArrivalMergeTest::rank, partition -> !unfetched.get(partition).isEmpty());
        private final Random random;
        private long nowMs;

        Log(Random random) {
            this.random = random;
            List<String> partitions = new ArrayList<>();
            for (String topic : List.of("a", "b", "c").subList(0, 1 + random.nextInt(3))) {
                for (int number = 0; number < 3; number++) {
                    partitions.add(topic + number);
                }
            }
            Collections.shuffle(partitions, random);
            partitions.forEach(partition -> unfetched.put(partition, new ArrayDeque<>()));
            partitions.forEach(merge::open);
        }

        void append(int count) {
            List<String> partitions = List.copyOf(unfetched.keySet());
            for (int i = 0; i < count; i++) {
                nowMs += random.nextInt(3);
                Message message = new Message(partitions.get(random.nextInt(partitions.size())), lying.size(), nowMs);
                lying.add(message);
                unfetched.get(message.partition).add(message);
            }
        }

        void fetch() {
            unfetched.forEach((partition, messages) -> {
                List<Message> fetched = new ArrayList<>();
                while (!messages.isEmpty() && random.nextInt(3) > 0) {
                    fetched.add(messages.remove());
                }
                merge.add(partition, fetched);
            });
        }

        void release(List<Message> to) {
            merge.release((partition, message) -> {
                assertEquals(partition, message.partition);
                to.add(message);
            });
        }

        boolean isBehind() {
            return unfetched.values().stream().anyMatch(messages -> !messages.isEmpty());
        }

        List<Message> sorted() {
            return lying.stream().sorted(ARRIVAL).toList();
        }
    }

    private static void assertOrderWithinPartitions(List<Message> released, int seed) {
        Map<String, Integer> newest = new LinkedHashMap<>();
        for (Message message : released) {
            Integer before = newest.put(message.partition, message.number);
            assertTrue(before == null || before < message.number, message + " is too late, seed " + seed);
        }
    }

    /** What the order is made of: two partitions of one topic take turns as they like within a millisecond. */
    private static List<String> keys(List<Message> messages) {
        return messages.stream().map(message -> message.partition.charAt(0) + "@" + message.atMs).toList();
    }

    private static int rank(String partition) {
        return partition.charAt(0);
    }

    private void open(String... partitions) {
        Arrays.asList(partitions).forEach(merge::open);
    }

    private void add(String partition, long... times) {
        merge.add(partition, Arrays.stream(times).mapToObj(atMs -> new Message(partition, 0, atMs)).toList());
        behind.remove(partition);
    }

    private String released() {
        List<String> released = new ArrayList<>();
        merge.release((partition, message) -> released.add(partition + "@" + message.atMs));
        return String.join(" ", released);
    }
}
