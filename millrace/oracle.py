"""The meaning of rules, in plain Python: which messages are accepted, what measures hold, which alerts are due.

The engines are judged by it. It is written for reading, not for speed, and shares only the declarations with them.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate
from typing import Any

from millrace.rules import card_numbers
from millrace.rules.events import (
    DEPTH_MOST,
    WHOLE_LEAST,
    WHOLE_MOST,
    EventField,
    EventType,
    Real,
    Text,
    plain_name,
)
from millrace.rules.expressions import Expression, Value, value_of
from millrace.rules.measures import Count, CountDistinct, DistinctOthers, Last, Max, Measure, Min, Sum
from millrace.rules.outputs import DUPLICATE, FLAGS, INGEST_MS, WINDOW_SPAN, alert_id, operand_name, provenance, row
from millrace.rules.rules import (
    ENRICHMENT,
    EventRule,
    FoldRule,
    Rule,
    UseCase,
    WindowRule,
    WindowSummary,
)
from millrace.rules.windows import Session, Sliding, Tumbling, Window

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

    @property
    def origin(self) -> Origin:
        return self.topic, self.partition, self.offset


Origin = tuple[str, int, int]
"""Kind of event, partition and offset: which raw message something came from."""


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
    subject: str
    event_ids: tuple[str, ...]
    operands: Mapping[str, Value]
    at_ms: int
    window_start_ms: int | None = None
    """Of a rule on windows."""
    origins: tuple[Origin, ...] = field(default=(), compare=False)
    """The raw messages of the events that it rests on."""

    @property
    def fact(self) -> str:
        """Its identity among the findings of one rule in one key."""
        return self.event_ids[0] if self.window_start_ms is None else str(self.window_start_ms)

    @property
    def alert_id(self) -> str:
        return alert_id(self.rule, self.rule_version, self.key, self.fact)


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

    An event is judged by what was there when it arrived, however late it is judged.
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
    use: UseCase,
    rules: Sequence[Rule],
    tape: Iterable[Record],
    references: Mapping[str, Mapping[str, Event]],
    is_still_known: Callable[[Origin], bool] = lambda origin: False,
) -> Iterator[Judged]:
    """Judge a tape of raw records in the order of their arrival; references hold their events by type and key.

    An id is remembered for `remembered_ms` after its event arrived. An engine may remember it longer: then what comes
    later with the same id is a duplicate if it `is_still_known`.
    """
    kinds = {event_type.name: event_type for event_type in use.raw}
    event_rules = [rule for rule in rules if isinstance(rule, EventRule)]
    fold_rules = [rule for rule in rules if isinstance(rule, FoldRule)]
    memories: dict[str, dict[str, Memory]] = {}
    seen_ms: dict[tuple[str, str], int] = {}
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
        identity = identity_of(use.judged, event, record)
        if use.judged.id:
            since_ms = record.ingest_ms - seen_ms.get((key, identity), -math.inf)
            if since_ms <= use.judged.remembered_ms or (since_ms < math.inf and is_still_known(record.origin)):
                yield Judged(record, DUPLICATE)
                continue
            seen_ms[key, identity] = record.ingest_ms
        own = _memories(memories, key, event_rules, use)
        before = {name: memory.before(event) for name, memory in own.items()}
        findings = [
            finding
            for rule in event_rules
            if (finding := finding_of(rule, event, before[rule.name], record)) is not None
        ]
        folded = [(rule, _step(rule, states, key, event, record.topic)) for rule in fold_rules]
        findings += [_found(rule, event, record, found) for rule, found in folded if found is not None]
        for memory in own.values():
            memory.learn(record.topic, event)
        yield Judged(
            record,
            None,
            enriched_event(use, event, before[ENRICHMENT], record, _looked_up(use, event, references), findings),
            before,
            tuple(findings),
        )


def identity_of(judged: EventType, event: Event, record: Record) -> str:
    """What an event is known by among those of its key: its id, or else its place in the topic."""
    return str(event[judged.id]) if judged.id else f"{record.partition}-{record.offset}"


def finding_of(rule: EventRule, event: Event, before: Mapping[str, Value], record: Record) -> Finding | None:
    """The alert of a rule on one event, given the remembered values; None if its condition does not hold."""
    values = _values(event, before)
    if value_of(rule.condition, values) is not True:
        return None
    operands = {operand_name(f): values[f.owner, f.name] for f in rule.operands}
    return _found(rule, event, record, operands)


def _found(rule: EventRule | FoldRule, event: Event, record: Record, operands: Mapping[str, Value]) -> Finding:
    key, ids, at_ms = event[rule.key], (identity_of(rule.on, event, record),), event[rule.on.time or ""]
    return Finding(rule.name, rule.version, key, key, ids, operands, at_ms, origins=(record.origin,))


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
    time, identity = rule.on.time or "", rule.on.id
    by_key: dict[str, list[Event]] = {}
    for event in events:
        by_key.setdefault(event[rule.key], []).append(event)
    found = []
    for key, own in by_key.items():
        for start_ms, among in windows(rule.window, time, own):
            values = measured(rule, among)
            if value_of(rule.condition, {("w", name): value for name, value in values.items()}) is not True:
                continue
            first_ms, last_ms = among[0][time], among[-1][time]
            operands = values | dict(zip(WINDOW_SPAN, (first_ms, last_ms), strict=True))
            ids = tuple(sorted(event[identity] for event in among)[: rule.ids_most]) if identity else ()
            origins = tuple(_origin(event) for event in among)
            subject = max(event[rule.on.key] for event in among)
            found.append(Finding(rule.name, rule.version, key, subject, ids, operands, last_ms, start_ms, origins))
    return found


def windows(window: Window, time: str, events: Iterable[Event]) -> Iterator[tuple[int, list[Event]]]:
    """The windows of one key's events, each with its start and its events in the order of their time."""
    ordered = sorted(events, key=lambda event: event[time])
    if isinstance(window, Session):
        chain = ordered[:1]
        for event in ordered[1:]:
            if event[time] - chain[-1][time] > window.gap_ms:
                yield chain[0][time], chain
                chain = []
            chain.append(event)
        if chain:
            yield chain[0][time], chain
        return
    spans: dict[int, list[Event]] = {}
    for event in ordered:
        for start_ms in starts(window, event[time]):
            spans.setdefault(start_ms, []).append(event)
    yield from sorted(spans.items())


def starts(window: Tumbling | Sliding, at_ms: int) -> range:
    """The starts of all windows that an event is in: aligned to 1970, the start inside and the end outside."""
    step_ms = window.step_ms if isinstance(window, Sliding) else window.size_ms
    last_ms = at_ms - at_ms % step_ms
    return range(last_ms - window.size_ms + step_ms, last_ms + 1, step_ms)


def summary_rows(summary: WindowSummary, events: Iterable[Event]) -> dict[tuple[Any, ...], dict[str, Value]]:
    """The rows of a window summary by (window start, keys...)."""
    grouped: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        for start_ms in starts(summary.window, event[summary.on.time or ""]):
            grouped.setdefault((start_ms, *(event[key] for key in summary.keys)), []).append(event)
    return {key: measured(summary, own) for key, own in grouped.items()}


def measured(of: WindowRule | WindowSummary, events: Sequence[Event]) -> dict[str, Value]:
    """The measures of a window over its events, which are of the intermediate topic."""
    return {name: _measured(measure, events, of.where.get(name)) for name, measure in of.measures.items()}


def _measured(measure: Measure, events: Sequence[Event], where: Expression | None) -> Value:
    if isinstance(measure, Count):
        return sum(1 for event in events if where is None or value_of(where, _values(event, {})) is True)
    name = measure.fields[0] if isinstance(measure, Last) else measure.field
    present = [event for event in events if event[name] is not None]
    values: list[Any] = [event[name] for event in present]
    found: Value = None
    match measure:
        case CountDistinct():
            found = len(set(values))
        case Last() if present:
            found = max(present, key=_arrival)[name]
        case Sum() if present:
            found = _within_64_bits(sum(values))
        case Max() if present:
            found = max(values)
        case Min() if present:
            found = min(values)
    return found


def _origin(event: Event) -> Origin:
    return event["source_topic"], event["source_partition"], event["source_offset"]


def _arrival(event: Event) -> tuple[int, int, int]:
    """The place of an event of the intermediate topic in the order of arrival."""
    return event[INGEST_MS.name], event["source_partition"], event["source_offset"]


def _within_64_bits(value: Any) -> Any:
    """A whole number at the limit that it would leave."""
    return value if isinstance(value, float) else max(WHOLE_LEAST, min(WHOLE_MOST, value))


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
            return _running(on, field_name, max)
        case Min(field=field_name):
            return _running(on, field_name, min)
        case Sum(field=field_name):
            return _running(on, field_name, lambda held, value: _within_64_bits(held + value))
        case Count(within_ms=int(within_ms)):
            return _recent(on, within_ms)
        case Count():
            return _counted(on)
        case Last(stream=stream, fields=fields):
            return _last(stream or on, fields)
        case DistinctOthers(field=field_name, within_ms=within_ms):
            return _others(on, field_name, within_ms)
    raise TypeError(f"{measure} cannot be remembered of a key")


def _running(on: EventType, field_name: str, grow: Callable[[Any, Any], Value]) -> _Fold:
    held: Value = None

    def take(stream: str, event: Event) -> None:
        nonlocal held
        if stream == on.name and event[field_name] is not None:
            held = event[field_name] if held is None else grow(held, event[field_name])

    return _Fold(take, lambda name, now: {name: held})


def _counted(on: EventType) -> _Fold:
    events = 0

    def take(stream: str, event: Event) -> None:
        nonlocal events
        events += stream == on.name

    return _Fold(take, lambda name, now: {name: events})


def _recent(on: EventType, within_ms: int) -> _Fold:
    times: list[int] = []
    time = on.time or ""

    def take(stream: str, event: Event) -> None:
        if stream == on.name:
            times.append(event[time])
            since = max(times) - within_ms
            times[:] = [at_ms for at_ms in times if at_ms >= since]

    def values(name: str, now: Event) -> dict[str, Value]:
        since = max([now[time], *times]) - within_ms
        return {name: sum(1 for at_ms in times if at_ms >= since)}

    return _Fold(take, values)


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
        others = [at_ms for value, at_ms in latest.items() if value not in (None, now[field_name])]
        return {name: sum(1 for at_ms in others if at_ms >= since)}

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
