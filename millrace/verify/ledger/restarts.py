"""Alerts from before a restart that count events which are late since they were read again.

When the late dead letter of such an event is judged, the ledger remembers what windows found with it. An alert that its
window does not explain may be one of these, as a race, once the event has come out again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from millrace.oracle import Finding, Origin, window_findings
from millrace.rules import WindowRule
from millrace.verify.case import before_a_restart
from millrace.verify.evidence import Event
from millrace.verify.ledger.state import Before, State


def came_again(state: State, origin: Origin) -> None:
    """Remember that an event came out once more, if it may be late."""
    counted = state.counted.get(origin)
    is_late = any(origin in each.late for found in state.before.values() for each in found)
    if is_late or (counted is not None and counted.record is not None):
        state.again.add(origin)


def remember(state: State, cut_ms: int, rules: Iterable[WindowRule], late: Iterable[Origin]) -> None:
    """Remember what windows have found with events that are late now, where alerts wait for their windows."""
    for rule in rules:
        by_key: dict[str, list[Origin]] = defaultdict(list)
        for origin in late:
            if rule.name in (each := state.counted[origin]).windows:
                by_key[each.event[rule.key]].append(origin)
        waiting = {
            identity
            for identity, found in state.alerts.items()
            if any(alert["rule"] == rule.name and alert["key"] in by_key for _, (_, alert) in found)
        }
        own: dict[str, dict[Origin, Event]] = defaultdict(dict)
        for origin, each in state.counted.items() if waiting else ():
            if rule.name in each.windows and (key := each.event[rule.key]) in by_key:
                own[key][origin] = each.event
        for key, events in own.items():
            for finding in _found(rule, events, by_key[key], waiting):
                of_late = tuple(origin for origin in finding.origins if origin in by_key[key])
                its = {origin: events[origin] for origin in finding.origins}
                known = state.before.setdefault(finding.alert_id, [])
                known.append(Before(cut_ms, finding, of_late, its))


def _found(
    rule: WindowRule, events: Mapping[Origin, Event], late: Sequence[Origin], waiting: Collection[str]
) -> Iterator[Finding]:
    ids = set()
    for finding in before_a_restart(rule, events, late):
        if finding.alert_id in waiting:
            ids.add(finding.alert_id)
            yield finding
    # A window may be reported again without the late events, under the same id.
    others = (event for origin, event in events.items() if origin not in late)
    yield from (finding for finding in window_findings(rule, others) if finding.alert_id in ids)


def findings(state: State, rule: str, key: str) -> Iterator[Finding]:
    """What a rule may have found before a restart."""
    for known in state.before.values():
        for each in known:
            is_own = (each.finding.rule, each.finding.key) == (rule, key)
            if is_own and all(origin in state.again for origin in each.late):
                yield each.finding


def event_of(state: State, origin: Origin) -> Event:
    """An event of one of these alerts."""
    return next(each.events[origin] for found in state.before.values() for each in found if origin in each.events)


def forget(state: State, before_ms: int) -> None:
    """Forget those that were remembered before a cut."""
    for identity, known in list(state.before.items()):
        if known[-1].since_ms < before_ms:
            del state.before[identity]
    late = {origin for known in state.before.values() for each in known for origin in each.late}
    state.again &= late | state.counted.keys()
