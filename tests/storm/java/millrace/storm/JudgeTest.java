package millrace.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import millrace.kafka.Job;
import millrace.kafka.Losses;
import org.junit.jupiter.api.Test;

/** The end of a task. */
final class JudgeTest {
    @Test
    void aTaskThatEndsLeavesNoClient() throws Exception {
        Job job = new Job("p", "p-storm", "127.0.0.1:1", Map.of(), Map.of(), List.of(), "pays", "enriched", List.of(),
                "{}", null, Job.EXACTLY_ONCE, 1, 1, 0, 0, 0, false, Path.of("state"), List.of(), Map.of());
        Judge judge = new Judge("{}");
        judge.cleanup(); // of a task that was not prepared
        Field losses = Judge.class.getDeclaredField("losses");
        losses.setAccessible(true);
        losses.set(judge, new Losses(job));
        List<Thread> clients = Thread.getAllStackTraces().keySet().stream()
                .filter(each -> each.getName().startsWith("kafka-admin-client-thread")).toList();
        assertEquals(1, clients.size());
        judge.cleanup();
        clients.get(0).join(10_000);
        assertFalse(clients.get(0).isAlive());
    }
}
