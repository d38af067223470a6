package millrace.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import millrace.kernel.Json;
import millrace.kernel.Loss;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds messages that were deleted before the job read them. Beside each committed offset stands the id of its topic: one
 * that is deleted and created anew has another.
 */
public final class Losses implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Losses.class);
    private static final int ANSWER_WITHIN_S = 60;
    private static final int LOOK_WITHIN_S = 5; // meanwhile the job writes no progress
    private static final long RETRY_EVERY_MS = 500;
    private static final long EMPTY_WITHIN_MS = 60_000;

    private final Admin admin;
    private final Job job;

    public Losses(Job job) {
        this.job = job;
        admin = Admin.create(Map.of("bootstrap.servers", job.bootstrap()));
    }

    /** The ids of the raw topics now. */
    public Map<String, String> ids() {
        Map<String, String> ids = new TreeMap<>();
        answer(admin.describeTopics(job.rawTopics()).allTopicNames(), LOOK_WITHIN_S).forEach(
                (name, topic) -> ids.put(name, topic.topicId().toString()));
        return ids;
    }

    /** Whether one of the raw topics, which had these ids, was deleted and created anew; false while that is unknown. */
    public boolean hasNewTopic(Map<String, String> ids) {
        try {
            return !ids().equals(ids);
        } catch (KafkaException unknown) {
            LOG.warn("whether a topic was created anew is unknown", unknown);
            return false;
        }
    }

    /** How many partitions the judged topic has. */
    public int partitions() {
        String judged = job.topic(job.judged());
        return answer(admin.describeTopics(List.of(judged)).allTopicNames()).get(judged).partitions().size();
    }

    /** What is gone of the messages that the job is to read next, but for what was accepted. */
    public List<Loss> found() {
        return look().lost;
    }

    /** Gives each partition an offset from which the job continues: its own, or the first of one that has none. */
    public void settle() {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(EMPTY_WITHIN_MS);
        while (true) {
            Look look = look();
            if (look.settled.isEmpty()) {
                return; // or another process of the job was quicker
            }
            try {
                answer(admin.alterConsumerGroupOffsets(job.pattern(), look.settled).all());
                return;
            } catch (KafkaException inUse) { // by a process that died: until its session ends
                if (System.nanoTime() > deadline) {
                    throw inUse;
                }
                pause();
            }
        }
    }

    @Override
    public void close() {
        admin.close(Duration.ZERO);
    }

    private record Look(List<Loss> lost, Map<TopicPartition, OffsetAndMetadata> settled) {}

    private Look look() {
        List<TopicPartition> places = new ArrayList<>();
        Map<String, String> ids = new HashMap<>();
        Map<String, TopicDescription> described = answer(admin.describeTopics(job.rawTopics()).allTopicNames());
        described.forEach((name, topic) -> {
            ids.put(name, topic.topicId().toString());
            topic.partitions().forEach(each -> places.add(new TopicPartition(name, each.partition())));
        });
        Map<TopicPartition, OffsetAndMetadata> committed = answer(
                admin.listConsumerGroupOffsets(job.pattern()).partitionsToOffsetAndMetadata());
        Map<TopicPartition, Long> firsts = offsets(places, OffsetSpec.earliest());
        Map<TopicPartition, Long> ends = offsets(places, OffsetSpec.latest());
        List<Loss> lost = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> settled = new HashMap<>();
        for (TopicPartition place : places) {
            String id = ids.get(place.topic());
            OffsetAndMetadata next = committed.get(place);
            long first = firsts.get(place);
            long end = ends.get(place);
            long wanted = next == null ? first : next.offset();
            String was = next == null ? id : idOf(next, id);
            Loss loss = new Loss(place.topic(), place.partition(), wanted, first, end, id, was);
            boolean isThere = first <= wanted && wanted <= end && was.equals(id);
            if (!isThere && !loss.isIn(job.accepted())) {
                lost.add(loss);
            } else if (!isThere || next == null) {
                LOG.info("{} is read from offset {} on", place, first);
                Map<String, Object> note = new HashMap<>(Map.of("topic_id", id));
                if (place.topic().equals(job.topic(job.judged()))) {
                    note.putAll(Map.of("newest_ms", 0L, "through_ms", 0L));
                }
                settled.put(place, new OffsetAndMetadata(first, Json.text(note)));
            }
        }
        return new Look(lost, settled);
    }

    private static String idOf(OffsetAndMetadata next, String otherwise) {
        if (!next.metadata().startsWith("{")) {
            return otherwise;
        }
        Object id = Json.object(Json.parse(next.metadata())).get("topic_id");
        return id == null ? otherwise : (String) id;
    }

    private Map<TopicPartition, Long> offsets(List<TopicPartition> places, OffsetSpec which) {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        places.forEach(place -> wanted.put(place, which));
        Map<TopicPartition, Long> found = new HashMap<>();
        Map<TopicPartition, ListOffsetsResultInfo> answered = answer(admin.listOffsets(wanted).all());
        answered.forEach((place, each) -> found.put(place, each.offset()));
        return found;
    }

    private static <T> T answer(KafkaFuture<T> awaited) {
        return answer(awaited, ANSWER_WITHIN_S);
    }

    private static <T> T answer(KafkaFuture<T> awaited, int withinS) {
        try {
            return awaited.get(withinS, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException error) {
            throw new KafkaException(String.valueOf(error.getCause()), error);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new KafkaException(stopped);
        }
    }

    private static void pause() {
        try {
            Thread.sleep(RETRY_EVERY_MS);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new KafkaException(stopped);
        }
    }
}
