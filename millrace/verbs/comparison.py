"""`compare` puts the figures of patterns on one tape side by side: verdicts, alerts, latencies, processor time.

Alerts are those in the topics now. Where some are in one pattern only, `validate` shows which are right: it compares
each pattern with the oracle.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace import deployments
from millrace.errors import InfraError, UsageError
from millrace.settings import Settings
from millrace.stores.topics import TopicError
from millrace.target import Target
from millrace.traffic.planned import plan_of
from millrace.traffic.runs import Run
from millrace.verbs import traffic
from millrace.verbs.alerts import alerts

Alert = tuple[str, tuple[Any, ...]]
"""The key of an alert, and the events that it rests on: the same in all runs of a tape."""
SAME_TAPE = ("events", "rate_per_s", "seed")
"""Besides the shares and sizes of the use."""


@dataclass(frozen=True)
class Comparison:
    """The figures of all patterns."""

    patterns: tuple[str, ...]
    tape: str
    figures: Mapping[str, Mapping[str, Any]]
    """By pattern: the latest verdict and its latencies, processor time, events sent, alerts by rule."""


def compare(target: Target, names: Sequence[str], tape: str) -> Comparison:
    """Read what was measured of the patterns; refuse tapes that differ."""
    if len(names) < 2:
        raise UsageError("name two patterns or more, and then the tape")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} was named twice; compare different patterns")
    runs = _runs(target, names, tape)
    _require_the_same(runs)
    counted = _counted({name: _alerts(target, name, run) for name, run in runs.items()})
    figures = {name: _figures(target, name, run) | {"alerts": counted[name]} for name, run in runs.items()}
    return Comparison(tuple(names), tape, figures)


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


def _runs(target: Target, names: Sequence[str], tape: str) -> dict[str, Run]:
    """The last run of the tape on each pattern."""
    sent = {name: traffic.runs(target.settings, name) for name in names}
    found = {name: run for name, runs in sent.items() for run in runs if traffic.tape_of(run.about) == tape}
    lacking = [name for name in names if name not in found]
    if not lacking:
        return {name: found[name] for name in names}
    first, other = lacking[0], next(iter(found), None)
    if other:
        raise InfraError(
            f"{first} was not sent the tape '{tape}'; `millrace traffic {first} --name {tape}` sends it, with the "
            f"events, rate, seed, shares and sizes that {other} was sent"
        )
    for name, runs in sent.items():
        files = [run.name for run in runs if "plan" not in run.about]
        if file := next((file for file in files if tape in (file, Path(file).stem)), None):
            raise InfraError(
                f"{name} was sent '{tape}' from the file {file}, and only generated traffic is compared; send each "
                "pattern the same traffic: `millrace traffic PATTERN --name TAPE`"
            )
    raise InfraError(f"{first} was not sent the tape '{tape}'; `millrace traffic {first} --name {tape}` sends it")


def _require_the_same(runs: Mapping[str, Run]) -> None:
    (left, first), *others = ((name, _settings(name, run)) for name, run in runs.items())
    for right, second in others:
        for setting in first | second:
            one, other = first.get(setting), second.get(setting)
            if one != other:
                raise InfraError(
                    f"not the same tape: {setting} was {one} for {left} and {other} for {right}; send all of them the "
                    "same under a new name"
                )


def _settings(name: str, run: Run) -> dict[str, Any]:
    if (plan := plan_of(run)) is None:
        raise InfraError(
            f"{name} was sent the tape '{run.name}' by another version of millrace; send it again under a new name"
        )
    return {each: getattr(plan, each) for each in SAME_TAPE} | {**plan.shares, **plan.sizes}


def _alerts(target: Target, name: str, run: Run) -> dict[str, set[Alert]] | None:
    """The alerts of a run by rule, for each rule of the pattern; None if its topic cannot be read."""
    variant = deployments.as_deployed(target, name)
    later_ms = (each.start_ms for each in traffic.runs(target.settings, name) if each.start_ms > run.start_ms)
    found: dict[str, set[Alert]] = {rule.name: set() for rule in (*variant.event_rules, *variant.window_rules)}
    try:
        own = alerts(target, variant, since_ms=run.start_ms, until_ms=min(later_ms, default=None), no_canaries=True)
    except TopicError:
        return None
    for each in (one.alert for one in own if one.alert["rule"] in found):
        # Events without ids are the same ones if they come as long after the start.
        fact = tuple(sorted(each["event_ids"])) if variant.use.judged.id else (each["at_ms"] - run.start_ms,)
        found[each["rule"]].add((each["key"], fact))
    return found


def _counted(by_pattern: Mapping[str, Mapping[str, set[Alert]] | None]) -> dict[str, dict[str, dict[str, int]] | None]:
    """By pattern and rule: how many alerts there are, and how many more another pattern has."""
    every: dict[str, set[Alert]] = defaultdict(set)
    for found in by_pattern.values():
        for rule, own in (found or {}).items():
            every[rule] |= own
    return {
        name: None
        if found is None
        else {rule: {"found": len(own), "lacking": len(every[rule] - own)} for rule, own in found.items()}
        for name, found in by_pattern.items()
    }


def _figures(target: Target, name: str, run: Run) -> dict[str, Any]:
    record = deployments.verdict_record(target, name)
    latest = json.loads(record.read_text(encoding="utf-8"))["figures"] if record else {}
    return {
        "verdict": latest.get("status", "unknown"),
        "latencies": latest.get("latencies", []),
        "cpu_s": run.about.get("cpu_s", {}),
        "events": run.sent,
    }
