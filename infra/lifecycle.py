"""The four verbs, provision, deploy, validate and teardown: the one seam for command line, Airflow and Terraform.

Each can be said again: it looks at what is there and makes true only what is not.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra import archives, records, stack, traffic, validation
from infra.engines.job import EngineError, Job, Running, UsedUpError
from infra.errors import InfraError, UsageError
from infra.services import services
from infra.settings import SETTLED_AFTER_S, VALIDATE_WITHIN_S
from infra.stores import topics
from infra.stores.changes import Action, Change
from infra.target import ROOT, Target
from pipelines.patterns import EnginePlan, Variant, engine_plans, is_name, load, names
from pipelines.patterns import topics as topics_of
from pipelines.patterns.contracts import breaking_changes, contracts_of
from pipelines.patterns.loss import Loss
from pipelines.patterns.plan import HOP
from pipelines.patterns.tables import tables_of
from pipelines.verify import InForce, Verdict
from pipelines.verify.report import html

Report = Callable[[str], None]
DEPLOY_WITHIN_S = 400


class ContractError(InfraError):
    """A change of a topic's contract that its readers or its old messages would not survive."""


class LostError(EngineError):
    """A job that failed because messages were deleted before it read them."""

    def __init__(self, plan: EnginePlan, job: Job) -> None:
        super().__init__(f"{job_name(plan)} is {job.state}: {job.problem}")
        self.plan, self.lost = plan, job.lost


@dataclass(frozen=True)
class Validation:
    """A verdict, and where it is kept."""

    verdict: Verdict
    record: Path
    page: Path


def provision(target: Target, name: str, *, plan: bool = False) -> list[Change]:
    """Make the topics, their contracts, the folders and the tables of a pattern what it says."""
    variant = load(name)
    with alone(target, name):
        # A breach, or a store that does not answer, is found before anything is made.
        contracts = _ensure_contracts(target, variant, plan=True)
        stores = _ensure_stores(target, variant, plan=True)
        changes = topics.ensure(target.bootstrap, wanted_topics(variant), plan=plan) + contracts + stores
        if not plan:
            _ensure_contracts(target, variant, plan=False)
            _ensure_stores(target, variant, plan=False)
        return changes


def deploy(
    target: Target,
    name: str,
    *,
    plan: bool = False,
    fresh: bool = False,
    wait: bool = True,
    only_missing: bool = False,
    accept_loss: bool = False,
    for_run: str = "",
    report: Report = lambda line: None,
) -> list[Change]:
    """Bring the pattern's jobs to run as it says, and return when each has completed a checkpoint.

    A job that runs as it should is adopted; one that runs otherwise is stopped with its state and goes on as the next
    generation; one that is missing goes on from its newest state. With `fresh` nothing may run: Flink begins anew, and
    Spark goes on from its checkpoints, or its files would be doubled. Without `wait` it returns when the engines have
    taken the jobs; `await_healthy` does the rest. With `only_missing` a job that runs otherwise than declared is left
    as it is, and so is one that lost messages: a restart brings none back. With `accept_loss` a job that failed because
    messages were deleted before it read them continues behind them; what was lost is recorded until the data is
    removed. What is deployed `for_run` belongs to that run, unless it was deployed before; a deploy without it takes it
    over.
    """
    variant = load(name)
    if not plan:  # what is lacking besides the jobs is in the plan of `provision`
        _complain_unless_provisioned(target, variant)
    with alone(target, name):
        if only_missing and not is_wanted(target, name):
            return []  # torn down since the caller looked
        last = deployed(target, name)
        if accept_loss and not plan:
            for failed in last.values():
                _accept(target, failed, target.engine(failed.engine).job(failed).lost, report)
        # What died goes on as what it was: whether the pattern says something else by now is not asked.
        asked_for = last.values() if only_missing else plans(target, variant)
        steps = [_step(target, wanted, last.get(wanted.engine), only_missing) for wanted in asked_for]
        if fresh:
            _complain_of_running(steps)
        complain_of_moved([step.replaces for step in steps if step.replaces], [step.plan for step in steps])
        if plan:
            return [step.change for step in steps]
        if not only_missing:
            if not (for_run and is_wanted(target, name)):
                _wanted_file(target, name).write_text(for_run, encoding="utf-8")
            stack.given_up_file(target.settings, name).unlink(missing_ok=True)
        for step in steps:
            if step.change.action == "keep":
                continue
            report(f"{step.change.name}: {step.change.detail}")
            engine = target.engine(step.plan.engine)
            state_from = engine.stop(step.replaces) if step.replaces else None
            if state_from is None and not fresh:
                state_from = engine.latest_state(step.plan)
            _start(target, step.plan, state_from, report)
        if wait:
            _await_deployed(target, name, [step.plan.engine for step in steps], accept_loss, report)
        return [step.change for step in steps]


def _await_deployed(target: Target, name: str, engines: Sequence[str], accept_loss: bool, report: Report) -> None:
    """Return when each job has completed a checkpoint; one that names what it lost continues behind it, if accepted."""
    while True:
        current = deployed(target, name)
        try:
            return _await_healthy(target, [current[engine] for engine in engines], report)
        except LostError as error:
            if not accept_loss:
                raise
            _accept(target, error.plan, error.lost, report)
            again = replace(error.plan, generation=error.plan.generation + 1)
            again = replace(again, accepted=_accepted(target, name, again.engine))
            _start(target, again, target.engine(again.engine).latest_state(again), report)


def _accept(target: Target, plan: EnginePlan, lost: Sequence[Loss], report: Report) -> None:
    """Record what the next job is to continue without, before it does."""
    if not lost:
        return
    path = _losses_file(target, plan.pattern)
    at_ms = int(time.time() * 1000)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for loss in lost:
        report(f"given up: {loss}")
        kept.append({"engine": plan.engine, "generation": plan.generation, "accepted_ms": at_ms, "loss": loss.plain()})
    write_whole(path, kept)


def _accepted(target: Target, name: str, engine: str) -> tuple[Loss, ...]:
    """The losses that the next job may meet: in each place the last that was accepted."""
    return tuple({loss.place: loss for loss in losses(target, name).get(engine, ())}.values())


def losses(target: Target, name: str) -> dict[str, tuple[Loss, ...]]:
    """The losses that were accepted of a pattern, by engine, oldest first."""
    path = _losses_file(target, name)
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    found: dict[str, tuple[Loss, ...]] = {}
    for each in content:
        found[each["engine"]] = (*found.get(each["engine"], ()), Loss(**each["loss"]))
    return found


def _start(target: Target, plan: EnginePlan, state_from: str | None, report: Report) -> None:
    """Start the job as the plan's generation, or as the next one whose id the engine still takes."""
    while True:
        # Written before the job is submitted: whoever is killed in between finds the same id again.
        record(target, plan.pattern, plan)
        try:
            return target.engine(plan.engine).start(plan, state_from)
        except UsedUpError:
            # An hour after a job has ended Flink answers as if it never was, and still takes its id no more.
            plan = replace(plan, generation=plan.generation + 1)
            report(f"{job_name(plan)}: an earlier job had the id of the generation before")


def _complain_of_running(steps: Iterable[_Step]) -> None:
    """Refuse to give up the state of what runs."""
    for step in steps:
        if step.change.action != "start":
            name = step.plan.pattern
            raise EngineError(f"{name}: {job_name(step.replaces or step.plan)} runs; `millrace teardown {name}` first")


def complain_of_moved(running: Iterable[EnginePlan], wanted: Sequence[EnginePlan]) -> None:
    """Refuse to hand a rule or summary to another engine while it runs: what the first remembers, the other cannot."""
    for old in running:
        mine = {name for plan in wanted if plan.engine == old.engine for name in plan.judges}
        theirs = {name: plan.engine for plan in wanted for name in plan.judges if plan.engine != old.engine}
        moved = [name for name in old.judges if name not in mine and name in theirs]
        if moved:
            raise EngineError(
                f"{old.pattern}: upgrade refused, {job_name(old)} goes on as it was: what it remembers for "
                f"{', '.join(moved)} cannot move to {theirs[moved[0]]}; `millrace teardown {old.pattern}` first"
            )


def await_healthy(target: Target, name: str, report: Report = lambda line: None) -> None:
    """Return when each job that was deployed of the pattern runs and has completed a checkpoint."""
    found = deployed(target, name)
    if not found:
        raise InfraError(f"{name} was never deployed; `millrace deploy {name}` does it")
    _await_healthy(target, found.values(), report)


def validate(
    target: Target,
    name: str,
    *,
    within_s: float = VALIDATE_WITHIN_S,
    settled_after_s: float = SETTLED_AFTER_S,
    report: Report = lambda line: None,
) -> Validation:
    """Hold all that the pattern put out against all that went in, and keep the verdict as a record and as a page."""
    variant = load(name)
    tapes = traffic.runs(target.settings, name)
    found = validation.verdict(
        target,
        variant,
        within_s=within_s,
        settled_after_s=settled_after_s,
        in_force=in_force(target, name),
        lost=[loss for each in losses(target, name).values() for loss in each],
        labels=traffic.labels(tapes),
        began_ms=[tape.start_ms for tape in tapes],
        report=report,
    )
    restarts = {engine: job.restarts for engine, (_, job) in jobs(target, name).items()}
    generations = {engine: plan.generation for engine, plan in deployed(target, name).items()}
    figures = found.record() | {"restarts": restarts, "generations": generations}
    if (gap_ms := _upgrade_gap_ms(target, name)) is not None:
        figures["upgrade_gap_ms"] = gap_ms
    path = records.append(target.settings, f"verdict-{name}", figures)
    page = path.with_suffix(".html")
    page.write_text(html(found, _about(path)), encoding="utf-8")
    return Validation(found, path, page)


def teardown(target: Target, name: str, *, data: bool = False, plan: bool = False, for_run: str = "") -> list[Change]:
    """Stop the pattern's jobs, keeping their state; with `data` remove all that the pattern ever wrote.

    With `for_run` a pattern that was not deployed for that run stays as it is.
    """
    variant = load(name)
    with alone(target, name):
        if for_run and is_wanted(target, name) and _wanted_file(target, name).read_text(encoding="utf-8") != for_run:
            detail = "not deployed by this run, so it stays"
            return [Change("job", job_name(each), "keep", detail) for each in deployed(target, name).values()]
        changes = []
        if not plan:
            _wanted_file(target, name).unlink(missing_ok=True)  # first: what is killed from here on is not restarted
        for deployed_plan in reversed(list(deployed(target, name).values())):
            engine = target.engine(deployed_plan.engine)
            is_up = engine.job(deployed_plan).is_up
            if is_up and not plan:
                engine.stop(deployed_plan)
            changes.append(Change("job", job_name(deployed_plan), "stop" if is_up else "keep"))
        if data:
            changes += topics.remove(target.bootstrap, list(topics_of(variant).values()), plan=plan)
            changes += target.hbase.remove(list(tables_of(name)), plan=plan)
            changes.append(target.hdfs.remove(target.folder(variant), plan=plan))
            changes.append(target.hdfs.remove(f"{ROOT}/checkpoints/{name}", plan=plan))
            if not plan:
                topics.keep_contracts(target.bootstrap, dict.fromkeys(topics_of(variant).values()))
                traffic.forget(target.settings, name)
                deployed_file(target, name).unlink(missing_ok=True)
                upgrade_file(target, name).unlink(missing_ok=True)
                _past_file(target, name).unlink(missing_ok=True)
                _losses_file(target, name).unlink(missing_ok=True)
        return changes


def reconcile(
    target: Target, *, plan: bool = False, report: Report = lambda line: None
) -> tuple[list[Change], list[Running]]:
    """Start again what was left running and is gone, each from its newest state; and what runs that nobody asked for.

    What runs otherwise than its pattern says is left as it is: that is for `deploy`, with a person behind it.
    """
    wanted = [name for name in names() if is_wanted(target, name)]
    changes = [
        change
        for name in wanted
        for change in deploy(target, name, plan=plan, wait=False, only_missing=True, report=report)
    ]
    return changes, extra(target)


def extra(target: Target) -> list[Running]:
    """Jobs of patterns that run though nobody asked for them, or that run twice."""
    found = []
    for engine in sorted({plan.engine for name in names() for plan in deployed(target, name).values()}):
        asked_for = {
            deployed(target, name)[engine].job_id
            for name in names()
            if is_wanted(target, name) and engine in deployed(target, name)
        }
        for running in target.engine(engine).running():
            if running.job_id not in asked_for:
                found.append(running)
            asked_for.discard(running.job_id)  # a second one of the same is one too many
    return found


def is_wanted(target: Target, name: str) -> bool:
    """Whether the pattern was deployed and not torn down since: its jobs ought to run."""
    return _wanted_file(target, name).exists()


def jobs(target: Target, name: str) -> dict[str, tuple[EnginePlan, Job]]:
    """The pattern's jobs as they are now, by engine."""
    found = {engine: (plan, target.engine(engine).job(plan)) for engine, plan in deployed(target, name).items()}
    if not stack.given_up_file(target.settings, name).exists():
        return found
    return {engine: (plan, job if job.is_up else _given_up(name, job)) for engine, (plan, job) in found.items()}


def _given_up(name: str, job: Job) -> Job:
    remedy = f"the watcher no longer restarts it; mend the cause, then `millrace deploy {name}`"
    return replace(job, state="given-up", problem=f"{job.problem}; {remedy}" if job.problem else remedy)


def sick(target: Target) -> dict[str, Job]:
    """The jobs that ought to run and are not well, by what people call them."""
    return {
        job_name(plan): job
        for name in names()
        if is_wanted(target, name)
        for plan, job in jobs(target, name).values()
        if job.is_sick
    }


def stalled(target: Target, found: Iterable[tuple[EnginePlan, Job]]) -> list[EnginePlan]:
    """Of these jobs, those that make no progress and that a restart may help."""
    return [plan for plan, job in found if job.state == "stalled" and target.engine(plan.engine).restarts_stalled]


def end_stalled(target: Target, name: str) -> None:
    """End the jobs that make no progress and that a restart may help."""
    with alone(target, name):
        found = jobs(target, name).values() if is_wanted(target, name) else ()
        for plan in stalled(target, found):
            target.engine(plan.engine).end_stalled(plan)


def plans(target: Target, variant: Variant, generation: int = 1) -> list[EnginePlan]:
    """What each engine of the pattern should run."""
    made = engine_plans(variant, generation, target.bootstrap, target.checkpoints, target.stores(variant))
    return [replace(plan, accepted=_accepted(target, variant.name, plan.engine)) for plan in made]


def wanted_topics(variant: Variant) -> list[topics.Topic]:
    """The topics of a pattern as they must be."""
    use, pattern = variant.use, variant.pattern
    compacted = {event_type.name for event_type in use.references}
    # By time alone: what a broker limits in bytes would go sooner than the pattern says.
    retention_ms = str(pattern.retention_hours * 3_600_000)
    keeps = {"retention.ms": retention_ms, "retention.bytes": "-1"}
    # What a message was judged by stays for as long as the message: the verdict reads both.
    overwrites = topics.COMPACTED | {"min.compaction.lag.ms": retention_ms}
    return [
        topics.Topic(
            topic,
            1 if kind in compacted or kind == HOP else pattern.partitions,
            topics.APPEND_TIME | (overwrites if kind in compacted else keeps),
        )
        for kind, topic in topics_of(variant).items()
    ]


def deployed(target: Target, name: str) -> dict[str, EnginePlan]:
    """The plans that were last deployed of a pattern, by engine."""
    try:
        content = json.loads(deployed_file(target, name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {engine: EnginePlan.from_json(json.dumps(plan)) for engine, plan in content.items()}


def job_name(plan: EnginePlan) -> str:
    """What people call a job: pattern, engine and generation."""
    return f"{plan.pattern}/{plan.engine} generation {plan.generation}"


@dataclass(frozen=True)
class _Step:
    """What deploy does about one engine."""

    change: Change
    plan: EnginePlan
    replaces: EnginePlan | None = None


def _about(record: Path) -> dict[str, str | float | None]:
    """Which run a page is about: what its record says of the machine and the moment."""
    kept = json.loads(record.read_text(encoding="utf-8"))
    generations = ", ".join(f"{engine} {number}" for engine, number in kept["figures"]["generations"].items())
    gap_ms = kept["figures"].get("upgrade_gap_ms")
    return {
        "at": kept["at"],
        "commit": kept["commit"],
        "generations": generations,
        **({} if gap_ms is None else {"gap of the upgrade": f"{gap_ms} ms"}),
        "cpus": kept["machine"]["cpus"],
        "load before": round(kept["load_average"][0], 1),
    }


def _step(target: Target, wanted: EnginePlan, last: EnginePlan | None, only_missing: bool) -> _Step:
    engine = target.engine(wanted.engine)
    current = replace(wanted, generation=last.generation if last else 1)
    # What was removed with all its data has used up its ids, too.
    while last is None and engine.job(current).state in ("stopped", "failed"):
        current = replace(current, generation=current.generation + 1)
    following = replace(current, generation=current.generation + 1)
    job = engine.job(last or current)
    if job.lost and only_missing:
        return _Step(Change("job", job_name(current), "keep", job.problem), current)
    if job.is_up and (last is None or wanted.is_same_as(last)):
        return _Step(Change("job", job_name(current), "keep", "runs as it should"), current)
    if job.is_up:
        detail = f"stop generation {current.generation} with its state, go on as {following.generation}"
        return _Step(Change("job", job_name(following), "change", detail), following, replaces=last)
    # An id whose job has ended is used up; one that the engine never heard of, or lost in a crash, is not.
    fresh_id = current if job.state == "absent" else following
    return _Step(Change("job", job_name(fresh_id), "start", job.problem or "not running"), fresh_id)


def _await_healthy(target: Target, plans: Iterable[EnginePlan], report: Report) -> None:
    """Return when each job has completed a checkpoint; all have one deadline, as their caller has."""
    deadline = time.monotonic() + DEPLOY_WITHIN_S
    engines = set()
    for plan in plans:
        _await_checkpoint(target, plan, deadline, report)
        engines.add(plan.engine)
    # What has worked by now has loaded nearly all that it ever will.
    cluster = {server.name for server in services(target.settings)["flink"].servers}
    archives.make(target.settings, report, idle=cluster if "flink" not in engines else ())


def _await_checkpoint(target: Target, plan: EnginePlan, deadline: float, report: Report) -> None:
    engine, said, is_asked_for = target.engine(plan.engine), "", False
    while True:
        job = engine.job(plan)
        if job.state == "running" and job.checkpoints > 0:
            report(f"{job_name(plan)}: running, first checkpoint done")
            return
        if job.state == "running" and not is_asked_for:
            is_asked_for = engine.request_checkpoint(plan)
        if job.lost:
            raise LostError(plan, job)
        if job.state in ("failed", "stopped", "absent"):
            raise EngineError(
                f"{job_name(plan)} is {job.state}: {job.problem or 'no reason given'}; see `millrace logs`"
            )
        if time.monotonic() > deadline:
            raise EngineError(
                f"{job_name(plan)} was {job.state} with {job.checkpoints} checkpoints after {DEPLOY_WITHIN_S} s "
                f"({job.problem or 'no error'}); see {job.web or '`millrace logs`'}"
            )
        if (now := f"{job_name(plan)}: {job.state}, waiting for its first checkpoint") != said:
            report(said := now)
        time.sleep(0.2)


def _ensure_stores(target: Target, variant: Variant, *, plan: bool) -> list[Change]:
    persist = variant.pattern.stages.persist
    changes = [target.hdfs.ensure_folder(target.folder(variant), plan=plan)]
    if persist and "hbase" in persist.to:
        changes += target.hbase.ensure(tables_of(variant.name), plan=plan)
    return changes


def _ensure_contracts(target: Target, variant: Variant, *, plan: bool) -> list[Change]:
    wanted = {variant.topic(kind): schema for kind, schema in contracts_of(variant.use).items()}
    agreed = topics.contracts(target.bootstrap)
    changes, differing = [], {}
    for topic, schema in wanted.items():
        before = agreed.get(topic)
        if before is None or before != json.loads(json.dumps(schema)):
            breaks = breaking_changes(before, schema) if before else []
            if breaks:
                raise ContractError(f"topic {topic}: its contract would break: {'; '.join(breaks)}")
            differing[topic] = schema
        action: Action = "keep" if topic not in differing else "change" if before else "create"
        changes.append(Change("contract", topic, action))
    if differing and not plan:
        topics.keep_contracts(target.bootstrap, differing)
    return changes


def _complain_unless_provisioned(target: Target, variant: Variant) -> None:
    missing = [
        change.name
        for change in topics.ensure(target.bootstrap, wanted_topics(variant), plan=True)
        if change.action == "create"
    ]
    if missing:
        raise InfraError(
            f"{variant.name} is not provisioned (no topic {missing[0]}); run `millrace provision {variant.name}` first"
        )


def record(target: Target, name: str, plan: EnginePlan) -> None:
    """Remember the plan as the one deployed last on its engine; what stood there until now has stopped."""
    last = deployed(target, name).get(plan.engine)
    if last is not None and (changed := _meant_otherwise(last, plan)):
        write_whole(_past_file(target, name), [*_past(target, name), *changed])
    content = {engine: json.loads(each.to_json()) for engine, each in deployed(target, name).items()}
    content[plan.engine] = json.loads(plan.to_json())
    write_whole(deployed_file(target, name), content)


def in_force(target: Target, name: str) -> dict[str, InForce]:
    """The rules and summaries of a pattern that once meant something else, and since when they mean what they do."""
    now = {each: version for plan in deployed(target, name).values() for each, version in plan.versions.items()}
    found: dict[str, InForce] = {}
    for past in _past(target, name):
        each = past["name"]
        versions = {past["version"], *found.get(each, InForce()).earlier}
        found[each] = InForce(past["until_ms"], frozenset(versions) - {None, now.get(each)})
    return found


def _meant_otherwise(last: EnginePlan, plan: EnginePlan) -> list[dict[str, Any]]:
    until_ms = int(time.time() * 1000)
    return [
        {"name": name, "version": last.versions.get(name), "until_ms": until_ms}
        for name in sorted({*last.versions, *plan.versions})
        if last.versions.get(name) != plan.versions.get(name)
    ]


def _past(target: Target, name: str) -> list[dict[str, Any]]:
    try:
        past: list[dict[str, Any]] = json.loads(_past_file(target, name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return past


def _past_file(target: Target, name: str) -> Path:
    """Which versions of its rules a pattern had, and until when."""
    return deployed_file(target, name).with_suffix(".past")


def _losses_file(target: Target, name: str) -> Path:
    """Which messages a pattern was to continue without, and since when."""
    return deployed_file(target, name).with_suffix(".losses")


def write_whole(path: Path, content: object) -> None:
    """Write what must never be seen half."""
    arriving = path.with_suffix(".arriving")
    arriving.write_text(json.dumps(content, indent=1), encoding="utf-8")
    arriving.replace(path)


def deployed_file(target: Target, name: str) -> Path:
    """Where the plans deployed last are written down."""
    if not is_name(name):
        raise UsageError(f"'{name}' cannot be the name of a pattern; `millrace patterns` lists them")
    folder = target.settings.state / "patterns"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.json"


def upgrade_file(target: Target, name: str) -> Path:
    """Where the last upgrade of the pattern is written down, by infra/upgrades.py."""
    return deployed_file(target, name).with_suffix(".upgrade")


def _upgrade_gap_ms(target: Target, name: str) -> int | None:
    """For how long nothing came out in the upgrade that made the generation that runs."""
    try:
        upgrade = json.loads(upgrade_file(target, name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    is_latest = all(
        plan.generation == upgrade["plans"][engine]["generation"] + 1
        for engine, plan in deployed(target, name).items()
        if engine in upgrade["plans"]
    )
    return upgrade.get("gap_ms") if is_latest else None


def _wanted_file(target: Target, name: str) -> Path:
    """There while the pattern is deployed; holds the run that it was deployed for, if it was for one."""
    return deployed_file(target, name).with_suffix(".wanted")


@contextmanager
def alone(target: Target, name: str) -> Iterator[None]:
    """One verb at a time for each pattern; the lock dies with its process."""
    with deployed_file(target, name).with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
