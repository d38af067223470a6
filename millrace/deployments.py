"""The record of deployments, as files in the state folder: plans, earlier rule versions, accepted losses."""

from __future__ import annotations

import fcntl
import json
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from millrace import kept, kernel, shapes, stack
from millrace.errors import InfraError, UsageError
from millrace.job import DOWN, Job
from millrace.patterns import EnginePlan, Pattern, Variant, backfills, engine_plans, is_name, load, names
from millrace.patterns.loss import InFlight, Loss
from millrace.patterns.model import AT_MOST_ONCE
from millrace.patterns.plan import Stores
from millrace.rules import WindowRule
from millrace.rules.expressions import DeclarationError
from millrace.target import Target
from millrace.traffic.runs import Span
from millrace.verify import Bounds, Versions
from millrace.verify.evidence import table_key
from millrace.whole_files import write_whole


@dataclass(frozen=True)
class Companion:
    """A process beside the jobs of a deployed pattern, from the `deploy` that asks for it until `teardown`."""

    name: str
    verb: tuple[str, ...]
    """The verb that it runs, and the words after the pattern."""
    mark: str
    """The suffix of the file that exists while it should run."""
    lock: str
    """The suffix of the file that whoever runs the verb holds, also by hand."""

    def of(self, pattern: str) -> str:
        """The name of the process for a pattern."""
        return f"{self.name}-{pattern}"


VALIDATOR = Companion("validator", ("validate", "--continuous"), ".judged", ".ledger")
"""Continues the ledger."""
CANARIES = Companion("canaries", ("canaries",), ".canaries", ".canaries-lock")
"""Sends canaries, and records which rules they set off."""
COMPANIONS = (VALIDATOR, CANARIES)


@dataclass(frozen=True)
class _Past:
    """A version that a rule, summary or table had; None where it had none."""

    name: str
    version: str | None
    until_ms: int


@dataclass(frozen=True)
class _Accepted:
    """A loss that an operator accepted."""

    engine: str
    accepted_ms: int
    loss: Loss


@dataclass(frozen=True)
class _Upgrade:
    """What is read here of the last upgrade."""

    plans: Mapping[str, EnginePlan]
    states: Mapping[str, str | None]
    gap_ms: int | None = None


@dataclass(frozen=True)
class _Replaced:
    """The plans that were deployed until a moment, by engine."""

    plans: Mapping[str, EnginePlan]
    until_ms: int


@dataclass(frozen=True)
class Earlier:
    """A pattern as its jobs ran it until a moment."""

    variant: Variant
    versions: Mapping[str, str]
    """Of its rules and summaries."""
    until_ms: int


_NOTED_WITHIN_MS = 60_000
"""So soon after the moment of a deployment an earlier version of this library noted the moment of its memories."""
_PLANS = TypeAdapter(dict[str, EnginePlan])
_OVER = TypeAdapter(list[str])
_REPLACED = TypeAdapter(list[_Replaced])
_PASTS = TypeAdapter(list[_Past])
_MEMORIES = TypeAdapter(dict[str, list[tuple[int, int | None]]])
_LOSSES = TypeAdapter(list[_Accepted])
_UPGRADE = TypeAdapter(_Upgrade)


def job_name(plan: EnginePlan) -> str:
    """Pattern, engine and generation, for messages."""
    return f"{plan.pattern}/{plan.engine} generation {plan.generation}"


def plans(target: Target, variant: Variant, generation: int = 1) -> list[EnginePlan]:
    """The plan that each engine of the pattern should run; `keep` makes the copy of declarations that it names."""
    copy = variant.declared or str(kept.place(_copies(target, variant.name), *_declarations(variant)))
    made = engine_plans(variant, generation, target.bootstrap, target.checkpoints, target.stores(variant))
    last = deployed(target, variant.name)
    since = {engine: plan.since for engine, plan in last.items()}
    return [
        replace(
            plan,
            accepted=accepted(target, variant.name, plan.engine),
            since=since.get(plan.engine, 1),
            declared=copy,
        )
        for plan in made
    ]


def keep(plans: Sequence[EnginePlan], variant: Variant) -> None:
    """Copy what the pattern and its use declare, before a job starts: it runs with that until the next `deploy`."""
    for each in plans:
        kept.make(Path(each.declared), *_declarations(variant))


def as_deployed(target: Target, name: str) -> Variant:
    """The pattern as its jobs run it: as the project declares it, if that is deployed, or else as it was deployed."""
    last = in_use(target, name)
    copies = _copies_of(last)
    try:
        declared = load(name)
        if not copies or _is_deployed(target, declared, last):
            return declared
    except (InfraError, DeclarationError):
        if not copies:
            raise
    found = _variants(name, copies)
    # After a `deploy` that changed one engine's job, the other's has an older copy, which says the same of that engine.
    return next((each for each in found if _is_deployed(target, each, last)), found[-1])


def replaced(target: Target, name: str) -> list[tuple[int, dict[str, EnginePlan]]]:
    """The plans that others have replaced, by engine, each with the moment until which they were deployed."""
    return [(each["until_ms"], _plans_of(each)) for each in read_json(_replaced_file(target, name), _REPLACED, [])]


def earlier(target: Target, name: str, at_ms: int) -> Earlier | None:
    """The pattern as its jobs ran it at a moment; None if they run it so still."""
    for each in read_json(_replaced_file(target, name), _REPLACED, []):
        if at_ms > each["until_ms"]:
            continue
        last = _plans_of(each)
        copies = _copies_of(last)
        try:
            found = [variant for variant in _variants(name, copies) if _has_versions(variant, last)]
        except Exception as error:  # its copy fits an earlier version of this library
            raise InfraError(f"the declarations of {name} until {each['until_ms']} cannot be read: {error!r}") from None
        if found:
            versions = {rule: version for plan in last.values() for rule, version in plan.versions.items()}
            return Earlier(found[0], versions, each["until_ms"])
        if len(copies) < 2:
            raise InfraError(f"the declarations of {name} until {each['until_ms']} are gone, or read otherwise now")
        # Between two jobs of one `deploy`, no copy says what both of them ran.
    return None


def earlier_windows(target: Target, name: str) -> dict[tuple[str, str], WindowRule]:
    """The rules on windows of replaced plans, by name and version, as far as their copies can still be read."""
    try:
        copies = dict.fromkeys(copy for _, plans in replaced(target, name) for copy in _copies_of(plans))
    except InfraError:  # the check `declarations` names it
        return {}
    return {(rule.name, rule.version): rule for copy in copies for rule in _windows_in(name, copy)}


@cache
def _windows_in(name: str, copy: str) -> Sequence[WindowRule]:
    """The rules on windows of a copy, which is named by a digest of its content."""
    try:
        return [rule for variant in _variants(name, [copy]) for rule in variant.window_rules]
    except Exception:  # it fits an earlier version of this library
        return []


def _plans_of(content: Any) -> dict[str, EnginePlan]:
    """The plans in an entry of the file of replaced ones."""
    return {engine: EnginePlan.from_json(json.dumps(plan)) for engine, plan in content["plans"].items()}


def deployed(target: Target, name: str) -> dict[str, EnginePlan]:
    """The last deployed plans of a pattern, by engine."""
    content = read_json(deployed_file(target, name), _PLANS, {})
    return {engine: EnginePlan.from_json(json.dumps(plan)) for engine, plan in content.items()}


def is_lost(target: Target, name: str) -> bool:
    """Whether the deployed plans are missing, though deployments have left something else, and none is under way."""
    has_left = any(file(target, name).exists() for file in (_wanted_file, *_OF_DEPLOYMENTS))
    has_left = has_left or any(_copies(target, name).glob("*"))
    # In this order: a first deployment holds the lock from before it leaves anything until it has a plan.
    return has_left and not is_busy(target, name) and not deployed(target, name)


def in_use(target: Target, name: str) -> dict[str, EnginePlan]:
    """The same of the engines that the pattern still has; of others the plans stay recorded, with what they left."""
    over = read_json(_over_file(target, name), _OVER, [])
    return {engine: plan for engine, plan in deployed(target, name).items() if engine not in over}


def has_other_code(target: Target, plan: EnginePlan) -> bool:
    """Whether the kernel is another one now than when a deployed plan was last started."""
    now = kernel.code(target.settings, plan.engine)
    return bool(plan.code and now) and now != plan.code


def jobs(target: Target, name: str) -> dict[str, tuple[EnginePlan, Job]]:
    """The current jobs of a pattern, by engine."""
    found = {engine: (plan, target.engine(engine).job(plan)) for engine, plan in deployed(target, name).items()}
    if not stack.given_up_file(target.settings, name).exists():
        return found
    return {engine: (plan, job if job.is_up else _given_up(name, job)) for engine, (plan, job) in found.items()}


def in_flight(target: Target, variant: Variant) -> tuple[InFlight, ...]:
    """What the restarts of a pattern's jobs had in flight, where it promises at-most-once."""
    if variant.pattern.promises.delivery != AT_MOST_ONCE:
        return ()
    return tuple(each for _, job in jobs(target, variant.name).values() for each in job.in_flight)


def sick(target: Target) -> dict[str, Job]:
    """The sick jobs of deployed patterns, by name."""
    return {job_name(plan): job for _, plan, job in _wanted_jobs(target) if job.is_sick}


def unwell(target: Target) -> dict[str, Job]:
    """The same, and those that do not run though they should."""
    found = _wanted_jobs(target)
    return {job_name(plan): job for name, plan, job in found if job.is_sick or is_down(target, name, plan, job)}


def is_down(target: Target, name: str, plan: EnginePlan, job: Job) -> bool:
    """Whether a job does not run though it should: of no verb that is replacing it, and of no backfill."""
    should_run = is_wanted(target, name) and name in names() and plan.engine in in_use(target, name)
    return should_run and job.state in DOWN and not is_busy(target, name)


def _wanted_jobs(target: Target) -> Iterator[tuple[str, EnginePlan, Job]]:
    for name in (*names(), *backfills.names()):
        if is_wanted(target, name):
            yield from ((name, plan, job) for plan, job in jobs(target, name).values())


def is_wanted(target: Target, name: str) -> bool:
    """Whether the pattern is deployed and not torn down: its jobs should run."""
    return _wanted_file(target, name).exists()


def owner(target: Target, name: str) -> str:
    """The run for which a pattern was deployed; empty if none."""
    return _wanted_file(target, name).read_text(encoding="utf-8")


def want(target: Target, name: str, for_run: str) -> None:
    """Mark a pattern as deployed; it belongs to a run only if it was not deployed before."""
    if not (for_run and is_wanted(target, name)):
        _wanted_file(target, name).write_text(for_run, encoding="utf-8")
    stack.given_up_file(target.settings, name).unlink(missing_ok=True)


def unwant(target: Target, name: str) -> None:
    """Mark a pattern as torn down."""
    _wanted_file(target, name).unlink(missing_ok=True)
    for companion in COMPANIONS:
        _companion_file(target, name, companion).unlink(missing_ok=True)


def want_companion(target: Target, name: str, companion: Companion) -> None:
    """Mark a deployed pattern as one that has this companion until it is torn down."""
    _companion_file(target, name, companion).touch()
    stack.given_up_file(target.settings, companion.of(name)).unlink(missing_ok=True)


def has_companion(target: Target, name: str, companion: Companion) -> bool:
    """Whether the companion of a pattern should run."""
    return is_wanted(target, name) and _companion_file(target, name, companion).exists()


def is_judged(target: Target, name: str) -> bool:
    """Whether the ledger of a pattern is continued."""
    return has_companion(target, name, VALIDATOR)


def judged_since_ms(target: Target, name: str) -> int | None:
    """When the last `deploy` that asked for it began to continue the ledger of a pattern; None if it is not."""
    file = _companion_file(target, name, VALIDATOR)
    return file.stat().st_mtime_ns // 1_000_000 if is_judged(target, name) else None


def record(target: Target, name: str, plan: EnginePlan) -> None:
    """Record the plan as the last one of its engine, and until when changed rules had their previous versions."""
    plan.refuse_other_rules()
    recorded, before, at_ms = deployed(target, name), in_use(target, name), int(time.time() * 1000)
    last, left = recorded.get(plan.engine), _left(target, plan, before)
    is_back = last is not None and plan.engine not in before
    if left or is_back or (last is not None and not plan.is_same_as(last)):
        _note_replaced(target, name, before, at_ms, plan)
    others = [each for engine, each in before.items() if engine != plan.engine and engine not in left]
    own = [replace(last, versions={}, tables={}) if is_back else last] if last is not None else []
    if changed := _changed_versions([*own, *left.values()], plan, others, at_ms):
        write_json(_past_file(target, name), [*read_json(_past_file(target, name), _PASTS, []), *changed])
    if last is not None:
        _note_memories(target, name, last, plan, at_ms)
    content = {engine: json.loads(each.to_json()) for engine, each in deployed(target, name).items()}
    started = replace(plan, code=kernel.code(target.settings, plan.engine))
    content[plan.engine] = json.loads(started.to_json())
    write_json(deployed_file(target, name), content)
    if left or is_back:
        write_json(_over_file(target, name), sorted({*recorded.keys() - before.keys(), *left} - {plan.engine}))
    _forget_copies(target, name)


def in_force(target: Target, name: str, before_ms: float = math.inf) -> dict[str, Versions]:
    """The rules and summaries of a pattern that had other versions before a moment, and until when they had each."""
    found: dict[str, Versions] = {}
    for past in read_json(_past_file(target, name), _PASTS, []):
        each, until_ms = past["name"], past["until_ms"]
        if until_ms > time.time() * 1000 + Bounds.clocks_ms:
            raise InfraError(
                f"{name}: '{each}' has its present version since {until_ms}, which is still to come; "
                f"correct until_ms in {_past_file(target, name)}"
            )
        if until_ms < before_ms:
            found[each] = Versions((*found.get(each, Versions()).past, (past["version"], until_ms)))
    return found


def away_ms(target: Target, name: str) -> dict[str, list[Span]]:
    """When the jobs of a pattern lacked a memory that they have had at some time, by its name."""
    found: dict[str, list[tuple[int, int | None]]] = read_json(_memories_file(target, name), _MEMORIES, {})
    ends_ms = [each["until_ms"] for each in read_json(_replaced_file(target, name), _REPLACED, [])] if found else []
    away = {
        each: [(_moment(since, ends_ms), _moment(until, ends_ms)) for since, until in spans if until is not None]
        for each, spans in found.items()
    }
    return {each: spans for each, spans in away.items() if spans}


def accept(target: Target, plan: EnginePlan, lost: Sequence[Loss]) -> None:
    """Record losses as accepted, before the next job starts."""
    if not lost:
        return
    path, at_ms = _losses_file(target, plan.pattern), int(time.time() * 1000)
    each = {"engine": plan.engine, "generation": plan.generation, "accepted_ms": at_ms}
    write_json(path, [*read_json(path, _LOSSES, []), *(each | {"loss": loss.plain()} for loss in lost)])


def accepted(target: Target, name: str, engine: str) -> tuple[Loss, ...]:
    """The losses that the next job may skip: the last accepted one of each place."""
    return tuple({loss.place: loss for loss in losses(target, name).get(engine, ())}.values())


def losses(
    target: Target, name: str, since_ms: float = -math.inf, until_ms: float = math.inf
) -> dict[str, tuple[Loss, ...]]:
    """The losses of a pattern that were accepted after one moment and until another, by engine, oldest first."""
    found: dict[str, tuple[Loss, ...]] = {}
    for each in read_json(_losses_file(target, name), _LOSSES, []):
        if since_ms < each["accepted_ms"] <= until_ms:
            found[each["engine"]] = (*found.get(each["engine"], ()), Loss(**each["loss"]))
    return found


def upgrade_gap_ms(target: Target, name: str) -> int | None:
    """The longest time without output in the upgrade to the running generation."""
    upgrade = read_json(upgrade_file(target, name), _UPGRADE, None)
    if upgrade is None:
        return None
    is_latest = all(
        plan.generation == upgrade["plans"][engine]["generation"] + 1
        for engine, plan in deployed(target, name).items()
        if engine in upgrade["plans"]
    )
    return upgrade.get("gap_ms") if is_latest else None


def states_before_upgrade(target: Target, name: str) -> tuple[str, ...]:
    """The places of the states with which the last upgrade is resumed or undone."""
    upgrade = read_json(upgrade_file(target, name), _UPGRADE, None)
    return tuple(filter(None, upgrade["states"].values())) if upgrade else ()


def forget(target: Target, name: str) -> None:
    """Remove all that is kept of a pattern whose data was removed: the plans last, which the rest stands for."""
    shutil.rmtree(_copies(target, name), ignore_errors=True)
    for file in (*_OF_DEPLOYMENTS, _losses_file, verdict_file, deployed_file):
        file(target, name).unlink(missing_ok=True)


def verdict_record(target: Target, name: str) -> Path | None:
    """The newest record of a verdict on the data that the pattern has now."""
    try:
        named = verdict_file(target, name).read_text(encoding="utf-8")
    except OSError:
        return None
    record = target.settings.state / "records" / named
    return record if record.exists() else None


def verdict_file(target: Target, name: str) -> Path:
    """The file that names the record."""
    return deployed_file(target, name).with_name(f"{name}.verdict")


def deployed_file(target: Target, name: str) -> Path:
    """The file of the plans that were deployed last."""
    if not is_name(name):
        raise UsageError(f"'{name}' is not a valid name of a pattern; `millrace patterns` lists the patterns")
    folder = target.settings.state / "patterns"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.json"


def upgrade_file(target: Target, name: str) -> Path:
    """The file of the pattern's last upgrade."""
    return deployed_file(target, name).with_suffix(".upgrade")


def write_json(path: Path, content: object) -> None:
    """Replace one of these files."""
    write_whole(path, json.dumps(content, indent=1))


def read_json(path: Path, shape: TypeAdapter[Any], default: Any) -> Any:
    """The content of one of these files, if it has this shape."""
    try:
        return shapes.read(path.read_bytes(), shape)
    except FileNotFoundError:
        return default
    except shapes.DamagedError as error:
        raise InfraError(f"{path} is damaged ({error}); restore it, or delete it if it is not needed") from None


@contextmanager
def alone(target: Target, name: str) -> Iterator[None]:
    """Hold the lock of a pattern, so that one verb at a time changes it; it ends with the process."""
    with deployed_file(target, name).with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_busy(target: Target, name: str) -> bool:
    """Whether a verb is changing a pattern now."""
    with deployed_file(target, name).with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _declarations(variant: Variant) -> tuple[str, str]:
    return variant.pattern.use, variant.pattern.model_dump_json()


def _is_deployed(target: Target, variant: Variant, last: Mapping[str, EnginePlan]) -> bool:
    made = {plan.engine: plan for plan in plans(target, variant)}
    return made.keys() == last.keys() and all(plan.is_same_as(last[engine]) for engine, plan in made.items())


def _copies_of(last: Mapping[str, EnginePlan]) -> list[str]:
    """The copies of declarations that plans name."""
    named = dict.fromkeys(plan.declared for plan in last.values())
    return [copy for copy in named if copy and Path(copy).is_dir()]


def _variants(name: str, copies: Iterable[str]) -> list[Variant]:
    """A pattern as each of these copies declares it."""
    is_finite = backfills.content(name) is not None
    return [Variant(name, Pattern.model_validate_json(kept.pattern(Path(copy))), is_finite, copy) for copy in copies]


def _has_versions(variant: Variant, last: Mapping[str, EnginePlan]) -> bool:
    made = {plan.engine: plan for plan in engine_plans(variant, 1, "", "", Stores("", "", 0, ""))}
    return made.keys() == last.keys() and all(
        (plan.versions, plan.tables) == (last[engine].versions, last[engine].tables) for engine, plan in made.items()
    )


def _note_replaced(target: Target, name: str, last: Mapping[str, EnginePlan], until_ms: int, plan: EnginePlan) -> None:
    """Keep the plans that another one replaces, as long as topics keep what they wrote: a ledger may be behind."""
    hours = [variant.pattern.retention_hours for variant in _variants(name, _copies_of({plan.engine: plan}))]
    found = read_json(_replaced_file(target, name), _REPLACED, [])
    found = [each for each in found if not hours or each["until_ms"] > until_ms - max(hours) * 3_600_000]
    plans = {engine: json.loads(each.to_json()) for engine, each in last.items()}
    write_json(_replaced_file(target, name), [*found, {"plans": plans, "until_ms": until_ms}])


def _forget_copies(target: Target, name: str) -> None:
    """Remove the copies of declarations that no plan names: a deployed, an earlier, or one that would be restored."""
    folder, files = _copies(target, name), (deployed_file, upgrade_file, _replaced_file)
    named = "".join(file.read_text(encoding="utf-8") for at in files if (file := at(target, name)).exists())
    for copy in folder.glob("*"):
        if copy.name not in named:
            shutil.rmtree(copy)


def _copies(target: Target, name: str) -> Path:
    """The folder of the copies of a pattern's declarations."""
    return deployed_file(target, name).with_suffix(".declared")


def _given_up(name: str, job: Job) -> Job:
    remedy = f"the watcher no longer restarts it; fix the cause, then `millrace deploy {name}`"
    return replace(job, state="given-up", problem=f"{job.problem}; {remedy}" if job.problem else remedy)


def _left(target: Target, plan: EnginePlan, last: Mapping[str, EnginePlan]) -> dict[str, EnginePlan]:
    """The plans of engines that the pattern no longer has, once this plan completes its deployment as it is declared.

    A job that still runs may write all that it was deployed with.
    """
    if not plan.declared or last.keys() <= {plan.engine}:
        return {}
    try:
        variant = load(plan.pattern)
        copy = kept.place(_copies(target, plan.pattern), *_declarations(variant))
        now = {engine: each for engine, each in {**last, plan.engine: plan}.items() if engine in variant.engines}
        if plan.declared != str(copy) or not _has_versions(variant, now):
            return {}
        gone = {engine: each for engine, each in last.items() if engine not in now}
        return {engine: each for engine, each in gone.items() if not target.engine(engine).job(each).is_up}
    except (InfraError, DeclarationError):
        return {}


def _changed_versions(
    last: Sequence[EnginePlan], plan: EnginePlan, others: Iterable[EnginePlan], until_ms: int
) -> list[dict[str, Any]]:
    """The versions that these plans had and the plan has not, or the other way around; without plans, none."""
    if not last:
        return []
    # What moves to another engine keeps its version.
    elsewhere = {name: version for each in others for name, version in _versions(each).items()}
    # A job that begins to write tables begins with the first event of the topic: nothing had another version.
    has_tables = any(each.tables for each in last)
    before = elsewhere | {name: version for each in reversed(last) for name, version in _versions(each).items()}
    now = elsewhere | _versions(plan if has_tables else replace(plan, tables={}))
    return [
        {"name": name, "version": before.get(name), "until_ms": until_ms}
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _moment(noted_ms: int, ends_ms: Iterable[int]) -> int:
    """The moment of the deployment with which a memory began or ended, where another was noted."""
    return max((each for each in ends_ms if each <= noted_ms <= each + _NOTED_WITHIN_MS), default=noted_ms)


def _note_memories(target: Target, name: str, last: EnginePlan, plan: EnginePlan, at_ms: int) -> None:
    """Note which memories begin with a plan, and which end: a job writes none that its rules do not need."""
    if not (plan.judges_events and last.declared and Path(last.declared).is_dir()):
        return  # without a copy nothing shows what the last plan remembered
    try:
        before = last.memories
    except Exception:  # its copy fits an earlier version of this library
        return
    now = plan.memories
    found: dict[str, list[list[int | None]]] = read_json(_memories_file(target, name), _MEMORIES, {})
    for each in before - now:
        found.setdefault(each, []).append([at_ms, None])
    for each in now - before:
        found.setdefault(each, [[0, None]])[-1][1] = at_ms
    if before != now:
        write_json(_memories_file(target, name), found)


def _versions(plan: EnginePlan) -> dict[str, str]:
    return {**plan.versions, **{table_key(name): version for name, version in plan.tables.items()}}


def _over_file(target: Target, name: str) -> Path:
    """The file of the engines that the pattern no longer has, though their plans stay recorded."""
    return deployed_file(target, name).with_suffix(".over")


def _past_file(target: Target, name: str) -> Path:
    """The file of earlier rule versions, and until when each applied."""
    return deployed_file(target, name).with_suffix(".past")


def _replaced_file(target: Target, name: str) -> Path:
    """The file of the plans that were deployed earlier, and until when each."""
    return deployed_file(target, name).with_suffix(".replaced")


def _memories_file(target: Target, name: str) -> Path:
    """The file of what the per-event stage remembers: from when until when it lacked each memory."""
    return deployed_file(target, name).with_suffix(".memories")


def _losses_file(target: Target, name: str) -> Path:
    """The file of accepted losses."""
    return deployed_file(target, name).with_suffix(".losses")


def _companion_file(target: Target, name: str, companion: Companion) -> Path:
    """Exists while the pattern is deployed and has this companion."""
    return deployed_file(target, name).with_suffix(companion.mark)


def _wanted_file(target: Target, name: str) -> Path:
    """Exists while the pattern is deployed; holds the run for which it was."""
    return deployed_file(target, name).with_suffix(".wanted")


_OF_DEPLOYMENTS = (upgrade_file, _over_file, _past_file, _replaced_file, _memories_file)
"""The files that a pattern has only beside plans; `forget` removes them with the data."""
