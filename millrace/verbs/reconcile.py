"""`reconcile` restarts dead jobs from their deployed plans, and lists running jobs that were not deployed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from millrace.deployments import alone, deployed, is_wanted, jobs
from millrace.errors import InfraError
from millrace.job import Job, Running
from millrace.patterns import EnginePlan, backfills, names
from millrace.rules.expressions import DeclarationError
from millrace.stores.changes import Change
from millrace.target import Target
from millrace.verbs.deploy import deploy

Report = Callable[[str], None]


def reconcile(
    target: Target, *, plan: bool = False, report: Report = lambda line: None
) -> tuple[list[Change], list[Running]]:
    """Restart each dead job from its newest state; a job that differs from its pattern is left to `deploy`.

    A pattern that cannot be repaired keeps no other one from it.
    """
    changes: list[Change] = []
    problems: list[str] = []
    for name in names():
        if is_wanted(target, name):
            try:
                changes += deploy(target, name, plan=plan, wait=False, only_missing=True, report=report)
            except (InfraError, DeclarationError) as error:
                problems.append(str(error))
                report(str(error))
    if problems:
        raise InfraError("; ".join(dict.fromkeys(problems)))
    return changes, extra(target)


def extra(target: Target) -> list[Running]:
    """Jobs of patterns that run without being deployed, or that run twice."""
    found = []
    known = [*names(), *backfills.names()]
    for engine in sorted({plan.engine for name in known for plan in deployed(target, name).values()}):
        wanted = {
            deployed(target, name)[engine].job_id
            for name in known
            if is_wanted(target, name) and engine in deployed(target, name)
        }
        for running in target.engine(engine).running():
            if running.job_id not in wanted:
                found.append(running)
            wanted.discard(running.job_id)  # a second job with the same id is extra
    return found


def stalled(target: Target, found: Iterable[tuple[EnginePlan, Job]]) -> list[EnginePlan]:
    """Of these jobs, those without progress that a restart may help."""
    return [plan for plan, job in found if job.state == "stalled" and target.engine(plan.engine).restarts_stalled]


def end_stalled(target: Target, name: str) -> None:
    """End the jobs without progress that a restart may help."""
    with alone(target, name):
        found = jobs(target, name).values() if is_wanted(target, name) else ()
        for plan in stalled(target, found):
            target.engine(plan.engine).end_stalled(plan)
