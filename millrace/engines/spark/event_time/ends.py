"""The ends of a pattern's topics, and the progress of its per-event stage on another engine."""

from __future__ import annotations

from collections.abc import Sequence

from kafka import KafkaConsumer, TopicPartition

from millrace.engines.spark.checkpoints import Offsets
from millrace.engines.spark.event_time.elsewhere import Elsewhere, reached_ms
from millrace.patterns import EnginePlan


class TopicEnds:
    """Reads offsets from Kafka, and no messages."""

    def __init__(self, plan: EnginePlan) -> None:
        self._plan = plan
        self._judged = plan.topics[plan.use.judged.name]
        self._opened: KafkaConsumer | None = None

    def of(self, topics: Sequence[str]) -> Offsets:
        """The end of every partition, for readers."""
        places = [place for topic in topics for place in self._partitions(topic)]
        ends: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        for place, offset in self._consumer.end_offsets(places).items():
            ends[place.topic][place.partition] = offset
        return ends

    def judged_elsewhere(self) -> Elsewhere:
        """How far another engine's per-event stage has judged: it commits that under the pattern's name."""
        places = self._partitions(self._judged)
        found = {place.partition: self._consumer.committed(place, metadata=True) for place in places}
        return Elsewhere(
            {self._judged: {partition: each.offset if each else 0 for partition, each in found.items()}},
            reached_ms([each.metadata if each else "" for each in found.values()]),
        )

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    @property
    def _consumer(self) -> KafkaConsumer:
        # Opened at first use: a broker that is unreachable at the start must not end the driver.
        if self._opened is None:
            self._opened = KafkaConsumer(
                bootstrap_servers=self._plan.bootstrap,
                group_id=self._plan.pattern,
                enable_auto_commit=False,
                isolation_level="read_committed",
                client_id=f"{self._plan.pattern}.silence",
            )
        return self._opened

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in self._consumer.partitions_for_topic(topic) or ()]


def covers(reached: Offsets, ends: Offsets, topic: str) -> bool:
    """Whether a reader has reached the end of every partition of the topic."""
    return all(reached.get(topic, {}).get(partition, 0) >= end for partition, end in ends[topic].items())
