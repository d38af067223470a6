"""Lateness: only what arrived well behind the newest event may be kept out of the windows as late."""

from __future__ import annotations

from millrace.rules.outputs import DEAD_LETTERS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import place_of


def lateness(case: Case) -> Found:
    """Late dead letters of events that were not late."""
    offenders = []
    for origin in case.late:
        behind_ms = case.behind_ms.get(origin)
        if behind_ms is None:
            offenders.append(f"{place_of(origin)} is a late dead letter but was not accepted")
        elif behind_ms <= case.question.use.disorder_ms:
            offenders.append(f"{place_of(origin)} is a late dead letter, only {behind_ms} ms behind the newest event")
    return Found({"late": len(case.late)}, sorted(offenders))


CHECKER = Checker("lateness", "Were only late events kept out of the windows?", lateness, needs=(DEAD_LETTERS.name,))
