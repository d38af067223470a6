"""`compare` puts the figures of two patterns on one tape side by side: verdicts, latencies, processor time.

It compares no alerts: `validate` has compared those of each pattern with the oracle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace import records
from millrace.errors import InfraError, UsageError
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic.planned import plan_of
from millrace.traffic.runs import Run
from millrace.verbs import traffic

SAME_TAPE = ("events", "rate_per_s", "seed")
"""Besides the shares and sizes of the use."""


@dataclass(frozen=True)
class Comparison:
    """The figures of both patterns."""

    left: str
    right: str
    tape: str
    figures: Mapping[str, Mapping[str, Any]]
    """By pattern: the latest verdict and its latencies, processor time, events sent."""


def compare(target: Target, left: str, right: str, tape: str) -> Comparison:
    """Read what was measured of both patterns; refuse tapes that differ."""
    if left == right:
        raise UsageError(f"{left} was named twice; compare two patterns")
    runs = {name: _run(target, name, tape) for name in (left, right)}
    _require_the_same(runs)
    return Comparison(left, right, tape, {name: _figures(target, name, run) for name, run in runs.items()})


def shared(settings: Settings, names: Iterable[str]) -> list[tuple[str, dict[str, Run]]]:
    """The tapes that several patterns were sent, the latest first, with the last run of each; the same tape for all."""
    sent: dict[str, dict[str, Run]] = defaultdict(dict)
    for name in names:
        for run in traffic.runs(settings, name):
            if plan_of(run) is not None:
                sent[run.name][name] = run
    found = {}
    for tape, runs in sent.items():
        first = min(runs, key=lambda name: runs[name].start_ms)
        same = {name: run for name, run in runs.items() if _settings(name, run) == _settings(first, runs[first])}
        if len(same) > 1:
            found[tape] = same
    return sorted(found.items(), key=lambda each: -max(run.start_ms for run in each[1].values()))


def _run(target: Target, name: str, tape: str) -> Run:
    for run in reversed(traffic.runs(target.settings, name)):
        if run.about.get("plan", {}).get("name") == tape:
            return run
    raise InfraError(f"{name} was not sent the tape '{tape}'; `millrace traffic {name} --name {tape}` sends it")


def _require_the_same(runs: Mapping[str, Run]) -> None:
    (left, first), (right, second) = ((name, _settings(name, run)) for name, run in runs.items())
    for setting in first | second:
        one, other = first.get(setting), second.get(setting)
        if one != other:
            raise InfraError(f"not the same tape: {setting} was {one} for {left} and {other} for {right}")


def _settings(name: str, run: Run) -> dict[str, Any]:
    if (plan := plan_of(run)) is None:
        raise InfraError(
            f"{name} was sent the tape '{run.name}' by another version of millrace; send it again under a new name"
        )
    return {each: getattr(plan, each) for each in SAME_TAPE} | {**plan.shares, **plan.sizes}


def _figures(target: Target, name: str, run: Run) -> dict[str, Any]:
    verdicts = records.read(target.settings, f"verdict-{name}")
    latest = verdicts[-1]["figures"] if verdicts else {}
    return {
        "verdict": latest.get("status", "unknown"),
        "latencies": latest.get("latencies", []),
        "cpu_s": run.about.get("cpu_s", {}),
        "events": run.sent,
    }
