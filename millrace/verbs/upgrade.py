"""`upgrade` replaces a pattern's jobs by their next generation, with their state; `roll_back` undoes it."""

from __future__ import annotations

import json
import time
from bisect import bisect
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise

from pydantic import TypeAdapter

from millrace.deployments import (
    alone,
    deployed,
    is_wanted,
    job_name,
    keep,
    plans,
    read_json,
    record,
    upgrade_file,
    write_json,
)
from millrace.errors import InfraError
from millrace.job import EngineError
from millrace.patterns import EnginePlan, Variant, load
from millrace.patterns import topics as topics_of
from millrace.rules.expressions import DeclarationError
from millrace.stores.changes import Change
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs import companions, lineage
from millrace.verbs.deploy import await_healthy, deploy, refuse_left, refuse_moved
from millrace.verbs.provision import require_contracts_and_stores, require_provisioned
from millrace.verbs.rehearsal import discard_left, rehearse

Report = Callable[[str], None]


@dataclass(frozen=True)
class Before:
    """What ran before an upgrade, and the state of each job: enough to resume the upgrade, and to undo it."""

    upgrade: str
    began_ms: int
    plans: Mapping[str, EnginePlan]
    states: Mapping[str, str | None]
    """By engine, for those that have been stopped."""
    following: Mapping[str, int] = field(default_factory=dict)
    """By engine, the generation after the upgrade; a job that dies in between is restarted as the one after."""
    back: Mapping[str, int] = field(default_factory=dict)
    """By engine, the generation after the roll-back."""
    gap_ms: int | None = None
    """The longest time without output while messages arrived; None until it is measured."""


_BEFORE = TypeAdapter(Before)


@dataclass(frozen=True)
class Upgraded:
    """The changes of an upgrade, and the longest time without output while messages arrived."""

    changes: list[Change]
    gap_ms: int


def upgrade(target: Target, variant: Variant, upgrade_id: str, *, report: Report = lambda line: None) -> Upgraded:
    """Bring the running jobs of a pattern to their next generation, each from its state; healthy when it returns.

    Each state is first restored in a trial job, whose output has no readers: an upgrade that cannot restore it is
    refused while the old job keeps running. A call with the same id resumes an interrupted upgrade; of a complete one
    it changes nothing, and it is refused if the pattern has changed since.
    """
    name = variant.name
    wanted: dict[str, EnginePlan] = {plan.engine: plan for plan in plans(target, variant)}
    with alone(target, name):
        discard_left(target, name)
        before = _read(target, name)
        if before is not None and before.upgrade == upgrade_id and before.gap_ms is not None:
            _refuse_another(target, name, before, wanted)
        keep([*wanted.values()], variant)
        if before is None or before.upgrade != upgrade_id:
            last: dict[str, EnginePlan] = {
                engine: plan for engine, plan in deployed(target, name).items() if engine in wanted
            }
            refuse_left(target, name, deployed(target, name), list(wanted.values()))
            _require_running(target, name, last)
            refuse_moved(last.values(), list(wanted.values()))
            require_provisioned(target, variant)
            require_contracts_and_stores(target, variant)
            for engine, running in last.items():
                report(f"{job_name(running)}: trial, if its engine has one: a next generation restores its state")
                rehearse(target, running, wanted[engine])
            before = Before(upgrade_id, int(time.time() * 1000), last, {})
            _write(target, name, before)
        changes = [_next(target, before, running, wanted[engine], report) for engine, running in before.plans.items()]
        companions.renew(target, name)
    await_healthy(target, name, report)
    lineage.replaced(target, name, before.plans, report)
    gap_ms = before.gap_ms if before.gap_ms is not None else _gap_ms(target, variant, before.began_ms)
    with alone(target, name):
        _write(target, name, replace(_read(target, name) or before, gap_ms=gap_ms))
    return Upgraded(changes, gap_ms)


def roll_back(target: Target, name: str, upgrade_id: str = "", *, report: Report = lambda line: None) -> list[Change]:
    """Replace the upgraded jobs by those from before, as a new generation, from the state before the upgrade.

    What the upgraded jobs have written is written again, under the same ids. With an id only that upgrade is undone:
    nothing changes if it was refused, or undone before. A job that was stopped, but not replaced yet, is restarted.
    """
    with alone(target, name):
        before = _read(target, name)
        if upgrade_id and (before is None or before.upgrade != upgrade_id):
            return [Change("upgrade", upgrade_id, "keep", f"nothing to undo: it is not the last upgrade of {name}")]
        if before is None:
            raise InfraError(f"{name}: there is no upgrade to roll back")
        if not is_wanted(target, name):
            raise InfraError(f"{name} was torn down; run `millrace deploy {name}`, then roll the upgrade back")
        _require_kept(name, before)
        for old in before.plans.values():
            old.refuse_other_rules()  # before anything stops: its copy may fit an earlier version of this library
        upgraded = deployed(target, name)
        changes, stopped = [], []
        for engine_name, old in before.plans.items():
            current, engine = deployed(target, name)[engine_name], target.engine(engine_name)
            if not _has_come_to(current, before.following):
                changes.append(Change("job", job_name(current), "keep", "was not upgraded"))
                if not engine.job(current).is_up:
                    stopped.append(engine_name)
                continue
            # Where a roll-back ends early, the upgraded job may have been restarted as the next generation.
            if not (_has_come_to(current, before.back) and current.is_same_as(old)):
                again = replace(old, generation=current.generation + 1)
                before = replace(before, back={**before.back, engine_name: again.generation})
                _write(target, name, before)
                report(f"{job_name(current)}: stopped, its state discarded")
                engine.discard(current)
                record(target, name, again)
                current = again
            if not engine.job(current).is_whole:
                report(f"{job_name(current)}: continues from before the upgrade")
                engine.start(current, before.states.get(engine_name))
            changes.append(Change("job", job_name(current), "change", f"generation {old.generation} again"))
        companions.renew(target, name)
    if stopped:
        deploy(target, name, only_missing=True, wait=False, engines=stopped, report=report)
    await_healthy(target, name, report)
    upgrade_file(target, name).unlink(missing_ok=True)
    lineage.replaced(target, name, upgraded, report)
    return changes


def _next(target: Target, before: Before, old: EnginePlan, wanted: EnginePlan, report: Report) -> Change:
    """Stop one job with its state and start its next generation, or resume where that was interrupted."""
    name, engine = old.pattern, target.engine(old.engine)
    current, known = deployed(target, name)[old.engine], _read(target, name) or before
    if _has_come_to(current, known.following) and current.is_same_as(wanted):
        following = current
    else:
        report(f"{job_name(current)}: stopping with its state")
        # If it was interrupted after the stop, the newest state is that of the stop.
        state = (engine.stop(current) if engine.job(current).is_up else None) or engine.latest_state(current)
        following = replace(wanted, generation=current.generation + 1)
        reached = {**known.following, old.engine: following.generation}
        _write(target, name, replace(known, states={**known.states, old.engine: state}, following=reached))
        record(target, name, following)
    job = engine.job(following)
    if job.state in ("failed", "stopped"):
        raise EngineError(
            f"{job_name(following)} is {job.state}: {job.problem}; `millrace roll-back {name}` undoes the upgrade"
        )
    if not job.is_whole:
        report(f"{job_name(following)}: starting from that state")
        engine.start(following, (_read(target, name) or before).states.get(old.engine))
    return Change("job", job_name(following), "change", f"continues from generation {old.generation}")


def _has_come_to(current: EnginePlan, generations: Mapping[str, int]) -> bool:
    """Whether the deployed generation is at least the one noted for its engine."""
    return current.engine in generations and current.generation >= generations[current.engine]


def _refuse_another(target: Target, name: str, before: Before, wanted: Mapping[str, EnginePlan]) -> None:
    """Refuse a second upgrade under the id of a complete one: it would have no trial, and spoil the way back."""
    for engine, running in deployed(target, name).items():
        if engine in before.plans and not (engine in wanted and running.is_same_as(wanted[engine])):
            raise InfraError(
                f"{name}: the upgrade '{before.upgrade}' is complete, and {job_name(running)} is not what is declared "
                "now; give another id: `--id`, or none for a new upgrade"
            )


def _require_running(target: Target, name: str, last: Mapping[str, EnginePlan]) -> None:
    down = [job_name(plan) for engine, plan in last.items() if not target.engine(engine).job(plan).is_up]
    if down or not last:
        why = f"{', '.join(down)} is not running" if down else "no job is running"
        raise InfraError(f"{name}: {why}, so there is nothing to upgrade; run `millrace deploy {name}`")


def _require_kept(name: str, before: Before) -> None:
    """Refuse to continue from a moment whose messages are deleted: the present state is all that is left of them."""
    try:
        hours = load(name).pattern.retention_hours
    except DeclarationError:
        return  # a declaration that is broken may be why it is rolled back
    if before.began_ms + hours * 3_600_000 < time.time() * 1000:
        began = datetime.fromtimestamp(before.began_ms / 1000, UTC)
        raise InfraError(
            f"{name}: the upgrade began at {began:%Y-%m-%d %H:%M} UTC, and topics keep messages for {hours} hours: "
            "what came since then cannot be read again; correct the declaration, and deploy it"
        )


def _gap_ms(target: Target, variant: Variant, since_ms: int) -> int:
    """The longest time since then without output of the per-event stage while messages arrived."""
    kinds = (variant.use.judged.name, variant.use.enriched.name)
    with closing(Tail(target.bootstrap, {kind: topics_of(variant)[kind] for kind in kinds})) as tail:
        tail.skip_to(since_ms)
        at_ms: dict[str, list[int]] = {kind: [since_ms] for kind in kinds}
        for each in tail.new():
            at_ms[each.topic].append(each.ingest_ms)
    came_in, came_out = sorted(at_ms[kinds[0]]), sorted(at_ms[kinds[1]])
    waited = [
        after - before for before, after in pairwise(came_out) if bisect(came_in, before) < bisect(came_in, after)
    ]
    return max(waited, default=0)


def _read(target: Target, name: str) -> Before | None:
    if (content := read_json(upgrade_file(target, name), _BEFORE, None)) is None:
        return None
    content["plans"] = {engine: EnginePlan.from_json(json.dumps(plan)) for engine, plan in content["plans"].items()}
    return Before(**content)


def _write(target: Target, name: str, before: Before) -> None:
    write_json(upgrade_file(target, name), asdict(before))
