"""The windows stage: alerts on complete windows, and the numbers for the charts.

Event time follows the newest event, but never runs ahead of the wall clock: a customer whose clock is wrong by minutes
would otherwise make everybody else late. An event that is more than OUT_OF_ORDER_MS behind is late: it becomes a dead
letter and is in no window. Everything else is in exactly one.

Another engine writes events one by one, as they arrived, and each moves the time. Spark's own per-event stage writes a
batch key by key, so that half a batch in the topic is all of some customers and nothing of others: here time moves
only when the batch is done, and the driver tells it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.engines.spark.clock import BEHIND_MS, CLOCK, moved_to, watermarked
from millrace.engines.spark.events import alert_id, texts
from millrace.engines.spark.expressions import compiled
from millrace.patterns import EnginePlan
from millrace.patterns.plan import WINDOWS_TOPIC
from millrace.rules import ALERTS, DEAD_LETTERS, OUT_OF_ORDER_MS, EventType, WindowRule, WindowSummary
from millrace.rules.measures import WindowMeasure

STAGE = "windows"
LATE, UNREADABLE = "late", "json"


def findings(spark: SparkSession, plan: EnginePlan, rule: WindowRule, clock: str) -> DataFrame:
    """What a window rule writes: an alert for each window that it holds for, a dead letter for each late event."""
    events = admitted(spark, timed(spark, plan, rule.on, clock), rule.on, plan.use.judged.remembered_ms)
    return _told(plan, rule, _windows(rule, _lettered(rule.on, events)))


def timed(spark: SparkSession, plan: EnginePlan, on: EventType, clock: str) -> DataFrame:
    """Ticks of the clock and events, with the watermark that they move."""
    moves = F.lit(not plan.events) & F.col("id").isNotNull()
    moment_ms = F.when(moves, moved_to(F.col("at_ms"), F.col("event.ingest_ms")))
    events = _read(spark, plan, on).withColumn("clock_ms", moment_ms)
    ticks = _ticks(spark, clock).withColumn("clock_ms", F.col("at_ms"))
    # Spark asks its sources in this order how far they are: what a tick says of the stage before is in the topic then.
    first, second = (ticks, events) if plan.events else (events, ticks)
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


def _ticks(spark: SparkSession, clock: str) -> DataFrame:
    ticks = spark.readStream.format("millrace.spark.Ticks").option("clock", clock).load()
    return ticks.select("at_ms", F.lit("").alias("event_key"), F.lit(True).alias("is_tick"))


def admitted(spark: SparkSession, events: DataFrame, on: EventType, remembered_ms: int) -> DataFrame:
    """Each event once, with whether it is late."""
    step = spark._jvm.millrace.spark.Admit
    return DataFrame(step.over(events._jdf, "event_key", "id", "at_ms", remembered_ms), spark)


def _lettered(on: EventType, events: DataFrame) -> DataFrame:
    """Events with a reason if they are not to be counted, and the time at which they stand in a window."""
    is_unreadable = F.col("id").isNull() & ~F.col("is_tick")
    reason = F.when(is_unreadable, F.lit(UNREADABLE)).when(F.col("is_late"), F.lit(LATE))
    # What is not counted takes the same road, as a window of its own that nothing joins and that closes soon.
    time_ms = F.when(reason.isNull(), F.col("at_ms")).otherwise(F.col("watermark_ms") + 1)
    timed = (
        events.withColumn("reason", reason)
        .withColumn("time", F.timestamp_millis(time_ms))
        .withWatermark("time", f"{BEHIND_MS} milliseconds")
    )
    # It reads the time on purpose: a filter that does not is moved before the watermark, and ticks would not move it.
    is_event = F.when(F.col("is_tick"), F.lit(None)).otherwise(F.col("time")).isNotNull()
    return timed.filter(is_event)


def _windows(rule: WindowRule, events: DataFrame) -> DataFrame:
    """The sessions of each key. Spark joins sessions that touch, so its gap is the longest that is still inside."""
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
        # Of a window with one event, the place of that event: of the raw message, if that can be read.
        F.max(F.when(is_late, F.col("event.source_topic")).otherwise(F.col("topic"))).alias("topic"),
        F.max(F.when(is_late, F.col("event.source_partition")).otherwise(F.col("partition"))).alias("partition"),
        F.max(F.when(is_late, F.col("event.source_offset")).otherwise(F.col("offset"))).alias("offset"),
    )


def _told(plan: EnginePlan, rule: WindowRule, windows: DataFrame) -> DataFrame:
    is_letter = F.col("reason").isNotNull()
    is_so = compiled(rule.condition, lambda field: F.col(f"w_{field.name}"))
    sent = F.when(is_letter, _dead_letter(plan)).when(is_so, _alert(plan, rule))
    return windows.select(sent.alias("message")).filter(F.col("message").isNotNull()).select("message.*")


def _alert(plan: EnginePlan, rule: WindowRule) -> Column:
    measured = {name: F.col(f"w_{name}") for name in rule.measures}
    values = {
        "alert_id": alert_id(rule.name, rule.version, F.col("group"), F.concat_ws(",", "ids")),
        "rule": F.lit(rule.name),
        "rule_version": F.lit(rule.version),
        "key": F.col("group"),
        "customer": F.col("customer"),
        "transaction_ids": F.col("ids"),
        "operands": texts(measured | {name: F.col(name) for name in ("first_ms", "last_ms")}),
        "at_ms": F.col("last_ms"),
        "sent_ms": F.col("sent_ms"),
        "ingest_ms": F.col("ingest_ms"),
        "emit_ms": topics.now_ms(),
    }
    return topics.message(plan.topics[ALERTS.name], F.col("customer"), values)


def _dead_letter(plan: EnginePlan) -> Column:
    values = {name: F.col(name) for name in ("reason", "topic", "partition", "offset", "ingest_ms")}
    values |= {"stage": F.lit(STAGE), "value_base64": F.lit(None).cast("string")}
    return topics.message(plan.topics[DEAD_LETTERS.name], F.col("topic"), values)


def summary(spark: SparkSession, plan: EnginePlan, of: WindowSummary, clock: str) -> DataFrame:
    """The numbers of each window and key, again whenever they change: the last ones are the right ones.

    Spark drops what is behind the watermark, and says nothing. So no other time is told here than the windows of rules
    have counted with before: what they admit is in the numbers, too.
    """
    # Nothing waits for this watermark, so it may be far behind: behind any clock that an event may be wrong by.
    behind = f"{plan.use.judged.future_ms + OUT_OF_ORDER_MS} milliseconds"
    events, ticks = (
        each.withColumn("time", F.timestamp_millis("at_ms"))
        for each in (_read(spark, plan, of.on), _ticks(spark, clock))
    )
    if plan.events or plan.window_rules:
        # What a column of a union is, its first part says: events are held against this watermark, and do not move it.
        told = ticks.withWatermark("time", behind).unionByName(events, allowMissingColumns=True)
        # No tick is before 1970. To Spark one may be; else it would leave out all ticks, and no time would move.
        counted = told.filter(~F.col("is_tick") | (F.col("time") < F.timestamp_millis(F.lit(0))))
    else:
        counted = events.withWatermark("time", behind)
    keys = (F.col(f"event.{key}").alias(key) for key in of.keys)
    distinct = counted.dropDuplicatesWithinWatermark(["event_key", "id"])
    numbers = distinct.groupBy(F.window("time", f"{of.window.size_ms} milliseconds"), *keys).agg(
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
    return numbers.select(topics.message(plan.topics[WINDOWS_TOPIC], key, values).alias("message")).select("message.*")


def _measured(measure: WindowMeasure) -> Column:
    if measure.op == "count":
        return F.count(F.lit(1))
    column = F.col(f"event.{measure.field}")
    return {"sum": F.try_sum, "max": F.max, "min": F.min}[measure.op](column)
