package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.function.BiConsumer;
import org.apache.flink.api.connector.source.ReaderInfo;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.metrics.groups.SplitEnumeratorMetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.util.FlinkRuntimeException;
import org.junit.jupiter.api.Test;

final class ArrivalEnumeratorTest {
    // How many partitions were ever handed out and which, then how many splits wait and these: as ArrivalSplitTest has them.
    private static final String KNOWN_0_AND_3_WAITING_1 = "00000002 00000000 00000003 00000001 ";

    private final FakeTopics topics = new FakeTopics().with("t", "id-t", 3).with("u", "id-u", 3);
    private final Coordinator context = new Coordinator(2);

    @Test
    void itsStateIsReadAsEachVersionWroteItAndWrittenInTheseBytes() throws IOException {
        ArrivalEnumerator.State.Serializer serializer = new ArrivalEnumerator.State.Serializer();
        String newest = KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_3;
        String noMoment = "0000000000000000";
        assertEquals(newest.replace(" ", ""), hex(serializer, 3, newest));
        assertEquals((KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_2 + noMoment).replace(" ", ""),
                hex(serializer, 2, KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_2));
        assertEquals((KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_1 + "00000000" + noMoment).replace(" ", ""),
                hex(serializer, 1, KNOWN_0_AND_3_WAITING_1 + ArrivalSplitTest.VERSION_1));
        assertEquals(3, serializer.getVersion());
    }

    @Test
    void eachPartitionGoesToOneTaskAsSoonAsThatIsThere() {
        ArrivalEnumerator enumerator = started(new ArrivalEnumerator.State());
        assertEquals(Map.of(), context.assigned);
        context.register(0);
        enumerator.addReader(0);
        assertEquals(Map.of(0, List.of(0, 2)), context.assigned);
        context.register(1);
        enumerator.addReader(1);
        context.look();
        assertEquals(Map.of(0, List.of(0, 2), 1, List.of(1)), context.assigned);
    }

    @Test
    void splitsOfATaskThatFailedWaitForItAndAreInTheState() {
        ArrivalEnumerator enumerator = started(new ArrivalEnumerator.State());
        enumerator.addSplitsBack(List.of(new ArrivalSplit(7, Map.of("t", 1L), Map.of())), 1);
        context.register(1);
        enumerator.addReader(1);
        assertEquals(Map.of(1, List.of(1, 7)), context.assigned);
        ArrivalEnumerator.State state = enumerator.snapshotState(1);
        Coordinator next = new Coordinator(2);
        next.register(0);
        next.register(1);
        new ArrivalEnumerator(topics, next, state).start();
        next.look();
        assertEquals(Map.of(0, List.of(0, 2)), next.assigned, "what was handed out is in the readers' state");
    }

    @Test
    void topicsWithUnequallyManyPartitionsAreRefused() {
        topics.with("u", "id-u", 2);
        Exception refused = assertThrows(FlinkRuntimeException.class, () -> started(new ArrivalEnumerator.State()));
        assertTrue(refused.getMessage().contains("these topics must have equally many partitions"));
        assertTrue(refused.getMessage().contains("u=2"), refused.getMessage());
    }

    @Test
    void aTopicThatIsCreatedAnewWhileItIsReadFailsTheJob() {
        started(new ArrivalEnumerator.State());
        context.look();
        topics.with("u", "id-other", 3);
        Exception failed = assertThrows(FlinkRuntimeException.class, context::look);
        assertTrue(failed.getMessage().startsWith("a topic was deleted and created anew while it was read"));
    }

    @Test
    void onlyTheFirstLookMustSucceed() {
        started(new ArrivalEnumerator.State());
        context.failure = new IllegalStateException("Kafka is away");
        context.look();
        Coordinator next = new Coordinator(1);
        next.failure = context.failure;
        new ArrivalEnumerator(topics, next, new ArrivalEnumerator.State()).start();
        assertEquals(context.failure, assertThrows(FlinkRuntimeException.class, next::look).getCause());
    }

    @Test
    void itAnnouncesWhenTheLastTaskHasCaughtUpAndWhenOneFallsBehind() {
        ArrivalEnumerator enumerator = started(new ArrivalEnumerator.State());
        for (int task = 0; task < 2; task++) {
            context.register(task);
            enumerator.addReader(task);
        }
        enumerator.handleSourceEvent(0, new Backlog.CaughtUp(Backlog.CaughtUp.AT_START));
        enumerator.handleSourceEvent(1, new Backlog.CaughtUp(5));
        assertEquals(List.of(), context.announced, "what it wrote before is not acknowledged");
        enumerator.notifyCheckpointComplete(4);
        assertEquals(List.of(), context.announced);
        enumerator.notifyCheckpointComplete(5);
        assertEquals(List.of("0 true", "1 true"), context.announced);
        enumerator.handleSourceEvent(1, new Backlog.FellBehind());
        assertEquals(List.of("0 true", "1 true", "0 false", "1 false"), context.announced);
        enumerator.handleSourceEvent(1, new Backlog.CaughtUp(6));
        enumerator.notifyCheckpointComplete(6);
        enumerator.addReader(0);
        assertEquals(List.of("0 true", "1 true", "0 false", "1 false", "0 true", "1 true", "0 false", "1 false"),
                context.announced, "a task that starts anew may find a backlog");
    }

    @Test
    void aTaskForWhichThereIsNoPartitionIsNotWaitedFor() {
        topics.with("t", "id-t", 1).with("u", "id-u", 1);
        ArrivalEnumerator enumerator = new ArrivalEnumerator(topics, context, new ArrivalEnumerator.State());
        enumerator.start();
        for (int task = 0; task < 2; task++) {
            context.register(task);
            enumerator.addReader(task);
        }
        assertEquals(List.of(), context.announced, "how many partitions there are is not known");
        context.look();
        assertEquals(Map.of(0, List.of(0)), context.assigned);
        assertEquals(List.of("1 NothingToRead[]"), context.announced);
        enumerator.addReader(1);
        assertEquals(List.of("1 NothingToRead[]", "1 NothingToRead[]"), context.announced, "it has started anew");
    }

    @Test
    void aTaskThatWaitsGetsTheTimeOfTheOthersWheneverThatMoves() {
        ArrivalEnumerator enumerator = started(new ArrivalEnumerator.State());
        for (int task = 0; task < 2; task++) {
            context.register(task);
            enumerator.addReader(task);
        }
        enumerator.handleSourceEvent(1, new TaskTime.Reported(70, true));
        assertEquals(List.of(), context.announced, "the other has not reported");
        enumerator.handleSourceEvent(0, new TaskTime.Reported(100, false));
        assertEquals(List.of("1 OfOthers[ms=100]"), context.announced, "the other one moves time itself");
        enumerator.handleSourceEvent(1, new TaskTime.Reported(100, true));
        assertEquals(List.of("1 OfOthers[ms=100]"), context.announced, "it is there");
        enumerator.handleSourceEvent(0, new TaskTime.Reported(110, false));
        assertEquals(List.of("1 OfOthers[ms=100]", "1 OfOthers[ms=110]"), context.announced);
    }

    @Test
    void aTaskThatFailedIsSentNoTimeUntilItReportsAgain() {
        ArrivalEnumerator enumerator = started(new ArrivalEnumerator.State());
        for (int task = 0; task < 2; task++) {
            context.register(task);
            enumerator.addReader(task);
        }
        enumerator.handleSourceEvent(1, new TaskTime.Reported(70, true));
        context.fail(1);
        enumerator.handleSourceEvent(0, new TaskTime.Reported(100, false));
        context.register(1);
        enumerator.addReader(1);
        enumerator.handleSourceEvent(0, new TaskTime.Reported(110, false));
        assertEquals(List.of(), context.announced);
        enumerator.handleSourceEvent(1, new TaskTime.Reported(60, true));
        assertEquals(List.of("1 OfOthers[ms=110]"), context.announced);
    }

    private ArrivalEnumerator started(ArrivalEnumerator.State state) {
        ArrivalEnumerator enumerator = new ArrivalEnumerator(topics, context, state);
        enumerator.start();
        context.look();
        return enumerator;
    }

    private static String hex(ArrivalEnumerator.State.Serializer serializer, int version, String state)
            throws IOException {
        return HexFormat.of().formatHex(serializer.serialize(serializer.deserialize(version, ArrivalSplitTest.bytes(state))));
    }

    /** The coordinator of a job with so many tasks; it looks when the test triggers it. */
    private static final class Coordinator implements SplitEnumeratorContext<ArrivalSplit> {
        final Map<Integer, List<Integer>> assigned = new TreeMap<>();
        final List<String> announced = new ArrayList<>();
        Throwable failure;
        private final int parallelism;
        private final Map<Integer, ReaderInfo> readers = new HashMap<>();
        private Runnable look;

        Coordinator(int parallelism) {
            this.parallelism = parallelism;
        }

        void register(int subtask) {
            readers.put(subtask, new ReaderInfo(subtask, "here"));
        }

        void fail(int subtask) {
            readers.remove(subtask);
        }

        void look() {
            look.run();
        }

        @Override
        public int currentParallelism() {
            return parallelism;
        }

        @Override
        public Map<Integer, ReaderInfo> registeredReaders() {
            return readers;
        }

        @Override
        public void assignSplits(SplitsAssignment<ArrivalSplit> assignment) {
            assignment.assignment().forEach((subtask, splits) ->
                    assigned.put(subtask, splits.stream().map(ArrivalSplit::partition).toList()));
        }

        @Override
        public <T> void callAsync(Callable<T> call, BiConsumer<T, Throwable> then, long delayMs, long periodMs) {
            look = () -> {
                try {
                    then.accept(failure == null ? call.call() : null, failure);
                } catch (FlinkRuntimeException error) {
                    throw error;
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            };
        }

        @Override
        public SplitEnumeratorMetricGroup metricGroup() {
            return UnregisteredMetricsGroup.createSplitEnumeratorMetricGroup();
        }

        @Override
        public void sendEventToSourceReader(int subtask, SourceEvent event) {
            announced.add(subtask + " " + (event instanceof Backlog.Announced it ? it.isLive() : event));
        }

        @Override
        public void signalNoMoreSplits(int subtask) {
            throw new UnsupportedOperationException();
        }

        @Override
        public <T> void callAsync(Callable<T> call, BiConsumer<T, Throwable> then) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void runInCoordinatorThread(Runnable work) {
            throw new UnsupportedOperationException();
        }
    }
}
