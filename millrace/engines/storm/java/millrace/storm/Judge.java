package millrace.storm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import millrace.kafka.Job;
import millrace.kafka.Losses;
import millrace.kafka.Pace;
import millrace.kafka.ProgressFile;
import millrace.kafka.ReferenceData;
import millrace.kernel.Json;
import millrace.kernel.Loss;
import millrace.kernel.Outputs;
import millrace.kernel.Refusals;
import millrace.kernel.Stage;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.storm.Config;
import org.apache.storm.Constants;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/**
 * The per-event stage: {@link Stage} over a state that a topic holds. It sends outputs at once, and keeps them ahead of
 * the state that covers them: at each checkpoint outputs are acknowledged first, then the changes of the state, then
 * offsets are committed, and only then the tuples are acknowledged.
 *
 * <p>At most once, the spout has committed the offsets, and the state goes ahead of the outputs: what came out once is
 * remembered, so its id is a duplicate whenever it comes again.
 */
public final class Judge extends BaseRichBolt {
    private static final Map<String, Pace> PACES = new ConcurrentHashMap<>(); // which the tasks of a job share
    private static final byte[] MARK = {1};
    private static final String BACKLOG = "backlog";
    private static final Duration POLL = Duration.ofMillis(200);
    private static final int JUDGED_MOST = 1_000; // fewer than a spout may have unacknowledged
    private static final long IDLE_EVERY_MS = 1_000;
    private static final long LOOK_EVERY_MS = 1_000;
    private static final long COMPARE_EVERY_MS = 10_000;
    private static final int FORGOTTEN_MOST = 2_000; // of the entries that are looked at each time
    private static final int STARTS_MOST = 51; // the first, and RESTARTS_KEPT of millrace/job.py

    private final String declaration;
    private transient Job job;
    private transient OutputCollector collector;
    private transient int task;
    private transient String reader;
    private transient Pace pace;
    private transient Losses losses;
    private transient Map<String, String> ids;
    private transient ReferenceData references;
    private transient Stage stage;
    private transient Refusals refusals;
    private transient KafkaConsumer<byte[], byte[]> consumer;
    private transient KafkaProducer<byte[], byte[]> producer;
    private transient KafkaProducer<byte[], byte[]> keeper; // at most once: of the state
    private transient List<ProducerRecord<byte[], byte[]>> waiting; // at most once: for the state behind them
    private transient Map<TopicPartition, Long> sent; // at most once: before these, outputs have been sent
    private transient Ahead ahead;
    private transient volatile Exception failure;
    private transient String memory;
    private transient Map<Integer, RocksState> states;
    private transient Map<Integer, byte[]> forgetFrom;
    private transient Sequence sequence;
    private transient List<Tuple> judged; // since the last checkpoint
    private transient Map<TopicPartition, Long> next;
    private transient boolean isInTransaction;
    private transient long checkpointEveryMs;
    private transient long checkpointedMs;
    private transient long lookedMs;
    private transient long comparedMs;
    private transient ProgressFile progress;
    private transient List<Loss> lost;
    private transient List<Object> starts;

    public Judge(String declaration) {
        this.declaration = declaration;
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, 1);
    }

    @Override
    public void prepare(Map<String, Object> config, TopologyContext context, OutputCollector collector) {
        job = Job.parse(declaration);
        this.collector = collector;
        task = context.getThisTaskIndex();
        reader = "task-" + task;
        Path file = job.folder().resolve("progress.json");
        progress = new ProgressFile(file);
        starts = starts(file);
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        losses = new Losses(job);
        lost = losses.found();
        report("starting");
        if (!lost.isEmpty()) {
            return;
        }
        losses.settle();
        ids = losses.ids();
        references = new ReferenceData(job);
        stage = new Stage(job.stage(), job.topics(), references.tables());
        refusals = new Refusals(job.stage(), job.topics());
        job.raw().forEach(stream -> stage.identify(stream, ids.get(job.topic(stream))));
        pace = PACES.computeIfAbsent(context.getStormId(),
                id -> new Pace(job.topic(job.judged()), job.liveMs(), System::currentTimeMillis));
        pace.expect(tasks); // one that restores more state than the others may have a backlog
        pace.identify(ids);
        producer = Clients.producer(job, task);
        consumer = Clients.consumer(job);
        memory = job.settings().get("state.topic");
        checkpointEveryMs = Long.parseLong(job.settings().get("checkpoint.every.ms"));
        sequence = new Sequence();
        judged = new ArrayList<>();
        next = new HashMap<>();
        if (job.isAtMostOnce()) {
            keeper = Clients.keeper(job);
            waiting = new ArrayList<>();
            sent = Map.of();
            ahead = Ahead.of(context.getStormId());
        }
        takeUp(tasks);
        checkpointedMs = System.currentTimeMillis();
    }

    @Override
    public void execute(Tuple tuple) {
        if (lost.isEmpty() && !tuple.getSourceStreamId().equals(Constants.SYSTEM_TICK_STREAM_ID)) {
            boolean isNext = sequence.takes(tuple.getLong(Arrivals.SEQUENCE), tuple.getLong(Arrivals.NUMBER));
            if (!isNext && !job.isAtMostOnce()) {
                collector.fail(tuple);
                return;
            }
            if (tuple.getSourceStreamId().equals(Arrivals.POSITIONS)) {
                reach(tuple.getValueByField("places"));
                collector.ack(tuple);
            } else {
                judge(tuple);
                judged.add(tuple);
            }
        }
        long nowMs = System.currentTimeMillis();
        if (lost.isEmpty()) {
            long everyMs = judged.isEmpty() ? IDLE_EVERY_MS : checkpointEveryMs;
            if (judged.size() >= JUDGED_MOST || nowMs - checkpointedMs >= everyMs) {
                checkpoint();
                checkpointedMs = nowMs;
            }
        }
        if (nowMs - lookedMs >= LOOK_EVERY_MS) {
            lookedMs = nowMs;
            look();
        }
    }

    @Override
    public void cleanup() {
        if (losses != null) { // the worker may end before it has prepared the task
            losses.close();
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {}

    private void judge(Tuple tuple) {
        String topic = tuple.getStringByField("topic");
        int partition = tuple.getIntegerByField("partition");
        long offset = tuple.getLongByField("offset");
        long arrivedMs = tuple.getLongByField("arrived_ms");
        byte[] value = (byte[]) tuple.getValueByField("value");
        TopicPartition place = new TopicPartition(topic, partition);
        if (offset < next.getOrDefault(place, 0L) && !job.isAtMostOnce()) {
            return; // a new sequence begins at the committed offsets
        }
        String kind = job.kinds().get(topic);
        if (job.raw().contains(kind)) {
            boolean isBacklog = pace.handOn(topic, partition, offset, arrivedMs);
            Long momentMs = stage.take(
                    kind, partition, offset, arrivedMs, value, states.get(partition), outputs(arrivedMs, isBacklog));
            if (momentMs != null) {
                pace.move(partition, momentMs);
            }
        } else {
            refusals.take(kind, partition, offset, arrivedMs, value, outputs(arrivedMs, false));
        }
        next.put(place, offset + 1);
    }

    private Outputs outputs(long arrivedMs, boolean isBacklog) {
        return (kind, key, value) -> {
            boolean isMarked = isBacklog && kind.equals(job.enriched());
            List<Header> headers = isMarked ? List.of(new RecordHeader(BACKLOG, MARK)) : List.of();
            ProducerRecord<byte[], byte[]> message = new ProducerRecord<>(
                    job.topic(kind), null, arrivedMs, key.getBytes(StandardCharsets.UTF_8), value, headers);
            if (job.isAtMostOnce()) {
                waiting.add(message);
            } else {
                send(message);
            }
        };
    }

    /** Notes how far the spout has come with each partition. */
    private void reach(Object places) {
        for (Object each : Json.list(places)) {
            List<Object> place = Json.list(each);
            TopicPartition partition = new TopicPartition((String) place.get(0), (Integer) place.get(1));
            long reached = (Long) place.get(2);
            if (reached >= 0) {
                next.merge(partition, reached, Math::max);
            }
            pace.poll(partition, (Long) place.get(3), (Long) place.get(4), Long.MIN_VALUE);
        }
    }

    private void checkpoint() {
        if (job.isAtMostOnce()) {
            sendBehindState();
        } else {
            sendStateBehind();
        }
        stage.settle();
        judged.forEach(collector::ack);
        judged.clear();
    }

    /** At most once: the state is acknowledged before its outputs are sent. */
    private void sendBehindState() {
        states.forEach((partition, state) -> state.drain(
                (key, value) -> send(keeper, new ProducerRecord<>(memory, partition, key, value))));
        keeper.flush(); // of a partition in one batch, which is there as a whole or not at all
        flush(); // the outputs of the checkpoint before
        ahead.reach(sent);
        pace.commit(reader, pace.noted(reader, offsets(sent)));
        waiting.forEach(message -> send(producer, message));
        waiting.clear();
        sent = Map.copyOf(next);
    }

    /** Outputs are acknowledged before the state that covers them is sent, and both before the offsets. */
    private void sendStateBehind() {
        flush();
        states.forEach((partition, state) -> state.drain(
                (key, value) -> send(new ProducerRecord<>(memory, partition, key, value))));
        flush();
        Map<TopicPartition, OffsetAndMetadata> noted = pace.noted(reader, offsets(next));
        commit(noted);
        pace.commit(reader, noted);
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(Map<TopicPartition, Long> next) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        next.forEach((place, offset) -> offsets.put(place, new OffsetAndMetadata(offset)));
        return offsets;
    }

    private void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (!job.isExactlyOnce()) {
            consumer.commitSync(offsets);
            return;
        }
        ensureTransaction();
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
        isInTransaction = false;
    }

    private void ensureTransaction() {
        if (job.isExactlyOnce() && !isInTransaction) {
            producer.beginTransaction();
            isInTransaction = true;
        }
    }

    private void send(ProducerRecord<byte[], byte[]> message) {
        ensureTransaction();
        send(producer, message);
    }

    private void send(KafkaProducer<byte[], byte[]> by, ProducerRecord<byte[], byte[]> message) {
        by.send(message, (written, error) -> {
            if (error != null) {
                failure = error;
            }
        });
    }

    private void flush() {
        producer.flush();
        if (failure != null) { // the worker ends, and is started from what is complete
            throw new KafkaException("an output was not acknowledged, so the state behind it is not kept", failure);
        }
    }

    /** Restores the state from its topic, and finds where the job continues. */
    private void takeUp(int tasks) {
        if (job.isExactlyOnce()) {
            producer.initTransactions(); // a predecessor can commit nothing more
        }
        List<TopicPartition> places = Clients.places(job, consumer, task, tasks);
        Map<TopicPartition, Long> continued = new HashMap<>();
        consumer.committed(Set.copyOf(places)).forEach((place, each) -> {
            if (each != null) { // only reference data has none yet
                continued.put(place, each.offset());
            }
        });
        if (!job.isAtMostOnce()) { // then the spout may have committed more by now, which is to be judged
            next.putAll(continued);
        }
        continued.keySet().removeIf(place -> !job.rawTopics().contains(place.topic()));
        states = new HashMap<>();
        forgetFrom = new HashMap<>();
        List<TopicPartition> kept = new ArrayList<>();
        for (TopicPartition place : continued.keySet()) {
            if (place.topic().equals(job.topic(job.judged()))) {
                states.put(place.partition(), new RocksState(temporary()));
                kept.add(new TopicPartition(memory, place.partition()));
            }
        }
        consumer.assign(kept);
        consumer.seekToBeginning(kept);
        Map<TopicPartition, Long> ends = consumer.endOffsets(kept);
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(POLL)) {
                states.get(each.partition()).restore(each.key(), each.value());
            }
        }
        pace.assign(reader, continued);
    }

    private static Path temporary() {
        try {
            return Files.createTempDirectory("state");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void look() {
        if (!lost.isEmpty()) {
            report("failed");
            return;
        }
        if (references.problem() != null) {
            throw references.problem();
        }
        if (lookedMs - comparedMs >= COMPARE_EVERY_MS) {
            comparedMs = lookedMs;
            if (losses.hasNewTopic(ids)) { // the worker ends, and the next one names the loss
                throw new KafkaException("a raw topic was deleted and created anew");
            }
        }
        states.forEach((partition, state) ->
                forgetFrom.put(partition, stage.forget(forgetFrom.get(partition), FORGOTTEN_MOST, state)));
        String state = pace.areAllThere() ? "running" : "starting";
        report(job.isFinite() && pace.isDone() ? "finished" : state);
    }

    private void report(String state) {
        if (task != 0) {
            return;
        }
        boolean isUp = pace != null;
        Map<String, Object> more = new LinkedHashMap<>();
        more.put("job", job.name());
        more.put("pid", ProcessHandle.current().pid());
        more.put("starts_ms", starts);
        try {
            progress.write(state, null, lost, isUp ? 1 + pace.commits() : 0, isUp ? pace.lag() : 0, more);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** When workers of this job began, this one the last. */
    private List<Object> starts(Path file) {
        List<Object> found = new ArrayList<>();
        try {
            Map<String, Object> before = Json.object(Json.parse(Files.readString(file)));
            if (job.name().equals(before.get("job"))) {
                found.addAll(Json.list(before.get("starts_ms")));
            }
        } catch (IOException | RuntimeException none) {
            // the first, or a file that a power loss has cut short
        }
        found.add(System.currentTimeMillis());
        return new ArrayList<>(found.subList(Math.max(0, found.size() - STARTS_MOST), found.size()));
    }
}
