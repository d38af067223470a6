"""What a verdict would judge by though no deployment has brought it: an edit, or a version that is made up."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from millrace import deployments
from millrace.errors import InfraError
from millrace.patterns import EnginePlan, Stores, Variant, engine_plans
from millrace.rules import ENRICHMENT, LIMITS
from millrace.target import Target
from millrace.verify import Versions
from millrace.verify.evidence import table_key

_ByEngine = Mapping[str, Mapping[str, str]]


def undeployed(target: Target, variant: Variant, in_force: Mapping[str, Versions]) -> list[str]:
    """Complaints about what is declared otherwise than deployed, and about what no deployment has recorded so."""
    return [*_edited(deployments.deployed(target, variant.name), variant), *unrecorded(target, variant, in_force)]


def unrecorded(target: Target, variant: Variant, in_force: Mapping[str, Versions]) -> Iterator[str]:
    """What the record of deployments lacks: all deployed plans, or those that had the earlier versions."""
    if deployments.is_lost(target, variant.name):
        file = deployments.deployed_file(target, variant.name)
        yield f"{file}, the record of what is deployed, is missing; restore it, or run `millrace deploy {variant.name}`"
    yield from _unreplaced(target, variant, in_force)


def _unreplaced(target: Target, variant: Variant, in_force: Mapping[str, Versions]) -> Iterator[str]:
    """The earlier versions that no plan had which was replaced then, or that are in force all the time since.

    Plans that are replaced are kept, with this moment, for as long as topics keep what they wrote.
    """
    since_ms = time.time() * 1000 - variant.pattern.retention_hours * 3_600_000
    past = [(name, *each) for name, versions in in_force.items() for each in versions.past if each[1] > since_ms]
    if not past:
        return
    try:
        replaced = deployments.replaced(target, variant.name)
        last = {engine: _versions(plan) for engine, plan in deployments.deployed(target, variant.name).items()}
    except InfraError as error:
        yield str(error)
        return
    ran = [{engine: _versions(plan) for engine, plan in plans.items()} for _, plans in replaced]
    # While a verb changes the pattern, the plans that follow the last of these may not be written yet.
    unfinished_ms = replaced[-1][0] if replaced and deployments.is_busy(target, variant.name) else None
    for name, version, until_ms in past:
        then = [n for n, each in enumerate(replaced) if each[0] == until_ms]
        has_ended = any(_has_ended(name, version, ran[n], [*ran[n + 1 :], last]) for n in then)
        if not has_ended and until_ms != unfinished_ms:
            shown = f"version {version} of '{name}'" if version else f"the absence of '{name}'"
            yield f"{shown} is recorded until {until_ms}, and no deployment replaced it then"


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
    remedy = f"take the edit back, or run `millrace teardown {variant.name} --data`"
    for engine in last.keys() - made.keys() if made else ():
        for name, version in _judged_by(last[engine]).items():
            if name not in declared:
                yield f"{_differs(name, version, None)}; {remedy}"


def _has_ended(name: str, version: str | None, before: _ByEngine, later: Sequence[_ByEngine]) -> bool:
    """Whether these plans had a version, or none, and a later one of the same engine has another."""
    then = {found for own in before.values() if (found := own.get(name)) is not None}
    is_of_then = version in then if version is not None else not then
    return is_of_then and any(
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
