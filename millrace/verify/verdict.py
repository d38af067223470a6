"""A verdict combines checks; a check that could not run is unknown, and unknown is never ok."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from millrace.verify.latency import Latency

Status = Literal["ok", "failed", "unknown"]
Kept = Literal["kept", "broken", "unknown"]
Figure = int | float | str | None

OFFENDERS_MOST = 10


@dataclass(frozen=True)
class Check:
    """One question and its answer, with figures and the first offenders."""

    name: str
    asks: str
    status: Status
    figures: Mapping[str, Figure]
    offenders: tuple[str, ...] = ()
    why: str = ""
    """For an unknown: what was missing."""
    is_final: bool = False
    """Whether its offenders remain offenders after any later output."""
    is_settled: bool = False
    """Whether no later output about the same input changes its status."""


@dataclass(frozen=True)
class Promise:
    """A promised figure beside the measured one. It depends on the machine, so it is not a check."""

    name: str
    promised: float
    measured: float | None
    status: Kept


@dataclass(frozen=True)
class Verdict:
    """The result of judging one run of a pattern."""

    pattern: str
    checks: tuple[Check, ...]
    promises: tuple[Promise, ...]
    latencies: tuple[Latency, ...]
    alerts_by_rule: Mapping[str, tuple[int, ...]]
    """Rule -> when each of its alerts reached the topic, each alert once."""
    dead_letters_by_reason: Mapping[str, int]
    notes: tuple[str, ...] = ()
    """What readers must know besides the checks, such as a run of traffic that does not count."""

    @property
    def status(self) -> Status:
        """Failed if a check failed; unknown if one is unknown, or there is none; otherwise ok."""
        return together(check.status for check in self.checks)

    @property
    def is_final(self) -> bool:
        """Whether a failed check stays failed after any later output."""
        return any(check.status == "failed" and check.is_final for check in self.checks)

    @property
    def is_settled(self) -> bool:
        """Whether no later output about the same input changes the status of any check that is not ok."""
        return all(check.status == "ok" or check.is_settled for check in self.checks)

    @property
    def promises_status(self) -> Kept:
        """Whether this run was as fast as the pattern promises; unknown if no promise was measured."""
        statuses = {promise.status for promise in self.promises}
        return "broken" if "broken" in statuses else "kept" if statuses == {"kept"} else "unknown"

    def check(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)

    def record(self, about: Mapping[str, Figure] | None = None) -> dict[str, Any]:
        """The verdict as plain data for JSON; `about` identifies the run (commit, seed, machine, load)."""
        return {
            "pattern": self.pattern,
            "status": self.status,
            "promises_status": self.promises_status,
            "about": dict(about or {}),
            "checks": [asdict(check) for check in self.checks],
            "promises": [asdict(promise) for promise in self.promises],
            "latencies": [latency.record() for latency in self.latencies],
            "alerts_by_rule": {rule: len(times) for rule, times in self.alerts_by_rule.items()},
            "dead_letters_by_reason": dict(self.dead_letters_by_reason),
            "notes": list(self.notes),
        }


def together(statuses: Iterable[Status]) -> Status:
    """The status of several checks together."""
    found = set(statuses)
    return "failed" if "failed" in found else "ok" if found == {"ok"} else "unknown"


def checked(name: str, asks: str, figures: Mapping[str, Figure], offenders: Iterable[str]) -> Check:
    """A check that ran: failed if it has offenders, of which the first are named."""
    found = list(offenders)
    status: Status = "failed" if found else "ok"
    shown = tuple(found[:OFFENDERS_MOST])
    return Check(name, asks, status, {**figures, "offenders": len(found)}, shown)


def unchecked(
    name: str, asks: str, why: str, figures: Mapping[str, Figure] | None = None, offenders: tuple[str, ...] = ()
) -> Check:
    """A check that could not run, or not decide."""
    return Check(name, asks, "unknown", figures or {}, offenders[:OFFENDERS_MOST], why)
