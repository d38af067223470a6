"""Alerts of earlier versions: where every copy of an event shows one, it is there.

The oracle judges by the present version of a rule, so of earlier ones it expects no alert.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

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
    for (key, identity), each in case.expected.judged.items():
        origin = each.record.origin
        changed = case.not_yet_in_force.get(origin)
        if changed and origin not in case.losses.in_flight:
            judged += 1
            offenders += [
                f"missing: {rule} {key} {identity}" for rule in lacking(case, each, case.copies[origin], changed)
            ]
    return Found({"events": judged}, offenders)


def notes(case: Case) -> Iterator[str]:
    """The rules whose earlier versions have judged windows of this run: no event shows whether one must alert."""
    first_ms = min(case.came_out_ms.values(), default=0)
    changed = [rule.name for rule in case.question.rules if isinstance(rule, WindowRule)]
    if changed := [name for name in changed if any(v and ms > first_ms for v, ms in case.versions(name).past)]:
        yield (
            f"alerts of earlier versions of {', '.join(changed)} on windows are not judged, so one may be missing; "
            "a ledger judges them while their version is in force"
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
