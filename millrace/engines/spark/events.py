"""The per-event stage: every raw message becomes an enriched event with its alerts, or a dead letter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.engines.spark.alerts import alert, operands
from millrace.engines.spark.dead_letters import EVENTS, dead_letter
from millrace.engines.spark.event_time.watermark import moved_to, watermarked
from millrace.engines.spark.expressions import compiled
from millrace.patterns import EnginePlan
from millrace.rules import EventRule
from millrace.rules.expressions import Field
from millrace.rules.measures import Measure
from millrace.rules.memory import StageMemory
from millrace.rules.outputs import FLAGS, operand_name, provenance, row


def messages(spark: SparkSession, plan: EnginePlan) -> DataFrame:
    """The messages that the stage writes: topic, key and value."""
    raw = topics.source(spark, plan.bootstrap, reads(plan), is_real_time=plan.real_time)
    return written(spark, plan, timed(plan, remembered(spark, plan, known(spark, plan, accepted(spark, plan, raw)))))


def reads(plan: EnginePlan) -> Sequence[str]:
    """The topics of the stage."""
    return [plan.topics[each.name] for each in (*plan.use.raw, *plan.use.references)]


def accepted(spark: SparkSession, plan: EnginePlan, raw: DataFrame) -> DataFrame:
    """Every message with its event, in a column named after its stream, or with the reason of its refusal.

    Of reference data, only refused messages: lookups read their references themselves.
    """
    streams = {each.name: each for each in plan.use.raw}
    is_of = {name: F.col("topic") == topic for name, topic in plan.topics.items()}
    aside = [
        F.when(is_of[each.name], topics.read(spark, each, F.col("value"), F.col("ingest_ms"))["reason"])
        for each in plan.use.references
    ]
    is_reference = reduce(Column.__or__, (is_of[each.name] for each in plan.use.references), F.lit(False))
    events = raw.select(
        "*",
        *(
            F.when(is_of[name], topics.read(spark, each, F.col("value"), F.col("ingest_ms"))).alias(name)
            for name, each in streams.items()
        ),
        F.coalesce(*aside, F.lit(None)).alias("aside"),
    ).filter(~is_reference | (F.col("aside").isNotNull() & F.col("value").isNotNull()))
    read = events.select(
        *raw.columns,
        *(F.col(_quoted(name)) for name in streams),
        F.coalesce(*(F.when(is_of[name], F.lit(name)) for name in streams)).alias("stream"),
        F.coalesce(*(_field(name, "reason") for name in streams), F.col("aside")).alias("reason"),
        F.coalesce(*(_field(name, each.key) for name, each in streams.items())).alias("event_key"),
    )
    value, reason = F.col("value"), F.col("reason")
    kept = (
        F.when(is_of[each.name], topics.kept(spark, each, value, reason))
        for each in (*plan.use.raw, *plan.use.references)
    )
    # Before any shuffle or state: what a dead letter must not keep stays in the topic and nowhere else.
    return read.withColumn("value", F.when(reason.isNull(), value).otherwise(F.coalesce(*kept)))


def known(spark: SparkSession, plan: EnginePlan, events: DataFrame) -> DataFrame:
    """Judged events with their reference data as it was when they arrived; one whose key it lacked is refused."""
    judged = plan.use.judged
    for i, lookup in enumerate(plan.use.enrichment.lookups):
        is_judged = (F.col("stream") == judged.name) & F.col("reason").isNull()
        key = F.when(is_judged, _field(judged.name, lookup.by))
        found = topics.looked_up(spark, plan, lookup, key, F.col("ingest_ms"))
        known_i = f"_known_{i}"
        events = events.withColumn(known_i, found)
        is_unknown = F.when(is_judged & F.col(known_i).isNull(), F.lit(f"unknown:{lookup.reference.name}"))
        taken = {_taken(name): _field(known_i, name) for name in lookup.take}
        events = events.withColumns({"reason": F.coalesce("reason", is_unknown), **taken}).drop(known_i)
    return events


def remembered(spark: SparkSession, plan: EnginePlan, events: DataFrame) -> DataFrame:
    """Judged events with the measures over their key's earlier events, and all refused messages."""
    judged, stage = plan.use.judged, StageMemory(plan.use, plan.event_rules)
    if not stage.is_needed:
        return events.filter((F.col("stream") == judged.name) | F.col("reason").isNotNull())
    declaration = {
        "stream": judged.name,
        "streams": [each.name for each in (*plan.use.others, judged)],
        "id": judged.id,
        "remembered_ms": judged.remembered_ms,
        "kept_ms": judged.kept_ms,
        "measures": stage.measures,
    }
    # A refused message needs no state, but takes the same path, so that one query reads each message once.
    place = F.concat_ws("/", "topic", "partition", "offset")
    keyed = events.withColumn("event_key", F.when(F.col("reason").isNull(), F.col("event_key")).otherwise(place))
    step = spark._jvm.millrace.spark.Remember
    return DataFrame(step.over(keyed._jdf, "event_key", json.dumps(declaration)), spark)


def timed(plan: EnginePlan, events: DataFrame) -> DataFrame:
    """The same with a watermark. Nothing here waits for it; each commit records it, for the windows' clock."""
    judged = plan.use.judged
    moment_ms = moved_to(_field(judged.name, judged.time or ""), F.col("ingest_ms"))
    return watermarked(events, F.when(F.col("reason").isNull(), moment_ms), plan.use.disorder_ms)


def written(spark: SparkSession, plan: EnginePlan, events: DataFrame) -> DataFrame:
    """The messages for the intermediate topic, the alerts and the dead letters."""
    stage = StageMemory(plan.use, plan.event_rules)
    is_refused = F.col("reason").isNotNull()
    fired = [(rule, compiled(rule.condition, _column(stage, rule.remembers))) for rule in stage.rules]
    sent = [
        F.when(is_refused, dead_letter(plan, EVENTS, F.base64(topics.masked(spark, F.col("value"))))),
        F.when(~is_refused, _enriched(plan, stage, fired)),
        *(F.when(~is_refused & has_fired, _alert(plan, stage, rule)) for rule, has_fired in fired),
    ]
    # Spark generates no code for a function on arrays, nor for what is computed inside one: so columns come first.
    made = events.select(*(message.alias(f"message_{i}") for i, message in enumerate(sent)))
    messages = made.select(F.explode(F.array(*made.columns)).alias("message"))
    return messages.filter(F.col("message").isNotNull()).select("message.*")


def _enriched(plan: EnginePlan, stage: StageMemory, fired: Sequence[tuple[EventRule, Column]]) -> Column:
    use = plan.use
    names = [F.when(has_fired, F.lit(rule.name)) for rule, has_fired in fired]
    none = F.lit(None).cast("string")
    values = {f.name: _field(use.judged.name, f.name) for f in use.judged.fields}
    values |= {name: F.col(_taken(name)) for lookup in use.enrichment.lookups for name in lookup.take}
    values |= {
        name: compiled(made, _column(stage, use.enrichment.remembers)) for name, made in use.enrichment.built.items()
    }
    values |= {
        FLAGS.name: F.array_except(F.array(*names, none), F.array(none)),
        **provenance(*map(F.col, ("topic", "partition", "offset", "ingest_ms"))),
    }
    ordered = row(use.enriched.names, values)
    return topics.message(plan.topics[use.enriched.name], values[use.enriched.key], ordered)


def _alert(plan: EnginePlan, stage: StageMemory, rule: EventRule) -> Column:
    judged = plan.use.judged
    key = _field(judged.name, rule.key)
    identity = _field(judged.name, judged.id) if judged.id else F.concat_ws("-", "partition", "offset")
    column = _column(stage, rule.remembers)
    values = {
        "subject": key,
        "window_start_ms": F.lit(None).cast("long"),
        "event_ids": F.array(identity),
        "operands": operands({operand_name(field): column(field) for field in rule.operands}),
        "at_ms": _field(judged.name, judged.time or ""),
        "sent_ms": _field(judged.name, "sent_ms"),
        "ingest_ms": F.col("ingest_ms"),
    }
    return alert(plan, rule, key, identity, values)


def _column(stage: StageMemory, remembers: Mapping[str, Measure]) -> Callable[[Field], Column]:
    judged = stage.use.judged

    def column(field: Field) -> Column:
        if field.owner == "now":
            return _field(judged.name, field.name)
        return F.col(stage.column(remembers, field.name))

    return column


def _taken(name: str) -> str:
    """The column of a field of reference data: no column beside it has such a name."""
    return f"_taken_{name}"


def _field(stream: str, name: str) -> Column:
    return F.col(f"{_quoted(stream)}.{_quoted(name)}")


def _quoted(name: str) -> str:
    return f"`{name}`"
