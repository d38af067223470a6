"""The meaning of rules, in plain Python: which messages are accepted, what measures hold, which alerts are due.

The engines are judged by it. It is written for reading, not for speed, and shares only the declarations with them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate
from typing import Any

from millrace.rules import card_numbers
from millrace.rules.events import DEPTH_MOST, EventField, EventType, Real, Text, plain_name
from millrace.rules.expressions import Value, value_of
from millrace.rules.measures import Count, DistinctOthers, Last, Max, Measure, Min, Sum
from millrace.rules.outputs import DUPLICATE, FLAGS, WINDOW_SPAN, alert_id, operand_name, provenance, row
from millrace.rules.rules import (
    ENRICHMENT,
    EventRule,
    FoldRule,
    Rule,
    Tumbling,
    UseCase,
    WindowRule,
    WindowSummary,
)

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """One message of a topic, at the place and with the append time that Kafka gave it."""

    topic: str
    """The name of its event type, without the pattern's prefix."""
    partition: int
    offset: int
    ingest_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Refusal:
    """Why a message was not accepted."""

    reason: str


@dataclass(frozen=True)
class Finding:
    """An alert without the times that an engine adds."""

    rule: str
    rule_version: str
    key: str
    customer: str
    transaction_ids: tuple[str, ...]
    operands: Mapping[str, Value]
    at_ms: int

    @property
    def alert_id(self) -> str:
        return alert_id(self.rule, self.rule_version, self.key, self.transaction_ids)


@dataclass(frozen=True)
class Judged:
    """The outcome for one record: refused for a reason, or accepted with what was added and found."""

    record: Record
    reason: str | None = None
    event: Event | None = None
    before: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Remembered values by rule name, as they were when the event arrived."""
    findings: tuple[Finding, ...] = ()


def accept(event_type: EventType, value: bytes | None, ingest_ms: int) -> Event | Refusal:
    """Read one message, or give the reason of its refusal: that of the first check that fails."""
    if not value:
        return Refusal("empty")
    if len(value) > event_type.max_bytes:
        return Refusal("oversized")
    try:
        text = value.decode("utf-8", errors="strict")
    except UnicodeDecodeError:
        return Refusal("encoding")
    names: set[str] = set()
    try:
        read = _json(names).decode(text)
    except (ValueError, RecursionError):
        return Refusal("json")
    if _depth(text) > DEPTH_MOST:
        return Refusal("json")
    if not isinstance(read, dict):
        return Refusal("shape")
    there = set(map(plain_name, names)) if event_type.forbidden else names
    for name in event_type.forbidden:
        if name in there:
            return Refusal(f"forbidden:{name}")
    event: dict[str, Any] = {}
    for declared in event_type.readable:
        problem = _problem(declared, read)
        if problem:
            return Refusal(f"{problem}:{declared.name}")
        event[declared.name] = _as_declared(declared, read.get(declared.name))
    if event_type.time is not None:
        at_ms = event[event_type.time]
        if at_ms < ingest_ms - event_type.past_ms:
            return Refusal(f"past:{event_type.time}")
        if at_ms > ingest_ms + event_type.future_ms:
            return Refusal(f"future:{event_type.time}")
    return event


class Memory:
    """What a rule remembers of one key, folded event by event."""

    def __init__(self, remembers: Mapping[str, Measure], on: EventType) -> None:
        self._folds = {name: _fold(measure, on) for name, measure in remembers.items()}

    def before(self, now: Event) -> dict[str, Value]:
        """The remembered values that a condition reads when `now` arrives."""
        return {column: value for name, fold in self._folds.items() for column, value in fold.values(name, now).items()}

    def learn(self, stream: str, event: Event) -> None:
        """Take in an event that has been judged, or one of another stream."""
        for fold in self._folds.values():
            fold.learn(stream, event)


def refer(reference: EventType, known: dict[str, Event], record: Record) -> str | None:
    """Take in a message of reference data, or return why it is refused. A key's last event counts; no value deletes it.

    Engines look reference data up when they judge, which may be later than the arrival: send it before the events that
    need it, and keep it until these have been judged.
    """
    if record.value is None:
        known.pop((record.key or b"").decode(errors="replace"), None)
        return None
    event = accept(reference, record.value, record.ingest_ms)
    if isinstance(event, Refusal):
        return event.reason
    known[event[reference.key]] = event
    return None


def judge(
    use: UseCase, rules: Sequence[Rule], tape: Iterable[Record], references: Mapping[str, Mapping[str, Event]]
) -> Iterator[Judged]:
    """Judge a tape of raw records in the order of their arrival; references hold their events by type and key."""
    kinds = {event_type.name: event_type for event_type in use.raw}
    event_rules = [rule for rule in rules if isinstance(rule, EventRule)]
    fold_rules = [rule for rule in rules if isinstance(rule, FoldRule)]
    memories: dict[str, dict[str, Memory]] = {}
    seen: set[tuple[str, str]] = set()
    states: dict[tuple[str, str], Any] = {}
    for record in tape:
        event_type = kinds[record.topic]
        event = accept(event_type, record.value, record.ingest_ms)
        if isinstance(event, Refusal):
            yield Judged(record, event.reason)
            continue
        key = event[event_type.key]
        folded = [
            (rule, _step(rule, states, key, event, record.topic)) for rule in fold_rules if event_type in rule.also
        ]
        if event_type is not use.judged:
            for memory in _memories(memories, key, event_rules, use).values():
                memory.learn(record.topic, event)
            yield Judged(record, event=event)
            continue
        unknown = next(
            (k.reference.name for k in use.enrichment.lookups if event[k.by] not in references[k.reference.name]), None
        )
        if unknown:
            yield Judged(record, f"unknown:{unknown}")
            continue
        identity = str(event[event_type.id]) if event_type.id else ""
        if (key, identity) in seen:
            yield Judged(record, DUPLICATE)
            continue
        seen.add((key, identity))
        own = _memories(memories, key, event_rules, use)
        before = {name: memory.before(event) for name, memory in own.items()}
        findings = [
            finding for rule in event_rules if (finding := finding_of(rule, event, before[rule.name])) is not None
        ]
        folded = [(rule, _step(rule, states, key, event, record.topic)) for rule in fold_rules]
        findings += [_folded_finding(rule, event, found) for rule, found in folded if found is not None]
        for memory in own.values():
            memory.learn(record.topic, event)
        yield Judged(
            record,
            None,
            enriched_event(use, event, before[ENRICHMENT], record, _looked_up(use, event, references), findings),
            before,
            tuple(findings),
        )


def finding_of(rule: EventRule, event: Event, before: Mapping[str, Value]) -> Finding | None:
    """The alert of a rule on one event, given the remembered values; None if its condition does not hold."""
    values = _values(event, before)
    if value_of(rule.condition, values) is not True:
        return None
    operands = {operand_name(f): values[f.owner, f.name] for f in rule.operands}
    key = event[rule.key]
    return Finding(rule.name, rule.version, key, key, (event[rule.on.id or ""],), operands, event[rule.on.time or ""])


def enriched_event(
    use: UseCase,
    event: Event,
    before: Mapping[str, Value],
    record: Record,
    looked_up: Event,
    findings: Iterable[Finding],
) -> dict[str, Any]:
    """The event of the intermediate topic that an accepted event must become."""
    values = _values(event, before)
    found_out: dict[str, Any] = {
        **event,
        **looked_up,
        **{name: value_of(made, values) for name, made in use.enrichment.built.items()},
        FLAGS.name: [finding.rule for finding in findings],
        **provenance(record.topic, record.partition, record.offset, record.ingest_ms),
    }
    return row(use.enriched.names, found_out)


def window_findings(rule: WindowRule, events: Iterable[Event]) -> list[Finding]:
    """What a window rule must find in accepted, distinct events: time decides, the order of arrival does not."""
    found = []
    for key, chain in sessions(rule, events):
        measured = {name: measured_value(measure, chain) for name, measure in rule.measures.items()}
        if value_of(rule.condition, {("w", name): value for name, value in measured.items()}) is not True:
            continue
        time, identity = rule.on.time or "", rule.on.id or ""
        first_ms, last_ms = chain[0][time], chain[-1][time]
        operands = measured | dict(zip(WINDOW_SPAN, (first_ms, last_ms), strict=True))
        ids = tuple(sorted(event[identity] for event in chain))
        customer = max(event[rule.on.key] for event in chain)
        found.append(Finding(rule.name, rule.version, key, customer, ids, operands, last_ms))
    return found


def sessions(rule: WindowRule, events: Iterable[Event]) -> Iterator[tuple[str, list[Event]]]:
    """The maximal chains of a key's events with no gap longer than the rule's."""
    time = rule.on.time or ""
    by_key: dict[str, list[Event]] = {}
    for event in events:
        by_key.setdefault(event[rule.key], []).append(event)
    for key, own in by_key.items():
        own.sort(key=lambda event: event[time])
        chain = own[:1]
        for event in own[1:]:
            if event[time] - chain[-1][time] > rule.window.gap_ms:
                yield key, chain
                chain = []
            chain.append(event)
        yield key, chain


def summary_rows(summary: WindowSummary, events: Iterable[Event]) -> dict[tuple[Any, ...], dict[str, Value]]:
    """The rows of a window summary by (window start, keys...)."""
    assert isinstance(summary.window, Tumbling)
    size, time = summary.window.size_ms, summary.on.time or ""
    grouped: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        start = event[time] - event[time] % size
        grouped.setdefault((start, *(event[key] for key in summary.keys)), []).append(event)
    return {
        key: {name: measured_value(measure, own) for name, measure in summary.measures.items()}
        for key, own in grouped.items()
    }


def measured_value(measure: Measure, events: Sequence[Event]) -> Value:
    """A window's measure over its events."""
    match measure:
        case Count():
            return len(events)
        case Sum(field=name):
            total: int = sum(event[name] for event in events)
            return total
        case Max(field=name):
            return _most(max, events, name)
        case Min(field=name):
            return _most(min, events, name)
    raise TypeError(f"{measure} cannot measure a window")


def kept(event_type: EventType, value: bytes | None, reason: str) -> bytes | None:
    """What a dead letter keeps of the message: nothing of an empty, oversized or forbidden one, never a card number."""
    if not value or len(value) > event_type.max_bytes or reason.startswith("forbidden:"):
        return None
    if reason in _UNREAD and any(plain_name(word.decode()) in event_type.forbidden for word in _words(value)):
        return None
    return card_numbers.masked(value)


def value_base64(event_type: EventType, value: bytes | None, reason: str) -> str | None:
    """How a dead letter carries what it keeps."""
    keeps = kept(event_type, value, reason)
    return None if keeps is None else base64.b64encode(keeps).decode()


def _most(choose: Callable[..., Value], events: Sequence[Event], name: str) -> Value:
    return choose((event[name] for event in events), default=None)


def _no_such_number(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _json(names: set[str]) -> json.JSONDecoder:
    """A decoder that collects every name, also those that a later one replaces."""

    def taken_down(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        names.update(read)
        return read

    # Python refuses an int of more than 4300 digits; a Decimal keeps all of them.
    return json.JSONDecoder(parse_constant=_no_such_number, parse_int=Decimal, object_pairs_hook=taken_down)


_UNREAD = ("encoding", "json", "shape")
"""Reasons of messages whose names could not be read: a forbidden name is looked for among their words."""


def _words(value: bytes) -> list[bytes]:
    return re.findall(rb"[A-Za-z0-9_-]+", value.replace(b"\0", b""))


_NO_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[^][{}"]+')


def _depth(text: str) -> int:
    """How deep objects and lists are nested in a JSON text."""
    if text.count("[") + text.count("{") <= DEPTH_MOST:
        return 0
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in _NO_BRACKETS.sub("", text)))


def _problem(declared: EventField, read: Mapping[str, Any]) -> str | None:
    if declared.name not in read:
        return "missing" if declared.required else None
    value = read[declared.name]
    if value is None:
        return "null" if declared.required else None
    if isinstance(declared, Text):
        if not isinstance(value, str):
            return "type"
        is_short = len(value) <= declared.max_length
        problem = "length" if not is_short else None if re.fullmatch(declared.pattern, value) else "pattern"
    else:
        if not isinstance(value, Decimal if declared.kind == "whole" else (Decimal, float)):
            return "type"
        problem = None if declared.least <= _as_declared(declared, value) <= declared.most else "range"
    if isinstance(declared, Real) or (declared.may_pass_luhn and problem is None):
        return problem
    return "card-number" if card_numbers.are_in(str(value)) else problem


def _as_declared(declared: EventField, value: Any) -> Any:
    if value is None or declared.kind == "text":
        return value
    return int(value) if declared.kind == "whole" else float(value) + 0.0  # -0.0 + 0.0 is 0.0


@dataclass
class _Fold:
    """One measure: how it takes in an event, and its values when one arrives."""

    take: Callable[[str, Event], None]
    values: Callable[[str, Event], dict[str, Value]]

    def learn(self, stream: str, event: Event) -> None:
        self.take(stream, event)


def _fold(measure: Measure, on: EventType) -> _Fold:
    match measure:
        case Max(field=field_name):
            return _running(on, lambda held, event: event[field_name] if held is None else max(held, event[field_name]))
        case Min(field=field_name):
            return _running(on, lambda held, event: event[field_name] if held is None else min(held, event[field_name]))
        case Sum(field=field_name):
            return _running(on, lambda held, event: (held or 0) + event[field_name])
        case Count():
            return _running(on, lambda held, event: held + 1, start=0)
        case Last(stream=stream, fields=fields):
            return _last(stream, fields)
        case DistinctOthers(field=field_name, within_ms=within_ms):
            return _others(on, field_name, within_ms)


def _running(on: EventType, grow: Callable[[Any, Event], Value], start: Value = None) -> _Fold:
    held = start

    def take(stream: str, event: Event) -> None:
        nonlocal held
        if stream == on.name:
            held = grow(held, event)

    return _Fold(take, lambda name, now: {name: held})


def _last(stream: EventType, fields: tuple[str, ...]) -> _Fold:
    held: Event | None = None

    def take(arrived: str, event: Event) -> None:
        nonlocal held
        if arrived == stream.name:
            held = event

    return _Fold(take, lambda name, now: {f"{name}_{f}": None if held is None else held[f] for f in fields})


def _others(on: EventType, field_name: str, within_ms: int) -> _Fold:
    latest: dict[Any, int] = {}
    time = on.time or ""

    def take(stream: str, event: Event) -> None:
        if stream == on.name:
            latest[event[field_name]] = max(event[time], latest.get(event[field_name], event[time]))

    def values(name: str, now: Event) -> dict[str, Value]:
        since = max([now[time], *latest.values()]) - within_ms
        return {name: sum(1 for value, at_ms in latest.items() if value != now[field_name] and at_ms >= since)}

    return _Fold(take, values)


def _looked_up(use: UseCase, event: Event, references: Mapping[str, Mapping[str, Event]]) -> Event:
    return {
        new: references[lookup.reference.name][event[lookup.by]][old]
        for lookup in use.enrichment.lookups
        for new, old in lookup.take.items()
    }


def _memories(
    memories: dict[str, dict[str, Memory]], key: str, rules: Sequence[EventRule], use: UseCase
) -> dict[str, Memory]:
    if key not in memories:
        own = {rule.name: Memory(rule.remembers, use.judged) for rule in rules}
        memories[key] = {**own, ENRICHMENT: Memory(use.enrichment.remembers, use.judged)}
    return memories[key]


def _values(event: Event, before: Mapping[str, Value]) -> dict[tuple[str, str], Value]:
    return {("now", k): v for k, v in event.items()} | {("before", k): v for k, v in before.items()}


def _step(
    rule: FoldRule, states: dict[tuple[str, str], Any], key: str, event: Event, stream: str
) -> Mapping[str, Any] | None:
    states[rule.name, key], found = rule.step(states.get((rule.name, key)), event, stream)
    return found


def _folded_finding(rule: FoldRule, event: Event, found: Mapping[str, Any]) -> Finding:
    key = event[rule.key]
    return Finding(rule.name, rule.version, key, key, (event[rule.on.id or ""],), found, event[rule.on.time or ""])
