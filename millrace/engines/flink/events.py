"""The per-event stage as Flink SQL: each arrival is looked up, remembered and judged.

    arrivals -> looked_up -> remembered
                                        -> unfolded -> judged    where a rule is a step in plain Python

Refused messages take this path up to the memory, and end there, in the one task of those without a key; dead_letters.py
lists where each is reported. All streams share the path: where paths part and meet again, order is lost. No step on it
only filters or selects, since Flink would copy every column there once more.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from millrace.engines.flink import topics
from millrace.engines.flink.alerts import alert_columns, operands
from millrace.engines.flink.expressions import compiled, quoted, text
from millrace.engines.flink.folds import steps_of
from millrace.engines.flink.topics import ARRIVALS, AT, BACKLOG, INGEST_MS, OFFSET, PARTITION, REFUSED, STREAM, TOPIC
from millrace.patterns import EnginePlan
from millrace.rules import EventRule, EventType, FoldRule, Lookup, UseCase
from millrace.rules.expressions import Field
from millrace.rules.measures import Measure
from millrace.rules.memory import StageMemory
from millrace.rules.outputs import BACKLOG_HEADER, FLAGS, operand_name, provenance, row

LOOKED_UP, REMEMBERED, UNFOLDED, JUDGED = "looked_up", "remembered", "unfolded", "judged"
UNKNOWN, DUPLICATE = "_unknown", "_duplicate"
HEADERS = "`_headers` MAP<STRING, BYTES> METADATA FROM 'headers'"
"""A column of the intermediate topic's table; an event of a backlog has the header `BACKLOG_HEADER`."""
FOUND = "_found"
"""Prefix of the columns with the operands that each rule in plain Python found, or null."""
PROJECT = Path(__file__).parents[3]


def event_stage(plan: EnginePlan) -> StageMemory:
    """The plan's per-event rules, with their memory in common."""
    return StageMemory(plan.use, plan.event_rules)


def views(plan: EnginePlan) -> Iterator[tuple[str, str]]:
    """The queries from arrivals to judged events, in order, by name."""
    stage, folds = event_stage(plan), plan.fold_rules
    if plan.use.enrichment.lookups:
        yield LOOKED_UP, looked_up(plan.use, plan.reference)
    if stage.is_needed or folds:
        yield REMEMBERED, remembered(stage, passes=bool(folds))
    if folds:
        columns = ", ".join(map(quoted, folded_columns(stage)))
        yield UNFOLDED, f"SELECT {columns}, rowtime AS {AT} FROM {REMEMBERED} WHERE NOT {DUPLICATE}"
        yield JUDGED, folded(plan, folds)


def arrived(use: UseCase) -> str:
    """The view of all messages with their reference data."""
    return LOOKED_UP if use.enrichment.lookups else ARRIVALS


def refusal(use: UseCase) -> str:
    """Why a message of that view is refused, or null."""
    return f"COALESCE({REFUSED}, {UNKNOWN})" if use.enrichment.lookups else REFUSED


def from_judged(stage: StageMemory, folds: Sequence[FoldRule], condition: str = "") -> str:
    """The judged events that meet a condition, as the end of a query."""
    if folds:
        view, is_judged = JUDGED, ""
    elif stage.is_needed:
        view, is_judged = REMEMBERED, f"NOT {DUPLICATE}"
    else:
        view = f"(SELECT *, {AT} AS rowtime FROM {arrived(stage.use)})"
        is_judged = f"{STREAM} = {text(stage.use.judged.name)} AND {refusal(stage.use)} IS NULL"
    conditions = " AND ".join(filter(None, [is_judged, condition and f"({condition})"]))
    return f"FROM {view}" + (conditions and f" WHERE {conditions}")


def looked_up(use: UseCase, reference: Callable[[Lookup], str]) -> str:
    """Arrivals with the reference data of then, and the first reference that lacked a judged event's key.

    Only judged events are looked up, and refused for a missing key; side streams pass.
    """
    lookups = use.enrichment.lookups
    is_judged = f"e.{STREAM} = {text(use.judged.name)} AND e.{REFUSED} IS NULL"
    keys = (f"e.{quoted(lookup.by)}" for lookup in lookups)
    arguments = ", ".join([text(f"[{', '.join(map(reference, lookups))}]"), f"e.{INGEST_MS}", is_judged, *keys])
    found = ", ".join([UNKNOWN, *map(quoted, _taken(use))])
    return f"SELECT * FROM {ARRIVALS} AS e, LATERAL TABLE(look_up({arguments})) AS l({found})"


def remembered(stage: StageMemory, *, passes: bool) -> str:
    """Each event that is not refused with the stage's measures over its key's earlier events.

    Side streams end here, unless a fold behind needs them: it `passes` them on.
    """
    judged = stage.use.judged
    declaration = {
        "stream": judged.name,
        "id": judged.id,
        "remembered_ms": judged.remembered_ms,
        "kept_ms": judged.kept_ms,
        "measures": stage.measures,
        "columns": topics.columns_of_streams(stage.use),
        "passes": passes,
    }
    return (
        f"SELECT * FROM remember(events => TABLE {arrived(stage.use)} PARTITION BY {quoted(judged.key)}, "
        f"declaration => {text(json.dumps(declaration))}, on_time => DESCRIPTOR({AT}), uid => 'remember')"
    )


def folded(plan: EnginePlan, folds: Sequence[FoldRule]) -> str:
    """Each judged event with the findings of rules in plain Python."""
    declaration = {
        "stream": plan.use.judged.name,
        "columns": topics.columns_of_streams(plan.use),
        "rules": len(folds),
        "python": sys.executable,
        # The interpreter inside the worker has neither its own environment nor ours on its path.
        "paths": [str(PROJECT), sysconfig.get_path("purelib")],
        "steps": steps_of(folds, plan.declared),
    }
    return (
        f"SELECT * FROM fold(events => TABLE {UNFOLDED} PARTITION BY {quoted(plan.use.judged.key)}, "
        f"declaration => {text(json.dumps(declaration))}, on_time => DESCRIPTOR({AT}), uid => 'fold')"
    )


def folded_columns(stage: StageMemory) -> list[str]:
    """The columns that a fold passes on, because what follows it reads them."""
    return [*_own(stage.use), *_taken(stage.use), *stage.columns, STREAM, *topics.ADDED]


def enriched(stage: StageMemory, folds: Sequence[FoldRule]) -> str:
    """The events of the intermediate topic, and their headers."""
    use = stage.use
    values = {name: quoted(name) for name in (*use.judged.names, *_taken(use))}
    values |= {**added(stage), FLAGS.name: _flags(stage, folds)}
    headers = f"CASE WHEN {BACKLOG} THEN MAP[CAST({text(BACKLOG_HEADER)} AS STRING), CAST(x'01' AS BYTES)] END"
    columns = ", ".join([*row(use.enriched.names, values).values(), headers])
    return f"SELECT {columns} {from_judged(stage, folds)}"


def added(stage: StageMemory) -> dict[str, str]:
    """What an enriched event has and a judged one has not, by name: computed numbers, and where it comes from."""
    column = _columns(stage, stage.use.enrichment.remembers)
    built = {name: compiled(made, column) for name, made in stage.use.enrichment.built.items()}
    return built | provenance(TOPIC, f"CAST({PARTITION} AS BIGINT)", OFFSET, INGEST_MS)


def alerts(stage: StageMemory, folds: Sequence[FoldRule]) -> Iterator[str]:
    """A query for each rule that judges events."""
    for rule in stage.rules:
        column = _columns(stage, rule.remembers)
        named = operands({operand_name(field): compiled(field, column) for field in rule.operands})
        yield _alerts(stage.use, rule, named, from_judged(stage, folds, _condition(stage, rule)))
    for i, fold in enumerate(folds):
        yield _alerts(stage.use, fold, f"{FOUND}{i}", from_judged(stage, folds, f"{FOUND}{i} IS NOT NULL"))


def _alerts(use: UseCase, rule: EventRule | FoldRule, named_operands: str, from_alerting: str) -> str:
    key, identity = quoted(rule.key), identity_of(use.judged)
    values = {
        "subject": key,
        "window_start_ms": "CAST(NULL AS BIGINT)",
        "event_ids": f"ARRAY[{identity}]",
        "operands": named_operands,
        "at_ms": quoted(use.judged.time or ""),
        "sent_ms": "sent_ms",
        "ingest_ms": INGEST_MS,
    }
    return f"SELECT {alert_columns(rule, key, identity, values)} {from_alerting}"


def identity_of(judged: EventType) -> str:
    """What an event is known by: its id, or else its place in the topic."""
    return quoted(judged.id) if judged.id else f"CONCAT_WS('-', CAST({PARTITION} AS STRING), CAST({OFFSET} AS STRING))"


def _flags(stage: StageMemory, folds: Sequence[FoldRule]) -> str:
    fired = [(_condition(stage, rule), rule.name) for rule in stage.rules]
    fired += [(f"{FOUND}{i} IS NOT NULL", rule.name) for i, rule in enumerate(folds)]
    listed = "".join(f"CASE WHEN {condition} THEN {text(name)} END, " for condition, name in fired)
    return f"ARRAY_REMOVE(ARRAY[{listed}CAST(NULL AS STRING)], CAST(NULL AS STRING))"


def _own(use: UseCase) -> list[str]:
    """The columns of the raw streams."""
    streams = topics.columns_of_streams(use).values()
    return list(dict.fromkeys(column for columns in streams for column in columns.values()))


def _taken(use: UseCase) -> list[str]:
    return [name for lookup in use.enrichment.lookups for name in lookup.take]


def _condition(stage: StageMemory, rule: EventRule) -> str:
    return compiled(rule.condition, _columns(stage, rule.remembers))


def _columns(stage: StageMemory, remembers: Mapping[str, Measure]) -> Callable[[Field], str]:
    return lambda field: field.name if field.owner == "now" else stage.column(remembers, field.name)
