"""Absences: at most once, what a restart of the job lost is counted; nothing else may be absent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from millrace.oracle import Origin
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.traffic.planned import partition_of
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.conservation import nowhere
from millrace.verify.evidence import ENRICHED, Event, place_of
from millrace.verify.losses import doubts, shows
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
    offenders = [f"{place_of(origin)} has no output, and no restart explains it" for origin in nowhere(case)]
    excused = losses.lost | losses.forgotten | {origin for each in with_events for origin in each.origins}
    if not offenders and (found := tuple(doubts(losses, excused, _came_out_ms(case), _writer(case)))):
        return Undecided("no worker can have had in flight what the record of restarts names", figures, found)
    return Found(figures, offenders)


def _came_out_ms(case: Case) -> dict[Origin, int]:
    """When events came out, by a clock by which none did before it arrived."""
    found, records = case.came_out_ms, case.records
    ahead_ms = max((records[each].ingest_ms - at_ms for each, at_ms in found.items() if each in records), default=0)
    return {origin: at_ms + max(ahead_ms, 0) for origin, at_ms in found.items()}


def _writer(case: Case) -> Callable[[Event], Hashable]:
    """What is written in order: the events of a key, or of a partition where the number of these is known."""
    column, count = case.question.use.enriched.key, case.evidence.partitions.get(ENRICHED, 0)

    def writer(event: Event) -> Hashable:
        return partition_of(str(event[column]).encode(), count) if count else event[column]

    return writer


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
