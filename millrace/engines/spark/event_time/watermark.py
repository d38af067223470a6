"""Watermarks: how far an event moves time, and how far behind it another may come."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from millrace.engines.spark.tuning import WATERMARK_DELAY_MS

CLOCK = "_clock"


def moved_to(at_ms: Column, ingest_ms: Column) -> Column:
    """The moment to which an event moves time: its own, but not beyond its arrival, in case its clock is ahead."""
    return F.least(at_ms, ingest_ms)


def watermarked(events: DataFrame, moment_ms: Column) -> DataFrame:
    """The events with a watermark that follows these moments, in a column of its own; null moves nothing."""
    moment = F.timestamp_millis(moment_ms)
    return events.withColumn(CLOCK, moment).withWatermark(CLOCK, f"{WATERMARK_DELAY_MS} milliseconds")
