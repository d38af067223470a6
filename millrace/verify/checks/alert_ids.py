"""Alert ids: one fact has one id in each version of a rule, and the id follows from the fact."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from millrace.oracle import Record
from millrace.rules import ALERTS, alert_id
from millrace.rules.outputs import FLAGS, INGEST_MS, SOURCE, names
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import Event, place

EARLIER_MOST_MS = 1_800_000
"""A job of an earlier version may alert so long after it was replaced: servers may have been away meanwhile."""


def alert_ids(case: Case) -> Found:
    """Alerts of unknown rules or versions, and ids that do not follow from their facts.

    What an earlier version alerted is not judged again; but its events are those of the pattern. A version alerts while
    it is in force.
    """
    versions = {rule.name: rule.version for rule in case.question.rules}
    by_fact: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    offenders = []
    for record, alert in case.alerts:
        rule, version, fact = alert["rule"], alert["rule_version"], fact_of(alert)
        is_earlier = case.is_earlier(alert)
        if rule not in versions and not is_earlier:
            offenders.append(f"{place(record)}: there is no rule '{rule}' in this pattern")
        elif alert["alert_id"] != alert_id(rule, version, alert["key"], fact):
            offenders.append(f"{place(record)}: the id {alert['alert_id']} does not follow from the alert's facts")
        elif not is_earlier and version != versions[rule]:
            offenders.append(f"{place(record)}: judged by version {version} of '{rule}'")
        elif not _is_of_its_time(case, record, alert):
            offenders.append(f"{place(record)}: version {version} of '{rule}' was not in force then")
        elif is_earlier and not case.has_events(alert):
            offenders.append(f"{place(record)}: an earlier version of '{rule}' alerted events that were not there")
        elif is_earlier and (wrong := _of_no_event(case, record, alert)):
            offenders.append(f"{place(record)}: an earlier version of '{rule}' alerted otherwise: {', '.join(wrong)}")
        by_fact[rule, version, alert["key"], fact].add(alert["alert_id"])
    offenders += [
        f"{rule} {key} {fact} was alerted under {len(found)} ids"
        for (rule, _, key, fact), found in by_fact.items()
        if len(found) > 1
    ]
    return Found({"facts": len(by_fact)}, offenders)


def _is_of_its_time(case: Case, record: Record, alert: Event) -> bool:
    """Whether an alert came, and its event arrived, while its version was in force."""
    rule, version, clocks_ms = alert["rule"], alert["rule_version"], case.question.bounds.clocks_ms
    in_force, arrived_ms = case.versions(rule), alert.get("ingest_ms") or 0
    spans_ms: list[tuple[int, float]] = [*in_force.spans_ms(version)]
    if not case.is_earlier(alert):
        spans_ms.append((in_force.since_ms, math.inf))
    return any(
        since_ms - clocks_ms <= record.ingest_ms <= until_ms + EARLIER_MOST_MS and arrived_ms <= until_ms + clocks_ms
        for since_ms, until_ms in spans_ms
    )


def _of_no_event(case: Case, record: Record, alert: Event) -> list[str]:
    """The facts of an alert of an earlier version that no event gives it which it may rest on."""
    judged, events, ingest_ms = case.question.use.judged, case.events_of(alert), alert.get("ingest_ms")
    fields = {"subject": judged.key, "at_ms": judged.time or "", "ingest_ms": INGEST_MS.name, "sent_ms": "sent_ms"}
    wrong = [
        f"{name} is {alert.get(name)!r}, as of no event"
        for name, field in fields.items()
        if any(field in event for event in events)
        and not any(alert.get(name) == event.get(field, alert.get(name)) for event in events)
    ]
    if alert["window_start_ms"] is None and _is_denied(case, alert["rule"], events):
        wrong.append("its event shows otherwise")
    if ingest_ms is None:
        return [*wrong, "ingest_ms is None"]
    return wrong + case.implausible(record, alert, ingest_ms)


def _is_denied(case: Case, rule: str, events: Iterable[Event]) -> bool:
    """Whether events came out, and no copy shows the rule, though none was judged twice."""
    name, place = case.question.use.judged.name, names(SOURCE[1:])
    origins = [(name, *(event[each] for each in place)) for event in events if event.keys() >= set(place)]
    copies = [copy for origin in origins for copy in case.copies.get(origin, ())]
    return case.is_judged_once and bool(copies) and not any(rule in (copy.get(FLAGS.name) or ()) for copy in copies)


def fact_of(alert: Event) -> str:
    """The identity of an alert among those of one rule and key, as its columns give it."""
    if alert["window_start_ms"] is not None:
        return str(alert["window_start_ms"])
    return ",".join(map(str, alert["event_ids"]))


CHECKER = Checker("alert ids", "Does every fact have one alert id?", alert_ids, needs=(ALERTS.name,), is_final=True)
