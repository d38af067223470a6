package millrace.kafka;

import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import millrace.kernel.Json;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * How far a job has come with what lies in Kafka: which messages belong to a backlog, and the notes beside its committed
 * offsets (millrace/job.py).
 *
 * <p>The job is live once each partition has caught up, and all that it handed on of a backlog is committed, and so
 * acknowledged. A message that is handed on late ends that at once. Of the partitions of other processes the notes tell
 * whether they keep up: one whose note is older than a live message may be has nobody who reads it.
 */
public final class Pace {
    private final String judged;
    private final long liveMs;
    private final LongSupplier nowMs;
    private final Map<TopicPartition, Partition> partitions = new HashMap<>();
    private Map<String, String> topicIds = Map.of();
    private boolean isLive;
    private long commits;
    private final Map<String, Long> commitsOf = new HashMap<>();
    private final Set<String> readers = new HashSet<>();
    private int readersLeast;
    private Map<Integer, Long> throughMs = Map.of(); // by the notes, of each partition of the judged topic
    private long othersThroughMs = Long.MAX_VALUE;

    /** How far one partition has come; offsets are -1 where there is none. */
    private static final class Partition {
        final String reader;
        long polled = -1; // the newest message
        long handedOn = -1;
        long old = -1; // the newest message that was handed on late
        long committed = -1; // to be read next
        long lag = -1; // what is known to lie behind what was polled
        long knownMs = Long.MIN_VALUE; // until when that is so
        boolean isNewestLive;
        long newestMs;

        Partition(String reader) {
            this.reader = reader;
        }

        boolean isAtEnd() {
            return lag == 0 && handedOn >= polled;
        }

        boolean keepsUp() {
            return isAtEnd() || isNewestLive;
        }
    }

    /** A message is live that is handed on so soon after its arrival. */
    public Pace(String judged, long liveMs, LongSupplier nowMs) {
        this.judged = judged;
        this.liveMs = liveMs;
        this.nowMs = nowMs;
    }

    public synchronized void identify(Map<String, String> ids) {
        topicIds = Map.copyOf(ids);
    }

    public synchronized String idOf(String topic) {
        return topicIds.getOrDefault(topic, "");
    }

    /** Waits for so many readers: before each has said where it continues, the job is neither live nor done. */
    public synchronized void expect(int readersLeast) {
        this.readersLeast = readersLeast;
    }

    /** Whether all readers that are waited for have said where they continue. */
    public synchronized boolean areAllThere() {
        return readers.size() >= readersLeast;
    }

    /** Notes that a reader continues with these offsets. */
    public synchronized void assign(String reader, Map<TopicPartition, Long> next) {
        readers.add(reader);
        next.forEach((place, offset) -> {
            Partition partition = new Partition(reader);
            partition.committed = offset;
            partitions.put(place, partition);
        });
        isLive = false;
        othersThroughMs = othersThroughMs();
    }

    /** Forgets what a reader no longer reads. */
    public synchronized void retain(String reader, Set<TopicPartition> places) {
        partitions.entrySet().removeIf(
                each -> each.getValue().reader.equals(reader) && !places.contains(each.getKey()));
        othersThroughMs = othersThroughMs();
    }

    /** Notes until when each partition of the judged topic was complete at its last commit, by whichever process. */
    public synchronized void hear(Map<Integer, Long> through) {
        throughMs = Map.copyOf(through);
        othersThroughMs = othersThroughMs();
        look();
    }

    /**
     * Notes the newest message that was polled of a partition, or -1, and how many lay behind it at some time, or -1.
     * What lies there is out of date as soon as a thread does something else.
     */
    public synchronized void poll(TopicPartition place, long newest, long lag, long knownMs) {
        Partition partition = partitions.get(place);
        if (partition == null) {
            return; // of reference data
        }
        partition.polled = Math.max(partition.polled, newest);
        partition.lag = lag;
        partition.knownMs = knownMs;
        look();
    }

    /** Notes that a message is handed on; gives whether it belongs to a backlog. */
    public synchronized boolean handOn(String topic, int number, long offset, long arrivedMs) {
        Partition partition = partitions.computeIfAbsent(
                new TopicPartition(topic, number), each -> new Partition(Thread.currentThread().getName()));
        partition.handedOn = offset;
        partition.isNewestLive = nowMs.getAsLong() - arrivedMs <= liveMs;
        if (!partition.isNewestLive) {
            partition.old = offset;
        }
        isLive = isLive && partition.isNewestLive && doOthersKeepUp();
        return !isLive;
    }

    /** Notes the moment to which an event of the judged topic moves time. */
    public synchronized void move(int number, long momentMs) {
        Partition partition = partitions.get(new TopicPartition(judged, number));
        partition.newestMs = Math.max(partition.newestMs, momentMs);
    }

    /** What a reader commits in place of these offsets: all of its partitions, each with its note. */
    public synchronized Map<TopicPartition, OffsetAndMetadata> noted(
            String reader, Map<TopicPartition, OffsetAndMetadata> offsets) {
        return noted(reader, offsets, Map.of());
    }

    /** What a reader commits in place of these offsets: all of its partitions, each with its note and some facts more. */
    public synchronized Map<TopicPartition, OffsetAndMetadata> noted(
            String reader, Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Map<String, Object>> more) {
        Map<TopicPartition, OffsetAndMetadata> noted = new HashMap<>(offsets);
        noted.replaceAll((place, each) ->
                more.containsKey(place) ? new OffsetAndMetadata(each.offset(), Json.text(more.get(place))) : each);
        commits++;
        Map<TopicPartition, Partition> own = new HashMap<>(partitions);
        own.values().removeIf(each -> !each.reader.equals(reader));
        boolean keepsUp = own.values().stream().allMatch(Partition::keepsUp);
        own.forEach((place, partition) -> {
            OffsetAndMetadata given = offsets.get(place);
            long next = given == null ? partition.committed : given.offset();
            if (next >= 0) {
                Map<String, Object> note = note(place, partition, keepsUp);
                note.putAll(more.getOrDefault(place, Map.of()));
                noted.put(place, new OffsetAndMetadata(next, Json.text(note)));
            }
        });
        return noted;
    }

    /** Notes that a reader has committed these offsets. */
    public synchronized void commit(String reader, Map<TopicPartition, OffsetAndMetadata> offsets) {
        commitsOf.merge(reader, 1L, Long::sum);
        offsets.forEach((place, each) -> {
            if (partitions.containsKey(place)) {
                partitions.get(place).committed = each.offset();
            }
        });
        look();
    }

    /** Whether a reader has committed all that it handed on. */
    public synchronized boolean isCommitted(String reader) {
        return partitions.values().stream()
                .allMatch(each -> !each.reader.equals(reader) || each.committed > each.handedOn);
    }

    public synchronized boolean isLive() {
        return isLive;
    }

    /** How often a reader has committed. */
    public synchronized long commitsOf(String reader) {
        return commitsOf.getOrDefault(reader, 0L);
    }

    /** Until when all that came to the judged topic's partition of this number is handed on; the least if unknown. */
    public synchronized long atEndUntilMs(int number) {
        Partition partition = partitions.get(new TopicPartition(judged, number));
        return partition != null && partition.isAtEnd() ? partition.knownMs : Long.MIN_VALUE;
    }

    public synchronized long commits() {
        return commits;
    }

    /** How many partitions of the judged topic have a reader here: fewer than there are while one changes it. */
    public synchronized int read() {
        return (int) partitions.keySet().stream().filter(each -> each.topic().equals(judged)).count();
    }

    /** Whether all that is known to lie in Kafka is judged and committed. */
    public synchronized boolean isDone() {
        return areAllThere() && !partitions.isEmpty() && partitions.values().stream()
                .allMatch(each -> each.isAtEnd() && each.committed > each.handedOn);
    }

    public synchronized long lag() {
        return partitions.values().stream()
                .mapToLong(each -> Math.max(0, each.lag) + Math.max(0, each.polled - each.handedOn)).sum();
    }

    private void look() {
        isLive = isLive || areAllThere() && !partitions.isEmpty() && doOthersKeepUp() && partitions.values().stream()
                .allMatch(each -> each.keepsUp() && each.committed > each.old);
    }

    private boolean doOthersKeepUp() {
        return othersThroughMs == Long.MAX_VALUE || nowMs.getAsLong() - othersThroughMs <= liveMs;
    }

    /** Until when all partitions of other processes are complete; the greatest if there are none. */
    private long othersThroughMs() {
        return throughMs.entrySet().stream()
                .filter(each -> !partitions.containsKey(new TopicPartition(judged, each.getKey())))
                .mapToLong(Map.Entry::getValue).min().orElse(Long.MAX_VALUE);
    }

    private Map<String, Object> note(TopicPartition place, Partition partition, boolean keepsUp) {
        Map<String, Object> note = new LinkedHashMap<>();
        note.put("topic_id", topicIds.get(place.topic()));
        if (place.topic().equals(judged)) {
            note.put("newest_ms", partition.newestMs);
            note.put("through_ms", keepsUp ? nowMs.getAsLong() : partition.newestMs);
        }
        return note;
    }
}
