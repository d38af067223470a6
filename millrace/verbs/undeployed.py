"""What a verdict would judge by though no deployment has brought it: an edit, or a record that is made up."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from millrace import deployments, kept
from millrace.errors import InfraError
from millrace.patterns import EnginePlan, Stores, Variant, engine_plans
from millrace.rules import ENRICHMENT, LIMITS
from millrace.target import Target
from millrace.traffic.runs import Span
from millrace.verify import Bounds, Versions
from millrace.verify.evidence import table_key

_ByEngine = Mapping[str, Mapping[str, str]]
_Plans = Mapping[str, EnginePlan]
_Past = tuple[str, str | None, int]
_Away = tuple[str, int, int]


def undeployed(
    target: Target, variant: Variant, in_force: Mapping[str, Versions], away_ms: Mapping[str, Sequence[Span]]
) -> list[str]:
    """Complaints about what is declared otherwise than deployed, and about what no deployment has recorded so."""
    edited = _edited(deployments.in_use(target, variant.name), variant)
    return [*edited, *unrecorded(target, variant, in_force, away_ms)]


def unrecorded(
    target: Target, variant: Variant, in_force: Mapping[str, Versions], away_ms: Mapping[str, Sequence[Span]]
) -> Iterator[str]:
    """What the record of deployments lacks: all deployed plans, or those of an earlier version, or without a memory.

    Plans that are replaced are kept, with this moment, for as long as topics keep what they wrote.
    """
    name, since_ms = variant.name, time.time() * 1000 - variant.pattern.retention_hours * 3_600_000
    past = [(each, *end) for each, versions in in_force.items() for end in versions.past if end[1] > since_ms]
    away = [(each, *span) for each, spans in away_ms.items() for span in spans if span[1] > since_ms]
    try:
        if deployments.is_lost(target, name):
            file = deployments.deployed_file(target, name)
            yield f"{file}, the record of what is deployed, is missing; restore it, or run `millrace deploy {name}`"
        if not past and not away:
            return
        replaced, last = deployments.replaced(target, name), deployments.in_use(target, name)
    except InfraError as error:
        yield str(error)
        return
    # While a verb changes the pattern, the plans that follow the last of these may not be written yet.
    unfinished_ms = replaced[-1][0] if replaced and deployments.is_busy(target, name) else None
    yield from _unreplaced([each for each in past if each[2] != unfinished_ms], replaced, last)
    yield from _not_away(away, variant.pattern.stages.events.engine, since_ms, [*replaced, (math.inf, last)])


def _unreplaced(past: Iterable[_Past], replaced: Sequence[tuple[int, _Plans]], last: _Plans) -> Iterator[str]:
    """The earlier versions that no plan had which was replaced then, or that are in force all the time since."""
    ran = [{engine: _versions(plan) for engine, plan in own.items()} for own in [*(each[1] for each in replaced), last]]
    for name, version, until_ms in past:
        then = [n for n, each in enumerate(replaced) if each[0] == until_ms]
        if not any(_has_ended(name, version, ran[n], ran[n + 1 :]) for n in then):
            shown = f"version {version} of '{name}'" if version else f"the absence of '{name}'"
            yield f"{shown} is recorded until {until_ms}, and no deployment replaced it then"


def _not_away(
    away: Iterable[_Away], engine: str, since_ms: float, plans: Sequence[tuple[float, _Plans]]
) -> Iterator[str]:
    """The memories that are recorded as away while a plan of the per-event stage had them; each has its last moment."""
    began_ms = [since_ms, *(ended_ms for ended_ms, _ in plans[:-1])]
    for name, *span in away:
        shown = f"'{name}' is recorded as a memory that no job had from {span[0]} until {span[1]}"
        if span[1] > time.time() * 1000 + Bounds.clocks_ms:
            yield f"{shown}, which is still to come"
            continue
        for at_ms, (ended_ms, own) in zip(began_ms, plans, strict=True):
            is_met = max(at_ms, since_ms, span[0]) < min(ended_ms, span[1])
            if is_met and engine in own and (why := _has_memory(own[engine], name)):
                yield f"{shown}, and {why}"
                break


def _has_memory(plan: EnginePlan, name: str) -> str:
    """Why a plan may have had a memory; empty if it had none, or if what its copy declares cannot be read any more."""
    if not plan.declared:
        return ""  # from before there were copies
    shown = deployments.job_name(plan)
    try:
        plan.refuse_other_rules()
        return f"{shown} had it meanwhile" if name in plan.memories else ""
    except Exception as error:  # its copy may fit an earlier version of this library
        is_whole = kept.is_whole(Path(plan.declared))
        return "" if is_whole else f"nothing shows what {shown} remembered meanwhile: {error!r}"


def _edited(last: Mapping[str, EnginePlan], variant: Variant) -> Iterator[str]:
    """What a verdict judges by and is declared otherwise than it was deployed; nothing before the first deployment.

    Addresses and options of jobs do not count, nor what is no part of a plan, as the retention.
    """
    made = {plan.engine: plan for plan in engine_plans(variant, 1, "", "", Stores("", "", 0, ""))} if last else {}
    declared = {name for plan in made.values() for name in _judged_by(plan)}
    remedy = f"take the edit back, or run `millrace deploy {variant.name}`"
    for engine, plan in made.items():
        if engine not in last:
            yield f"a job of {engine} is declared, and none is deployed; {remedy}"
            continue
        before, now = _judged_by(last[engine]), _judged_by(plan)
        for name in {**before, **now}:
            if before.get(name) != now.get(name) and not _is_older(last[engine], name, before):
                yield f"{_differs(name, before.get(name), now.get(name))}; {remedy}"
    # An engine that is declared no more stays recorded; others may have taken over what it did.
    remedy = f"take the edit back, or run `millrace teardown {variant.name}`, then `millrace deploy {variant.name}`"
    for engine in last.keys() - made.keys() if made else ():
        for name, version in _judged_by(last[engine]).items():
            if name not in declared:
                yield f"{_differs(name, version, None)}; {remedy}"


def _has_ended(name: str, version: str | None, before: _ByEngine, later: Sequence[_ByEngine]) -> bool:
    """Whether these plans had a version, or none, and a later one of the same engine has another."""
    then = {found for own in before.values() if (found := own.get(name)) is not None}
    if version is None:  # it may have come with an engine that no plan had then
        return not then and any(name in own for after in later for own in after.values())
    return version in then and any(
        own.get(name) != after.get(engine, {}).get(name) for after in later for engine, own in before.items()
    )


def _versions(plan: EnginePlan) -> dict[str, str]:
    """The versions of its rules, summaries and tables, of the limits and the enrichment."""
    return {**plan.versions, **{table_key(name): version for name, version in plan.tables.items()}}


def _judged_by(plan: EnginePlan) -> dict[str, str]:
    """What of a plan decides a verdict, by name."""
    stores = {f"rows in {store}": "persisted" for store in plan.persist}
    return {**_versions(plan), **stores, "delivery": plan.delivery}


def _is_older(last: EnginePlan, name: str, before: Collection[str]) -> bool:
    """Whether the plan is from an earlier version of this library, which did not record this."""
    is_of_table = name.startswith(table_key("")) and "hbase" in last.persist and not last.tables
    return is_of_table or (name in (LIMITS, ENRICHMENT) and name not in before)


def _differs(name: str, before: str | None, now: str | None) -> str:
    if before is None:
        return f"'{name}' is declared as {now}, and not deployed"
    return f"'{name}' is deployed as {before}, and declared {f'as {now}' if now else 'no more'}"
