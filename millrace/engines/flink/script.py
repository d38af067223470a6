"""The per-event stage and the windows of a use as one list of Flink SQL statements, authored from the declarations."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace.engines.flink import topics
from millrace.engines.flink.expressions import compiled, interval, quoted, text
from millrace.engines.flink.folds import steps_of
from millrace.engines.flink.topics import AT, INGEST_MS, OFFSET, PARTITION, REFUSED, STREAM, TOPIC, TYPES, VALUE
from millrace.engines.flink.tuning import LATE_MARGIN_MS
from millrace.patterns import EnginePlan
from millrace.patterns.plan import WINDOWS_TOPIC
from millrace.rules import ALERTS, DEAD_LETTERS, EventRule, FoldRule, WindowRule, WindowSummary
from millrace.rules.expressions import Field
from millrace.rules.measures import Measure, WindowMeasure
from millrace.rules.rules import window_kinds
from millrace.rules.stages import EventStage

FOUND = "_found"
"""Prefix of the columns that hold what each rule in plain Python found: its operands as text, or null."""
FUNCTIONS = {
    "remember": "millrace.flink.Remember",
    "fold": "millrace.flink.Fold",
    "look_up": "millrace.flink.LookUp",
    "km": "millrace.flink.Km",
    "millis": "millrace.flink.Millis",
    "base64": "millrace.flink.Base64",
}
ARRIVALS, REFERENCES = "arrivals", "references"
EVENTS, WINDOWS = "events", "windows"  # the stages that a dead letter may come from


@dataclass(frozen=True)
class Script:
    """What to run: definitions and views one by one, then the inserts all together as one job.

    Views are queries and no statements of their own: CREATE VIEW cannot write down a call with PARTITION BY.
    """

    definitions: tuple[str, ...]
    views: Mapping[str, str]
    inserts: tuple[str, ...]


def event_stage(plan: EnginePlan) -> EventStage:
    """What the per-event rules of the plan remember together."""
    return EventStage(plan.use, plan.event_rules)


def script(plan: EnginePlan) -> Script:
    """The plan as Flink SQL."""
    found = [*alerts(plan), *(window_alerts(plan, rule) for rule in plan.window_rules)]
    inserts = [
        _insert(plan.use.enriched.name, [enriched(plan)]),
        _insert(ALERTS.name, found),
        _insert(DEAD_LETTERS.name, list(dead_letters(plan))),
        *(_insert(_summary_table(each), [window_numbers(each)]) for each in plan.window_summaries),
    ]
    return Script((*_functions(), *_tables(plan)), dict(_views(plan)), tuple(insert for insert in inserts if insert))


def _functions() -> Iterator[str]:
    for name, implementation in FUNCTIONS.items():
        yield f"CREATE TEMPORARY SYSTEM FUNCTION {name} AS '{implementation}'"


def _tables(plan: EnginePlan) -> Iterator[str]:
    use = plan.use
    yield topics.arrivals(ARRIVALS, plan)
    if use.references:
        yield topics.references(REFERENCES, plan)
    for written in (use.enriched, ALERTS, DEAD_LETTERS):
        yield topics.sink(written.name, written, plan.topics[written.name], plan.bootstrap)
    for summary in plan.window_summaries:
        yield topics.sink_of(
            _summary_table(summary),
            _summary_columns(summary),
            summary.keys[0],
            plan.topics[WINDOWS_TOPIC],
            plan.bootstrap,
        )


def _views(plan: EnginePlan) -> Iterator[tuple[str, str]]:
    yield "looked_up", looked_up(plan)
    yield "known", "SELECT * FROM looked_up WHERE _unknown IS NULL"
    yield "remembered", remembered(plan)
    if plan.fold_rules:
        columns = ", ".join(map(quoted, folded_columns(plan)))
        yield "unfolded", f"SELECT {columns}, rowtime AS {AT} FROM remembered WHERE NOT _duplicate"
        yield "judged", folded(plan)
    else:
        yield "judged", "SELECT * FROM remembered WHERE NOT _duplicate"
    if plan.window_rules or plan.window_summaries:
        late = f"rowtime <= CURRENT_WATERMARK(rowtime) + {interval(LATE_MARGIN_MS)}"
        yield "timed", f"SELECT *, COALESCE({late}, FALSE) AS _late FROM judged"
        yield "timely", "SELECT * FROM timed WHERE NOT _late"


def looked_up(plan: EnginePlan) -> str:
    """What arrived and can be read, with what reference data says, and the first reference that does not know an event.

    From here to the memory all streams go the same single way: where ways part and meet again, order is lost. What the
    events of side streams are looked up by is of no account.
    """
    use = plan.use
    joins, taken, unknown = [], [], []
    for i, lookup in enumerate(use.enrichment.lookups):
        call = f"look_up({text(plan.reference(lookup))}, e.{quoted(lookup.by)})"
        names = ", ".join(quoted(name) for name in lookup.take)
        joins.append(f", LATERAL TABLE({call}) AS l{i}(known, {names})")
        taken += [f"l{i}.{quoted(name)}" for name in lookup.take]
        unknown.append(f"WHEN NOT l{i}.known THEN {text('unknown:' + lookup.reference.name)}")
    aside = f"WHEN e.{STREAM} <> {text(use.judged.name)} THEN CAST(NULL AS STRING)"
    first_unknown = f"CASE {' '.join([aside, *unknown])} END" if unknown else "CAST(NULL AS STRING)"
    columns = ", ".join(["e.*", *taken, f"{first_unknown} AS _unknown"])
    return f"SELECT {columns} FROM {ARRIVALS} AS e{''.join(joins)} WHERE e.{REFUSED} IS NULL"


def remembered(plan: EnginePlan) -> str:
    """Each known event with what its key's earlier events left behind."""
    judged = plan.use.judged
    declaration = {
        "stream": judged.name,
        "id": judged.id,
        "remembered_ms": judged.remembered_ms,
        "measures": event_stage(plan).measures,
        "columns": _columns_of_streams(plan),
        "passes": bool(plan.fold_rules),
    }
    return (
        f"SELECT * FROM remember(events => TABLE known PARTITION BY {quoted(judged.key)}, "
        f"declaration => {text(json.dumps(declaration))}, on_time => DESCRIPTOR({AT}), uid => 'remember')"
    )


def folded(plan: EnginePlan) -> str:
    """Each judged event with what rules in plain Python find in it."""
    use = plan.use
    declaration = {
        "stream": use.judged.name,
        "columns": _columns_of_streams(plan),
        "rules": len(plan.fold_rules),
        "python": sys.executable,
        # The interpreter inside the worker knows neither its own environment nor ours.
        "paths": [str(Path(__file__).parents[3]), sysconfig.get_path("purelib")],
        "steps": steps_of(plan.fold_rules),
    }
    return (
        f"SELECT * FROM fold(events => TABLE unfolded PARTITION BY {quoted(use.judged.key)}, "
        f"declaration => {text(json.dumps(declaration))}, on_time => DESCRIPTOR({AT}), uid => 'fold')"
    )


def _columns_of_streams(plan: EnginePlan) -> dict[str, dict[str, str]]:
    return {stream.name: topics.columns_of(plan.use, stream) for stream in plan.use.raw}


def folded_columns(plan: EnginePlan) -> list[str]:
    """What must get through a fold, so that everything behind it still finds its columns."""
    use = plan.use
    taken = [name for lookup in use.enrichment.lookups for name in lookup.take]
    own = dict.fromkeys(column for columns in _columns_of_streams(plan).values() for column in columns.values())
    return [*own, *taken, *event_stage(plan).columns, STREAM, *topics.ADDED]


def enriched(plan: EnginePlan) -> str:
    """The events of the intermediate topic."""
    use, stage = plan.use, event_stage(plan)
    values = {f.name: quoted(f.name) for f in use.judged.fields}
    values |= {name: quoted(name) for lookup in use.enrichment.lookups for name in lookup.take}
    column = _columns(stage, use.enrichment.remembers)
    values |= {name: compiled(made, column) for name, made in use.enrichment.built.items()}
    values |= {
        "flags": _flags(plan),
        "source_topic": TOPIC,
        "source_partition": PARTITION,
        "source_offset": OFFSET,
        "ingest_ms": INGEST_MS,
    }
    return f"SELECT {', '.join(values[f.name] for f in use.enriched.fields)} FROM judged"


def _flags(plan: EnginePlan) -> str:
    stage = event_stage(plan)
    fired = [(_condition(stage, rule), rule.name) for rule in stage.rules]
    fired += [(f"{FOUND}{i} IS NOT NULL", rule.name) for i, rule in enumerate(plan.fold_rules)]
    listed = ", ".join(f"CASE WHEN {condition} THEN {text(name)} END" for condition, name in fired)
    return f"ARRAY_REMOVE(ARRAY[{listed}, CAST(NULL AS STRING)], CAST(NULL AS STRING))"


def alerts(plan: EnginePlan) -> Iterator[str]:
    """For each rule that judges events, its alerts."""
    stage = event_stage(plan)
    for rule in stage.rules:
        column = _columns(stage, rule.remembers)
        operands = _map({_operand(field): compiled(field, column) for field in rule.operands})
        yield _event_alerts(plan, rule, operands, _condition(stage, rule))
    for i, fold in enumerate(plan.fold_rules):
        yield _event_alerts(plan, fold, f"{FOUND}{i}", f"{FOUND}{i} IS NOT NULL")


def _event_alerts(plan: EnginePlan, rule: EventRule | FoldRule, operands: str, condition: str) -> str:
    judged = plan.use.judged
    key, identity = quoted(rule.key), quoted(judged.id or "")
    values = {
        "alert_id": _alert_id(rule, key, identity),
        "rule": text(rule.name),
        "rule_version": text(rule.version),
        "key": key,
        "customer": key,
        "transaction_ids": f"ARRAY[{identity}]",
        "operands": operands,
        "at_ms": quoted(judged.time or ""),
        "sent_ms": "sent_ms",
        "ingest_ms": INGEST_MS,
        "emit_ms": "millis(CURRENT_ROW_TIMESTAMP())",
    }
    columns = ", ".join(values[f.name] for f in ALERTS.fields)
    return f"SELECT {columns} FROM judged WHERE {condition}"


def window_alerts(plan: EnginePlan, rule: WindowRule) -> str:
    """The alerts of a rule that judges complete windows."""
    time, identity, key = quoted(rule.on.time or ""), quoted(rule.on.id or ""), quoted(rule.key)
    measured = {name: _aggregate(measure) for name, measure in rule.measures.items()}
    aggregates = {
        **measured,
        "first_ms": f"MIN({time})",
        "last_ms": f"MAX({time})",
        "_customer": f"MAX({quoted(rule.on.key)})",
        "_ids": f"ARRAY_SORT(ARRAY_AGG({identity}))",
        "_sent_ms": "MAX(sent_ms)",
        "_ingest_ms": f"MAX({INGEST_MS})",
    }
    listed = ", ".join(f"{value} AS {quoted(name)}" for name, value in aggregates.items())
    values = {
        "alert_id": _alert_id(rule, key, "ARRAY_JOIN(_ids, ',')"),
        "rule": text(rule.name),
        "rule_version": text(rule.version),
        "key": key,
        "customer": "_customer",
        "transaction_ids": "_ids",
        "operands": _map({name: quoted(name) for name in [*measured, "first_ms", "last_ms"]}),
        "at_ms": "last_ms",
        "sent_ms": "_sent_ms",
        "ingest_ms": "_ingest_ms",
        "emit_ms": "millis(CURRENT_ROW_TIMESTAMP())",
    }
    columns = ", ".join(values[f.name] for f in ALERTS.fields)
    return (
        f"SELECT {columns} FROM (SELECT {key}, {listed} FROM "
        f"TABLE(SESSION(TABLE timely PARTITION BY {key}, DESCRIPTOR(rowtime), {interval(rule.window.gap_ms)})) "
        f"GROUP BY {key}, window_start, window_end) WHERE {compiled(rule.condition, lambda f: f.name)}"
    )


def window_numbers(summary: WindowSummary) -> str:
    """The rows of a window summary: one for each window and key, when the window is complete."""
    keys = ", ".join(quoted(key) for key in summary.keys)
    measured = ", ".join(_aggregate(measure) for measure in summary.measures.values())
    return (
        f"SELECT {text(summary.name)}, millis(window_start), millis(window_end), {keys}, {measured}, "
        "millis(CURRENT_ROW_TIMESTAMP()) "
        f"FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(rowtime), {interval(summary.window.size_ms)})) "
        f"GROUP BY {keys}, window_start, window_end"
    )


def dead_letters(plan: EnginePlan) -> Iterator[str]:
    """Everything that is not judged or not counted, with the reason."""
    yield _dead(REFUSED, EVENTS, ARRIVALS, f"{REFUSED} IS NOT NULL")
    if plan.use.references:
        yield _dead(REFUSED, EVENTS, quoted(REFERENCES), f"{REFUSED} IS NOT NULL")
    if plan.use.enrichment.lookups:
        yield _dead("_unknown", EVENTS, "looked_up", "_unknown IS NOT NULL")
    yield _dead("'duplicate'", EVENTS, "remembered", "_duplicate")
    if plan.window_rules or plan.window_summaries:
        yield _dead("'late'", WINDOWS, "timed", "_late")


def _dead(reason: str, stage: str, table: str, condition: str) -> str:
    values = {
        "reason": reason,
        "topic": TOPIC,
        "partition": PARTITION,
        "offset": OFFSET,
        "ingest_ms": INGEST_MS,
        "stage": text(stage),
        "value_base64": f"base64({VALUE})",
    }
    columns = ", ".join(values[f.name] for f in DEAD_LETTERS.fields)
    return f"SELECT {columns} FROM {table} WHERE {condition}"


def _condition(stage: EventStage, rule: EventRule) -> str:
    return compiled(rule.condition, _columns(stage, rule.remembers))


def _columns(stage: EventStage, remembers: Mapping[str, Measure]) -> Callable[[Field], str]:
    return lambda field: field.name if field.owner == "now" else stage.column(remembers, field.name)


def _operand(field: Field) -> str:
    return field.name if field.owner == "now" else f"before_{field.name}"


def _summary_table(summary: WindowSummary) -> str:
    return f"{WINDOWS_TOPIC}.{summary.name}"


def _summary_columns(summary: WindowSummary) -> list[str]:
    kinds = {key: summary.on.kind(key) for key in summary.keys} | window_kinds(summary.measures, summary.on)
    return [
        "summary STRING",
        "window_start_ms BIGINT",
        "window_end_ms BIGINT",
        *(f"{quoted(name)} {TYPES[kind]}" for name, kind in kinds.items()),
        "emit_ms BIGINT",
    ]


def _aggregate(measure: WindowMeasure) -> str:
    return "COUNT(*)" if measure.op == "count" else f"{measure.op.upper()}({quoted(measure.field)})"


def _alert_id(rule: EventRule | FoldRule | WindowRule, key: str, ids: str) -> str:
    return f"SUBSTRING(SHA256(CONCAT_WS('|', {text(rule.name)}, {text(rule.version)}, {key}, {ids})), 1, 32)"


def _map(values: Mapping[str, str]) -> str:
    return f"MAP[{', '.join(f'{text(name)}, CAST({value} AS STRING)' for name, value in values.items())}]"


def _insert(table: str, selects: Sequence[str]) -> str:
    return f"INSERT INTO {quoted(table)} {' UNION ALL '.join(selects)}" if selects else ""
