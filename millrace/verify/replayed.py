"""What the rules as declared now find in stored events, beside the alerts that were written then."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.oracle import Finding, Origin
from millrace.rules import Rule, WindowRule
from millrace.verify.case import Case
from millrace.verify.checks.alert_ids import fact_of
from millrace.verify.evidence import Event, place_of

EXAMPLES_MOST, EVENTS_MOST = 5, 5

Fact = tuple[str, str]
"""The key of an alert, and its event or the start of its window: the same in every version of a rule."""


@dataclass(frozen=True)
class Example:
    """One alert that would appear or disappear."""

    key: str
    at_ms: int
    window_start_ms: int | None
    operands: Mapping[str, Any]
    event_ids: tuple[str, ...]
    """The first of its events; the places of their raw messages, where events have no id."""


@dataclass(frozen=True)
class Difference:
    """What one rule, as it is declared now, would change."""

    rule: str
    old: tuple[str, ...]
    """The versions of the alerts that were written."""
    new: str | None
    """The version as declared now; None if the pattern no longer runs the rule."""
    stay: int
    appear: int
    disappear: int
    appearing: tuple[Example, ...] = ()
    disappearing: tuple[Example, ...] = ()

    @property
    def is_none(self) -> bool:
        return not (self.appear or self.disappear)


def differences(case: Case, since_ms: int = 0, only: Collection[str] = ()) -> list[Difference]:
    """Compare the alerts of each rule with the oracle's findings, from a moment on; of `only` these rules, if given."""
    rules = {rule.name: rule for rule in case.question.rules}
    written: dict[str, dict[Fact, Event]] = {name: {} for name in rules}
    for _, alert in case.alerts:
        written.setdefault(alert["rule"], {}).setdefault((alert["key"], fact_of(alert)), alert)
    return [
        _difference(case, name, rules.get(name), written[name], since_ms)
        for name in written
        if not only or name in only
    ]


def _difference(case: Case, name: str, rule: Rule | None, written: Mapping[Fact, Event], since_ms: int) -> Difference:
    certain, possible = _findings(case, rule) if rule else ({}, {})
    alerts = {fact: alert for fact, alert in written.items() if _began_ms(alert) >= since_ms}
    appear = [finding for fact, finding in certain.items() if fact not in written and (_start_ms(finding)) >= since_ms]
    disappear = [alert for fact, alert in alerts.items() if fact not in certain and fact not in possible]
    return Difference(
        rule=name,
        old=tuple(sorted({alert["rule_version"] for alert in written.values()})),
        new=rule.version if rule else None,
        stay=len(alerts) - len(disappear),
        appear=len(appear),
        disappear=len(disappear),
        appearing=tuple(map(_found, sorted(appear, key=_start_ms)[:EXAMPLES_MOST])),
        disappearing=tuple(_lost(case, rule, each) for each in sorted(disappear, key=_began_ms)[:EXAMPLES_MOST]),
    )


def _findings(case: Case, rule: Rule) -> tuple[dict[Fact, Finding], dict[Fact, Finding]]:
    """What the rule finds, and what it may find in windows that are still open."""
    if isinstance(rule, WindowRule):
        closed, still_open = case.windows_of(rule)
        return _by_fact(closed.values()), _by_fact(still_open.values())
    return _by_fact(each for each in case.expected.findings.values() if each.rule == rule.name), {}


def _by_fact(findings: Iterable[Finding]) -> dict[Fact, Finding]:
    return {(finding.key, finding.fact): finding for finding in findings}


def _start_ms(finding: Finding) -> int:
    return finding.at_ms if finding.window_start_ms is None else finding.window_start_ms


def _began_ms(alert: Event) -> int:
    return int(alert["at_ms"] if alert["window_start_ms"] is None else alert["window_start_ms"])


def _found(finding: Finding) -> Example:
    events = finding.event_ids if finding.window_start_ms is None else finding.event_ids or _places(finding.origins)
    return Example(
        finding.key, finding.at_ms, finding.window_start_ms, dict(finding.operands), tuple(events[:EVENTS_MOST])
    )


def _lost(case: Case, rule: Rule | None, alert: Event) -> Example:
    events = tuple(alert["event_ids"]) or _places(_events_of(case, rule, alert))
    start_ms = alert["window_start_ms"]
    return Example(alert["key"], alert["at_ms"], start_ms, alert["operands"], events[:EVENTS_MOST])


def _events_of(case: Case, rule: Rule | None, alert: Event) -> Iterable[Origin]:
    """The raw messages of the events in an alert's window."""
    operands = alert["operands"]
    if not isinstance(rule, WindowRule) or "first_ms" not in operands:
        return ()
    first_ms, last_ms = int(operands["first_ms"]), int(operands["last_ms"])
    return (
        origin
        for origin, event in case.expected.accepted.items()
        if event[rule.key] == alert["key"] and first_ms <= event[rule.on.time or ""] <= last_ms
    )


def _places(origins: Iterable[Origin]) -> tuple[str, ...]:
    return tuple(place_of(origin) for origin in sorted(origins))
