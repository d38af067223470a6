package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import millrace.flink.arrivals.TaskTime.Reported;
import org.apache.flink.api.connector.source.SourceEvent;
import org.junit.jupiter.api.Test;

final class TaskTimeTest {
    private static final long NONE = Long.MIN_VALUE;

    private final TaskTime time = new TaskTime();
    private final List<SourceEvent> reported = new ArrayList<>();
    private long ms;

    @Test
    void theLeastOfThePartitionsThatMoveCounts() {
        TaskTime.Partition one = started();
        TaskTime.Partition other = time.open();
        one.reached(100);
        report(0);
        other.reached(70);
        report(100);
        other.rest();
        report(200);
        other.move();
        other.reached(60);
        report(300);
        assertEquals(List.of(new Reported(NONE, false), new Reported(70, false), new Reported(100, false),
                new Reported(70, false)), reported);
    }

    @Test
    void aTaskWaitsWhenNoneMovesAndReportsItOnce() {
        TaskTime.Partition one = started();
        time.open().rest();
        one.reached(100);
        report(0);
        one.rest();
        report(100);
        report(200);
        assertEquals(List.of(new Reported(100, false), new Reported(100, true)), reported, "in silence nothing is sent");
    }

    @Test
    void aTaskThatMovesReportsOnlyWhatHasChangedAndNotAtOnce() {
        TaskTime.Partition one = started();
        report(0);
        report(500);
        one.reached(1);
        report(501);
        one.reached(2);
        report(600);
        report(601);
        assertEquals(List.of(new Reported(NONE, false), new Reported(1, false), new Reported(2, false)), reported);
    }

    @Test
    void aTaskThatIsAloneReportsToNobody() {
        time.open().rest();
        time.report();
    }

    @Test
    void tasksThatWaitFollowTheLeastOfThoseThatDoNot() {
        TaskTime.Tasks tasks = new TaskTime.Tasks();
        tasks.report(0, new Reported(100, false));
        tasks.report(1, new Reported(70, true));
        assertEquals(NONE, tasks.ms(3), "one has not reported");
        tasks.report(2, new Reported(80, false));
        assertEquals(80, tasks.ms(3));
        tasks.report(0, new Reported(100, true));
        tasks.report(2, new Reported(80, true));
        assertEquals(100, tasks.ms(3), "all of them wait");
        tasks.forget(2);
        assertEquals(NONE, tasks.ms(3), "it starts anew, and may find a backlog");
    }

    @Test
    void thoseThatWaitAndAreBehindATimeAreSentIt() {
        TaskTime.Tasks tasks = new TaskTime.Tasks();
        tasks.report(0, new Reported(70, false));
        tasks.report(1, new Reported(70, true));
        tasks.report(2, new Reported(100, true));
        assertEquals(List.of(1), tasks.waitingBefore(100));
    }

    private TaskTime.Partition started() {
        time.start(reported::add, () -> ms * 1_000_000);
        return time.open();
    }

    private void report(long atMs) {
        ms = atMs;
        time.report();
    }
}
