"""Accepted events as Parquet on HDFS, by date and hour of their event time, each exactly once.

A batch is written to a hidden folder of its own and then moved file by file into place. After a crash at any moment,
a batch that was not written completely is written again, a complete one is moved on, and a reader never meets half a
file. The query's state removes repetitions; where the event is older than the state or its memory, stored events do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.engines.spark import reading, topics
from millrace.engines.spark.folders import Folder
from millrace.engines.spark.tuning import FORGOTTEN_MARGIN_MS, PERSIST_ROWS_MOST
from millrace.patterns import EnginePlan
from millrace.patterns.parquet import PLACE
from millrace.rules import EventType

STAGING = "_arriving"


def events(spark: SparkSession, plan: EnginePlan) -> DataFrame:
    """The events of the intermediate topic, each once as far as the query's state remembers."""
    on = plan.use.enriched
    source = topics.source(spark, plan.bootstrap, [plan.topics[on.name]], PERSIST_ROWS_MOST)
    read = source.select(topics.parsed(on, F.col("value")).alias("event"))
    # The windows stage makes a dead letter of every other message.
    whole = read.filter(topics.is_whole(on, "event")).select("event.*")
    step, judged = spark._jvm.millrace.spark.Admit, plan.use.judged
    if on.id:
        once = step.over(whole._jdf, on.key, on.id, on.time, "ingest_ms", judged.remembered_ms, judged.kept_ms)
    else:
        once = step.overPlaces(whole._jdf, on.key, on.key, on.time, "ingest_ms", *topics.PLACE)
    return DataFrame(once, spark).select(*whole.columns)


def writer(plan: EnginePlan, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """The function that stores a batch of events."""
    assert plan.stores is not None
    folder = ParquetFolder(plan.stores.hdfs, checkpoint, plan.use.enriched, plan.use.judged.remembered_ms)
    return folder.write


@dataclass(frozen=True)
class ParquetFolder:
    """The folder of a pattern's Parquet, as one query writes it."""

    root: str
    checkpoint: str
    of: EventType
    remembered_ms: int

    def write(self, batch: DataFrame, number: int) -> None:
        """Store a batch; the same batch again changes nothing."""
        spark = batch.sparkSession
        run = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        staging = Folder(spark, f"{self.root}/{STAGING}/{run}-{number}")
        if staging.has("_SUCCESS"):
            # It was written before a crash. Spark commits a batch only if the query's state has seen it in this run.
            batch.write.format("noop").mode("overwrite").save()
        else:
            self._write(batch, staging)
        for path in staging.below():
            if path.endswith(".parquet"):
                staging.move(path, f"{self.root}/{path}")
        self._forget(Folder(spark, f"{self.root}/{STAGING}"), f"{run}-", number)

    def _write(self, batch: DataFrame, staging: Folder) -> None:
        at = F.timestamp_millis(self.of.time or "")
        rows = batch.withColumn("date", F.date_format(at, "yyyy-MM-dd")).withColumn("hour", F.date_format(at, "HH"))
        rows = rows.persist()
        try:
            new = self._without_stored(rows)
            new.repartition(1).write.mode("overwrite").partitionBy(*PLACE).parquet(staging.uri)
        finally:
            rows.unpersist()

    def _without_stored(self, rows: DataFrame) -> DataFrame:
        doubtful = rows.filter(F.col("ingest_ms") < self._covered_since_ms(rows.sparkSession))
        places = [row.asDict() for row in doubtful.select(*PLACE).distinct().collect()]
        if not places:
            return rows
        stored = reading.stored(rows.sparkSession, self.root, self.of, places)
        identity = [self.of.key, self.of.id] if self.of.id else list(topics.PLACE)
        return rows.join(stored.select(*identity), identity, "left_anti")

    def _covered_since_ms(self, spark: SparkSession) -> int:
        """The query's state covers events that arrived after this."""
        born_ms = Folder(spark, self.checkpoint).modified_ms("metadata")
        remembered_since_ms = int(time.time() * 1000) - self.remembered_ms
        return max(born_ms, remembered_since_ms) + FORGOTTEN_MARGIN_MS

    def _forget(self, staging: Folder, run: str, number: int) -> None:
        # The batch before is committed; this one may be run again and must then find its files.
        for name in staging.names():
            if name.startswith(run) and int(name.removeprefix(run)) < number:
                staging.delete(name)
