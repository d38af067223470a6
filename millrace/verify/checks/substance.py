"""Substance: something was judged, so that ok means something."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.verdict import Figure


def substance(case: Case) -> Found | Undecided:
    """How many messages went in, and how many were accepted."""
    if not case.judged:
        return Undecided("the raw topic is empty")
    if not case.expected.accepted:
        return Undecided("no event was accepted")
    figures: dict[str, Figure] = {kind: len(records) for kind, records in case.raw.items()}
    figures |= {"accepted": len(case.expected.accepted), "per-event findings": len(case.expected.findings)}
    return Found(figures)


CHECKER = Checker("substance", "Was there anything to judge?", substance)
