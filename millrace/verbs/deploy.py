"""`deploy` runs a pattern's jobs as declared: adopts, starts or replaces each, and waits for its first checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace import deployments, registry
from millrace.deployments import Companion, alone, deployed, is_wanted, job_name
from millrace.errors import InfraError
from millrace.job import EngineError, Job, UsedUpError
from millrace.machine import archives
from millrace.machine.processes import wait_until
from millrace.patterns import EnginePlan, load
from millrace.patterns.loss import Loss
from millrace.stack.services import services
from millrace.stores import topics
from millrace.stores.changes import Change
from millrace.target import Target
from millrace.verbs import lineage
from millrace.verbs.companions import renew
from millrace.verbs.provision import require_contracts_and_stores, require_provisioned

Report = Callable[[str], None]
DEPLOY_WITHIN_S = 540
"""A task of Airflow has ten minutes."""


class LostError(EngineError):
    """A job that failed because messages were deleted before it read them."""

    def __init__(self, plan: EnginePlan, job: Job) -> None:
        super().__init__(f"{job_name(plan)} is {job.state}: {job.problem}")
        self.plan, self.lost = plan, job.lost


@dataclass(frozen=True)
class Step:
    """What deploy does on one engine."""

    change: Change
    plan: EnginePlan
    replaces: EnginePlan | None = None


def deploy(
    target: Target,
    name: str,
    *,
    plan: bool = False,
    fresh: bool = False,
    wait: bool = True,
    only_missing: bool = False,
    accept_loss: bool = False,
    companions: Collection[Companion] = (),
    for_run: str = "",
    engines: Collection[str] | None = None,
    report: Report = lambda line: None,
) -> list[Change]:
    """Run the pattern's jobs as declared, and return when each has completed a checkpoint.

    A job that runs its plan is adopted; one that runs another plan is stopped with its state and continues as the next
    generation; a missing one continues from its newest state. With `fresh` nothing may run, and jobs start without
    their earlier state, unless they would double what they stored. A plan that no job has run is refused, before any
    job is touched, if it breaks a contract or lacks one, or a table. Without `wait` it returns when the engines have
    accepted the jobs; `await_healthy` does the rest. With `only_missing` a dead job is restarted from
    its deployed plan, even if the pattern has changed, and nothing else is touched. With `accept_loss` a job that
    failed because messages were deleted before it read them continues behind them; the loss is recorded until the data
    is removed. A pattern deployed `for_run` belongs to that run, unless it was deployed before; a deploy without it
    takes the pattern over. With `engines` only the jobs of these engines are touched. The watcher keeps the
    `companions` of the pattern running until `teardown`.
    """
    variant = deployments.as_deployed(target, name) if only_missing else load(name)
    if not plan:  # what else is missing is in the plan of `provision`
        require_provisioned(target, variant)
    with alone(target, name):
        if only_missing and not is_wanted(target, name):
            return []  # torn down since the caller looked
        last = deployed(target, name)
        if not plan and not only_missing:
            _refuse_short(target, name, [each for each in deployments.plans(target, variant) if _is_of(each, engines)])
        if accept_loss and not plan:
            for failed in last.values():
                _accept(target, failed, target.engine(failed.engine).job(failed).lost, report)
        in_use = deployments.in_use(target, name)
        wanted_plans = [*in_use.values()] if only_missing else deployments.plans(target, variant)
        wanted_plans = [each for each in wanted_plans if _is_of(each, engines)]
        steps = [_step(target, wanted, last.get(wanted.engine), only_missing, fresh) for wanted in wanted_plans]
        if fresh:
            _refuse_running(steps)
        refuse_moved([step.replaces for step in steps if step.replaces], [step.plan for step in steps])
        if engines is None and not only_missing:
            refuse_left(target, name, last, [step.plan for step in steps])
        if plan:
            return [step.change for step in steps]
        if not only_missing and any(_is_new(step.plan, last) for step in steps):
            require_contracts_and_stores(target, variant)
        if not only_missing:
            deployments.keep([step.plan for step in steps if step.change.action != "keep"], variant)
            if fresh:  # all before any runs: if this is killed, the next start of each job has no earlier state either
                for step in steps:
                    deployments.record(target, name, step.plan)
            deployments.want(target, name, for_run)
            for companion in companions:
                deployments.want_companion(target, name, companion)
        for step in steps:
            if step.change.action == "keep":
                continue
            report(f"{step.change.name}: {step.change.detail}")
            engine = target.engine(step.plan.engine)
            state_from = engine.stop(step.replaces) if step.replaces else None
            if state_from is None and not fresh:
                state_from = engine.latest_state(step.plan)
            _start(target, step.plan, state_from, report)
        if not only_missing and any(step.change.action != "keep" for step in steps):
            renew(target, name)
        if wait:
            _await_deployed(target, name, [step.plan.engine for step in steps], accept_loss, report)
        begun = {step.plan.engine for step in steps if step.change.action != "keep"}
        lineage.jobs(
            target,
            variant,
            report,
            ended=[step.replaces for step in steps if step.replaces],
            begun=[each for engine, each in deployed(target, name).items() if engine in begun],
        )
        return [step.change for step in steps]


def await_healthy(target: Target, name: str, report: Report = lambda line: None) -> None:
    """Return when each deployed job of the pattern runs and has completed a checkpoint."""
    found = deployed(target, name)
    if not found:
        raise InfraError(f"{name} was never deployed; run `millrace deploy {name}`")
    _await_healthy(target, found.values(), report)


def refuse_moved(running: Iterable[EnginePlan], wanted: Sequence[EnginePlan]) -> None:
    """Refuse to hand a rule or summary to another engine while it runs, or keys to other partitions.

    State cannot move to another engine, and the messages of a key not to another place in the order of arrival.
    """
    for old in running:
        more = next((plan.partitions for plan in wanted if plan.engine == old.engine), old.partitions)
        if more > old.partitions:
            raise EngineError(
                f"{old.pattern}: refused, {job_name(old)} keeps running: with partitions {old.partitions} -> {more} "
                f"keys move, and their new messages overtake those that are still to be read; {topics.DRAIN}"
            )
        mine = {name for plan in wanted if plan.engine == old.engine for name in plan.judges}
        theirs = {name: plan.engine for plan in wanted for name in plan.judges if plan.engine != old.engine}
        moved = [name for name in old.judges if name not in mine and name in theirs]
        if moved:
            raise EngineError(
                f"{old.pattern}: upgrade refused, {job_name(old)} keeps running: its state for "
                f"{', '.join(moved)} cannot move to {theirs[moved[0]]}; `millrace teardown {old.pattern}` first"
            )


def refuse_left(target: Target, name: str, last: Mapping[str, EnginePlan], wanted: Sequence[EnginePlan]) -> None:
    """Refuse a pattern that has left an engine on which its job still runs: both jobs would write to its topics."""
    for engine in last.keys() - {plan.engine for plan in wanted}:
        if target.engine(engine).job(last[engine]).is_up:
            raise EngineError(
                f"{name}: refused, {job_name(last[engine])} keeps running: the pattern has no stage on {engine} any "
                "more, and what its job remembers cannot move to another engine; give the changed pattern a new name, "
                f"or run `millrace teardown {name} --data` first"
            )


def _is_new(plan: EnginePlan, last: Mapping[str, EnginePlan]) -> bool:
    """Whether a plan is another one than the last of its engine: no job has run it."""
    return plan.engine not in last or not plan.is_same_as(last[plan.engine])


def _is_of(plan: EnginePlan, engines: Collection[str] | None) -> bool:
    return engines is None or plan.engine in engines


def _refuse_short(target: Target, name: str, plans: Iterable[EnginePlan]) -> None:
    """Refuse what an engine has no room for, before another engine's job is started."""
    found = {plan.engine: target.engine(plan.engine).refusal(plan) for plan in plans}
    if short := [f"{engine}: {why}" for engine, why in found.items() if why]:
        raise EngineError(f"{name}: nothing was changed: {'; '.join(short)}")


def _await_deployed(target: Target, name: str, engines: Sequence[str], accept_loss: bool, report: Report) -> None:
    """Return when each job has completed a checkpoint; one that names its losses continues behind them, if accepted."""
    while True:
        current = deployed(target, name)
        try:
            return _await_healthy(target, [current[engine] for engine in engines], report)
        except LostError as error:
            if not accept_loss:
                raise
            _accept(target, error.plan, error.lost, report)
            again = replace(error.plan, generation=error.plan.generation + 1)
            again = replace(again, accepted=deployments.accepted(target, name, again.engine))
            _start(target, again, target.engine(again.engine).latest_state(again), report)


def _accept(target: Target, plan: EnginePlan, lost: Sequence[Loss], report: Report) -> None:
    for loss in lost:
        report(f"given up: {loss}")
    deployments.accept(target, plan, lost)


def _start(target: Target, plan: EnginePlan, state_from: str | None, report: Report) -> None:
    """Start the job as the plan's generation, or as the next one whose id the engine accepts."""
    while True:
        # Recorded before the job is submitted: a retry after a crash in between finds the same id.
        deployments.record(target, plan.pattern, plan)
        try:
            return target.engine(plan.engine).start(plan, state_from)
        except UsedUpError:
            # A while after a job has ended an engine may report it as absent, and still refuse its id: Flink does.
            has_state = state_from is not None or plan.since < plan.generation
            plan = replace(plan, generation=plan.generation + 1)
            plan = plan if has_state else replace(plan, since=plan.generation)
            report(f"{job_name(plan)}: an earlier job has used the id of the previous generation")


def _refuse_running(steps: Iterable[Step]) -> None:
    """Refuse to discard the state of a running job."""
    for step in steps:
        if step.change.action != "start":
            name = step.plan.pattern
            raise EngineError(f"{name}: {job_name(step.replaces or step.plan)} runs; `millrace teardown {name}` first")


def _step(target: Target, wanted: EnginePlan, last: EnginePlan | None, only_missing: bool, fresh: bool) -> Step:
    engine = target.engine(wanted.engine)
    current = replace(wanted, generation=last.generation if last else 1)
    # A pattern that was removed with its data has used up its ids, too.
    while last is None and engine.job(current).state in ("stopped", "failed"):
        current = replace(current, generation=current.generation + 1)
    following = replace(current, generation=current.generation + 1)
    job = engine.job(last or current)
    if job.lost and only_missing:
        return Step(Change("job", job_name(current), "keep", job.problem), current)
    if job.missing and not fresh and (last is None or wanted.is_same_as(last)):
        return Step(Change("job", job_name(current), "start", job.problem), current)
    is_declared = last is None or wanted.is_same_as(last)
    has_other_code = last is not None and not only_missing and deployments.has_other_code(target, last)
    if job.is_up and is_declared and not has_other_code:
        return Step(Change("job", job_name(current), "keep", "runs as declared"), current)
    if job.is_up:
        why = "code changed: " if has_other_code else ""
        detail = f"{why}stop generation {current.generation} with its state, continue as {following.generation}"
        return Step(Change("job", job_name(following), "change", detail), following, replaces=last)
    # The id of an ended job is used up; an id that the engine never saw, or lost in a crash, is not.
    begins = current if job.state == "absent" and not (fresh and last) else following
    begins = replace(begins, since=begins.generation) if fresh else begins
    return Step(Change("job", job_name(begins), "start", job.problem or "not running"), begins)


def _await_healthy(target: Target, plans: Iterable[EnginePlan], report: Report) -> None:
    """Return when each job runs and has completed a checkpoint; the state of those before it is deleted then."""
    awaited = list(plans)
    _await_checkpoints(target, awaited, report)
    engines = {plan.engine for plan in awaited}
    # By now each JVM has loaded nearly all classes that it ever will.
    known = services(target.settings)
    idle = {server.name for name in registry.names() if name not in engines for server in known[name].servers}
    if archives.make(target.settings, report, idle):
        # They stood still meanwhile: a job whose heartbeats were missed is restarted by its engine.
        _await_checkpoints(target, awaited, report)
    for plan in awaited:
        try:
            target.engine(plan.engine).discard_earlier(plan, deployments.states_before_upgrade(target, plan.pattern))
        except InfraError as error:
            report(f"{job_name(plan)}: the state of earlier generations is still there: {error}")


def _await_checkpoints(target: Target, plans: Iterable[EnginePlan], report: Report) -> None:
    """All share one deadline."""
    deadline = time.monotonic() + DEPLOY_WITHIN_S
    for plan in plans:
        _await_checkpoint(target, plan, deadline, report)


def _await_checkpoint(target: Target, plan: EnginePlan, deadline: float, report: Report) -> None:
    engine, job, shown, is_requested = target.engine(plan.engine), Job("absent"), "", False

    def has_checkpoint() -> bool:
        nonlocal job, shown, is_requested
        job = engine.job(plan)
        if job.state == "running" and job.checkpoints > 0:
            return True
        if job.state == "running" and not is_requested:
            is_requested = engine.request_checkpoint(plan)
        if job.lost:
            raise LostError(plan, job)
        if job.state in ("failed", "stopped", "absent"):
            raise EngineError(
                f"{job_name(plan)} is {job.state}: {job.problem or 'no reason given'}; see `millrace logs`"
            )
        if (now := f"{job_name(plan)}: {job.state}, waiting for its first checkpoint") != shown:
            report(shown := now)
        return False

    if not wait_until(has_checkpoint, deadline - time.monotonic(), every_s=0.2):
        raise EngineError(
            f"{job_name(plan)} was {job.state} with {job.checkpoints} checkpoints after {DEPLOY_WITHIN_S} s "
            f"({job.problem or 'no error'}); see {job.web or '`millrace logs`'}"
        )
    report(f"{job_name(plan)}: running, first checkpoint done")
