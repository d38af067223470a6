package millrace.flink.arrivals;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.flink.connector.base.source.reader.RecordsWithSplitIds;
import org.apache.flink.connector.base.source.reader.splitreader.SplitsAddition;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.Node;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.PartitionInfo;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.TopicPartition;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.record.TimestampType;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class ArrivalReaderTest {
    private static final List<String> TOPICS = List.of("phones", "pays");
    private static final TopicPartition PHONES = new TopicPartition("phones", 0);
    private static final TopicPartition PAYS = new TopicPartition("pays", 0);
    private static final TopicPartition OTHER_PHONES = new TopicPartition("phones", 1);
    private static final TopicPartition OTHER_PAYS = new TopicPartition("pays", 1);

    private final MockConsumer<byte[], byte[]> consumer = new MockConsumer<>("none");
    private final AtomicReference<Collection<Checkpointed>> checkpointed = new AtomicReference<>(List.of());
    private final Map<TopicPartition, Reached> reached = new HashMap<>();
    private final Reading reading = new Reading(100);
    private double answers;
    private final ArrivalReader reader = new ArrivalReader(
            consumer, () -> answers, TOPICS, checkpointed, reached, reading, UnregisteredMetricsGroup.createSourceReaderMetricGroup());

    @BeforeEach
    void twoSplitsAreRead() {
        ends(0, 0, 0, 0);
        reader.handleSplitsChanges(new SplitsAddition<>(List.of(split(0, 0, 0))));
        reader.handleSplitsChanges(new SplitsAddition<>(List.of(split(1, 0, 0))));
    }

    @Test
    void bothTopicsOfBothSplitsComeInTheOrderOfTheirArrival() {
        arrive(PAYS, 0, 3, 10);
        arrive(PHONES, 0, 3, 10);
        arrive(OTHER_PAYS, 0, 5, 10);
        arrive(PHONES, 1, 7, 10);
        assertEquals(Set.of(PHONES, PAYS, OTHER_PHONES, OTHER_PAYS), consumer.assignment());
        assertEquals("partition-0 phones@3, partition-0 pays@3, partition-1 pays@5, partition-0 phones@7", fetched());
    }

    @Test
    void nothingIsReleasedBeforeWhatIsKnownToLieInKafka() {
        ends(0, 2, 0, 0);
        arrive(PHONES, 0, 5, 10);
        assertEquals("", fetched());
        arrive(PAYS, 0, 4, 10);
        assertEquals("partition-0 pays@4", fetched());
        arrive(PAYS, 1, 6, 10);
        assertEquals("partition-0 phones@5, partition-0 pays@6", fetched());
    }

    @Test
    void aPartitionThatRunsFarAheadIsPausedUntilHalfOfItIsReleased() {
        ends(0, 10, 0, 0);
        for (int offset = 0; offset < 5; offset++) {
            arrive(PHONES, offset, offset, 1_000_000);
        }
        assertEquals("", fetched());
        assertEquals(Set.of(PHONES), consumer.paused());
        arrive(PAYS, 0, 1, 10);
        assertEquals("partition-0 phones@0, partition-0 phones@1, partition-0 pays@1", fetched());
        assertEquals(Set.of(PHONES), consumer.paused(), "3 MB of at most 4 are held");
        arrive(PAYS, 1, 2, 10);
        assertEquals("partition-0 phones@2, partition-0 pays@2", fetched());
        assertEquals(Set.of(), consumer.paused());
    }

    @Test
    void ofAPartitionThatWasPausedNothingIsKnownUntilKafkaWasAskedAgain() {
        for (int offset = 0; offset < 5; offset++) {
            arrive(PHONES, offset, offset, 1_000_000);
        }
        arrive(OTHER_PAYS, 0, 9, 10);
        assertEquals("partition-0 phones@0, partition-0 phones@1, partition-0 phones@2, partition-0 phones@3, "
                + "partition-0 phones@4", fetched(), "an older one may have come while it was paused");
        assertEquals(Set.of(), consumer.paused());
        arrive(PHONES, 5, 8, 10);
        answers = 1;
        assertEquals("partition-0 phones@8", fetched(), "the other one waits, and not those of this partition");
        answers = 2;
        assertEquals("partition-1 pays@9", fetched());
    }

    @Test
    void anAnswerThatAWakeUpLeftInTheConsumerCoversNoPartition() {
        for (int offset = 0; offset < 5; offset++) {
            arrive(PHONES, offset, offset, 1_000_000);
        }
        arrive(OTHER_PAYS, 0, 9, 10);
        fetched();
        answers = 2;
        reader.wakeUp();
        assertEquals("", fetched(), "it may have older ones of the partition that was paused");
        assertEquals("partition-1 pays@9", fetched());
    }

    @Test
    void brokersThatLeadAPartitionOfItsTopicsAreCounted() {
        leads("phones", 1);
        leads("pays", 1);
        leads("others", 7);
        assertEquals(1, ArrivalReader.brokers(consumer));
        leads("pays", 2);
        assertEquals(2, ArrivalReader.brokers(consumer));
    }

    @Test
    void whatIsHeldDoesNotWaitForAMessageWhenAnAnswerHasNone() {
        for (int offset = 0; offset < 5; offset++) {
            arrive(PHONES, offset, offset, 1_000_000);
        }
        fetched();
        assertEquals(Duration.ofSeconds(1), consumer.lastPollTimeout());
        fetched();
        assertEquals(Duration.ofMillis(100), consumer.lastPollTimeout(), "a poll returns only with messages");
        answers = 2;
        fetched();
        fetched();
        assertEquals(Duration.ofSeconds(1), consumer.lastPollTimeout());
    }

    @Test
    void howFarItHasPolledAndWhatACheckpointHeldAreKept() {
        arrive(PHONES, 0, 5, 10);
        arrive(PHONES, 1, 6, 10);
        fetched();
        assertEquals(new Reached(1, 2), reached.get(PHONES));
        assertEquals(new Reached(-1, 0), reached.get(PAYS));
        consumer.seek(PHONES, 4); // past a transaction's marker
        checkpointed.set(List.of(Checkpointed.at(split(0, 2, 0), true, 9)));
        fetched();
        String note = "{\"newest_ms\":0,\"through_ms\":9}";
        assertEquals(Map.of(PHONES, new OffsetAndMetadata(4, note), PAYS, new OffsetAndMetadata(0, note)),
                consumer.committed(Set.of(PHONES, PAYS)));
        assertEquals(List.of(), checkpointed.get(), "once for each checkpoint");
    }

    @Test
    void itIsAtTheEndOnceAllThatLiesInKafkaIsHandedOn() {
        assertFalse(reading.isAtEnd(), "nothing is known before the first fetch");
        arrive(PAYS, 0, 5, 10);
        ends(0, 3, 0, 0);
        fetched();
        reading.handOn(5, 1_000);
        assertFalse(reading.isAtEnd(), "two more lie in Kafka");
        arrive(PAYS, 1, 6, 10);
        arrive(PAYS, 2, 7, 10);
        fetched();
        assertFalse(reading.isAtEnd(), "two are not handed on");
        reading.handOn(6, 1_000);
        reading.handOn(7, 1_000);
        assertTrue(reading.isAtEnd());
    }

    @Test
    void aWakeUpReleasesWhatIsThere() {
        arrive(PHONES, 0, 5, 10);
        fetched();
        reader.wakeUp();
        assertEquals("", fetched());
        arrive(PHONES, 1, 6, 10);
        assertEquals("partition-0 phones@6", fetched());
    }

    private static ArrivalSplit split(int partition, long phones, long pays) {
        return new ArrivalSplit(partition, Map.of("phones", phones, "pays", pays), Map.of());
    }

    private void ends(long phones, long pays, long otherPhones, long otherPays) {
        consumer.updateEndOffsets(Map.of(PHONES, phones, PAYS, pays, OTHER_PHONES, otherPhones, OTHER_PAYS, otherPays));
    }

    private void leads(String topic, int broker) {
        consumer.updatePartitions(
                topic, List.of(new PartitionInfo(topic, 0, new Node(broker, "here", 9092), new Node[0], new Node[0])));
    }

    private void arrive(TopicPartition place, long offset, long atMs, int size) {
        consumer.addRecord(new ConsumerRecord<>(place.topic(), place.partition(), offset, atMs,
                TimestampType.LOG_APPEND_TIME, 0, size, null, new byte[0], new RecordHeaders(), Optional.empty()));
    }

    private String fetched() {
        RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>> records = reader.fetch();
        List<String> found = new ArrayList<>();
        for (String split = records.nextSplit(); split != null; split = records.nextSplit()) {
            for (var message = records.nextRecordFromSplit(); message != null; message = records.nextRecordFromSplit()) {
                found.add(split + " " + message.topic() + "@" + message.timestamp());
            }
        }
        return String.join(", ", found);
    }
}
