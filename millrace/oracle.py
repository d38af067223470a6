"""The meaning of rules, in plain Python: which messages are accepted, what measures hold, which alerts are due.

The engines are judged by it. It is written for reading, not for speed, and shares only the declarations with them.
"""

from __future__ import annotations

import base64
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import accumulate
from typing import Any, Protocol

from millrace.rules import card_numbers
from millrace.rules.containers import require_plain
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
from millrace.rules.measures import Count, CountDistinct, DistinctOthers, Last, Max, Measure, Min, Sum, signature
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


@dataclass(frozen=True, slots=True)
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

Lacked = Callable[[Record], Collection[str]]
"""The memories that no rule of a job needed when it read a record, by the names that they are kept under."""


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


@dataclass(frozen=True, slots=True)
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
    try:
        read, names = _READER.read(text)
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
        event[declared.name], problem = _value(declared, read)
        if problem:
            return Refusal(f"{problem}:{declared.name}")
    if event_type.time is not None:
        at_ms = event[event_type.time]
        if at_ms < ingest_ms - event_type.past_ms:
            return Refusal(f"past:{event_type.time}")
        if at_ms > ingest_ms + event_type.future_ms:
            return Refusal(f"future:{event_type.time}")
    return event


class Seen(Protocol):
    """When the event of each key and id arrived: a dictionary, or what is too large for one."""

    def get(self, key: tuple[str, str], default: float, /) -> float: ...
    def __setitem__(self, key: tuple[str, str], value: int, /) -> None: ...


@dataclass
class State:
    """What judging has to remember, as data: it can be written down after any record, and judging continues from it."""

    references: Mapping[str, dict[str, Event]]
    """Reference data by event type and key."""
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Key -> signature of a measure -> what it has folded so far."""
    seen_ms: Seen = field(default_factory=lambda: _no_ids())
    """Key and id of each accepted event -> when it arrived."""
    folded: dict[tuple[str, str], Any] = field(default_factory=dict)
    """State of a fold rule and key -> what its step returned last."""


class Memory:
    """What a rule remembers of one key, folded event by event."""

    def __init__(self, remembers: Mapping[str, Measure], on: EventType, held: dict[str, Any] | None = None) -> None:
        """`held` is what the measures have folded so far, by their signatures."""
        self._folds = _folds(remembers, on)
        self._held = {} if held is None else held

    def before(self, now: Event) -> dict[str, Value]:
        """The remembered values that a condition reads when `now` arrives."""
        return _before(self._folds, self._held, now)

    def learn(self, stream: str, event: Event) -> None:
        """Take in an event that has been judged, or one of another stream."""
        _learn(self._folds, self._held, stream, event)


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
    references: Mapping[str, dict[str, Event]],
    is_still_known: Callable[[Origin], bool] = lambda origin: False,
    lacked: Lacked = lambda record: (),
) -> Iterator[Judged]:
    """Judge a tape of raw records in the order of their arrival; references hold their events by type and key."""
    return advance(use, rules, State(references), tape, is_still_known, lacked)


def advance(
    use: UseCase,
    rules: Sequence[Rule],
    state: State,
    records: Iterable[Record],
    is_still_known: Callable[[Origin], bool] = lambda origin: False,
    lacked: Lacked = lambda record: (),
) -> Iterator[Judged]:
    """Judge the next raw records in the order of their arrival; each one changes the state.

    An id is remembered for `remembered_ms` after its event arrived. An engine may remember it longer: then what comes
    later with the same id is a duplicate if it `is_still_known`. What the job `lacked` when it read a record begins
    anew for its key: a job writes a key's memory without what none of its rules needs.
    """
    kinds = {event_type.name: event_type for event_type in use.raw}
    event_rules = [rule for rule in rules if isinstance(rule, EventRule)]
    fold_rules = [rule for rule in rules if isinstance(rule, FoldRule)]
    folds = {rule.name: _folds(rule.remembers, use.judged) for rule in event_rules}
    folds[ENRICHMENT] = _folds(use.enrichment.remembers, use.judged)
    by_signature = {fold.signature: fold for own in folds.values() for fold in own}
    references, seen_ms = state.references, state.seen_ms
    for record in records:
        event_type = kinds[record.topic]
        event = accept(event_type, record.value, record.ingest_ms)
        if isinstance(event, Refusal):
            yield Judged(record, event.reason)
            continue
        key = event[event_type.key]
        folded = [
            (rule, _step(rule, state.folded, key, event, record.topic))
            for rule in fold_rules
            if event_type in rule.also
        ]
        if event_type is not use.judged:
            _learn(by_signature.values(), state.memories.setdefault(key, {}), record.topic, event)
            _forget(state, key, lacked(record))
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
        held = state.memories.setdefault(key, {})
        before = {name: _before(own, held, event) for name, own in folds.items()}
        findings = [
            finding
            for rule in event_rules
            if (finding := finding_of(rule, event, before[rule.name], record)) is not None
        ]
        folded = [(rule, _step(rule, state.folded, key, event, record.topic)) for rule in fold_rules]
        findings += [_found(rule, event, record, found) for rule, found in folded if found is not None]
        _learn(by_signature.values(), held, record.topic, event)
        _forget(state, key, lacked(record))
        yield Judged(
            record,
            None,
            enriched_event(use, event, before[ENRICHMENT], record, _looked_up(use, event, references), findings),
            before,
            tuple(findings),
        )


def _forget(state: State, key: str, names: Iterable[str]) -> None:
    for name in names:
        state.memories.get(key, {}).pop(name, None)
        state.folded.pop((name, key), None)


def remember(
    use: UseCase, rules: Iterable[Rule], state: State, names: Collection[str], events: Iterable[tuple[str, Event]]
) -> None:
    """Fold events that were judged, each with its stream, into the memories with these names and no others."""
    fold_rules = [rule for rule in rules if isinstance(rule, FoldRule) and rule.state in names]
    remembers = [use.enrichment.remembers, *(rule.remembers for rule in rules if isinstance(rule, EventRule))]
    folds = [fold for own in remembers for fold in _folds(own, use.judged)]
    by_signature = {fold.signature: fold for fold in folds if fold.signature in names}
    keys = {each.name: each.key for each in use.raw}
    for stream, event in events:
        key = event[keys[stream]]
        for rule in fold_rules:
            if stream in (use.judged.name, *(each.name for each in rule.also)):
                _step(rule, state.folded, key, event, stream)
        _learn(by_signature.values(), state.memories.setdefault(key, {}), stream, event)


def _no_ids() -> Seen:
    found: dict[tuple[str, str], float] = {}
    return found


def identity_of(judged: EventType, event: Event, record: Record) -> str:
    """What an event is known by among those of its key: its id, or else its place in the topic."""
    return str(event[judged.id]) if judged.id else f"{record.partition}-{record.offset}"


def finding_of(rule: EventRule, event: Event, before: Mapping[str, Value], record: Record) -> Finding | None:
    """The alert of a rule on one event, given the remembered values; None if its condition does not hold."""
    values = {"now": event, "before": before}
    if value_of(rule.condition, values) is not True:
        return None
    operands = {operand_name(f): values[f.owner][f.name] for f in rule.operands}
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
    values = {"now": event, "before": before}
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
    by_key: dict[str, list[Event]] = {}
    for event in events:
        by_key.setdefault(event[rule.key], []).append(event)
    return [
        finding
        for key, own in by_key.items()
        for start_ms, among in windows(rule.window, rule.on.time or "", own)
        if (finding := window_finding(rule, key, start_ms, among)) is not None
    ]


def window_finding(rule: WindowRule, key: str, start_ms: int, among: Sequence[Event]) -> Finding | None:
    """The alert of a rule on one window, given its events in the order of their time; None without one."""
    values = measured(rule, among)
    if value_of(rule.condition, {"w": values}) is not True:
        return None
    time, identity = rule.on.time or "", rule.on.id
    first_ms, last_ms = among[0][time], among[-1][time]
    operands = values | dict(zip(WINDOW_SPAN, (first_ms, last_ms), strict=True))
    ids = tuple(sorted(event[identity] for event in among)[: rule.ids_most]) if identity else ()
    origins = tuple(_origin(event) for event in among)
    subject = max(event[rule.on.key] for event in among)
    return Finding(rule.name, rule.version, key, subject, ids, operands, last_ms, start_ms, origins)


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
    return {key: measured(summary, own) for key, own in summary_events(summary, events).items()}


def summary_events(summary: WindowSummary, events: Iterable[Event]) -> dict[tuple[Any, ...], list[Event]]:
    """The events of each row of a window summary."""
    grouped: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        for start_ms in starts(summary.window, event[summary.on.time or ""]):
            grouped.setdefault((start_ms, *(event[key] for key in summary.keys)), []).append(event)
    return grouped


def measured(of: WindowRule | WindowSummary, events: Sequence[Event]) -> dict[str, Value]:
    """The measures of a window over its events, which are of the intermediate topic."""
    return {name: _measured(measure, events, of.where.get(name)) for name, measure in of.measures.items()}


def _measured(measure: Measure, events: Sequence[Event], where: Expression | None) -> Value:
    if isinstance(measure, Count):
        return sum(1 for event in events if where is None or value_of(where, {"now": event}) is True)
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
            found = within_64_bits(sum(values))
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


def within_64_bits(value: Any) -> Any:
    """A whole number at the limit that it would leave."""
    return max(WHOLE_LEAST, min(WHOLE_MOST, value)) if isinstance(value, int) else value


def kept(event_type: EventType, value: bytes | None, reason: str) -> bytes | None:
    """What a dead letter keeps of the message: nothing of an empty, oversized or forbidden one, never a card number."""
    if not value or len(value) > event_type.max_bytes or reason.startswith("forbidden:"):
        return None
    if reason in UNREAD and any(plain_name(word.decode()) in event_type.forbidden for word in _words(value)):
        return None
    return card_numbers.masked(value)


def without_tokens(event_type: EventType, value: bytes) -> bytes:
    """The message without its valid tokens and ids, whose digits may be those of a card number by chance."""
    try:
        read, _ = _READER.read(value.decode())
        pairs = json.loads(value, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return value
    if not isinstance(read, dict):
        return value
    times = Counter(name for name, _ in pairs)
    may_hold = [f for f in event_type.readable if not isinstance(f, Real) and f.may_pass_luhn and times[f.name] == 1]
    valid = {each.name for each in may_hold if _value(each, read)[1] is None}
    return json.dumps([pair for pair in pairs if pair[0] not in valid]).encode() if valid else value


def value_base64(event_type: EventType, value: bytes | None, reason: str) -> str | None:
    """How a dead letter carries what it keeps."""
    keeps = kept(event_type, value, reason)
    return None if keeps is None else base64.b64encode(keeps).decode()


def _no_such_number(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


class _Reader(threading.local):
    """Reads JSON and collects every name, also those that a later one replaces."""

    def __init__(self) -> None:
        # Python refuses an int of more than 4300 digits; a Decimal keeps all of them.
        self._decoder = json.JSONDecoder(
            parse_constant=_no_such_number, parse_int=Decimal, object_pairs_hook=self._taken_down
        )
        self._names: set[str] = set()

    def read(self, text: str) -> tuple[Any, set[str]]:
        """What the text holds, and its names."""
        self._names = set()
        return self._decoder.decode(text), self._names

    def _taken_down(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        self._names.update(read)
        return read


_READER = _Reader()


UNREAD = ("encoding", "json", "shape")
"""Reasons of messages whose names could not be read: a forbidden name is looked for among their words."""


def _words(value: bytes) -> list[bytes]:
    return re.findall(rb"[A-Za-z0-9_-]+", value.replace(b"\0", b""))


_NO_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[^][{}"]+')


def _depth(text: str) -> int:
    """How deep objects and lists are nested in a JSON text."""
    if text.count("[") + text.count("{") <= DEPTH_MOST:
        return 0
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in _NO_BRACKETS.sub("", text)))


_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
"""What JSON can escape and UTF-8 cannot write: each engine would write something else for it."""


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _value(declared: EventField, read: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The value of a field, and the reason if it is refused."""
    given = read.get(declared.name)
    if given is None:
        reason = "null" if declared.name in read else "missing"
        return None, reason if declared.required else None
    if isinstance(declared, Text):
        value = given
        if declared.takes_whole and isinstance(given, Decimal):
            value = str(given) if given else "0"  # without the sign of a zero
        if not isinstance(value, str):
            return None, "type"
        is_short = len(value) <= declared.max_length
        matches = _pattern(declared.pattern).fullmatch(value) and (value.isascii() or not _HALF_A_PAIR.search(value))
        problem = "length" if not is_short else None if matches else "pattern"
    else:
        is_whole = declared.kind == "whole"
        if not isinstance(given, Decimal if is_whole else _NUMBERS):
            return None, "type"
        value = int(given) if is_whole else float(given) + 0.0  # -0.0 + 0.0 is 0.0
        problem = None if declared.least <= value <= declared.most else "range"
    if isinstance(declared, Real) or (declared.may_pass_luhn and problem is None):
        return value, problem
    return value, "card-number" if card_numbers.are_in(str(given)) else problem


_NUMBERS = (Decimal, float)


@dataclass(frozen=True)
class _Fold:
    """One measure: how what it holds grows with an event of its stream, and its values when one arrives.

    It holds None before the first event, and plain JSON data after it.
    """

    signature: str
    stream: str
    grown: Callable[[Any, Event], Any]
    values: Callable[[Any, Event], dict[str, Value]]


def _before(folds: Iterable[_Fold], held: Mapping[str, Any], now: Event) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for fold in folds:
        values |= fold.values(held.get(fold.signature), now)
    return values


def _learn(folds: Iterable[_Fold], held: dict[str, Any], stream: str, event: Event) -> None:
    for fold in folds:
        if fold.stream == stream:
            held[fold.signature] = fold.grown(held.get(fold.signature), event)


def _folds(remembers: Mapping[str, Measure], on: EventType) -> tuple[_Fold, ...]:
    return tuple(_fold(name, measure, on) for name, measure in remembers.items())


def _fold(name: str, measure: Measure, on: EventType) -> _Fold:
    stream = (measure.stream or on) if isinstance(measure, Last) else on
    return _Fold(signature(measure, on), stream.name, *_steps(name, measure, on.time or ""))


_Steps = tuple[Callable[[Any, Event], Any], Callable[[Any, Event], dict[str, Value]]]


def _steps(name: str, measure: Measure, time: str) -> _Steps:
    match measure:
        case Max(field=field_name):
            return _running(name, field_name, max)
        case Min(field=field_name):
            return _running(name, field_name, min)
        case Sum(field=field_name):
            return _running(name, field_name, lambda held, value: within_64_bits(held + value))
        case Count(within_ms=int(within_ms)):
            return _recent(name, time, within_ms)
        case Count():
            return lambda held, event: (held or 0) + 1, lambda held, now: {name: held or 0}
        case Last(fields=fields):
            return _last(name, fields)
        case DistinctOthers(field=field_name, within_ms=within_ms):
            return _others(name, time, field_name, within_ms)
    raise TypeError(f"{measure} cannot be remembered of a key")


def _running(name: str, field_name: str, grow: Callable[[Any, Any], Value]) -> _Steps:
    def grown(held: Value, event: Event) -> Value:
        value = event[field_name]
        return held if value is None else value if held is None else grow(held, value)

    return grown, lambda held, now: {name: held}


def _recent(name: str, time: str, within_ms: int) -> _Steps:
    def grown(held: list[int] | None, event: Event) -> list[int]:
        times = [*(held or ()), event[time]]
        since_ms = max(times) - within_ms
        return [at_ms for at_ms in times if at_ms >= since_ms]

    def values(held: list[int] | None, now: Event) -> dict[str, Value]:
        since_ms = max([now[time], *(held or ())]) - within_ms
        return {name: sum(1 for at_ms in held or () if at_ms >= since_ms)}

    return grown, values


def _last(name: str, fields: tuple[str, ...]) -> _Steps:
    columns = {f"{name}_{f}": f for f in fields}

    def values(held: Event | None, now: Event) -> dict[str, Value]:
        return {column: None if held is None else held[f] for column, f in columns.items()}

    return lambda held, event: {f: event[f] for f in fields}, values


def _others(name: str, time: str, field_name: str, within_ms: int) -> _Steps:
    def grown(held: list[list[Any]] | None, event: Event) -> list[list[Any]]:
        """Each value with its newest time; one that is too old now is too old for every later event."""
        latest: dict[Any, int] = dict(held or ())
        latest[event[field_name]] = max(event[time], latest.get(event[field_name], event[time]))
        since_ms = max(latest.values()) - within_ms
        return [[value, at_ms] for value, at_ms in latest.items() if at_ms >= since_ms]

    def values(held: list[list[Any]] | None, now: Event) -> dict[str, Value]:
        since_ms = max([now[time], *(at_ms for _, at_ms in held or ())]) - within_ms
        no_others = (None, now[field_name])
        return {name: sum(1 for value, at_ms in held or () if at_ms >= since_ms and value not in no_others)}

    return grown, values


def _looked_up(use: UseCase, event: Event, references: Mapping[str, Mapping[str, Event]]) -> Event:
    return {
        new: references[lookup.reference.name][event[lookup.by]][old]
        for lookup in use.enrichment.lookups
        for new, old in lookup.take.items()
    }


def _step(
    rule: FoldRule, states: dict[tuple[str, str], Any], key: str, event: Event, stream: str
) -> Mapping[str, Any] | None:
    states[rule.state, key], found = rule.step(states.get((rule.state, key)), event, stream)
    require_plain(f"rule '{rule.name}'", states[rule.state, key])
    return found
