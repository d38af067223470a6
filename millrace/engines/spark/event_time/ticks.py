"""Ticks: rows that hold a moment and nothing else, by which the driver moves the time of a query."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def ticks(spark: SparkSession, query: str) -> DataFrame:
    """The ticks of a query as a source; Ticks.java."""
    moments = spark.readStream.format("millrace.spark.Ticks").option("clock", query).load()
    return moments.select("at_ms", F.lit("").alias("event_key"), F.lit(True).alias("is_tick"))


def ticking(spark: SparkSession) -> Callable[[str, int], None]:
    """The function that sends a tick: the query's name and the moment."""
    advance: Callable[[str, int], None] = spark._jvm.millrace.spark.Ticks.advance
    return advance
