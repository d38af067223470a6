"""Two patterns that were sent the same tape must have raised the same alerts, whatever engine runs their rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from millrace import records
from millrace.errors import InfraError, UsageError
from millrace.patterns import load
from millrace.rules import ALERTS
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs import traffic
from millrace.verbs.sending import Run
from pipelines.fraud.tokens import Tokens
from pipelines.fraud.traffic import Plan
from pipelines.fraud.traffic import traffic as made_after

DIFFERENCES_MOST = 10
SAME_TAPE = ("events", "rate_per_s", "seed", "poison_share", "duplicate_share", "customers")


@dataclass(frozen=True)
class Comparison:
    """What both raised on the tape, and what it took each."""

    left: str
    right: str
    tape: str
    alerts: int
    """Raised by both."""
    open: int
    """Left out: a purchase and the phone's report were sent at one moment, and either may come first."""
    differences: tuple[str, ...]
    figures: Mapping[str, Mapping[str, Any]]
    """By pattern: latencies, processor time."""

    @property
    def equal(self) -> bool:
        return not self.differences


def compare(target: Target, left: str, right: str, tape: str) -> Comparison:
    """Hold the alerts of two patterns on one tape against each other."""
    if left == right:
        raise UsageError(f"{left} was named twice; compare two patterns")
    runs = {name: _run(target, name, tape) for name in (left, right)}
    _require_the_same(runs)
    raced = _raced(runs[left])
    alerts = {name: _alerts(target, name, tape) for name in (left, right)}
    open_ids = {i for found in alerts.values() for i, alert in found.items() if raced & set(alert["transaction_ids"])}
    settled = {name: {i: a for i, a in found.items() if i not in open_ids} for name, found in alerts.items()}
    differences = [
        *(_only(left, settled[left][i]) for i in sorted(settled[left].keys() - settled[right].keys())),
        *(_only(right, settled[right][i]) for i in sorted(settled[right].keys() - settled[left].keys())),
    ]
    return Comparison(
        left,
        right,
        tape,
        alerts=len(settled[left].keys() & settled[right].keys()),
        open=len(open_ids),
        differences=tuple(differences[:DIFFERENCES_MOST]),
        figures={name: _figures(target, name, run) for name, run in runs.items()},
    )


def _run(target: Target, name: str, tape: str) -> Run:
    for run in reversed(traffic.runs(target.settings, name)):
        if run.about.get("plan", {}).get("name") == tape:
            return run
    raise InfraError(f"{name} was not sent the tape '{tape}'; `millrace traffic {name} --name {tape}` sends it")


def _require_the_same(runs: Mapping[str, Run]) -> None:
    (left, first), (right, second) = runs.items()
    for name in SAME_TAPE:
        one, other = first.about["plan"][name], second.about["plan"][name]
        if one != other:
            raise InfraError(f"not the same tape: {name} was {one} for {left} and {other} for {right}")


def _raced(run: Run) -> set[str]:
    """The purchases that were sent together with the phone's report."""
    made = made_after(Plan(**run.about["plan"]), Tokens(b"labels"), run.start_ms)
    raced = (message for message in made if message.label.kind == "race" and message.value)
    return {found for message in raced if (found := json.loads(message.value or b"{}").get("transaction_id"))}


def _alerts(target: Target, name: str, tape: str) -> dict[str, dict[str, Any]]:
    """The pattern's alerts on the tape, each once."""
    with closing(Tail(target.bootstrap, {ALERTS.name: load(name).topic(ALERTS)})) as tail:
        alerts: Iterable[dict[str, Any]] = [json.loads(record.value) for record in tail.new() if record.value]
    return {
        alert["alert_id"]: alert
        for alert in alerts
        if any(str(each).startswith(f"{tape}-") for each in alert["transaction_ids"])
    }


def _only(pattern: str, alert: Mapping[str, Any]) -> str:
    return f"only {pattern} raised {alert['rule']} for {', '.join(alert['transaction_ids'][:3])} ({alert['alert_id']})"


def _figures(target: Target, name: str, run: Run) -> dict[str, Any]:
    verdicts = records.read(target.settings, f"verdict-{name}")
    latest = verdicts[-1]["figures"] if verdicts else {}
    return {"latencies": latest.get("latencies", []), "cpu_s": run.about.get("cpu_s", {}), "events": run.sent}
