"""Event time: how far an event moves it, and how far behind it another may come."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from millrace.rules import OUT_OF_ORDER_MS

# What is not after the watermark is late, and an event that is OUT_OF_ORDER_MS behind the newest is not.
BEHIND_MS = OUT_OF_ORDER_MS + 1
CLOCK = "_clock"


def moved_to(at_ms: Column, ingest_ms: Column) -> Column:
    """How far an event moves the time: never ahead of the wall clock, however wrong its own clock is."""
    return F.least(at_ms, ingest_ms)


def watermarked(events: DataFrame, moment_ms: Column) -> DataFrame:
    """The events, each with its moment in a column of its own; null moves nothing."""
    return events.withColumn(CLOCK, F.timestamp_millis(moment_ms)).withWatermark(CLOCK, f"{BEHIND_MS} milliseconds")


def reached_ms(watermark_ms: int) -> int:
    """The newest moment that made this watermark; 0 before the first."""
    return watermark_ms + BEHIND_MS if watermark_ms else 0
