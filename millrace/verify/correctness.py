"""Every alert right, and every right alert there: what came out against what the oracle found."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.oracle import Finding, Record, summary_rows
from millrace.rules import EventRule, FoldRule, Rule, UseCase, WindowRule, WindowSummary, alert_id
from millrace.verify.evidence import Bounds, Event, Identity, Origin, Versions, is_same, place
from millrace.verify.expected import Expected, expected_windows, time_passed_ms
from millrace.verify.verdict import Check, checked

Alerts = Sequence[tuple[Record, Event]]


@dataclass(frozen=True)
class Alternatives:
    """What a rule must have found, by alert id, and what it may have found besides."""

    must: Mapping[str, Finding]
    may: Mapping[str, Finding]
    """In windows that may still be open."""
    before: Mapping[str, Finding] = field(default_factory=dict)
    """In events that came out before the rule meant what it means."""
    earlier: frozenset[str] = frozenset()
    """Versions of the rule whose alerts are none of its business."""


def alerts_of_rule(use: UseCase, rule: Rule, alerts: Alerts, expected: Expected, found: Alternatives) -> Check:
    """The alerts of one rule: none missing, none wrong, none too many; copies of one alert do no harm."""
    copies: dict[str, list[Event]] = defaultdict(list)
    earlier = 0
    for _, alert in alerts:
        if alert["rule"] == rule.name and alert["rule_version"] in found.earlier:
            earlier += 1
        elif alert["rule"] == rule.name:
            copies[alert["alert_id"]].append(alert)
    offenders = [f"missing: {_told(finding)}" for identity, finding in found.must.items() if identity not in copies]
    raced = 0
    for identity, own in copies.items():
        for alert in own:
            wanted = found.must.get(identity) or found.may.get(identity) or found.before.get(identity)
            if wanted is not None and not (wrong := _wrong(use, wanted, alert, expected)):
                continue
            if any(not _wrong(use, other, alert, expected) for other in _admissible(rule, alert, expected)):
                raced += 1
                continue
            told = f"{rule.name} {alert['key']} {','.join(map(str, alert['transaction_ids']))}"
            offenders.append(f"extra: {told}" if wanted is None else f"wrong: {told}: {', '.join(wrong)}")
    figures = {
        "expected": len(found.must),
        "found": len(copies),
        "copies": sum(len(own) for own in copies.values()) - len(copies),
        "races": raced,
    }
    if isinstance(rule, WindowRule):
        figures["still open"] = len(found.may)
    if earlier:
        figures["by earlier versions, not judged"] = earlier
    return checked(f"alerts: {rule.name}", f"Is every alert of {rule.name} there and right?", figures, offenders)


def findings_of_rule(
    rule: Rule,
    expected: Expected,
    late: set[Origin],
    bounds: Bounds,
    force: Versions,
    came_out_ms: Mapping[Identity, int],
) -> Alternatives:
    """What the oracle says that a rule must have found in events that came out since it means what it means."""
    if isinstance(rule, WindowRule):
        must, may = expected_windows(rule, expected.accepted, late, bounds)
    else:
        must, may = {i: f for i, f in expected.findings.items() if f.rule == rule.name}, {}

    def first_out_ms(found: Finding) -> int:
        return min(came_out_ms.get((found.customer, identity), 0) for identity in found.transaction_ids)

    before = {i: f for i, f in must.items() if first_out_ms(f) < force.since_ms}
    return Alternatives({i: f for i, f in must.items() if i not in before}, may, before, force.earlier)


def identities(rules: Iterable[Rule], alerts: Alerts, in_force: Mapping[str, Versions]) -> Check:
    """One fact has one id in each version of a rule, and the id follows from the fact."""
    versions = {rule.name: rule.version for rule in rules}
    by_fact: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    offenders = []
    for record, alert in alerts:
        rule, ids = alert["rule"], tuple(alert["transaction_ids"])
        is_earlier = rule in in_force and alert["rule_version"] in in_force[rule].earlier
        if rule not in versions and not is_earlier:
            offenders.append(f"{place(record)}: there is no rule '{rule}' in this pattern")
        elif alert["alert_id"] != alert_id(rule, alert["rule_version"], alert["key"], ids):
            offenders.append(f"{place(record)}: the id {alert['alert_id']} does not follow from the alert's facts")
        elif not is_earlier and alert["rule_version"] != versions[rule]:
            offenders.append(f"{place(record)}: judged by version {alert['rule_version']} of '{rule}'")
        by_fact[rule, alert["rule_version"], alert["key"], tuple(sorted(ids))].add(alert["alert_id"])
    offenders += [
        f"{rule} {key} {','.join(ids)} was alerted under {len(found)} ids"
        for (rule, _, key, ids), found in by_fact.items()
        if len(found) > 1
    ]
    figures = {"facts": len(by_fact)}
    return checked("alert ids", "Does every fact have one alert id?", figures, offenders, is_final=True)


def labelled(
    labels: Mapping[str, Sequence[str]], rules: Iterable[Rule], alerts: Alerts, in_force: Mapping[str, Versions]
) -> Check:
    """What the traffic's maker meant to be a fraud was alerted, whatever the oracle says.

    A rule that was changed is left out: the maker of the traffic knows nothing of that.
    """
    names = {rule.name for rule in rules} - in_force.keys()
    alerted = {(alert["rule"], identity) for _, alert in alerts for identity in alert["transaction_ids"]}
    meant = [(rule, identity) for identity, wanted in labels.items() for rule in wanted if rule in names]
    offenders = [
        f"{identity} was made to set off {rule}" for rule, identity in meant if (rule, identity) not in alerted
    ]
    figures = dict(Counter(rule for rule, _ in meant))
    return checked("labels", "Was everything alerted that the traffic was made to set off?", figures, offenders)


def summaries(
    summary: WindowSummary,
    rows: Alerts,
    expected: Expected,
    late: set[Origin],
    bounds: Bounds,
    since_ms: int = 0,
) -> Check:
    """The last row of every window that is over, and began since the summary means what it means, is right.

    What came late for the windows of rules may still be counted in a chart, whose window may be open for longer.
    """
    counted = {origin: event for origin, event in expected.accepted.items() if origin not in late}
    passed_ms = time_passed_ms(summary.on.time or "", counted, bounds)
    got: dict[tuple[Any, ...], Event] = {}
    for _, row in sorted(rows, key=lambda each: (each[0].ingest_ms, each[0].partition, each[0].offset)):
        if row["summary"] == summary.name:
            got[row["window_start_ms"], *(row[key] for key in summary.keys)] = row
    wanted = summary_rows(summary, counted.values())
    with_late = summary_rows(summary, expected.accepted.values())
    over = {key: numbers for key, numbers in wanted.items() if key[0] + summary.window.size_ms < passed_ms}
    due = {key: numbers for key, numbers in over.items() if key[0] >= since_ms}
    offenders = [f"missing: {key}" for key in due if key not in got]
    offenders += [f"extra: {key}" for key in got if key not in with_late and key[0] >= since_ms]
    offenders += [
        f"wrong: {key}: {got[key]} is not between {numbers} and, with all that came late, {with_late[key]}"
        for key, numbers in due.items()
        if key in got and not _shows(got[key], numbers, with_late[key])
    ]
    figures = {"due": len(due), "found": len(got), "rows": sum(1 for _, row in rows if row["summary"] == summary.name)}
    return checked(f"numbers: {summary.name}", f"Are the numbers of {summary.name} right?", figures, offenders)


def _shows(row: Event, numbers: Mapping[str, Any], with_late: Mapping[str, Any]) -> bool:
    """Whether the row counts all that was in time, and of what was late as much as it likes."""

    def fits(value: Any, most: Any, got: Any) -> bool:
        is_number = isinstance(got, int | float) and not isinstance(got, bool)
        return is_same(value, got) or is_same(most, got) or (is_number and min(value, most) <= got <= max(value, most))

    return all(fits(value, with_late[name], row.get(name)) for name, value in numbers.items())


def _admissible(rule: Rule, alert: Event, expected: Expected) -> list[Finding]:
    if not isinstance(rule, EventRule) or len(alert["transaction_ids"]) != 1:
        return []
    return expected.admissible(rule.name, alert["key"], alert["transaction_ids"][0])


def _wrong(use: UseCase, finding: Finding, alert: Event, expected: Expected) -> list[str]:
    """The facts of an alert that are not as the oracle found them."""
    facts: dict[str, Any] = {
        "alert_id": finding.alert_id,
        "key": finding.key,
        "customer": finding.customer,
        "at_ms": finding.at_ms,
    }
    if finding.rule in {rule.name for rule in use.rules if isinstance(rule, EventRule | FoldRule)}:
        each = expected.judged[finding.key, finding.transaction_ids[0]]
        facts["ingest_ms"] = each.record.ingest_ms
        assert each.event is not None
        if "sent_ms" in each.event:
            facts["sent_ms"] = each.event["sent_ms"]
    wrong = [
        f"{name} is {alert.get(name)!r}, not {value!r}" for name, value in facts.items() if alert.get(name) != value
    ]
    shown = alert.get("operands") or {}
    wrong += [
        f"{name} is {shown.get(name)!r}, not {value!r}"
        for name, value in finding.operands.items()
        if not _says(shown.get(name), value)
    ]
    if sorted(alert["transaction_ids"]) != list(finding.transaction_ids):
        wrong.append("it rests on other transactions")
    return wrong


def _says(text: Any, value: Any) -> bool:
    """Whether an operand, which an alert carries as text, is this value."""
    if value is None or text is None:
        return value is text
    if isinstance(value, bool):
        return str(text).lower() == str(value).lower()
    if isinstance(value, str):
        return bool(text == value)
    try:
        return is_same(float(value), float(text)) if isinstance(value, float) else int(text) == value
    except ValueError:
        return False


def _told(finding: Finding) -> str:
    operands = ", ".join(f"{name}={value}" for name, value in finding.operands.items())
    return f"{finding.rule} {finding.key} {','.join(finding.transaction_ids)} ({operands})"
