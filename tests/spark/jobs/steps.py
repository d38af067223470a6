"""What the per-event stage hands to the kernel, of an invented batch in a local session; prints one line of JSON."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import lit, struct, when

from millrace.engines.spark import events, topics, windows
from millrace.engines.spark.driver import Driver
from millrace.engines.spark.progress import ProgressFile
from millrace.engines.spark.queries import RunningQuery
from millrace.engines.spark.session import session
from millrace.patterns import EnginePlan
from millrace.rules import Count, EventType, Lookup, Text, Tumbling, Whole, WindowSummary
from millrace.rules.outputs import WINDOWS_TOPIC
from pipelines.fraud import FRAUD

INGEST_MS = 1_000


def main() -> None:
    spark = session("steps", "local[1]", [], {"spark.ui.enabled": "false"})
    found = {"looked up at": looked_up_at(spark), "streams": streams(spark), "numbers": numbers(spark)}
    found |= {"taken beside the clock": taken_beside_the_clock(spark), "priorities": priorities(spark)}
    print(json.dumps(found))


def looked_up_at(spark: SparkSession) -> list[int]:
    """The moment of each lookup, in the place of each field that it takes."""

    def at(_: object, plan: EnginePlan, lookup: Lookup, key: Column, at_ms: Column) -> Column:
        return when(key.isNotNull(), struct(*(at_ms.alias(name) for name in lookup.take)))

    with mock.patch.object(topics, "looked_up", at):
        found = events.known(spark, cast(EnginePlan, SimpleNamespace(use=FRAUD)), arrived(spark))
        return [found.first()[events._taken(name)] for name in taken()]


def taken_beside_the_clock(spark: SparkSession) -> list[str]:
    """What a field is that is taken as `clock`, and one that is taken as a measure is called within the stage."""
    lookup = replace(FRAUD.enrichment.lookups[0], take={"clock": "place", "m0": "place"})
    use = SimpleNamespace(judged=FRAUD.judged, enrichment=SimpleNamespace(lookups=(lookup,)), disorder_ms=0)
    plan = cast(EnginePlan, SimpleNamespace(use=use))
    shop = struct(*(lit("Ulm").alias(name) for name in lookup.take))
    with mock.patch.object(topics, "looked_up", return_value=shop):
        found = events.timed(plan, events.known(spark, plan, arrived(spark))).withColumn("_m0", lit(1)).first()
    return [str(found[events._taken(name)]) for name in lookup.take]


def arrived(spark: SparkSession) -> DataFrame:
    """One accepted event."""
    event = struct(lit("shop").alias("merchant"), lit("anna").alias("customer"), lit(7).alias("at_ms"))
    return spark.range(1).select(
        lit(FRAUD.judged.name).alias("stream"),
        lit(None).cast("string").alias("reason"),
        lit(INGEST_MS).alias("ingest_ms"),
        event.alias(FRAUD.judged.name),
    )


def taken() -> Iterator[str]:
    for lookup in FRAUD.enrichment.lookups:
        yield from lookup.take


def streams(spark: SparkSession) -> list[str]:
    """The streams in the order in which messages of the same millisecond are taken."""
    given: list[str] = []

    def over(frame: Any, key: str, declaration: str) -> Any:
        given.append(declaration)
        return frame

    use = SimpleNamespace(judged=replace(FRAUD.judged, name="a"), others=FRAUD.others, enrichment=FRAUD.enrichment)
    plan = cast(EnginePlan, SimpleNamespace(use=use, event_rules=()))
    kernel = SimpleNamespace(millrace=SimpleNamespace(spark=SimpleNamespace(Remember=SimpleNamespace(over=over))))
    names = ("stream", "reason", "event_key", "topic", "partition", "offset")
    arrived = spark.range(1).select(*(lit("x").alias(name) for name in names))
    with mock.patch.object(events, "DataFrame"):
        events.remembered(cast(SparkSession, SimpleNamespace(_jvm=kernel)), plan, arrived)
    found: list[str] = json.loads(given[0])["streams"]
    return found


def numbers(spark: SparkSession) -> list[str]:
    """The columns of a message of a summary whose key, or whose measure, is called as Spark calls a window."""
    event = struct(lit("anna").alias("window"), lit("anna").alias("group"))
    arrived = (
        spark.readStream.format("rate")
        .load()
        .select(
            event.alias("event"),
            lit("anna").alias("event_key"),
            lit("1").alias("id"),
            lit(7).alias("at_ms"),
            lit(False).alias("is_tick"),
        )
    )
    on = EventType("on", "", (Text("window"), Text("group"), Whole("at_ms")), key="group", time="at_ms")
    plan = cast(EnginePlan, SimpleNamespace(use=FRAUD, window_rules=(), topics={WINDOWS_TOPIC: "windows"}))
    moments = arrived.select("at_ms", "event_key", "is_tick")
    found: list[str] = []
    for key, measure in (("group", "window"), ("window", "n")):
        of = WindowSummary("s", "", on, (key,), Tumbling(1_000), {measure: Count()})
        with mock.patch.multiple(windows, _read=lambda *_: arrived, ticks=lambda *_: moments):
            found = windows.numbers(spark, plan, of, "s").columns
    return found


def priorities(spark: SparkSession) -> list[int]:
    """The nice value of a driver that has waited for its windows in vain, and once they have begun."""
    windows = SimpleNamespace(query=SimpleNamespace(is_store=False), has_begun=False)
    plan = SimpleNamespace(
        use=FRAUD,
        topics={each.name: each.name for each in (FRAUD.judged, FRAUD.enriched)},
        judges_events=False,
        real_time=False,
        finite=False,
    )
    driver = Driver(spark, cast(EnginePlan, plan), [], ProgressFile(Path()))
    driver.running, driver.stores_at = [cast(RunningQuery, windows)], 0
    found = []
    for windows.has_begun in (False, True):
        driver._due()
        found.append(os.getpriority(os.PRIO_PROCESS, 0))
    return found


if __name__ == "__main__":
    main()
