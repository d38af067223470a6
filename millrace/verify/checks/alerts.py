"""Alerts: those of each rule are complete and correct; copies of one alert are allowed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from millrace.oracle import Finding, Record, window_finding
from millrace.rules import ALERTS, DEAD_LETTERS, EventRule, FoldRule, Rule, WindowRule
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.alert_ids import are_in_order, fact_of, of_no_window
from millrace.verify.checks.enrichment import READ_APART
from millrace.verify.evidence import Event, is_text_of

RESTING_ON_RACES = "alerts rest on whether events are late, and by the order of their arrival they are not"


def checker(rule: Rule) -> Checker:
    """The check of one rule's alerts."""
    return Checker(
        f"alerts: {rule.name}",
        f"Is every alert of {rule.name} present and correct?",
        partial(alerts, rule),
        needs=(ALERTS.name, DEAD_LETTERS.name) if isinstance(rule, WindowRule) else (ALERTS.name,),
    )


@dataclass(frozen=True)
class Alternatives:
    """What a rule must have found, by alert id, and what it may have found besides."""

    must: Mapping[str, Finding]
    may: Mapping[str, Finding]
    """In windows that may still be open."""
    before: Mapping[str, Finding] = field(default_factory=dict)
    """In events that came out before the rule's present version."""
    more: Sequence[Finding] = ()
    """What it must have found besides, each with the id of another finding: the id of its event came again."""


def alerts(rule: Rule, case: Case) -> Found | Undecided:
    """The alerts of one rule: none missing, none wrong, none too many."""
    found = alternatives(rule, case)
    copies: dict[str, list[tuple[Record, Event]]] = defaultdict(list)
    earlier = 0
    for record, alert in case.alerts:
        if alert["rule"] == rule.name and case.is_earlier(alert):
            earlier += 1
        elif alert["rule"] == rule.name:
            copies[alert["alert_id"]].append((record, alert))
    missing = [
        finding
        for identity, finding in found.must.items()
        if identity not in copies and identity not in case.absent_alerts and not is_from_before(rule, case, finding)
    ]
    offenders, read_apart = list[str](), list[str]()
    for finding in missing:
        is_apart = rule.name in case.expected.read_apart.get(finding.origins[-1], ())
        (read_apart if is_apart else offenders).append(f"missing: {_text(finding)}")
    offenders += [f"missing: {_text(finding)}" for finding in _missing_beside(case, found, copies)]
    unjudged = {
        identity
        for identity, finding in {**found.must, **found.before}.items()
        if identity not in copies and is_from_before(rule, case, finding)
    }
    raced = 0
    apart: list[str] = []
    for identity, own in copies.items():
        raced_before = raced
        for record, alert in own:
            wanted = found.must.get(identity) or found.may.get(identity) or found.before.get(identity)
            if wanted is not None and not (wrong := _wrong(case, wanted, record, alert)):
                continue
            if any(not _wrong(case, other, record, alert) for other in case.expected.found_before.get(identity, ())):
                continue
            if isinstance(rule, WindowRule) and _is_of_change(rule, case, record, alert):
                unjudged.add(identity)
                continue
            if any(not _wrong(case, other, record, alert) for other in _admissible(rule, alert, case)):
                raced += 1
                continue
            named = f"{rule.name} {alert['key']} {fact_of(alert)}"
            (read_apart if _is_read_apart(rule, case, record, alert) else offenders).append(
                f"extra: {named}" if wanted is None else f"wrong: {named}: {', '.join(wrong)}"
            )
        if raced == raced_before + len(own) and not _are_shown(rule, case, own):
            named = f"{rule.name} {own[0][1]['key']} {fact_of(own[0][1])}: its event shows otherwise"
            if identity in found.must:
                apart.append(f"wrong: {named}")
            elif case.is_judged_once:
                offenders.append(f"extra: {named}")
    figures = {
        "expected": len(found.must),
        "found": len(copies),
        "copies": sum(len(own) for own in copies.values()) - len(copies),
        "races": raced,
    }
    if isinstance(rule, WindowRule):
        figures["still open"] = len(found.may)
    if left_out := len(unjudged) + case.unjudged_windows[rule.name]:
        figures["of windows from before a change, not judged"] = left_out
    if earlier:
        figures["by earlier versions, not judged"] = earlier
    offenders += case.too_many_races(raced, rule.name)
    held, doubtful = case.held([each for own in copies.values() for each in own])
    offenders += held
    offenders += apart if case.is_whole else []
    if read_apart and not offenders:
        return Undecided(READ_APART, figures, tuple(read_apart))
    if apart and not offenders:
        # The alert that goes with the event may come with the next segment, after a restart.
        return Undecided("alerts show another order of arrival than their events", figures, tuple(apart))
    if doubtful and not offenders:
        return Undecided("alerts came long after their emit_ms: was the machine suspended?", figures, tuple(doubtful))
    if isinstance(rule, WindowRule) and not offenders and (late := tuple(_long_after(rule, case, found, copies))):
        return Undecided("alerts came long after those of later windows: was the machine suspended?", figures, late)
    if isinstance(rule, WindowRule) and not offenders and (resting := tuple(_resting_on_races(rule, case, copies))):
        return Undecided(RESTING_ON_RACES, figures, resting)
    if isinstance(rule, WindowRule) and not offenders and found.may and case.is_whole:
        if not found.must:
            return Undecided("all windows may still be open: let later events, or the traffic's closing, come first")
        awaited = (finding for alert_id, finding in found.may.items() if alert_id not in copies)
        if why := case.overdue(rule.window.end_ms(f.window_start_ms or 0, f.at_ms) for f in awaited):
            return Undecided(why, figures)
    # A missing alert may come; one on a window may be right once the window is closed.
    is_settled = not isinstance(rule, WindowRule) and copies.keys() >= found.must.keys() and not apart
    return Found(figures, offenders, is_settled)


def _missing_beside(
    case: Case, found: Alternatives, copies: Mapping[str, Sequence[tuple[Record, Event]]]
) -> Iterator[Finding]:
    """The findings with a common id of which no alert is there; each alert has the arrival of its own event."""
    common = {each.alert_id: found.must[each.alert_id] for each in found.more if each.alert_id in found.must}
    for each in (*found.more, *common.values()):
        own = copies.get(each.alert_id, ())
        is_due = (own or each.alert_id not in common) and not case.losses.in_flight.issuperset(each.origins)
        if is_due and all(alert.get("ingest_ms") != case.accepted(each.origins[0])["ingest_ms"] for _, alert in own):
            yield each


def _resting_on_races(rule: WindowRule, case: Case, copies: Collection[str]) -> Iterator[str]:
    """The alerts that are there, or are not, only because events are called late that did not arrive so.

    One may be there that was raised before a restart, after which its event was late.
    """
    for each in case.resting_on_races(rule):
        is_there = each.alert_id in copies
        if not (is_there and case.late.intersection(each.origins)) and not is_from_before(rule, case, each):
            yield f"{'there' if is_there else 'not there'}: {_text(each)}"


def _long_after(
    rule: WindowRule, case: Case, found: Alternatives, copies: Mapping[str, Sequence[tuple[Record, Event]]]
) -> Iterator[str]:
    """The alerts whose first copy came long after those on later windows of their raw partition, and after its events.

    As with other outputs, alerts on later windows must have come for longer than a batch may take before an outage.
    """
    bounds = case.question.bounds
    by_partition: dict[int, list[tuple[int, int, Finding]]] = defaultdict(list)
    for identity, own in copies.items() if case.is_whole else ():
        if (finding := found.must.get(identity) or found.may.get(identity)) is not None:
            end_ms = rule.window.end_ms(finding.window_start_ms or 0, finding.at_ms)
            by_partition[finding.origins[-1][1]].append((end_ms, min(each.ingest_ms for each, _ in own), finding))
    for alerted in by_partition.values():
        least_ms, later_ms = math.inf, list[int]()
        for _, came_ms, finding in sorted(alerted, key=lambda each: each[:2], reverse=True):
            out_ms = max(case.came_out_ms.get(origin, came_ms) for origin in finding.origins)
            until_ms = came_ms - bounds.held_ms
            prompt_ms = [ms for ms in later_ms if ms < until_ms]
            if out_ms < until_ms and prompt_ms and max(prompt_ms) > least_ms + bounds.idle_ms:
                late_s = (came_ms - max(prompt_ms)) / 1000
                yield f"{rule.name} {finding.key} {finding.fact} came {late_s:,.0f} s after those of later windows"
            later_ms.append(came_ms)
            least_ms = min(least_ms, came_ms)


def alternatives(rule: Rule, case: Case) -> Alternatives:
    """The oracle's findings, apart those in events that came out before the rule's present version."""
    if isinstance(rule, WindowRule):
        must, may = case.windows_of(rule)
    else:
        must, may = {i: f for i, f in case.expected.findings.items() if f.rule == rule.name}, {}
    since_ms = case.versions(rule.name).since_ms

    def first_out_ms(found: Finding) -> int:
        return min(case.came_out_ms.get(origin, 0) for origin in found.origins)

    before = {i: f for i, f in must.items() if first_out_ms(f) < since_ms}
    ids = must if case.expected.found_before else ()
    more = [f for i in ids for f in case.expected.found_before.get(i, ()) if first_out_ms(f) >= since_ms]
    return Alternatives({i: f for i, f in must.items() if i not in before}, may, before, more)


def is_from_before(rule: Rule, case: Case, finding: Finding) -> bool:
    """Whether a window holds an event from before its rule changed: an engine may have begun it anew."""
    if not isinstance(rule, WindowRule):
        return False
    return bool(case.from_before(rule, finding.key, finding.window_start_ms or 0, case.versions(rule.name).since_ms))


def _is_of_change(rule: WindowRule, case: Case, record: Record, alert: Event) -> bool:
    """Whether an alert is right for the events that it names, of a window from before a change.

    An engine may begin the windows of a changed rule anew, and count some of their events. One with one query for all
    rules reads its topic again: what was late the first time it may count then, or the other way around.
    """
    key, start_ms = alert["key"], alert["window_start_ms"]
    if start_ms is None:
        return False
    own = case.from_before(rule, key, start_ms, case.versions(rule.name).since_ms)
    among = own or case.from_before(rule, key, start_ms, case.windows_changed_ms)
    if rule.on.id is None or len(alert["event_ids"]) >= rule.ids_most:
        # Nothing shows which events it counts: its facts must be those of some of them.
        wrong = of_no_window(case, alert, own, is_whole=False)
        return bool(own) and not wrong and not case.implausible(record, alert, alert.get("ingest_ms") or 0)
    named = [event for event in among if str(event[rule.on.id]) in alert["event_ids"]]
    between = range(start_ms, alert["at_ms"] + 1)
    left_out = [event for event in among if event not in named and event[rule.on.time or ""] in between]
    if not named or not (own or all(map(case.is_late, left_out))):
        return False
    finding = window_finding(rule, key, start_ms, named)
    return finding is not None and not _wrong(case, finding, record, alert)


def _is_read_apart(rule: Rule, case: Case, record: Record, alert: Event) -> bool:
    """Whether an alert is right but for its operands, and these rest on the order of two streams."""
    named = case.expected.named(alert["key"], fact_of(alert)) if isinstance(rule, FoldRule) else []
    for each in named:
        origin, ids, operands = each.record.origin, (fact_of(alert),), alert.get("operands") or {}
        at_ms = case.accepted(origin)[rule.on.time or ""]
        finding = Finding(rule.name, rule.version, alert["key"], alert["key"], ids, operands, at_ms, origins=(origin,))
        is_apart = rule.name in case.expected.read_apart.get(origin, ())
        if is_apart and not _wrong(case, finding, record, alert):
            return True
    return False


def _are_shown(rule: Rule, case: Case, own: Sequence[tuple[Record, Event]]) -> bool:
    """Whether one of these copies of an alert has seen what a copy of its event shows.

    A restart may leave the alert of one order of arrival beside the event of another. But then the event was judged
    again, and the alert came again, too.
    """
    _, first = own[0]
    named = case.expected.named(first["key"], first["event_ids"][0]) if isinstance(rule, EventRule) else []
    if not named or not all(each.record.origin in case.copies for each in named):
        return True
    shown = [
        finding
        for each in named
        for origin in [each.record.origin]
        for finding in case.expected.shown(rule.name, each, case.copies[origin], case.not_yet_in_force.get(origin, ()))
    ]
    return any(not _wrong(case, finding, *copy) for finding in shown for copy in own)


def _admissible(rule: Rule, alert: Event, case: Case) -> Iterable[Finding]:
    """What a rule may have found instead, where topics or partitions were read in another order."""
    if isinstance(rule, WindowRule):
        return case.before_a_restart(rule, alert["key"])
    if not isinstance(rule, EventRule) or len(alert["event_ids"]) != 1:
        return ()
    return case.expected.admissible(rule.name, alert["key"], alert["event_ids"][0])


def _wrong(case: Case, finding: Finding, record: Record, alert: Event) -> list[str]:
    """The facts in which an alert differs from the oracle's finding."""
    events = [case.accepted(origin) for origin in finding.origins]
    sent_ms = [event["sent_ms"] for event in events if event.get("sent_ms") is not None]
    facts: dict[str, Any] = {
        "alert_id": finding.alert_id,
        "key": finding.key,
        "subject": finding.subject,
        "window_start_ms": finding.window_start_ms,
        "at_ms": finding.at_ms,
        "sent_ms": max(sent_ms, default=None),
        "ingest_ms": max(event["ingest_ms"] for event in events),
    }
    wrong = [
        f"{name} is {alert.get(name)!r}, not {value!r}" for name, value in facts.items() if alert.get(name) != value
    ]
    wrong += case.implausible(record, alert, facts["ingest_ms"])
    if finding.window_start_ms is None:
        wrong += _made_late(case, finding, record, alert)
    elif case.question.follows_enriched:
        wrong += _written_early(case, finding, record)
    shown = alert.get("operands") or {}
    wrong += [f"'{name}' is no operand of the rule" for name in shown if name not in finding.operands]
    wrong += [
        f"{name} is {shown.get(name)!r}, not {value!r}"
        for name, value in finding.operands.items()
        if not is_text_of(shown.get(name), value)
    ]
    if not are_in_order(alert["event_ids"], finding):
        wrong.append("it names other events, or not in their order")
    return wrong


def _made_late(case: Case, finding: Finding, record: Record, alert: Event) -> list[str]:
    """The complaint about an alert that was made long after its event came out: what is judged again comes again."""
    out_ms = max(case.came_out_ms.get(origin, record.ingest_ms) for origin in finding.origins)
    made_ms = min(alert.get("emit_ms") or record.ingest_ms, record.ingest_ms)
    is_late = made_ms > out_ms + case.question.bounds.held_ms
    return [f"it was made {(made_ms - out_ms) / 1000:,.0f} s after its event came out"] if is_late else []


def _written_early(case: Case, finding: Finding, record: Record) -> list[str]:
    """The complaint about an alert on a window that was there before the events which the windows read."""
    out_ms = max(case.first_out_ms.get(origin, record.ingest_ms) for origin in finding.origins)
    is_early = record.ingest_ms < out_ms - case.question.bounds.clocks_ms
    return [f"it was there {(out_ms - record.ingest_ms) / 1000:,.0f} s before its events came out"] if is_early else []


def _text(finding: Finding) -> str:
    operands = ", ".join(f"{name}={value}" for name, value in finding.operands.items())
    return f"{finding.rule} {finding.key} {finding.fact} ({operands})"
