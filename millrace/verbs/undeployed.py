"""What a verdict would judge by though no deployment has brought it: an edit."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from millrace import deployments
from millrace.patterns import EnginePlan, Stores, Variant, engine_plans
from millrace.rules import ENRICHMENT, LIMITS
from millrace.target import Target
from millrace.verify.evidence import table_key


def undeployed(target: Target, variant: Variant) -> Iterator[str]:
    """What a verdict judges by and is declared otherwise than it was deployed; nothing before the first deployment.

    Addresses and options of jobs do not count, nor what is no part of a plan, as the retention.
    """
    last = deployments.deployed(target, variant.name)
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
