"""The windows stage: alerts on complete windows, and the numbers for the charts.

An event that is farther behind event time than the use's disorder is late: it becomes a dead letter and is in no
window. Every other event is in all windows of its time. The package event_time describes what moves event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.engines.spark.alerts import alert, operands
from millrace.engines.spark.dead_letters import WINDOWS, dead_letter
from millrace.engines.spark.event_time.ticks import ticks
from millrace.engines.spark.event_time.watermark import CLOCK, delay, moved_to, watermarked
from millrace.engines.spark.expressions import compiled
from millrace.engines.spark.layouts import is_wide
from millrace.patterns import EnginePlan
from millrace.rules import Count, EventType, Last, Session, Sliding, Window, WindowRule, WindowSummary
from millrace.rules.events import WHOLE_LEAST, WHOLE_MOST
from millrace.rules.expressions import fields_of
from millrace.rules.outputs import LATE, PROVENANCE, WINDOW_SPAN, WINDOWS_TOPIC, names, row

UNREADABLE = "json"
SPAN = "_span"
"""The column of a summary's windows: a key or a measure may be called `window`, as Spark calls it."""


def messages(spark: SparkSession, plan: EnginePlan, query: str) -> DataFrame:
    """The messages of all rules: an alert for each window that fulfils one, a dead letter for each late event.

    They are one query, and read each batch with one watermark: no rule counts what another calls late.
    """
    events = _refused(admitted(spark, timed(spark, plan, query), plan.use.judged), plan.use.disorder_ms)
    soonest = min(plan.window_rules, key=lambda rule: rule.window.closes_after_ms)
    written = (_written(plan, rule, _windows(rule, events), letters=rule is soonest) for rule in plan.window_rules)
    return reduce(DataFrame.union, written)


def timed(spark: SparkSession, plan: EnginePlan, query: str) -> DataFrame:
    """Events and the query's ticks, with the watermark that they move."""
    moves = F.lit(not plan.judges_events) & F.col("id").isNotNull() & ~F.col("is_backlog")
    moment_ms = F.when(moves, moved_to(F.col("at_ms"), F.col("event.ingest_ms")))
    events = _read(spark, plan, *plan.window_rules, headers=True).withColumn("clock_ms", moment_ms).drop("is_backlog")
    moments = ticks(spark, query).withColumn("clock_ms", F.col("at_ms"))
    # Spark requests the sources' ends in this order, so the events that belong to a tick are read with it.
    first, second = (moments, events) if plan.judges_events else (events, moments)
    both = first.unionByName(second, allowMissingColumns=True)
    return watermarked(both, F.col("clock_ms"), plan.use.disorder_ms).drop(CLOCK, "clock_ms")


def _read(spark: SparkSession, plan: EnginePlan, *of: WindowRule | WindowSummary, headers: bool = False) -> DataFrame:
    on = plan.use.enriched
    messages = topics.source(spark, plan.bootstrap, [plan.topics[on.name]], headers=headers)
    # Not the whole event: each field of each row is converted for Java and back on its way through a step of ours.
    read = messages.withColumn("event", topics.parsed(on, F.col("value"), frozenset().union(*map(_fields_read, of))))
    is_whole = topics.is_whole(on, "event")
    return read.select(
        *("topic", "partition", "offset", "ingest_ms", "event"),
        F.when(is_whole, F.col(f"event.{on.key}")).otherwise("").alias("event_key"),
        F.when(is_whole, topics.identity_of(on, "event")).alias("id"),
        F.when(is_whole, F.col(f"event.{on.time}")).alias("at_ms"),
        F.lit(False).alias("is_tick"),
        *(["is_backlog"] if headers else []),
    )


def _fields_read(of: WindowRule | WindowSummary) -> frozenset[str]:
    """The fields of an event that its windows need."""
    own = of.keys if isinstance(of, WindowSummary) else (of.key, "sent_ms")
    identity = (of.on.key, of.on.id, of.on.time, *names(PROVENANCE))
    measured = (field for name in of.measures for field in _fields_measured(name, of))
    return frozenset(name for name in (*own, *identity, *measured) if name)


def _fields_measured(name: str, of: WindowRule | WindowSummary) -> Sequence[str]:
    match of.measures[name]:
        case Count():
            return [field.name for field in fields_of(of.where[name])] if name in of.where else []
        case Last(fields=fields):
            return fields
        case measure:
            return [measure.field]


def admitted(spark: SparkSession, events: DataFrame, judged: EventType) -> DataFrame:
    """Each event once, with whether it is late."""
    step, named = spark._jvm.millrace.spark.Admit, ("event_key", "id", "at_ms", "arrived_ms")
    arrived = events.withColumn("arrived_ms", F.col("event.ingest_ms"))
    if judged.id:
        once = step.over(arrived._jdf, *named, judged.remembered_ms, judged.kept_ms)
    else:
        placed = arrived.withColumns({name: F.col(f"event.{name}") for name in topics.PLACE})
        once = step.overPlaces(placed._jdf, *named, *topics.PLACE)
    return DataFrame(once, spark)


def _refused(events: DataFrame, disorder_ms: int) -> DataFrame:
    """Events with the reason if they are refused, and their time in a window."""
    is_unreadable = F.col("id").isNull() & ~F.col("is_tick")
    reason = F.when(is_unreadable, F.lit(UNREADABLE)).when(F.col("_is_late"), F.lit(LATE))
    # A refused event takes the same path, as a window of its own that no other event joins and that closes soon.
    time_ms = F.when(reason.isNull(), F.col("at_ms")).otherwise(F.col("_watermark_ms") + 1)
    timed = (
        events.withColumn("reason", reason)
        .withColumn("time", F.timestamp_millis(time_ms))
        .withWatermark("time", delay(disorder_ms))
    )
    # The filter must read the time: Spark moves any other one before the watermark, which ticks then would not move.
    is_event = F.when(F.col("is_tick"), F.lit(None)).otherwise(F.col("time")).isNotNull()
    return timed.filter(is_event)


def _windows(rule: WindowRule, events: DataFrame) -> DataFrame:
    """The windows of each key. Spark joins sessions that touch, so a gap of exactly gap_ms is inside."""
    place = F.concat_ws("/", "topic", "partition", "offset")
    group = F.when(F.col("reason").isNull(), F.col(f"event.{rule.key}")).otherwise(place)
    is_late = F.col("reason") == LATE
    # A refused event is in every window of its time; the one that it enters last tells its place.
    ids = [F.slice(F.array_sort(F.collect_list("id")), 1, rule.ids_most).alias("ids")] if rule.on.id else []
    placed = [F.max(F.unix_millis("time")).alias("placed_ms")] if isinstance(rule.window, Sliding) else []
    return events.groupBy(_window(rule.window), "reason", group.alias("group")).agg(
        *placed,
        *(_measured(name, rule).alias(f"w_{name}") for name in rule.measures),
        *ids,
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.max(f"event.{rule.on.key}").alias("subject"),
        F.max("event.sent_ms").alias("sent_ms"),
        F.max(F.coalesce("event.ingest_ms", "ingest_ms")).alias("ingest_ms"),
        # The window of a refused event has one event. Its place is that of the raw message, if that is readable.
        F.max(F.when(is_late, F.col("event.source_topic")).otherwise(F.col("topic"))).alias("topic"),
        F.max(F.when(is_late, F.col("event.source_partition")).otherwise(F.col("partition"))).alias("partition"),
        F.max(F.when(is_late, F.col("event.source_offset")).otherwise(F.col("offset"))).alias("offset"),
    )


def _written(plan: EnginePlan, rule: WindowRule, windows: DataFrame, *, letters: bool) -> DataFrame:
    """The alerts of a rule, and the dead letters if it writes those of all."""
    is_refused = F.col("reason").isNotNull()
    has_fired = compiled(rule.condition, lambda field: F.col(f"w_{field.name}"))
    letter = dead_letter(plan, WINDOWS, F.lit(None).cast("string")) if letters else F.lit(None)
    sent = F.when(is_refused, letter).when(has_fired, _alert(plan, rule))
    if isinstance(rule.window, Sliding):
        is_latest = _start_ms(rule.window) > F.col("placed_ms") - rule.window.step_ms
        windows = windows.filter(~is_refused | is_latest)
    return windows.select(sent.alias("message")).filter(F.col("message").isNotNull()).select("message.*")


def _alert(plan: EnginePlan, rule: WindowRule) -> Column:
    measured = {name: F.col(f"w_{name}") for name in rule.measures}
    start_ms = _start_ms(rule.window)
    values = {
        "subject": F.col("subject"),
        "window_start_ms": start_ms,
        "event_ids": F.col("ids") if rule.on.id else F.array().cast("array<string>"),
        "operands": operands(measured | {name: F.col(name) for name in WINDOW_SPAN}),
        "at_ms": F.col("last_ms"),
        "sent_ms": F.col("sent_ms"),
        "ingest_ms": F.col("ingest_ms"),
    }
    return alert(plan, rule, F.col("group"), start_ms.cast("string"), values)


def numbers(spark: SparkSession, plan: EnginePlan, of: WindowSummary, query: str) -> DataFrame:
    """The numbers of each window and key, written again whenever they change: the last ones count.

    Spark drops events behind the watermark without a trace, so ticks of this query follow the windows of rules: what
    those admit is in the numbers, too. Without rules, they follow the per-event stage.
    """
    # As far behind as the windows of rules, and not farther: Spark keeps each id for twice as long, and in every batch
    # it looks through all that it keeps. Without rules there are no dead letters of what this drops as late.
    farther_ms = 0 if plan.window_rules else plan.use.judged.future_ms
    behind = delay(plan.use.disorder_ms + farther_ms)
    events, moments = (
        each.withColumn("time", F.timestamp_millis("at_ms")) for each in (_read(spark, plan, of), ticks(spark, query))
    )
    # The first part of a union defines its columns: ticks alone move this watermark, events are compared with it.
    both = moments.withWatermark("time", behind).unionByName(events, allowMissingColumns=True)
    # No tick is before 1970, but Spark cannot infer that: if it could, it would drop all ticks, and time with them.
    counted = both.filter(~F.col("is_tick") | (F.col("time") < F.timestamp_millis(F.lit(0))))
    span = _window(of.window).alias(SPAN)
    keys = (F.col(f"event.{key}").alias(key) for key in of.keys)
    distinct = counted.dropDuplicatesWithinWatermark(["event_key", "id"])
    rows = distinct.groupBy(span, *keys).agg(*(_measured(name, of).alias(name) for name in of.measures))
    start_ms = F.unix_millis(f"{SPAN}.start")
    values = {
        "summary": F.lit(of.name),
        "window_start_ms": start_ms,
        "window_end_ms": F.unix_millis(f"{SPAN}.end"),
        **{name: F.col(name) for name in (*of.keys, *of.measures)},
        "emit_ms": topics.now_ms(),
    }
    key = F.concat_ws("|", start_ms, *of.keys)
    return rows.select(
        topics.message(plan.topics[WINDOWS_TOPIC], key, row(of.columns, values)).alias("message")
    ).select("message.*")


def _window(window: Window) -> Column:
    match window:
        case Session(gap_ms=gap_ms):
            return F.session_window("time", f"{gap_ms} milliseconds")
        case Sliding(size_ms=size_ms, step_ms=step_ms):
            return F.window("time", f"{size_ms} milliseconds", f"{step_ms} milliseconds")
        case _:
            return F.window("time", f"{window.size_ms} milliseconds")


def _start_ms(window: Window) -> Column:
    return F.col("first_ms") if isinstance(window, Session) else F.unix_millis("window.start")


def _measured(name: str, of: WindowRule | WindowSummary) -> Column:
    measure = of.measures[name]
    if isinstance(measure, Count):
        where = of.where.get(name)
        return F.count(F.lit(1)) if where is None else F.count_if(compiled(where, lambda f: F.col(f"event.{f.name}")))
    field = measure.fields[0] if isinstance(measure, Last) else measure.field
    column = F.col(f"event.{field}")
    if isinstance(measure, Last):
        arrival = F.struct("event.ingest_ms", "event.source_partition", "event.source_offset")
        return F.max_by(column, F.when(column.isNotNull(), arrival))
    if is_wide(measure, of.on):
        return _within_64_bits(F.sum(column.cast("decimal(19,0)")))
    if measure.op == "distinct":
        return F.size(F.collect_set(column)).cast("long")
    return {"sum": F.try_sum, "max": F.max, "min": F.min}[measure.op](column)


def _within_64_bits(total: Column) -> Column:
    """A whole number at the limit that it would leave."""
    limited = F.when(total > WHOLE_MOST, WHOLE_MOST).when(total < WHOLE_LEAST, WHOLE_LEAST)
    return limited.otherwise(total.cast("long"))
