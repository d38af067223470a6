"""The memory of the per-event stage in Python, in place of the product's in Java: the same rows and columns."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from millrace.engines.spark.topics import TYPES
from millrace.oracle import Memory
from millrace.patterns import EnginePlan
from millrace.rules import EventType
from millrace.rules.measures import Measure, signature
from millrace.rules.memory import StageMemory

DUPLICATE = "duplicate"
TEXT = T.StructType([T.StructField("text", T.StringType())])
FLAG = T.StructType([T.StructField("flag", T.BooleanType())])


def remembered(spark: SparkSession, plan: EnginePlan, events: DataFrame, *, buckets: int = 0) -> DataFrame:
    """As `millrace.engines.spark.events.remembered`; with buckets, many keys are a group."""
    judged, stage = plan.use.judged, StageMemory(plan.use, plan.event_rules)
    place = F.concat_ws("/", "topic", "partition", "offset")
    keyed = events.withColumn("event_key", F.when(F.col("reason").isNull(), F.col("event_key")).otherwise(place))
    columns = [T.StructField(name, TYPES[kind]) for name, kind in stage.columns.items()]
    streams = [each.name for each in (*plan.use.others, judged)]
    fold = Fold(judged, streams, measures(stage), list(stage.columns))
    grouped = keyed.withColumn("bucket", F.pmod(F.xxhash64("event_key"), F.lit(buckets))) if buckets else keyed
    found = grouped.groupBy("bucket" if buckets else "event_key").transformWithState(
        InBuckets(fold) if buckets else ByKey(fold),
        T.StructType([*grouped.schema.fields, *columns]),
        outputMode="Append",
        timeMode="ProcessingTime",
    )
    return found.drop("bucket")


def measures(stage: StageMemory) -> dict[str, Measure]:
    """Every distinct measure under the prefix of its columns."""
    remembers = [*(rule.remembers for rule in stage.rules), stage.use.enrichment.remembers]
    declared = {signature(each, stage.use.judged): each for own in remembers for each in own.values()}
    return {f"_m{i}": each for i, each in enumerate(declared.values())}


@dataclass(frozen=True)
class Fold:
    """The rows of one key with what its earlier events left behind, by the oracle's measures."""

    judged: EventType
    streams: list[str]
    """In the order in which messages of the same millisecond are taken."""
    measures: dict[str, Measure]
    columns: list[str]

    def over(
        self, rows: Iterable[Row], restore: Callable[[], dict[str, Any]], is_new: Callable[[str, int], bool]
    ) -> Iterator[Row]:
        """The judged events and all that is refused; `restore` gives what is held of the key, which then changes."""
        none, memory = dict.fromkeys(self.columns), None
        for row in self._in_order(rows):
            values = row.asDict()
            if values["reason"] is not None:
                yield Row(**values, **none)
                continue
            memory = memory or Memory(self.measures, self.judged, restore())
            stream = values["stream"]
            event = values[stream]
            if stream == self.judged.name:
                if self.judged.id and not is_new(event[self.judged.id], values["ingest_ms"]):
                    yield Row(**values | {"reason": DUPLICATE}, **none)
                    continue
                yield Row(**values, **memory.before(event))
            memory.learn(stream, event)

    def _in_order(self, rows: Iterable[Row]) -> list[Row]:
        """By arrival; of the same millisecond, side streams come first. A clock may be set back: offsets stand."""
        reached: dict[tuple[str, int], int] = {}
        arrivals = []
        for row in sorted(rows, key=lambda each: (each["topic"], each["partition"], each["offset"])):
            place = row["topic"], row["partition"]
            reached[place] = max(row["ingest_ms"], reached.get(place, 0))
            rank = self.streams.index(row["stream"]) if row["stream"] in self.streams else -1
            arrivals.append((reached[place], rank, row))
        return [row for *_, row in sorted(arrivals, key=lambda each: each[:2])]


class ByKey(StatefulProcessor):
    """As millrace.spark.Remember: a memory of each key, and its ids, which expire."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._memory = handle.getValueState("memory", TEXT)
        self._seen = handle.getMapState("seen", TEXT, FLAG, self._fold.judged.remembered_ms)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterable[Row], timer_values: Any
    ) -> Iterator[Row]:
        held: list[dict[str, Any]] = []

        def restore() -> dict[str, Any]:
            kept = self._memory.get()
            held.append(json.loads(kept[0]) if kept else {})
            return held[0]

        yield from self._fold.over(rows, restore, self._is_new)
        for each in held:
            self._memory.update((json.dumps(each),))

    def close(self) -> None:
        """Nothing is kept open."""

    def _is_new(self, identity: str, arrived_ms: int) -> bool:
        if self._seen.containsKey((identity,)):
            return False
        self._seen.updateValue((identity,), (True,))
        return True


class InBuckets(StatefulProcessor):
    """Many keys at once: to Python each group of rows has a price, and each access to the state another.

    So all that is kept of a key is one entry, its ids too. Those of a key that has no further event are not forgotten.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._kept = handle.getMapState("kept", TEXT, TEXT)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterable[Row], timer_values: Any
    ) -> Iterator[Row]:
        by_key = defaultdict(list)
        for row in rows:
            by_key[row["event_key"]].append(row)
        for own, its in by_key.items():
            yield from self._over(own, its)

    def close(self) -> None:
        """Nothing is kept open."""

    def _over(self, key: str, rows: Iterable[Row]) -> Iterator[Row]:
        kept: dict[str, Any] = {}

        def restore() -> dict[str, Any]:
            found = self._kept.getValue((key,))
            kept.update(json.loads(found[0]) if found else {"held": {}, "seen": {}})
            return kept["held"]

        def is_new(identity: str, arrived_ms: int) -> bool:
            since_ms = arrived_ms - self._fold.judged.remembered_ms
            kept["seen"] = {each: at_ms for each, at_ms in kept["seen"].items() if at_ms >= since_ms}
            if identity in kept["seen"]:
                return False
            kept["seen"][identity] = arrived_ms
            return True

        yield from self._fold.over(rows, restore, is_new)
        if kept:
            self._kept.updateValue((key,), (json.dumps(kept),))
