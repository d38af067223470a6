package millrace.streams;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import millrace.kafka.Job;
import millrace.kafka.Pace;
import millrace.kernel.Json;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the processes of a job let each other know: each commits it beside its offsets, and reads that of all others.
 *
 * <p>It is committed with the state that it rests on, so a process that takes over a partition knows at least as much.
 */
final class Instances implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Instances.class);
    private static final long READ_EVERY_MS = 100;
    private static final int ANSWER_WITHIN_S = 30;
    private static final String NEWEST = "time_newest_ms";
    private static final String SINCE = "time_since_ms";
    private static final String AT_END_UNTIL = "at_end_until_ms";
    private static final String LAST_END = "last_end_ms";

    private final Job job;
    private final Pace pace;
    private final Clock clock;
    private final Admin admin;
    private final Thread follower = new Thread(this::follow, "instances");

    Instances(Job job, Pace pace, Clock clock) {
        this.job = job;
        this.pace = pace;
        this.clock = clock;
        admin = Admin.create(Map.of("bootstrap.servers", job.bootstrap()));
        follower.setDaemon(true);
    }

    /** Reads what there is, and follows it from now on; alone, a process has nobody to follow. */
    void start() {
        if (job.isShared()) {
            read();
            follower.start();
        }
    }

    /** What this process notes beside the offsets that it commits. */
    static Map<TopicPartition, Map<String, Object>> notes(Job job, Clock clock) {
        Map<TopicPartition, Map<String, Object>> notes = new HashMap<>();
        if (!job.isShared() || job.windows() == null) {
            return notes;
        }
        clock.notes().forEach((number, each) -> notes.put(
                new TopicPartition(job.topic(job.judged()), number),
                Map.of(NEWEST, each.newestMs(), SINCE, each.sinceMs(), AT_END_UNTIL, each.atEndUntilMs())));
        clock.lastEnds().forEach((number, each) -> notes.put(
                new TopicPartition(Layout.dealt(job.pattern()), number), Map.of(LAST_END, each)));
        return notes;
    }

    @Override
    public void close() {
        follower.interrupt();
        admin.close(Duration.ZERO);
    }

    private void follow() {
        try {
            while (true) {
                Thread.sleep(READ_EVERY_MS);
                try {
                    read();
                } catch (KafkaException unknown) {
                    LOG.warn("how far the other processes have come is unknown", unknown);
                }
            }
        } catch (InterruptedException closed) {
            LOG.info("the other processes are no longer followed");
        }
    }

    private void read() {
        Map<Integer, Long> throughMs = new HashMap<>();
        Map<Integer, Clock.Note> times = new HashMap<>();
        Map<Integer, Long> lastEnds = new HashMap<>();
        committed().forEach((place, each) -> {
            Map<String, Object> note = each != null && each.metadata().startsWith("{")
                    ? Json.object(Json.parse(each.metadata())) : Map.of();
            if (note.containsKey("through_ms")) {
                throughMs.put(place.partition(), (Long) note.get("through_ms"));
            }
            if (note.containsKey(NEWEST)) {
                times.put(place.partition(), new Clock.Note(
                        (Long) note.get(NEWEST), (Long) note.get(SINCE), (Long) note.get(AT_END_UNTIL)));
            }
            if (note.containsKey(LAST_END)) {
                lastEnds.put(place.partition(), (Long) note.get(LAST_END));
            }
        });
        pace.hear(throughMs);
        clock.hear(times, lastEnds);
    }

    private Map<TopicPartition, OffsetAndMetadata> committed() {
        try {
            return admin.listConsumerGroupOffsets(job.pattern()).partitionsToOffsetAndMetadata()
                    .get(ANSWER_WITHIN_S, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException error) {
            throw new KafkaException(String.valueOf(error.getCause()), error);
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
            return Map.of();
        }
    }
}
