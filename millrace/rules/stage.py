"""A use's stages as plain data, for the engines that interpret them: kernel/Stage.java and kernel/Windows.java."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from millrace.rules.events import EventType
from millrace.rules.expressions import Expression, Field
from millrace.rules.measures import Count, Last, Measure, outputs
from millrace.rules.memory import StageMemory
from millrace.rules.outputs import ALERTS, DEAD_LETTERS, FLAGS, PROVENANCE, operand_name, row
from millrace.rules.rules import EventRule, UseCase, WindowRule, WindowSummary
from millrace.rules.windows import Session, Sliding, Window


def stage_data(use: UseCase, rules: tuple[EventRule, ...]) -> dict[str, Any]:
    """The per-event stage: what it reads, looks up, remembers, judges and writes."""
    stage, judged = StageMemory(use, rules), use.judged
    return {
        "judged": judged.name,
        "id": judged.id,
        "key": judged.key,
        "time": judged.time,
        "remembered_ms": judged.remembered_ms,
        "streams": [_stream(each) for each in use.raw],
        "references": [_stream(each) for each in use.references],
        "lookups": [
            {"reference": each.reference.name, "by": each.by, "take": dict(each.take)}
            for each in use.enrichment.lookups
        ],
        "measures": stage.measures,
        "rules": [_event_rule(stage, rule) for rule in stage.rules],
        "enriched": _enriched(stage),
        **_outputs(),
    }


def windows_data(use: UseCase, rules: Iterable[WindowRule], summaries: Iterable[WindowSummary]) -> dict[str, Any]:
    """The windows stage: its rules and summaries over the events of the intermediate topic."""
    return {
        "columns": list(use.enriched.names),
        "kinds": {each.name: each.kind for each in use.enriched.readable},
        "id": use.enriched.id,
        "key": use.enriched.key,
        "time": use.enriched.time,
        "disorder_ms": use.disorder_ms,
        "rules": [_window_rule(rule) for rule in rules],
        "summaries": [_summary(summary) for summary in summaries],
        **_outputs(),
    }


def _outputs() -> dict[str, Any]:
    return {"alerts": list(ALERTS.names), "dead_letters": list(DEAD_LETTERS.names)}


def _stream(each: EventType) -> dict[str, Any]:
    return {"name": each.name, "key": each.key, "event": json.dumps(each.reader())}


def _event_rule(stage: StageMemory, rule: EventRule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "version": rule.version,
        "condition": rule.condition.as_data(),
        "operands": {operand_name(field): field.as_data() for field in rule.operands},
        "columns": _columns(stage, rule.remembers),
    }


def _columns(stage: StageMemory, remembers: Mapping[str, Measure]) -> dict[str, str]:
    """The stage's column for each name by which a condition calls a remembered value."""
    names = [name for own, measure in remembers.items() for name in outputs(own, measure, stage.use.judged)]
    return {name: stage.column(remembers, name) for name in names}


def _enriched(stage: StageMemory) -> dict[str, Any]:
    """The columns of the intermediate topic, each made of the event, a lookup, the enrichment or the message."""
    use = stage.use
    values: dict[str, Expression] = {f.name: Field("now", f.name, f.kind) for f in use.judged.readable}
    values |= {
        name: Field("looked up", name, use.enriched.kind(name))
        for lookup in use.enrichment.lookups
        for name in lookup.take
    }
    values |= dict(use.enrichment.built)
    values |= {FLAGS.name: Field("message", FLAGS.name, "text")}
    values |= {each.name: Field("message", each.name, each.kind) for each in PROVENANCE}
    columns = {name: value.as_data() for name, value in row(use.enriched.names, values).items()}
    return {"name": use.enriched.name, "columns": columns, "remembers": _columns(stage, use.enrichment.remembers)}


def _window_rule(rule: WindowRule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "version": rule.version,
        "key": rule.key,
        "window": _window(rule.window),
        "measures": _measures(rule),
        "condition": rule.condition.as_data(),
        "operands": list(rule.operands),
        "ids_most": rule.ids_most,
    }


def _summary(summary: WindowSummary) -> dict[str, Any]:
    return {
        "name": summary.name,
        "version": summary.version,
        "keys": list(summary.keys),
        "window": _window(summary.window),
        "measures": _measures(summary),
        "columns": list(summary.columns),
    }


def _window(window: Window) -> dict[str, Any]:
    match window:
        case Session(gap_ms=gap_ms):
            return {"gap_ms": gap_ms}
        case Sliding(size_ms=size_ms, step_ms=step_ms):
            return {"size_ms": size_ms, "step_ms": step_ms}
    return {"size_ms": window.size_ms, "step_ms": window.size_ms}


def _measures(of: WindowRule | WindowSummary) -> list[dict[str, Any]]:
    found = []
    for name, measure in of.measures.items():
        field = measure.fields[0] if isinstance(measure, Last) else getattr(measure, "field", None)
        where = of.where[name].as_data() if isinstance(measure, Count) and name in of.where else None
        found.append({"name": name, "op": measure.op, "field": field, "where": where})
    return found
