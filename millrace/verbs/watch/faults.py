"""What is wrong with the jobs of patterns, and the restart that repairs it, if one does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from millrace import deployments, stack
from millrace.errors import InfraError
from millrace.patterns import EnginePlan, names
from millrace.rules.expressions import DeclarationError
from millrace.stack.services import needed
from millrace.target import Target
from millrace.verbs import companions
from millrace.verbs.deploy import deploy
from millrace.verbs.reconcile import end_stalled, stalled


@dataclass(frozen=True)
class Fault:
    """What is wrong with the jobs of one pattern."""

    event: Literal["gone", "stalled", "crash-looping", "unknown"]
    detail: str = ""
    repair: Callable[[], None] | None = None
    """None where no restart by the watcher helps: it only reports the job."""
    needs: frozenset[str] | None = None
    """The servers without which no restart succeeds; None: any."""
    is_failure: bool = True
    """Whether its restart counts among those after which the watcher gives up."""


def faults_of(target: Target) -> dict[str, Fault]:
    """The patterns of which a deployed job is gone, makes no progress, or fails again and again; lost companions.

    An engine that does not answer leaves only its own patterns unrepaired.
    """
    found: dict[str, Fault] = {}
    for name in names():
        try:
            if deployments.is_wanted(target, name):
                found |= _faults_of(target, name)
        except (InfraError, DeclarationError) as error:
            found[name] = Fault("unknown", str(error))
    return found


def _faults_of(target: Target, name: str) -> dict[str, Fault]:
    found: dict[str, Fault] = {}
    jobs = deployments.jobs(target, name).values()
    if any(_brokers(plan.bootstrap).isdisjoint(_brokers(target.bootstrap)) for plan, _ in jobs):
        return found  # deployed to other servers than these, by the same folder
    needs = _needs(target, [plan for plan, _ in jobs])
    for each in deployments.COMPANIONS:
        if deployments.has_companion(target, name, each) and not companions.is_running(target, name, each):
            repair = partial(_start_companion, target, name, each)
            # One that a deploy or an upgrade has stopped has no record: it starts again with the rules of now.
            is_failure = companions.recorded(target, name, each) is not None
            found[each.of(name)] = Fault("gone", repair=repair, needs=needs, is_failure=is_failure)
    sick = [job for _, job in jobs if job.state in ("crash-looping", "stalled")]
    # A verb that holds the pattern, for minutes it may be, stops and starts its jobs itself.
    is_free = not deployments.is_busy(target, name)
    if is_free and stalled(target, jobs):
        found[name] = Fault("stalled", repair=partial(_restart_stalled, target, name), needs=needs)
    elif is_free and not all(job.is_whole for _, job in jobs) and _is_missing(target, name):
        found[name] = Fault("gone", repair=partial(_start_missing, target, name), needs=needs)
    elif sick:
        found[name] = Fault("stalled" if sick[0].state == "stalled" else "crash-looping", sick[0].problem)
    return found


def _brokers(bootstrap: str) -> frozenset[str]:
    return frozenset(bootstrap.split(","))


def _start_companion(target: Target, name: str, companion: deployments.Companion) -> None:
    companions.start(target, name, companion)
    if not deployments.has_companion(target, name, companion):
        companions.stop(target, name, companion)  # a teardown came in between, and found no process to stop


def _needs(target: Target, plans: Sequence[EnginePlan]) -> frozenset[str]:
    """The servers that these jobs need, in the stack's form."""
    services = needed((plan.engine for plan in plans), (store for plan in plans for store in plan.persist))
    return stack.servers_of(target.settings, services)


def _is_missing(target: Target, name: str) -> bool:
    """Whether `deploy` would start a job."""
    return any(change.action == "start" for change in deploy(target, name, plan=True, only_missing=True))


def _restart_stalled(target: Target, name: str) -> None:
    end_stalled(target, name)
    _start_missing(target, name)


def _start_missing(target: Target, name: str) -> None:
    deploy(target, name, wait=False, only_missing=True)
