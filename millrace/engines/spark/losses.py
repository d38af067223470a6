"""Messages that a query was to read next and that its topic no longer has.

Spark itself fails of some of these, in its own words and without a way on. A topic that was deleted and created anew it
takes for the same: its id is kept beside the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from pyspark.sql import SparkSession

from millrace.engines.spark.folders import Folder
from millrace.engines.spark.gaps import Offsets, Topics, gaps
from millrace.engines.spark.queries import Running
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss

IDS = "topic-ids.json"
ANSWERS_WITHIN_MS = 10_000


@dataclass
class Losses:
    """Compares what queries are to read with what is there."""

    spark: SparkSession
    plan: EnginePlan
    _admin: KafkaAdminClient | None = field(default=None, init=False)

    def ids(self) -> Mapping[str, str]:
        """The id of each topic that a query reads; one that is deleted and created anew has another."""
        return {each["name"]: str(each["topic_id"]) for each in self._described()}

    def of(self, queries: Sequence[Running]) -> list[Loss]:
        """What the queries have lost, but for what was accepted: they continue behind that."""
        if not queries:
            return []
        topics, left = self._topics(), list[Loss]()
        for each in queries:
            folder = Folder(self.spark, each.query.checkpoint)
            known = json.loads(folder.read(IDS)) if folder.has(IDS) else {}
            committed = each.committed()
            found = gaps(each.query.name, committed.offsets, known, topics) if committed else []
            accepted = [loss for loss in found if not each.is_active and self._is_accepted(loss)]
            left += [loss for loss in found if loss not in accepted]
            if accepted:
                each.skip(accepted)
            # A topic that is away for now keeps its id.
            if len(accepted) == len(found) and known != (ids := {**known, **topics.ids}):
                folder.replace(IDS, json.dumps(ids))
        return left

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()

    def _is_accepted(self, loss: Loss) -> bool:
        return any(loss.is_same_as(other) for other in self.plan.accepted)

    def _topics(self) -> Topics:
        described = self._described()
        places = [
            TopicPartition(topic["name"], partition["partition_index"])
            for topic in described
            for partition in topic["partitions"]
        ]
        return Topics(
            {each["name"]: str(each["topic_id"]) for each in described},
            self._offsets(places, OffsetSpec.EARLIEST),
            self._offsets(places, OffsetSpec.LATEST),
        )

    def _described(self) -> list[dict[str, Any]]:
        kinds = [each.name for each in self.plan.use.raw] if self.plan.events else []
        names = [self.plan.topics[kind] for kind in (*kinds, self.plan.use.enriched.name)]
        # A topic that is not there has an error in the place of its partitions; its query fails of it.
        return [each for each in self.admin.describe_topics(names) if not each["error_code"]]

    @property
    def admin(self) -> KafkaAdminClient:
        # Not before it is needed: a broker that is away at the start would end the driver.
        if self._admin is None:
            self._admin = KafkaAdminClient(
                bootstrap_servers=self.plan.bootstrap,
                client_id=f"{self.plan.pattern}.losses",
                request_timeout_ms=ANSWERS_WITHIN_MS,
                bootstrap_timeout_ms=ANSWERS_WITHIN_MS,
            )
        return self._admin

    def _offsets(self, places: Sequence[TopicPartition], which: OffsetSpec) -> Offsets:
        offsets: dict[str, dict[int, int]] = {}
        for place, found in self.admin.list_partition_offsets(dict.fromkeys(places, which)).items():
            offsets.setdefault(place.topic, {})[place.partition] = found.offset
        return offsets
