"""Absences: at most once, what a restart of the job lost is counted; nothing else may be absent."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.oracle import Origin
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.conservation import nowhere
from millrace.verify.evidence import ENRICHED, place_of
from millrace.verify.losses import shows
from millrace.verify.verdict import Figure


def absences(case: Case) -> Found | Undecided:
    """The messages without an output that no restart had in flight; what restarts lost is counted.

    An alert rests on lost state if a worker that had lost nothing would not have raised it, or with other operands.
    """
    losses, judged, lost_events = case.losses, case.question.use.judged.name, _lost_events(case)
    with_events = [each for each in case.absent_alerts.values() if losses.in_flight.issuperset(each.origins)]
    figures: dict[str, Figure] = {
        "restarts": len({each.at_ms for each in case.question.in_flight}),
        "in flight": sum(origin[0] == judged for origin in losses.in_flight),
        "events lost": len(lost_events),
        "refusals lost": len(losses.lost) - len(lost_events),
        "alerts lost": len(with_events),
        "alerts absent for lost state": len(case.absent_alerts) - len(with_events),
        "alerts that rest on lost state": len(_resting_on_lost_state(case)),
    }
    if losses.untried:
        why = f"too much of one key was in flight to find what is remembered: {', '.join(losses.untried[:3])}"
        return Undecided(why, figures)
    return Found(figures, [f"{place_of(origin)} has no output, and no restart explains it" for origin in nowhere(case)])


def notes(case: Case) -> Iterator[str]:
    """What the restarts lost, in words."""
    if (events := _lost_events(case)) or case.absent_alerts:
        yield f"restarts lost {len(events)} events and {len(case.absent_alerts)} alerts, as at-most-once allows"


def _lost_events(case: Case) -> frozenset[Origin]:
    return case.losses.lost & case.losses.whole.accepted.keys() if case.losses.whole else frozenset()


def _resting_on_lost_state(case: Case) -> set[str]:
    if case.losses.whole is None:
        return set()
    meant = case.losses.whole.findings
    return {
        alert["alert_id"]
        for _, alert in case.alerts
        if alert["alert_id"] in case.expected.findings
        and not (alert["alert_id"] in meant and shows(meant[alert["alert_id"]], alert))
    }


CHECKER = Checker(
    "absences",
    "Was everything that is absent in flight when the job was restarted?",
    absences,
    needs=(ENRICHED, ALERTS.name, DEAD_LETTERS.name),
)
