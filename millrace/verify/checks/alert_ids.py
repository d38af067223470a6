"""Alert ids: one fact has one id in each version of a rule, and the id follows from the fact."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from millrace.oracle import Finding, Origin, Record, starts, window_finding, windows
from millrace.rules import (
    ALERTS,
    ENRICHMENT,
    EventRule,
    Session,
    WindowRule,
    alert_id,
    read_by_measure,
    read_by_windows,
)
from millrace.rules.expressions import fields_of
from millrace.rules.outputs import FLAGS, INGEST_MS, SOURCE, WINDOW_SPAN, names
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import EARLIER_MOST_MS, Event, is_text_of, place


def alert_ids(case: Case) -> Found:
    """Alerts of unknown rules or versions, and ids that do not follow from their facts.

    What an earlier version alerted is not judged again; but its events are those of the pattern, and it finds in a
    window what it declared, if that is kept. A version alerts while it is in force.
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
        elif is_earlier and (wrong := of_no_event(case, record, alert)):
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


def of_no_event(case: Case, record: Record, alert: Event) -> list[str]:
    """The facts of an alert of an earlier version that no event gives it which it may rest on."""
    judged, events, ingest_ms = case.question.use.judged, case.events_of(alert), alert.get("ingest_ms")
    if alert["window_start_ms"] is not None and events:
        rule = case.question.earlier.get((alert["rule"], alert["rule_version"]))
        own = [event for event in events if rule is None or event.get(rule.key) == alert["key"]]
        wrong = of_no_window(case, alert, own, is_whole=case.is_whole)
        wrong += [] if rule is None else _of_no_finding(rule, alert, own)
        return wrong + case.implausible(record, alert, ingest_ms or 0)
    fields = {"subject": judged.key, "at_ms": judged.time or "", "ingest_ms": INGEST_MS.name, "sent_ms": "sent_ms"}
    wrong = [
        f"{name} is {alert.get(name)!r}, as of no event"
        for name, field in fields.items()
        if any(field in event for event in events)
        and not any(alert.get(name) == event.get(field, alert.get(name)) for event in events)
    ]
    wrong += _other_operands(case, alert, events)
    if alert["window_start_ms"] is None and _is_denied(case, alert, events):
        wrong.append("its event shows otherwise")
    if ingest_ms is None:
        return [*wrong, "ingest_ms is None"]
    return wrong + case.implausible(record, alert, ingest_ms)


def _other_operands(case: Case, alert: Event, events: Sequence[Event]) -> list[str]:
    """The operands that have the name of a field of the event, and differ; a step may call its own as it likes."""
    if not any(isinstance(rule, EventRule) and rule.name == alert["rule"] for rule in case.question.rules):
        return []
    shown = [(name, text) for name, text in alert["operands"].items() if name in case.question.use.judged.names]
    return [
        f"{name} is {text!r}, as of no event"
        for name, text in shown
        if any(name in event for event in events)
        and not any(is_text_of(text, event[name]) for event in events if name in event)
    ]


def of_no_window(case: Case, alert: Event, events: Sequence[Event], is_whole: bool = True) -> list[str]:
    """The facts of an alert on a window that the events of its key do not give it.

    It names events of its span, the first by their ids, and may count others of it. Where events have no id, it counts
    all but late ones, unless its window `is_whole` no more.
    """
    use, since_ms, until_ms = case.question.use, *((alert.get("operands") or {}).get(name) for name in WINDOW_SPAN)
    time, identity = use.judged.time or "", use.judged.id
    among = [event for event in events if alert["window_start_ms"] <= event[time] <= alert["at_ms"]]
    ids = alert["event_ids"]
    named = [event for event in among if identity and str(event[identity]) in ids]
    was_there = all(event[INGEST_MS.name] <= (alert.get("emit_ms") or 0) for event in among)
    is_counted = is_whole and identity is None and was_there and not case.question.in_flight
    is_counted = is_counted and not any(map(case.is_late, among))
    wrong = []
    if not among and ENRICHMENT not in case.question.in_force:
        wrong.append("no event of its window is there")
    if _whole(until_ms) != alert["at_ms"]:
        wrong.append(f"{WINDOW_SPAN[1]} is {until_ms!r}, not at_ms")
    if identity and (not ids or {str(event[identity]) for event in named} != set(ids)):
        wrong.append("it names events that are none of its window")
    facts: dict[str, tuple[str, Any, Callable[..., Any]]] = {
        "subject": (use.judged.key, alert["subject"], max),
        "at_ms": (time, alert["at_ms"], max),
        "ingest_ms": (INGEST_MS.name, alert.get("ingest_ms"), max),
        "sent_ms": ("sent_ms", alert.get("sent_ms"), max),
        WINDOW_SPAN[0]: (time, _whole(since_ms), min),
    }
    for name, (field, value, outermost) in facts.items():
        values = [each for event in among if (each := event.get(field)) is not None]
        own = [each for event in (among if is_counted else named) if (each := event.get(field)) is not None]
        if values and (value not in values or outermost([value, *own]) != value):
            wrong.append(f"{name} is {value!r}, as of no such window")
    return wrong


def _of_no_finding(rule: WindowRule, alert: Event, events: Sequence[Event]) -> list[str]:
    """The facts of an alert that its version of the rule does not find in a window of the events which it names.

    Where it names as many as it may, or events without an id, nothing shows which others it counts. Operands that rest
    on a field which is not known of each event are not compared.
    """
    start_ms, at_ms, ids, window = alert["window_start_ms"], alert["at_ms"], alert["event_ids"], rule.window
    if not isinstance(window, Session) and start_ms not in starts(window, at_ms):
        return ["no window begins there"]
    time, identity, fields = rule.on.time or "", rule.on.id, read_by_windows([rule], [])
    named = [event for event in events if start_ms <= event[time] <= at_ms and event.get(identity or "") in ids]
    unknown = {name for name in fields if any(name not in event for event in named)}
    if not named or not len(named) == len(ids) < rule.ids_most or rule.on.key in unknown:
        return []
    doubtful = {name for name in rule.measures if unknown & read_by_measure(rule, name)}
    whole = [{**dict.fromkeys(unknown), **event} for event in named]
    found = (among for first_ms, among in windows(window, time, whole) if first_ms == start_ms)
    if len(among := next(found, [])) < len(named):
        return ["its version alerts no window of these events"]
    if (finding := window_finding(rule, alert["key"], start_ms, among)) is None:
        rests_on_them = any(each.name in doubtful for each in fields_of(rule.condition))
        return [] if rests_on_them else ["its version alerts no window of these events"]
    shown = alert.get("operands") or {}
    wrong = [f"'{name}' is no operand of its version" for name in shown if name not in finding.operands]
    wrong += [
        f"{name} is {shown.get(name)!r}, not {value!r}"
        for name, value in finding.operands.items()
        if name not in doubtful and not is_text_of(shown.get(name), value)
    ]
    return wrong + ([] if are_in_order(ids, finding) else ["it names events not in their order"])


def are_in_order(ids: Sequence[str], finding: Finding) -> bool:
    """Whether these are the ids of a finding, as Python or Java sorts them."""
    return ids in (list(finding.event_ids), sorted(finding.event_ids, key=_as_java_sorts))


def _as_java_sorts(text: str) -> bytes:
    """Java sorts halves of surrogate pairs before other characters."""
    return text.encode("utf-16-be", "surrogatepass")


def _whole(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and re.fullmatch("-?[0-9]{1,18}", text) else None


def _is_denied(case: Case, alert: Event, events: Iterable[Event]) -> bool:
    """Whether events came out, and no copy shows the rule, though none was judged twice, and then otherwise."""
    name, place, rule = case.question.use.judged.name, names(SOURCE[1:]), alert["rule"]
    origins = [(name, *(event[each] for each in place)) for event in events if event.keys() >= set(place)]
    copies = [copy for origin in origins for copy in case.copies.get(origin, ())]
    if not copies or any(rule in (copy.get(FLAGS.name) or ()) for copy in copies):
        return False
    return case.is_judged_once or _is_judged_alike(case, alert, [each for each in origins if each in case.copies])


def _is_judged_alike(case: Case, alert: Event, origins: Iterable[Origin]) -> bool:
    """Whether an event gives the same however often it is judged: by one version, and by one order of arrival."""
    key, spans_ms = alert["key"], [*case.versions(alert["rule"]).spans_ms(alert["rule_version"])]
    since_ms, until_ms = spans_ms[0]
    since_ms, until_ms = since_ms + EARLIER_MOST_MS, until_ms - case.question.bounds.clocks_ms
    judged = [found for each in alert["event_ids"] for found in case.expected.named(key, each)]
    is_of_one = all(since_ms <= case.first_out_ms[each] and case.came_out_ms[each] <= until_ms for each in origins)
    return len(spans_ms) == 1 and is_of_one and not any(map(case.expected.views.has_several, judged))


def fact_of(alert: Event) -> str:
    """The identity of an alert among those of one rule and key, as its columns give it."""
    if alert["window_start_ms"] is not None:
        return str(alert["window_start_ms"])
    return ",".join(map(str, alert["event_ids"]))


CHECKER = Checker("alert ids", "Does every fact have one alert id?", alert_ids, needs=(ALERTS.name,), is_final=True)
