"""A check before it runs: its name, its question, what it needs, and the function that finds offenders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from millrace.verify.case import Case
from millrace.verify.verdict import Check, Figure, checked, unchecked


@dataclass(frozen=True)
class Found:
    """What a check counted, and the offenders: without any it is ok."""

    figures: Mapping[str, Figure]
    offenders: Iterable[str] = ()
    is_settled: bool = False
    """Whether offenders remain whatever is still written about the same input."""


@dataclass(frozen=True)
class Undecided:
    """Why a check can be neither ok nor failed."""

    why: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    offenders: tuple[str, ...] = ()
    is_settled: bool = False
    """Whether nothing that is still written about the same input decides it."""


@dataclass(frozen=True)
class Checker:
    """One check of a run; `checks` lists all of them."""

    name: str
    asks: str
    find: Callable[[Case], Found | Undecided]
    needs: tuple[str, ...] = ()
    """Outputs and stores, by their keys in the evidence; without one of them the check is unknown."""
    reads: tuple[str, ...] = ()
    """Others that it reads where they exist; it is unknown only if they exist and could not be read."""
    needs_inputs: bool = True
    """Whether it compares with the raw topics: without one of them it is unknown."""
    is_final: bool = False
    """Whether its offenders remain offenders after any later output."""

    def check(self, case: Case) -> Check:
        """The answer for one run."""
        unread = case.evidence.unread
        absent = [
            name.replace("-", " ") + (f" ({unread[name]})" if name in unread else "")
            for name in (*self.needs, *self.reads)
            if name in unread or (name in self.needs and case.evidence.part(name) is None)
        ]
        if self.needs_inputs:
            absent += case.unread
        found = self._unread(case, absent) if absent else self.find(case)
        if isinstance(found, Undecided):
            check = unchecked(self.name, self.asks, found.why, found.figures, found.offenders)
            return replace(check, is_settled=found.is_settled)
        check = checked(self.name, self.asks, found.figures, found.offenders)
        is_settled = check.status == "failed" and (self.is_final or found.is_settled)
        return replace(check, is_final=self.is_final, is_settled=is_settled)

    def _unread(self, case: Case, absent: Iterable[str]) -> Undecided:
        is_settled = self.needs_inputs and case.has_lost_input
        return Undecided(f"could not be read: {', '.join(absent)}", is_settled=is_settled)
