"""Messages that a query was to read next and that its topic no longer has.

Spark fails on some of these, with no way to continue, and misses others: it takes a topic that was deleted and created
anew for the same one. So the ids of its topics are kept beside a query's checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec

from millrace.engines.spark.checkpoints import Offsets
from millrace.engines.spark.tuning import IDS_EVERY_S
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss

if TYPE_CHECKING:
    from millrace.engines.spark.queries import RunningQuery

ANSWERS_WITHIN_MS = 10_000


@dataclass(frozen=True)
class Retained:
    """What the topics hold now."""

    ids: Mapping[str, str]
    firsts: Offsets
    ends: Offsets


def gaps(reader: str, wanted: Offsets, was_ids: Mapping[str, str], now: Retained) -> list[Loss]:
    """Where the offset to be read next is not in the topic, or the topic is another one."""
    found = []
    for topic in wanted.keys() & now.ids.keys():
        is_id, was_id = now.ids[topic], was_ids.get(topic, now.ids[topic])
        # One that was added is read from its beginning: what was deleted of it is lost, too.
        added = {partition: 0 for partition, first in now.firsts[topic].items() if first}
        for partition, offset in {**added, **wanted[topic]}.items():
            first, end = now.firsts[topic].get(partition, 0), now.ends[topic].get(partition, 0)
            if was_id != is_id or not first <= offset <= end:
                found.append(Loss(topic, partition, offset, first, end, is_id, was_id, reader))
    return sorted(found, key=lambda loss: loss.place)


def beginnings(reader: str, reads: Collection[str], reached: Offsets, now: Retained) -> list[Loss]:
    """Where a query begins with topics that it has not read: Spark fails unless they begin at offset 0."""
    return [
        Loss(topic, partition, first, first, now.ends[topic][partition], now.ids[topic], now.ids[topic], reader)
        for topic in sorted((now.firsts.keys() & {*reads}) - reached.keys())
        for partition, first in now.firsts[topic].items()
        if first
    ]


class Losses:
    """Compares the offsets that queries read next with what the topics hold."""

    def __init__(self, plan: EnginePlan, queries: Sequence[RunningQuery]) -> None:
        self._plan = plan
        self._queries = queries
        self.found: Sequence[Loss] = ()
        """The losses that no operator has accepted, as of the last check."""
        self._ids: Mapping[str, str] = {}
        self._ids_again_at = 0.0
        self._opened: KafkaAdminClient | None = None

    def look(self, due: Sequence[RunningQuery]) -> Sequence[Loss]:
        """Check the queries that are about to start; all queries at the first look, and when a topic's id changes."""
        ids = self._ids if time.monotonic() < self._ids_again_at else self._current_ids()
        self.found = self._of([each for each in due if each.is_due] if ids == self._ids else self._queries)
        if ids is not self._ids:
            self._ids, self._ids_again_at = ids, time.monotonic() + IDS_EVERY_S
        return self.found

    def postpone(self) -> None:
        """Request no ids for a while: each check would wait for an unreachable broker."""
        if self._ids:
            self._ids_again_at = time.monotonic() + IDS_EVERY_S

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _of(self, queries: Sequence[RunningQuery]) -> list[Loss]:
        """The losses of these queries, except accepted ones: a query continues behind those."""
        if not queries:
            return []
        # Read first: a query that runs may commit meanwhile, and is not ahead of a topic for that.
        where = [(each, each.checkpoint.topic_ids(), each.checkpoint.reached()) for each in queries]
        retained, left = self._retained(), list[Loss]()
        for each, was_ids, reached in where:
            found = gaps(each.query.name, reached, was_ids, retained)
            accepted = [loss for loss in found if not each.is_active and self._is_accepted(loss)]
            left += [loss for loss in found if loss not in accepted]
            # Without any offset Spark itself begins at the first of each partition.
            is_to_begin = reached and not each.is_active
            new = beginnings(each.query.name, each.query.reads, reached, retained) if is_to_begin else []
            if behind := [*accepted, *new]:
                each.checkpoint.skip(behind)
            # A topic that is absent for now keeps its id.
            if len(accepted) == len(found) and was_ids != (ids := {**was_ids, **retained.ids}):
                each.checkpoint.note_topic_ids(ids)
        return left

    def _is_accepted(self, loss: Loss) -> bool:
        return any(loss.is_same_as(other) for other in self._plan.accepted)

    def _current_ids(self) -> Mapping[str, str]:
        return _ids_of(self._described())

    def _retained(self) -> Retained:
        described = self._described()
        places = [
            TopicPartition(topic["name"], partition["partition_index"])
            for topic in described
            for partition in topic["partitions"]
        ]
        firsts, ends = self._offsets(places, OffsetSpec.EARLIEST), self._offsets(places, OffsetSpec.LATEST)
        return Retained(_ids_of(described), firsts, ends)

    def _described(self) -> list[dict[str, Any]]:
        names = sorted({topic for each in self._queries for topic in each.query.reads})
        # An absent topic has an error in place of its partitions; its query fails on its own.
        return [each for each in self._admin.describe_topics(names) if not each["error_code"]]

    @property
    def _admin(self) -> KafkaAdminClient:
        # Opened at first use: a broker that is unreachable at the start must not end the driver.
        if self._opened is None:
            self._opened = KafkaAdminClient(
                bootstrap_servers=self._plan.bootstrap,
                client_id=f"{self._plan.pattern}.losses",
                request_timeout_ms=ANSWERS_WITHIN_MS,
                bootstrap_timeout_ms=ANSWERS_WITHIN_MS,
            )
        return self._opened

    def _offsets(self, places: Sequence[TopicPartition], which: OffsetSpec) -> Offsets:
        offsets: dict[str, dict[int, int]] = {}
        for place, found in self._admin.list_partition_offsets(dict.fromkeys(places, which)).items():
            offsets.setdefault(place.topic, {})[place.partition] = found.offset
        return offsets


def _ids_of(described: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """The id of each topic; one that is deleted and created anew has another."""
    return {each["name"]: str(each["topic_id"]) for each in described}
