package millrace.storm;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import millrace.kafka.Answers;
import millrace.kafka.Job;
import millrace.kafka.Losses;
import millrace.kernel.ArrivalMerge;
import millrace.kernel.Unasked;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;

/**
 * Reads the partitions of some numbers of all topics, in the order of their arrival, and emits them as one sequence.
 *
 * <p>Every tuple has its number in the sequence, and the bolt takes none after a gap. A tuple that fails, or is lost on its
 * way, begins a new sequence at the committed offsets: a single one that came again would come out of order.
 *
 * <p>At most once, offsets are committed before their messages are emitted, and no tuple is acknowledged.
 */
public final class Arrivals extends BaseRichSpout {
    static final String MESSAGES = "messages";
    static final String POSITIONS = "positions";
    static final int TASK = 0;
    static final int SEQUENCE = 1;
    static final int NUMBER = 2;
    private static final Duration POLL = Duration.ofMillis(10); // acknowledgements wait for it
    private static final long TELL_EVERY_MS = 100;
    private static final long COMMIT_EVERY_MS = 1_000; // without traffic, at most once
    private static final int EMITTED_MOST = 2_000; // at a time
    private static final int AHEAD_MOST = 200; // at most once: what is committed and waits is lost with the worker
    private static final int HELD_MOST = 5_000; // of a partition, while another one's earlier messages are read

    private final String declaration;
    private transient Job job;
    private transient SpoutOutputCollector collector;
    private transient int task;
    private transient KafkaConsumer<byte[], byte[]> consumer;
    private transient Map<TopicPartition, Long> ends;
    private transient Map<TopicPartition, Long> newest;
    private transient ArrivalMerge<TopicPartition, ConsumerRecord<byte[], byte[]>> merge;
    private transient Unasked<TopicPartition> unasked;
    private transient ArrayDeque<ConsumerRecord<byte[], byte[]>> ready; // in the order of their arrival
    private transient long sequence;
    private transient long number;
    private transient long toldMs;
    private transient Ahead ahead; // at most once
    private transient Map<String, String> topicIds;
    private transient Map<TopicPartition, Long> emitted;
    private transient Map<TopicPartition, OffsetAndMetadata> committed;
    private transient long committedMs;

    public Arrivals(String declaration) {
        this.declaration = declaration;
    }

    @Override
    public void open(Map<String, Object> config, TopologyContext context, SpoutOutputCollector collector) {
        job = Job.parse(declaration);
        this.collector = collector;
        task = context.getThisTaskIndex();
        try (Losses losses = new Losses(job)) {
            if (!losses.found().isEmpty()) {
                return; // the bolt reports it
            }
            losses.settle();
            topicIds = losses.ids();
        }
        consumer = Clients.consumer(job);
        unasked = new Unasked<>(new Answers(consumer), () -> Answers.brokers(consumer));
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        consumer.assign(Clients.places(job, consumer, task, tasks));
        if (job.isAtMostOnce()) {
            ahead = Ahead.of(context.getStormId());
            ahead.begin(consumer.committed(consumer.assignment()), job.folder(), System.currentTimeMillis());
            emitted = new HashMap<>();
            committed = Map.of();
        }
        rewind();
    }

    @Override
    public void nextTuple() {
        if (consumer == null) {
            Utils.sleep(TELL_EVERY_MS);
            return;
        }
        if (ready.isEmpty()) {
            read();
        }
        List<ConsumerRecord<byte[], byte[]>> next = next(job.isAtMostOnce() ? AHEAD_MOST : EMITTED_MOST);
        if (job.isAtMostOnce()) {
            next.forEach(message -> emitted.put(place(message), message.offset() + 1));
            for (TopicPartition place : consumer.assignment()) {
                if (isAllReleased(place)) {
                    emitted.put(place, consumer.position(place)); // beyond an aborted transaction, too
                }
            }
            commit(!next.isEmpty());
            next.forEach(message -> collector.emit(MESSAGES, values(message)));
        } else {
            next.forEach(message -> collector.emit(MESSAGES, values(message), sequence));
        }
        long nowMs = System.currentTimeMillis();
        if (nowMs - toldMs >= TELL_EVERY_MS) {
            toldMs = nowMs;
            collector.emit(POSITIONS, new Values(task, sequence, number++, positions()));
        }
    }

    private void read() {
        ConsumerRecords<byte[], byte[]> polled = unasked.poll(() -> consumer.poll(POLL));
        for (TopicPartition place : polled.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> own = polled.records(place);
            merge.add(place, own);
            newest.put(place, own.get(own.size() - 1).offset());
        }
        merge.release((place, message) -> ready.add(message));
        for (TopicPartition place : consumer.assignment()) {
            if (merge.held(place) < HELD_MOST) {
                consumer.resume(Set.of(place));
                unasked.resume(place);
            } else {
                consumer.pause(Set.of(place));
                unasked.pause(place);
            }
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> next(int most) {
        List<ConsumerRecord<byte[], byte[]>> next = new ArrayList<>();
        while (!ready.isEmpty() && next.size() < most) {
            next.add(ready.remove());
        }
        return next;
    }

    private boolean isAllReleased(TopicPartition place) {
        return merge.held(place) == 0 && ready.isEmpty();
    }

    private static TopicPartition place(ConsumerRecord<byte[], byte[]> message) {
        return new TopicPartition(message.topic(), message.partition());
    }

    @Override
    public void fail(Object ofSequence) {
        if (ofSequence.equals(sequence)) {
            rewind();
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(MESSAGES, new Fields(
                "task", "sequence", "number", "topic", "partition", "offset", "arrived_ms", "value"));
        declarer.declareStream(POSITIONS, new Fields("task", "sequence", "number", "places"));
    }

    /** Begins a new sequence, at the committed offsets. */
    private void rewind() {
        sequence = Math.max(sequence + 1, System.currentTimeMillis());
        number = 0;
        newest = new HashMap<>();
        ready = new ArrayDeque<>();
        List<String> raw = job.rawTopics(); // of the same millisecond, side streams come before the judged event
        merge = new ArrivalMerge<>(ConsumerRecord::timestamp, place -> raw.indexOf(place.topic()), this::isBehind);
        Set<TopicPartition> places = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(places);
        ends = consumer.endOffsets(places);
        for (TopicPartition place : places) {
            merge.open(place);
            if (committed.get(place) != null) {
                consumer.seek(place, committed.get(place).offset());
            } else { // only reference data has no offset yet
                consumer.seekToBeginning(Set.of(place));
            }
        }
    }

    /** Whether more is known to lie in a partition: up to its end when the reading began, or at the last fetch. */
    private boolean isBehind(TopicPartition place) {
        OptionalLong lag = consumer.currentLag(place);
        return unasked.has(place) || consumer.position(place) < ends.get(place) || lag.isPresent() && lag.getAsLong() > 0;
    }

    private Values values(ConsumerRecord<byte[], byte[]> message) {
        return new Values(task, sequence, number++, message.topic(), message.partition(), message.offset(),
                message.timestamp(), message.value());
    }

    /** Commits what is about to be emitted; without traffic, how far the outputs have come since. */
    private void commit(boolean isMore) {
        long nowMs = System.currentTimeMillis();
        if (isMore || nowMs - committedMs >= COMMIT_EVERY_MS) {
            committedMs = nowMs;
            Map<TopicPartition, OffsetAndMetadata> noted = ahead.noted(emitted, topicIds);
            if (!noted.equals(committed)) {
                consumer.commitSync(noted);
                committed = noted;
            }
        }
    }

    /** For each partition: the topic, the number, the next offset or -1, the newest message or -1, what lies behind it. */
    private List<List<Object>> positions() {
        List<List<Object>> found = new ArrayList<>();
        for (TopicPartition place : consumer.assignment()) {
            long next = isAllReleased(place) ? consumer.position(place) : -1; // beyond an aborted transaction, too
            List<Object> each = new ArrayList<>(List.of(place.topic(), place.partition(), next,
                    newest.getOrDefault(place, -1L), consumer.currentLag(place).orElse(-1)));
            found.add(each);
        }
        return found;
    }
}
