"""A verdict is what the checks say together; what could not be checked is unknown, and unknown is never ok."""

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
    """One question and its answer, with the figures it rests on and the first offenders."""

    name: str
    asks: str
    status: Status
    figures: Mapping[str, Figure]
    offenders: tuple[str, ...] = ()
    why: str = ""
    """For an unknown: what was not there to be looked at."""
    is_final: bool = False
    """Whether nothing that arrives later can mend its offenders."""


@dataclass(frozen=True)
class Promise:
    """A figure that the pattern promises, beside what was measured; it depends on the machine, so it is no check."""

    name: str
    promised: float
    measured: float | None
    status: Kept


@dataclass(frozen=True)
class Verdict:
    """All that was found out about one run of a pattern."""

    pattern: str
    checks: tuple[Check, ...]
    promises: tuple[Promise, ...]
    latencies: tuple[Latency, ...]
    alerts_by_rule: Mapping[str, tuple[int, ...]]
    """Rule -> when each of its alerts reached the topic, each alert once."""
    dead_letters_by_reason: Mapping[str, int]

    @property
    def status(self) -> Status:
        """Red if anything is red; unknown if anything, or everything, went unasked; otherwise ok."""
        return together(check.status for check in self.checks)

    @property
    def is_final(self) -> bool:
        """Whether it is red, and stays red whatever arrives later."""
        return any(check.status == "failed" and check.is_final for check in self.checks)

    @property
    def promises_status(self) -> Kept:
        """Whether this machine, in this run, was as fast as the pattern promises."""
        statuses = {promise.status for promise in self.promises}
        return "broken" if "broken" in statuses else "unknown" if "unknown" in statuses else "kept"

    def check(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)

    def record(self, about: Mapping[str, Figure] | None = None) -> dict[str, Any]:
        """The verdict as plain data for a JSON file; `about` says which run it was (commit, seed, machine, load)."""
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
        }


def together(statuses: Iterable[Status]) -> Status:
    """What several answers amount to."""
    found = set(statuses)
    return "failed" if "failed" in found else "ok" if found == {"ok"} else "unknown"


def checked(
    name: str, asks: str, figures: Mapping[str, Figure], offenders: Iterable[str], *, is_final: bool = False
) -> Check:
    """A check that was made: red if it has offenders, of whom the first few are named."""
    found = list(offenders)
    status: Status = "failed" if found else "ok"
    shown = tuple(found[:OFFENDERS_MOST])
    return Check(name, asks, status, {**figures, "offenders": len(found)}, shown, is_final=is_final)


def unchecked(name: str, asks: str, why: str) -> Check:
    """A check that could not be made."""
    return Check(name, asks, "unknown", {}, why=why)
