"""`verify --self-test` spoils a finished run in every way that its declaration gives; the verdict must notice each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millrace import deployments
from millrace.errors import InfraError
from millrace.patterns import backfills, load, names
from millrace.target import Target
from millrace.verbs import ledger, traffic, validation
from millrace.verify import spoiling
from millrace.verify.spoiling import SelfTest


def runs(target: Target) -> list[str]:
    """The patterns and backfills that have been deployed: each has a run."""
    found = [name for name in (*names(), *backfills.names()) if deployments.deployed(target, name)]
    if not found:
        raise InfraError("no pattern has run here; `millrace demo` runs one")
    return found


def self_test(target: Target, name: str, *, report: Callable[[str], None] = lambda line: None) -> SelfTest:
    """Read a run as `validate` does, and spoil what was read; nothing that is stored changes."""
    report(f"reading the run of {name}")
    variant = load(name)
    tapes, in_force = traffic.runs(target.settings, name), deployments.in_force(target, name)
    question, evidence = validation.finished(
        target,
        variant,
        in_force=in_force,
        lost=[loss for each in deployments.losses(target, name).values() for loss in each],
        away_ms=deployments.away_ms(target, name),
        in_flight=deployments.in_flight(target, variant),
        counted=traffic.counted(variant.use, tapes, in_force, traffic.gaps(target.settings, name)),
        tapes=tapes,
        report=report,
    )
    found = spoiling.self_test(question, evidence, report)
    if found.why:
        raise InfraError(f"{name}: {found.why}; see `millrace validate {name}`")
    if not deployments.is_judged(target, name):
        return found
    report(f"spoiling the ledger of {name}")
    return replace(found, outcomes=(*found.outcomes, *ledger.self_test(target, name)))
