"""Lateness: only what arrived, or came out, well behind the newest event may be kept out of the windows as late."""

from __future__ import annotations

from millrace.rules.outputs import DEAD_LETTERS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import place_of


def lateness(case: Case) -> Found | Undecided:
    """Late dead letters of events that were not late.

    An event may be late only because another partition was read ahead of its own. That is rare: more of them than
    chance explains may be real, but nothing shows it.
    """
    offenders, disorder_ms = [], case.question.use.disorder_ms
    for origin in case.late:
        behind_ms = case.behind_ms.get(origin)
        if behind_ms is None:
            offenders.append(f"{place_of(origin)} is a late dead letter but was not accepted")
        elif behind_ms <= disorder_ms:
            offenders.append(f"{place_of(origin)} is a late dead letter, only {behind_ms} ms behind the newest event")
    figures = {"late": len(case.late), "races": (raced := len(case.raced_late))}
    undecided = [f"{each}, and only by that they are late" for each in case.too_many_races(raced, "lateness")]
    if lost := case.unaccounted:
        undecided.append(
            f"{len(lost)} events, the first {place_of(lost[0])}, came out long after their windows were over, and are "
            "in no alert and no late dead letter"
        )
    if undecided and not offenders:
        return Undecided("; ".join(undecided), figures)
    return Found(figures, sorted(offenders))


CHECKER = Checker("lateness", "Were only late events kept out of the windows?", lateness, needs=(DEAD_LETTERS.name,))
