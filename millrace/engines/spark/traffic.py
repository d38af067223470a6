"""Where the topics of a pattern end, and how far its per-event stage has come."""

from __future__ import annotations

from collections.abc import Sequence

from kafka import KafkaConsumer, TopicPartition

from millrace.engines.spark.gaps import Offsets
from millrace.patterns import EnginePlan


class Traffic:
    """A consumer that only asks for offsets."""

    def __init__(self, plan: EnginePlan) -> None:
        self.judged = plan.topics[plan.use.judged.name]
        # The per-event stage of another engine commits what it has dealt with under the pattern's name.
        self._consumer = KafkaConsumer(
            bootstrap_servers=plan.bootstrap,
            group_id=plan.pattern,
            enable_auto_commit=False,
            isolation_level="read_committed",  # an end is that of what readers can see
            client_id=f"{plan.pattern}.silence",
        )

    def ends(self, topics: Sequence[str]) -> Offsets:
        """The end of every partition."""
        places = [place for topic in topics for place in self._partitions(topic)]
        ends: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        for place, offset in self._consumer.end_offsets(places).items():
            ends[place.topic][place.partition] = offset
        return ends

    def dealt_with(self) -> Offsets:
        """How far the per-event stage of another engine has come in the topic that it judges."""
        places = self._partitions(self.judged)
        return {self.judged: {place.partition: self._consumer.committed(place) or 0 for place in places}}

    def close(self) -> None:
        self._consumer.close()

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in self._consumer.partitions_for_topic(topic) or ()]


def covers(reached: Offsets, ends: Offsets, topics: Sequence[str]) -> bool:
    """Whether all messages before the ends of these topics have been dealt with."""
    return all(
        reached.get(topic, {}).get(partition, 0) >= end for topic in topics for partition, end in ends[topic].items()
    )
