"""The tables of a use in HBase, from the topics of accepted events and alerts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.engines.spark.hbase import Writer
from millrace.engines.spark.tuning import PERSIST_ROWS_MOST
from millrace.patterns import EnginePlan
from millrace.rules import ALERTS


def reads(plan: EnginePlan) -> Sequence[str]:
    """The topics that the tables are made of."""
    return [plan.topics[kind.name] for kind in (plan.use.enriched, ALERTS)]


def messages(spark: SparkSession, plan: EnginePlan) -> DataFrame:
    """Accepted events and alerts, each in a column of its own."""
    enriched = plan.use.enriched
    source = topics.source(spark, plan.bootstrap, reads(plan), PERSIST_ROWS_MOST)
    read = [
        F.when(F.col("topic") == plan.topics[kind.name], topics.parsed(kind, F.col("value"))).alias(name)
        for kind, name in ((enriched, "event"), (ALERTS, "alert"))
    ]
    return source.select(*read).filter(topics.is_whole(enriched, "event") | topics.is_whole(ALERTS, "alert"))


def writer(plan: EnginePlan) -> Callable[[DataFrame, int], None]:
    """The function that stores a batch of messages."""
    assert plan.stores is not None
    tables = Writer(plan.use, plan.stores)

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        tables.write(
            [row.event.asDict() for row in rows if row.event is not None],
            [row.alert.asDict() for row in rows if row.alert is not None],
        )

    return write
