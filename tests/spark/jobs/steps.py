"""What the per-event stage hands to the kernel, of an invented batch in a local session; prints one line of JSON."""

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import lit, struct, when

from millrace.engines.spark import events, topics
from millrace.engines.spark.session import session
from millrace.patterns import EnginePlan
from millrace.rules import Lookup
from pipelines.fraud import FRAUD

INGEST_MS = 1_000


def main() -> None:
    spark = session("steps", "local[1]", [], {"spark.ui.enabled": "false"})
    print(json.dumps({"looked up at": looked_up_at(spark), "streams": streams(spark)}))


def looked_up_at(spark: SparkSession) -> list[int]:
    """The moment of each lookup, in the place of each field that it takes."""

    def at(_: object, plan: EnginePlan, lookup: Lookup, key: Column, at_ms: Column) -> Column:
        return when(key.isNotNull(), struct(*(at_ms.alias(name) for name in lookup.take)))

    event = struct(lit("shop").alias("merchant"), lit("anna").alias("customer"), lit(7).alias("at_ms"))
    arrived = spark.range(1).select(
        lit(FRAUD.judged.name).alias("stream"),
        lit(None).cast("string").alias("reason"),
        lit(INGEST_MS).alias("ingest_ms"),
        event.alias(FRAUD.judged.name),
    )
    with mock.patch.object(topics, "looked_up", at):
        found = events.known(spark, cast(EnginePlan, SimpleNamespace(use=FRAUD)), arrived)
        return [found.first()[f"_{name}"] for name in taken()]


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


if __name__ == "__main__":
    main()
