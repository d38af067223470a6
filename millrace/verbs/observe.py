"""`observe` compares what is declared with what runs: states of servers, and the plans of the verbs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from millrace import deployments, stack
from millrace.errors import InfraError
from millrace.job import Job
from millrace.patterns import EnginePlan, PatternError, load
from millrace.stack.services import DEFAULT, needed
from millrace.stores.changes import Change, pending
from millrace.target import Given, Target
from millrace.verbs import deploy as deploying
from millrace.verbs import provision as provisioning


@dataclass(frozen=True)
class Observation:
    """The differences from what is declared, as sentences; an empty list means none."""

    servers: Mapping[str, list[str]]
    """Server -> what is wrong with it."""
    provision: Mapping[str, list[str]]
    """Pattern -> what `provision` would change."""
    deploy: Mapping[str, list[str]]
    """Pattern -> what `deploy` would change, or which of its jobs is sick."""
    settled: Mapping[str, str]
    """What Terraform last repaired: name of its note -> text."""


def observe(
    target: Target,
    patterns: Iterable[str],
    services: Collection[str] = DEFAULT,
    environ: Mapping[str, str] = os.environ,
) -> Observation:
    """Compare servers and plans with what is declared; what cannot be compared is a difference, too.

    Of the stack only servers of these services are declared.
    """
    names = list(patterns)
    servers = _servers(target, services) if Given.read(environ).addresses is None else {}

    def each(compare: Callable[[Target, str], list[str]]) -> dict[str, list[str]]:
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            found = pool.map(
                lambda name: _unless_unknown(lambda: _away(target, servers, name) or compare(target, name)), names
            )
            return dict(zip(names, found, strict=True))

    provision, deploy = each(_provision), each(_deploy)
    settled = {note.name: note.read_text(encoding="utf-8") for note in sorted(notes(target).glob("*"))}
    return Observation(servers, provision, deploy, settled)


def notes(target: Target) -> Path:
    """The folder in which Terraform leaves a note of each repair."""
    return target.settings.state / "settled"


def differences(old: EnginePlan, new: EnginePlan) -> list[str]:
    """The differences between two plans of one job, part by part."""
    found: list[str] = []
    for part in fields(EnginePlan):
        before, after = getattr(old, part.name), getattr(new, part.name)
        if part.name in ("generation", "declared") or before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            keys = [*before, *(key for key in after if key not in before)]
            changed = [key for key in keys if before.get(key) != after.get(key)]
            found += [
                f"{part.name}.{key}: {_described(before.get(key))} -> {_described(after.get(key))}" for key in changed
            ]
        else:
            found.append(f"{part.name}: {_described(before)} -> {_described(after)}")
    return found


def _servers(target: Target, services: Collection[str]) -> dict[str, list[str]]:
    declared = stack.servers_of(target.settings, services)
    found = stack.status(target.settings, services)
    states = {server.name: server.state for server in found if server.name in declared}
    if (watch := stack.watch_status(target.settings)).state == "dead":
        states[stack.WATCH] = watch.state
    return {name: [] if state == "running" else [f"{name} is {state}"] for name, state in states.items()}


def _away(target: Target, servers: Mapping[str, list[str]], name: str) -> list[str]:
    """The first server that a pattern needs and that does not run; no client may wait for it, as that takes long."""
    variant = load(name)
    own = stack.servers_of(target.settings, needed(variant.engines, variant.stores))
    wrong = [what for server, wrong in servers.items() if server in own for what in wrong]
    return [f"unknown: {what}" for what in wrong[:1]]


def _provision(target: Target, name: str) -> list[str]:
    return [_sentence(change) for change in pending(provisioning.provision(target, name, plan=True))]


def _deploy(target: Target, name: str) -> list[str]:
    changes = pending(deploying.deploy(target, name, plan=True))
    if not changes:
        return sick_of(deployments.jobs(target, name).values()) if deployments.is_wanted(target, name) else []
    last = deployments.deployed(target, name)
    why = [
        f"{wanted.engine} job: {difference}"
        for wanted in deployments.plans(target, load(name))
        if wanted.engine in last
        for difference in differences(last[wanted.engine], wanted)
    ]
    return [*why, *(_sentence(change) for change in changes)]


def sick_of(jobs: Iterable[tuple[EnginePlan, Job]]) -> list[str]:
    """A sentence for each sick job."""
    return [f"job {deployments.job_name(plan)} is {job.state}: {job.problem}" for plan, job in jobs if job.is_sick]


def _unless_unknown(compare: Callable[[], list[str]]) -> list[str]:
    try:
        return compare()
    except (InfraError, PatternError) as error:
        return [f"unknown: {error}"]


def _sentence(change: Change) -> str:
    return f"{change.kind} {change.name}: {change.action}" + (f" ({change.detail})" if change.detail else "")


def _described(value: Any) -> str:
    match value:
        case None:
            return "none"
        case list() | tuple():
            return ", ".join(str(each) for each in value) or "none"
    return str(value)
