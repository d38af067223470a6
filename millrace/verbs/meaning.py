"""What a deployment would change in meaning: the declarations of now beside the deployed ones, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from millrace import registry
from millrace.deployments import deployed, job_name, plans
from millrace.errors import InfraError
from millrace.patterns import EnginePlan, load
from millrace.rules import ENRICHMENT, LIMITS, Enrichment, EventRule, FoldRule, UseCase, WindowRule, WindowSummary
from millrace.rules.measures import signature, text_of
from millrace.rules.tables import NewestFirst, Table
from millrace.stores import topics
from millrace.stores.changes import Action, Change
from millrace.target import Target

VERSION = "version"
NOT_OF_THE_JOB = ("pattern", "generation", "engine", "versions", "tables")
"""Fields of a plan that do not differ, or that the declarations themselves show."""

Fields = Mapping[str, str]
Declared = Mapping[tuple[str, str], Fields]
"""Kind and name of each declaration -> its fields."""


@dataclass(frozen=True)
class Redeclared:
    """One field of a declaration that differs from the deployed one."""

    kind: str
    """A rule, a summary, the enrichment, the limits of events, a table, or the job with what its pattern has of it."""
    name: str
    action: Action
    field: str
    old: str
    """Empty where the field, or the declaration, is new."""
    new: str


@dataclass(frozen=True)
class Meaning:
    """What a job would do otherwise, and from which messages on."""

    job: str
    changes: tuple[Redeclared, ...]
    since: str
    offsets: Mapping[str, Mapping[int, int]]
    """Topic -> partition -> the next message, as far as the job has committed; empty where its engine commits none."""
    note: str = ""
    """Why something could not be compared or read."""


def meaning(target: Target, name: str, changes: Sequence[Change], *, fresh: bool = False) -> list[Meaning]:
    """What differs from the deployed pattern, for each job that `deploy` would change; nothing before the first one."""
    last = deployed(target, name)
    if not last:
        return []
    return [
        _meaning(target, last.get(plan.engine), plan, change, fresh)
        for plan, change in zip(plans(target, load(name)), changes, strict=True)
        if change.action != "keep" and not (plan.engine in last and plan.is_same_as(last[plan.engine]))
    ]


def _meaning(target: Target, last: EnginePlan | None, wanted: EnginePlan, change: Change, fresh: bool) -> Meaning:
    if last is None:
        return Meaning(change.name, tuple(_differences({}, _declared(wanted))), "without earlier state", {})
    job = ("job", f"{wanted.pattern}/{wanted.engine}")
    before, after, notes = _as_deployed(last), _declared(wanted), list[str]()
    if before is None:
        before, after = _versions(last), _versions(wanted)
        notes.append("the deployed declarations cannot be read: only versions are compared")
    found = tuple(_differences({**before, job: _of_job(last)}, {**after, job: _of_job(wanted)}))
    if fresh and registry.manifest(last.engine).forgets_if_fresh:
        return Meaning(change.name, found, "without earlier state", {}, "; ".join(notes))
    offsets: Mapping[str, Mapping[int, int]] = {}
    if last.judges_events and "windows-elsewhere" in registry.manifest(last.engine).can:
        judged = wanted.topics[wanted.use.judged.name]
        try:
            offsets = topics.committed(target.bootstrap, last.pattern, [judged])
        except InfraError as error:
            notes.append(f"the committed offsets could not be read: {error}")
    is_up = change.action == "change"
    since = f"from where {job_name(last)} stops" if is_up else "from the newest savepoint or checkpoint"
    return Meaning(change.name, found, since, offsets, "; ".join(notes))


def _differences(old: Declared, new: Declared) -> Iterator[Redeclared]:
    for kind, name in dict.fromkeys((*new, *old)):
        before, after = old.get((kind, name), {}), new.get((kind, name), {})
        action: Action = "change" if before and after else "create" if after else "remove"
        for each in dict.fromkeys((*after, *before)):
            if before.get(each) != after.get(each):
                yield Redeclared(kind, name, action, each, before.get(each, ""), after.get(each, ""))


def _as_deployed(plan: EnginePlan) -> Declared | None:
    """The declarations that the plan's job runs with; None if there is no copy of them that can be read."""
    if not Path(plan.declared).is_dir():
        return None
    try:
        return _declared(plan)
    except Exception:  # a project's own code is imported, as it was with another version of this library
        return None


def _declared(plan: EnginePlan) -> Declared:
    use, found = plan.use, {key: dict(each) for key, each in _versions(plan).items()}
    for name in (*plan.events, *plan.windows):
        found["rule", name] |= _of_rule(use.rule(name))
    for name in plan.summaries:
        found["summary", name] |= _of_summary(use.summary(name))
    if plan.judges_events:
        found[ENRICHMENT, use.name] |= _of_enrichment(use.enrichment)
    for table in use.tables:
        if table.name in plan.tables:
            found["table", table.name] |= _of_table(table, use)
    return {**found, **_of_limits(use, found[LIMITS, use.name])}


def _versions(plan: EnginePlan) -> Declared:
    kinds = {
        **{name: ("rule", name) for name in (*plan.events, *plan.windows)},
        **{name: ("summary", name) for name in plan.summaries},
        **{name: (name, plan.use_name) for name in (ENRICHMENT, LIMITS)},
    }
    found = {kinds[name]: {VERSION: version} for name, version in plan.versions.items()}
    return found | {("table", name): {VERSION: version} for name, version in plan.tables.items()}


def _of_rule(rule: EventRule | WindowRule | FoldRule) -> Fields:
    match rule:
        case EventRule(on=on):
            remembered = {f"remembers.{name}": signature(each, on) for name, each in rule.remembers.items()}
            return {"on": on.name, "alert_when": rule.expression(), **remembered}
        case WindowRule(on=on):
            own = {"on": on.name, "key": rule.key, "window": repr(rule.window), "ids_most": str(rule.ids_most)}
            return {**own, "alert_when": rule.expression(), **_measured(rule)}
        case FoldRule(on=on):
            return {"on": _text((on.name, *(each.name for each in rule.also))), "step": rule.expression()}


def _of_summary(summary: WindowSummary) -> Fields:
    own = {"on": summary.on.name, "keys": _text(summary.keys), "window": repr(summary.window)}
    return {**own, **_measured(summary)}


def _measured(of: WindowRule | WindowSummary) -> Fields:
    return {f"measures.{name}": text_of(each, of.where.get(name)) for name, each in of.measures.items()}


def _of_enrichment(enrichment: Enrichment) -> Fields:
    return {
        **{f"lookups.{each.reference.name}": f"by {each.by}, {_text(each.take)}" for each in enrichment.lookups},
        **{f"remembers.{name}": signature(each, enrichment.on) for name, each in enrichment.remembers.items()},
        **{f"adds.{name}": str(each) for name, each in enrichment.built.items()},
    }


def _of_limits(use: UseCase, own: Fields) -> Declared:
    """What decides which messages are accepted, which are repetitions, and which are late."""
    found = {(LIMITS, use.name): {**own, "id": str(use.judged.id), "disorder_ms": str(use.disorder_ms)}}
    for each in (*use.raw, *use.references):
        reader = each.reader()
        limits = {f"{field['name']}.{limit}": field[limit] for field in reader.pop("fields") for limit in field}
        found.setdefault((LIMITS, each.name), {}).update(
            {name: _text(each) for name, each in (reader | limits).items()}
        )
    return found


def _of_table(table: Table, use: UseCase) -> Fields:
    key = (f"newest_first({each.field})" if isinstance(each, NewestFirst) else each for each in table.parts)
    own = {"key": _text(tuple(key)), "columns": _text(table.columns_of(use.enriched)), "alerts": str(table.alerts)}
    return {**own, **{f"state.{name}": signature(each, use.enriched) for name, each in table.state.items()}}


def _of_job(plan: EnginePlan) -> Fields:
    found = asdict(plan)
    return {
        each.name: _text(found[each.name]) for each in fields(plan) if each.compare and each.name not in NOT_OF_THE_JOB
    }


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ", ".join(value) if isinstance(value, tuple) else json.dumps(value, sort_keys=True)
