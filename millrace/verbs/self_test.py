"""`verify --self-test` spoils a finished run in every way that its declaration gives; the verdict must notice each."""

from __future__ import annotations

from collections.abc import Callable

from millrace import deployments
from millrace.patterns import load
from millrace.target import Target
from millrace.verbs import traffic, validation
from millrace.verify import spoiling
from millrace.verify.spoiling import SelfTest


def self_test(target: Target, name: str, *, report: Callable[[str], None] = lambda line: None) -> SelfTest:
    """Read a run as `validate` does, and spoil what was read; nothing that is stored changes."""
    variant = load(name)
    tapes = traffic.runs(target.settings, name)
    question, evidence = validation.finished(
        target,
        variant,
        in_force=deployments.in_force(target, name),
        counted=traffic.counted(variant.use, tapes),
        tapes=tapes,
        report=report,
    )
    return spoiling.self_test(question, evidence, report)
