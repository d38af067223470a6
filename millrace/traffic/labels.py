"""What labelled traffic must set off: each rule in an event, or in a window that is fixed before any event comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from millrace.rules import Rule, RuleError, Tumbling, UseCase, WindowRule
from millrace.rules.nearest import nearest
from millrace.rules.traffic import Message
from millrace.traffic.runs import Span

Place = tuple[str, str]
"""The rule's key, and the event's id or else its time; of a tumbling window its start."""
ANY_KEY = "event"
"""In place of a key that the event does not show."""
Event = Mapping[str, Any]
Meant = tuple[str, Place]
"""The name of a rule, and where it must alert."""


@dataclass(frozen=True)
class Labels:
    """The labels of all runs whose labels hold."""

    meant: Mapping[Meant, str] = field(default_factory=dict)
    """With the kind of each label."""
    ambiguous: Set[Meant] = frozenset()
    """Where a rule may alert or not, as chance decides."""
    spans_ms: Mapping[str, Collection[Span]] = field(default_factory=dict)
    """By rule, when the runs took place whose labels of it hold: an alert on an event of that time is theirs."""
    of_other_versions: Set[str] = frozenset()
    """Rules of which some labels were left out, because they were made for another version of the rule."""

    def without(self, rules: Set[str]) -> Labels:
        """The labels of all other rules."""
        meant = {each: kind for each, kind in self.meant.items() if each[0] not in rules}
        ambiguous = frozenset(each for each in self.ambiguous if each[0] not in rules)
        spans_ms = {rule: spans for rule, spans in self.spans_ms.items() if rule not in rules}
        return Labels(meant, ambiguous, spans_ms, self.of_other_versions | rules)


def labels_of(use: UseCase, messages: Iterable[Message], span_ms: Span) -> Labels:
    """The labels of one run's messages."""
    meant: dict[Meant, str] = {}
    ambiguous: set[Meant] = set()
    chancy = use.traffic.ambiguous if use.traffic else ()
    rules = {rule.name: rule for rule in use.rules}
    streams = {each.name for each in (*use.raw, *use.references)}
    for message in messages:
        label = message.label
        if message.topic not in streams:
            raise RuleError(
                f"a message '{label.kind}' is for '{message.topic}', which is no event type of use '{use.name}'; "
                f"{nearest(message.topic, streams)}"
            )
        is_chancy = label.kind in chancy and message.topic == use.judged.name
        if not label.alerts and not is_chancy:
            continue
        if message.topic != use.judged.name:
            raise RuleError(
                f"a label '{label.kind}' on a message to '{message.topic}' names rules; label the event of "
                f"'{use.judged.name}' that sets them off"
            )
        event = _read(message.value)
        for name in rules if is_chancy else label.alerts:
            if name not in rules:
                raise RuleError(f"a label '{label.kind}' names the rule '{name}'; {nearest(name, rules)}")
            if event is None or (lacking := _lacking(use, rules[name], event)):
                if is_chancy:
                    continue  # a message that is refused sets off no rule
                lacks = "JSON" if event is None else f"'{lacking}'"
                raise RuleError(
                    f"a label '{label.kind}' names the rule '{name}' on a message without {lacks}, which is refused; "
                    "label it with its refusal"
                )
            if (place := event_place(use, rules[name], event)) is None:
                continue
            if is_chancy:
                ambiguous.add((name, place))
            else:
                meant[name, place] = label.kind
    return Labels(meant, frozenset(ambiguous), dict.fromkeys(rules, (span_ms,)))


def together(found: Iterable[Labels]) -> Labels:
    """The labels of several runs."""
    runs = list(found)
    return Labels(
        {each: kind for labels in runs for each, kind in labels.meant.items()},
        frozenset(each for labels in runs for each in labels.ambiguous),
        {
            rule: tuple(span for labels in runs for span in labels.spans_ms.get(rule, ()))
            for rule in sorted({rule for labels in runs for rule in labels.spans_ms})
        },
        frozenset(rule for labels in runs for rule in labels.of_other_versions),
    )


def event_place(use: UseCase, rule: Rule, event: Mapping[str, Any]) -> Place | None:
    """Where the rule must alert because of this event; None if the event alone does not show it."""
    judged, at_ms = use.judged, event[use.judged.time or ""]
    key = str(event[rule.key]) if _shows_key(use, rule) else ANY_KEY
    if (size_ms := _fixed_ms(use, rule)) is not None:
        return key, str(at_ms - at_ms % size_ms)
    if judged.id is None and isinstance(rule, WindowRule):
        return None
    return key, str(event[judged.id] if judged.id else at_ms)


def alert_places(use: UseCase, rule: Rule, alert: Mapping[str, Any]) -> Iterator[Place]:
    """Where an alert is: in its window, or in each of its events."""
    key = str(alert["key"]) if _shows_key(use, rule) else ANY_KEY
    if _fixed_ms(use, rule) is not None:
        yield key, str(alert["window_start_ms"])
    elif use.judged.id:
        for identity in alert["event_ids"]:
            yield key, str(identity)
    else:
        yield key, str(alert["at_ms"])


def key_of_full(use: UseCase, rule: Rule, alert: Mapping[str, Any]) -> str | None:
    """The key in the places of an alert whose list of ids is full, so that it may leave some out; None of another."""
    if not isinstance(rule, WindowRule) or _fixed_ms(use, rule) is not None or use.judged.id is None:
        return None
    if len(alert["event_ids"]) < rule.ids_most:
        return None
    return str(alert["key"]) if _shows_key(use, rule) else ANY_KEY


def places_left_out(
    use: UseCase, rule: Rule, alert: Mapping[str, Any], events: Callable[[], Iterable[Event]]
) -> Iterator[Place]:
    """Of these enriched events, the places of those in an alert's window that its full list of ids may leave out."""
    key, own_id = key_of_full(use, rule, alert), use.judged.id
    if key is None or own_id is None:
        return
    time = use.judged.time or ""
    for event in events():
        if str(event[rule.key]) == alert["key"] and alert["window_start_ms"] <= event[time] <= alert["at_ms"]:
            yield key, str(event[own_id])


def _read(value: bytes | None) -> Event | None:
    """The event in a message; None of one that holds none."""
    try:
        read = json.loads(value or b"")
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def _lacking(use: UseCase, rule: Rule, event: Event) -> str | None:
    """The first field that the place of an event needs, and that it lacks."""
    if not isinstance(event.get(use.judged.time or ""), int):
        return use.judged.time
    needed = (rule.key if _shows_key(use, rule) else None, use.judged.id)
    return next((name for name in needed if name and event.get(name) is None), None)


def _shows_key(use: UseCase, rule: Rule) -> bool:
    """Whether an event as labelled has the key of the rule's alerts; a token is not the one that was sent."""
    return rule.key in use.judged.names and rule.key not in use.judged.tokens


def _fixed_ms(use: UseCase, rule: Rule) -> int | None:
    """The size of the rule's windows, if an event's own fields show its window."""
    if isinstance(rule, WindowRule) and isinstance(rule.window, Tumbling) and _shows_key(use, rule):
        return rule.window.size_ms
    return None
