package millrace.streams;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.LongStream;
import millrace.kafka.Pace;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Two processes share four partitions by their clocks and notes alone, over invented traffic with backlogs and silence. One
 * dies, its partitions wait, are taken over and given back, again and again. No event is late, none comes to windows that
 * are closed, and in the end all windows close.
 */
final class TwoProcessesTest {
    private static final int PARTITIONS = 4;
    private static final long DISORDER_MS = 5_000;
    private static final long IDLE_MS = 5_000;
    private static final long LIVE_MS = 2_500;
    private static final long STEP_MS = 50;
    private static final long OPEN_FOR_MS = 10_000; // how long a window stays open behind its event
    private static final int STEPS = 8_000;
    private static final int SEEDS = 120;
    private static final String TOPIC = "t.purchases";

    private record Event(long arrivedMs, long atMs) {}

    /** What a task keeps: the offset behind its last event, its newest moment, and its time. */
    private record Kept(int next, long newestMs, long timeMs) {}

    private final List<List<Event>> topic = new ArrayList<>();
    private final int[] offsets = new int[PARTITIONS];
    private final Kept[] committed = new Kept[PARTITIONS];
    private final Kept[] changelog = new Kept[PARTITIONS]; // at least once: ahead of what is committed
    private final Map<Integer, Clock.Note> notes = new HashMap<>();
    private final Map<Integer, Long> throughMs = new HashMap<>();
    private final Map<Integer, Long> lastEnds = new HashMap<>();
    private final Map<Integer, Long> sentMs = new TreeMap<>(); // by task, what its windows know
    private final int[] there = new int[PARTITIONS]; // how many of each partition's events have arrived by now
    private final int[] dealt = new int[PARTITIONS]; // how many of each partition's events came to their windows
    private long lastAtMs;
    private long nowMs = 10_000_000;

    private final class Process {
        final String reader;
        final Pace pace;
        final Clock clock;
        final Map<Integer, Task> tasks = new TreeMap<>();
        final int windows; // the task of windows that it has
        long knownMs = Long.MIN_VALUE; // until when Kafka's answers tell what came

        Process(int number) {
            reader = "thread-" + number;
            windows = number;
            pace = new Pace(TOPIC, LIVE_MS, () -> nowMs);
            clock = new Clock(PARTITIONS, DISORDER_MS, IDLE_MS, pace, () -> nowMs);
        }

        void take(int number, boolean isKeptAhead) {
            Kept kept = isKeptAhead ? changelog[number] : committed[number];
            pace.assign(reader, Map.of(place(number), (long) offsets[number]));
            clock.join(number, kept.newestMs, kept.timeMs);
            tasks.put(number, new Task(offsets[number], kept));
        }

        void take(int number) {
            take(number, false);
        }

        void give(int number) {
            commit();
            tasks.remove(number);
            clock.leave(number);
            pace.retain(reader, java.util.Set.copyOf(tasks.keySet().stream().map(TwoProcessesTest::place).toList()));
        }

        void step(Random random) {
            knownMs = random.nextInt(3) == 0 ? knownMs : nowMs - STEP_MS;
            tasks.forEach((number, task) -> {
                int there = arrived(number);
                for (int left = random.nextInt(4); left > 0 && task.next < there; left--) {
                    judge(number, task);
                }
                pace.poll(place(number), there > task.first ? there - 1 : -1, there - task.next, knownMs);
            });
            hear();
            tasks.forEach((number, task) -> task.sendTime(number, clock.timeMs()));
            boolean isOpen = windows == 1 && closedMs() < lastAtMs + OPEN_FOR_MS; // the other's has no window at all
            Long lastEndMs = clock.isSilent() && isOpen ? lastAtMs + OPEN_FOR_MS : null;
            clock.close(windows, closedMs(), lastEndMs);
        }

        void judge(int number, Task task) {
            Event event = topic.get(number).get(task.next);
            pace.handOn(TOPIC, number, task.next, event.arrivedMs);
            if (task.next >= task.kept.next) {
                pace.move(number, event.atMs);
                assertTrue(event.atMs >= Math.max(clock.timeMs(), task.kept.timeMs), () -> "late at " + nowMs + ": " + event);
                if (task.next >= dealt[number]) {
                    assertTrue(event.atMs >= closedMs(), () -> "its window is closed at " + nowMs + ": " + event);
                    dealt[number] = task.next + 1;
                    lastAtMs = Math.max(lastAtMs, event.atMs);
                }
                task.kept = new Kept(task.next + 1, clock.move(number, event.atMs), task.kept.timeMs);
                changelog[number] = task.kept;
            }
            task.next++;
        }

        void commit() {
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            tasks.forEach((number, task) -> next.put(place(number), new OffsetAndMetadata(task.next)));
            pace.commit(reader, pace.noted(reader, next, Map.of()));
            notes.putAll(clock.notes());
            lastEnds.put(windows, clock.lastEnds().getOrDefault(windows, Long.MIN_VALUE));
            tasks.forEach((number, task) -> {
                offsets[number] = task.next;
                committed[number] = task.kept;
                changelog[number] = task.kept;
                throughMs.put(number, pace.isLive() ? nowMs : 0L);
                task.isCommitted = true;
            });
        }

        void hear() {
            pace.hear(throughMs);
            clock.hear(notes, lastEnds);
        }
    }

    /** As Judge.java keeps and sends time. */
    private final class Task {
        final int first;
        int next;
        Kept kept;
        boolean isCommitted = true; // what is restored is

        Task(int next, Kept kept) {
            first = next;
            this.next = next;
            this.kept = kept;
        }

        void sendTime(int number, long timeMs) {
            if (isCommitted) {
                sentMs.merge(number, kept.timeMs, Math::max);
            }
            if (timeMs > kept.timeMs && kept.timeMs <= sentMs.getOrDefault(number, Long.MIN_VALUE)) {
                kept = new Kept(kept.next, kept.newestMs, timeMs);
                changelog[number] = kept;
                isCommitted = false;
            }
        }
    }

    private static TopicPartition place(int number) {
        return new TopicPartition(TOPIC, number);
    }

    private long closedMs() {
        return sentMs.size() < PARTITIONS ? Long.MIN_VALUE : sentMs.values().stream().mapToLong(each -> each).min().orElseThrow();
    }

    private int arrived(int number) {
        List<Event> events = topic.get(number);
        while (there[number] < events.size() && events.get(there[number]).arrivedMs <= nowMs) {
            there[number]++;
        }
        return there[number];
    }

    /** Phases of traffic and of silence; a partition may have none of a phase. The first one lies there already. */
    private void invent(Random random) {
        for (int number = 0; number < PARTITIONS; number++) {
            List<Event> events = new ArrayList<>();
            long arrivedMs = nowMs - 600_000;
            while (arrivedMs < nowMs + STEPS * STEP_MS / 2) {
                boolean isBusy = random.nextInt(3) > 0;
                long untilMs = arrivedMs + 1_000 + random.nextInt(40_000);
                while (isBusy && arrivedMs < untilMs) {
                    arrivedMs += 1 + random.nextInt(800);
                    events.add(new Event(arrivedMs, arrivedMs - random.nextInt((int) DISORDER_MS - 1)));
                }
                arrivedMs = Math.max(arrivedMs, untilMs);
            }
            topic.add(events);
            committed[number] = new Kept(0, Long.MIN_VALUE, Long.MIN_VALUE);
            changelog[number] = committed[number];
        }
    }

    static LongStream seeds() {
        return LongStream.range(0, SEEDS);
    }

    @ParameterizedTest
    @MethodSource("seeds")
    void noEventIsLateAndAllWindowsClose(long seed) {
        Random random = new Random(seed);
        invent(random);
        Process lasting = new Process(1);
        Process first = new Process(2);
        Process other = first;
        List.of(0, 1).forEach(lasting::take);
        List.of(2, 3).forEach(first::take);
        boolean isThere = true;
        for (int step = 0; step < STEPS; step++) {
            nowMs += STEP_MS;
            lasting.step(random);
            if (random.nextInt(5) == 0) {
                lasting.commit();
            }
            if (isThere) {
                other.step(random);
                if (random.nextInt(5) == 0) {
                    other.commit();
                }
            }
            boolean isChanging = random.nextInt(400) == 0 && step < STEPS * 3 / 4;
            if (isChanging && isThere) { // it is killed, and only later somebody sees it
                boolean isKeptAhead = random.nextBoolean();
                List<Integer> orphans = List.copyOf(other.tasks.keySet());
                for (int unseen = random.nextInt(160); unseen > 0; unseen--) {
                    nowMs += STEP_MS;
                    lasting.step(random);
                    if (random.nextInt(5) == 0) {
                        lasting.commit();
                    }
                }
                orphans.forEach(number -> lasting.take(number, isKeptAhead));
                isThere = false;
            } else if (isChanging) {
                other = new Process(2);
                for (int number : List.of(2, 3)) {
                    lasting.give(number);
                    other.take(number);
                }
                isThere = true;
            }
        }
        for (int number = 0; number < PARTITIONS; number++) {
            assertTrue(dealt[number] == topic.get(number).size(), "not all of " + number + " was judged");
        }
        assertTrue(closedMs() >= lastAtMs + OPEN_FOR_MS, "windows are open until " + (lastAtMs + OPEN_FOR_MS)
                + ", and time is " + closedMs());
    }
}
