"""Watermarks: how far an event moves time, and how far behind it another may come."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from millrace.engines.spark.tuning import DISORDER_MARGIN_MS

CLOCK = "_clock"


def moved_to(at_ms: Column, ingest_ms: Column) -> Column:
    """The moment to which an event moves time: its own, but not beyond its arrival, in case its clock is ahead."""
    return F.least(at_ms, ingest_ms)


def watermarked(events: DataFrame, moment_ms: Column, disorder_ms: int) -> DataFrame:
    """The events with a watermark that follows these moments, in a column of its own; null moves nothing."""
    moment = F.timestamp_millis(moment_ms)
    return events.withColumn(CLOCK, moment).withWatermark(CLOCK, delay(disorder_ms))


def delay(disorder_ms: int) -> str:
    """How far a watermark stays behind, for events that may be so much out of order."""
    return f"{disorder_ms + DISORDER_MARGIN_MS} milliseconds"
