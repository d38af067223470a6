"""Alerts of earlier versions: where every copy of an event shows one, it is there.

The oracle judges by the present version of a rule, so of earlier ones it expects no alert.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime

from millrace.oracle import Judged, identity_of
from millrace.rules import ALERTS, WindowRule
from millrace.rules.outputs import FLAGS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import ENRICHED, Event


def earlier_alerts(case: Case) -> Found:
    """The events from before a rule's present version that show the rule in every copy, and have no alert of it."""
    judged = 0
    offenders: list[str] = []
    events = ((identity, each) for identity in case.expected.judged for each in case.expected.named(*identity))
    for (key, identity), each in events:
        origin = each.record.origin
        changed = case.not_yet_in_force.get(origin)
        if changed and origin not in case.losses.in_flight:
            judged += 1
            offenders += [
                f"missing: {rule} {key} {identity}" for rule in lacking(case, each, case.copies[origin], changed)
            ]
    return Found({"events": judged}, offenders)


def notes(case: Case) -> Iterator[str]:
    """The spans in which earlier versions have judged windows of this run: no event shows what one must write."""
    first_ms = min(case.came_out_ms.values(), default=0)
    of_rules = [("alerts", rule.name) for rule in case.question.rules if isinstance(rule, WindowRule)]
    of_summaries = [("rows", summary.name) for summary in case.question.summaries]
    of_events = [("", rule.name) for rule in case.question.rules if not isinstance(rule, WindowRule)]
    for outputs, name in (*of_rules, *of_summaries, *of_events):
        if ends_ms := [ms for version, ms in case.versions(name).past if version and ms > first_ms]:
            since, until = (
                datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "seconds") for ms in (first_ms, ends_ms[-1])
            )
            if not outputs:
                yield (
                    f"alerts of earlier versions of {name} on events, from {since} to {until}, are held against the "
                    "flags and fields of their events only: one may be missing with its flag"
                )
                continue
            yield (
                f"{outputs} of earlier versions of {name} on windows, from {since} to {until}, are not judged, so one "
                "may be missing; a ledger judges them while their version is in force"
            )


def lacking(case: Case, each: Judged, copies: Sequence[Event], changed: Collection[str]) -> list[str]:
    """Of these rules those that every copy of an event shows, and of which it has no alert."""
    shown = [rule for rule in changed if copies and all(rule in (copy.get(FLAGS.name) or ()) for copy in copies)]
    if not shown or each.event is None:
        return []
    judged = case.question.use.judged
    key, identity = each.event[judged.key], identity_of(judged, each.event, each.record)
    return [rule for rule in shown if not case.is_alerted(rule, key, identity)]


CHECKER = Checker(
    "earlier alerts",
    "Is every alert present that an event shows of an earlier version of its rule?",
    earlier_alerts,
    needs=(ENRICHED, ALERTS.name),
)
