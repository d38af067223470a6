"""The windows stage: alerts on complete windows, and the numbers for the charts.

An event that is more than OUT_OF_ORDER_MS behind event time is late: it becomes a dead letter and is in no window.
Every other event is in exactly one. The package event_time describes what moves event time.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.engines.spark.alerts import alert, operands
from millrace.engines.spark.dead_letters import WINDOWS, dead_letter
from millrace.engines.spark.event_time.ticks import ticks
from millrace.engines.spark.event_time.watermark import CLOCK, moved_to, watermarked
from millrace.engines.spark.expressions import compiled
from millrace.engines.spark.tuning import WATERMARK_DELAY_MS
from millrace.patterns import EnginePlan
from millrace.rules import OUT_OF_ORDER_MS, EventType, WindowRule, WindowSummary
from millrace.rules.measures import WindowMeasure
from millrace.rules.outputs import LATE, WINDOW_SPAN, WINDOWS_TOPIC, row

UNREADABLE = "json"


def messages(spark: SparkSession, plan: EnginePlan, rule: WindowRule, query: str) -> DataFrame:
    """The messages that a rule writes: an alert for each window that fulfils it, a dead letter for each late event."""
    events = admitted(spark, timed(spark, plan, rule.on, query), rule.on, plan.use.judged.remembered_ms)
    return _written(plan, rule, _windows(rule, _refused(events)))


def timed(spark: SparkSession, plan: EnginePlan, on: EventType, query: str) -> DataFrame:
    """Events and the query's ticks, with the watermark that they move."""
    moves = F.lit(not plan.events) & F.col("id").isNotNull()
    moment_ms = F.when(moves, moved_to(F.col("at_ms"), F.col("event.ingest_ms")))
    events = _read(spark, plan, on).withColumn("clock_ms", moment_ms)
    moments = ticks(spark, query).withColumn("clock_ms", F.col("at_ms"))
    # Spark requests the sources' ends in this order, so the events that belong to a tick are read with it.
    first, second = (moments, events) if plan.events else (events, moments)
    both = first.unionByName(second, allowMissingColumns=True)
    return watermarked(both, F.col("clock_ms")).drop(CLOCK, "clock_ms")


def _read(spark: SparkSession, plan: EnginePlan, on: EventType) -> DataFrame:
    read = topics.source(spark, plan.bootstrap, [plan.topics[on.name]]).withColumn(
        "event", topics.parsed(on, F.col("value"))
    )
    is_whole = topics.is_whole(on, "event")
    return read.select(
        *("topic", "partition", "offset", "ingest_ms", "event"),
        F.when(is_whole, F.col(f"event.{on.key}")).otherwise("").alias("event_key"),
        F.when(is_whole, F.col(f"event.{on.id}")).alias("id"),
        F.when(is_whole, F.col(f"event.{on.time}")).alias("at_ms"),
        F.lit(False).alias("is_tick"),
    )


def admitted(spark: SparkSession, events: DataFrame, on: EventType, remembered_ms: int) -> DataFrame:
    """Each event once, with whether it is late."""
    step = spark._jvm.millrace.spark.Admit
    return DataFrame(step.over(events._jdf, "event_key", "id", "at_ms", remembered_ms), spark)


def _refused(events: DataFrame) -> DataFrame:
    """Events with the reason if they are refused, and their time in a window."""
    is_unreadable = F.col("id").isNull() & ~F.col("is_tick")
    reason = F.when(is_unreadable, F.lit(UNREADABLE)).when(F.col("is_late"), F.lit(LATE))
    # A refused event takes the same path, as a window of its own that no other event joins and that closes soon.
    time_ms = F.when(reason.isNull(), F.col("at_ms")).otherwise(F.col("watermark_ms") + 1)
    timed = (
        events.withColumn("reason", reason)
        .withColumn("time", F.timestamp_millis(time_ms))
        .withWatermark("time", f"{WATERMARK_DELAY_MS} milliseconds")
    )
    # The filter must read the time: Spark moves any other one before the watermark, which ticks then would not move.
    is_event = F.when(F.col("is_tick"), F.lit(None)).otherwise(F.col("time")).isNotNull()
    return timed.filter(is_event)


def _windows(rule: WindowRule, events: DataFrame) -> DataFrame:
    """The sessions of each key. Spark joins sessions that touch, so a gap of exactly gap_ms is inside."""
    place = F.concat_ws("/", "topic", "partition", "offset")
    group = F.when(F.col("reason").isNull(), F.col(f"event.{rule.key}")).otherwise(place)
    window = F.session_window("time", f"{rule.window.gap_ms} milliseconds")
    is_late = F.col("reason") == LATE
    return events.groupBy(window, "reason", group.alias("group")).agg(
        *(_measured(measure).alias(f"w_{name}") for name, measure in rule.measures.items()),
        F.array_sort(F.collect_list("id")).alias("ids"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.max(f"event.{rule.on.key}").alias("customer"),
        F.max("event.sent_ms").alias("sent_ms"),
        F.max(F.coalesce("event.ingest_ms", "ingest_ms")).alias("ingest_ms"),
        # The window of a refused event has one event. Its place is that of the raw message, if that is readable.
        F.max(F.when(is_late, F.col("event.source_topic")).otherwise(F.col("topic"))).alias("topic"),
        F.max(F.when(is_late, F.col("event.source_partition")).otherwise(F.col("partition"))).alias("partition"),
        F.max(F.when(is_late, F.col("event.source_offset")).otherwise(F.col("offset"))).alias("offset"),
    )


def _written(plan: EnginePlan, rule: WindowRule, windows: DataFrame) -> DataFrame:
    is_refused = F.col("reason").isNotNull()
    has_fired = compiled(rule.condition, lambda field: F.col(f"w_{field.name}"))
    letter = dead_letter(plan, WINDOWS, F.lit(None).cast("string"))
    sent = F.when(is_refused, letter).when(has_fired, _alert(plan, rule))
    return windows.select(sent.alias("message")).filter(F.col("message").isNotNull()).select("message.*")


def _alert(plan: EnginePlan, rule: WindowRule) -> Column:
    measured = {name: F.col(f"w_{name}") for name in rule.measures}
    values = {
        "customer": F.col("customer"),
        "transaction_ids": F.col("ids"),
        "operands": operands(measured | {name: F.col(name) for name in WINDOW_SPAN}),
        "at_ms": F.col("last_ms"),
        "sent_ms": F.col("sent_ms"),
        "ingest_ms": F.col("ingest_ms"),
    }
    return alert(plan, rule, F.col("group"), F.concat_ws(",", "ids"), values)


def numbers(spark: SparkSession, plan: EnginePlan, of: WindowSummary, query: str) -> DataFrame:
    """The numbers of each window and key, written again whenever they change: the last ones count.

    Spark drops events behind the watermark without a trace, so ticks of this query follow the windows of rules: what
    those admit is in the numbers, too.
    """
    # Nothing waits for this watermark, so it may be far behind: farther than the clock of an accepted event is ahead.
    behind = f"{plan.use.judged.future_ms + OUT_OF_ORDER_MS} milliseconds"
    events, moments = (
        each.withColumn("time", F.timestamp_millis("at_ms"))
        for each in (_read(spark, plan, of.on), ticks(spark, query))
    )
    if plan.events or plan.window_rules:
        # The first part of a union defines its columns: ticks alone move this watermark, events are compared with it.
        both = moments.withWatermark("time", behind).unionByName(events, allowMissingColumns=True)
        # No tick is before 1970, but Spark cannot infer that: if it could, it would drop all ticks, and time with them.
        counted = both.filter(~F.col("is_tick") | (F.col("time") < F.timestamp_millis(F.lit(0))))
    else:
        counted = events.withWatermark("time", behind)
    keys = (F.col(f"event.{key}").alias(key) for key in of.keys)
    distinct = counted.dropDuplicatesWithinWatermark(["event_key", "id"])
    rows = distinct.groupBy(F.window("time", f"{of.window.size_ms} milliseconds"), *keys).agg(
        *(_measured(measure).alias(name) for name, measure in of.measures.items())
    )
    start_ms = F.unix_millis("window.start")
    values = {
        "summary": F.lit(of.name),
        "window_start_ms": start_ms,
        "window_end_ms": F.unix_millis("window.end"),
        **{name: F.col(name) for name in (*of.keys, *of.measures)},
        "emit_ms": topics.now_ms(),
    }
    key = F.concat_ws("|", start_ms, *of.keys)
    return rows.select(
        topics.message(plan.topics[WINDOWS_TOPIC], key, row(of.columns, values)).alias("message")
    ).select("message.*")


def _measured(measure: WindowMeasure) -> Column:
    if measure.op == "count":
        return F.count(F.lit(1))
    column = F.col(f"event.{measure.field}")
    return {"sum": F.try_sum, "max": F.max, "min": F.min}[measure.op](column)
