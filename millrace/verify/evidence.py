"""The outputs and inputs of a run, as read back, and the tolerances of its verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from millrace.oracle import Origin, Record
from millrace.rules.events import AnyField, TextMap, Words
from millrace.traffic.labels import Labels

Event = Mapping[str, Any]
REAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A real number as engines write it: 0.1, 1.0E10 (Java), 1e+16 (Python)."""
NESTED_MOST = 100
"""No output is nested so deep. What Python can just read, it may not be able to write down or show."""


HALF_PAIR = re.compile("[\ud800-\udfff]")


class StoredRow(dict[str, Any]):
    """A row of a file, and the path of that file."""

    __slots__ = ("path",)

    def __init__(self, values: Event, path: str) -> None:
        super().__init__(values)
        self.path = path


@dataclass(frozen=True)
class Bounds:
    """Tolerances."""

    skew_ms: int = 2_000
    """Two topics are read at most so far apart: within it, either of two messages may come first."""
    races_share: float = 0.005
    """More events for which they were read in another order than they arrived in are a fault, not chance."""
    races_most: int = 3
    """Where that share is less than these."""
    ahead_ms: int = 2_000
    """One partition is read at most so far ahead of another: its events may make those of the other late."""
    closing_ms: int = 2_000
    """A window's result is due when event time is so far behind its end and the disorder."""
    idle_ms: int = 25_000
    """A partition whose newest event is so far behind that of all partitions holds back no window: engines count one
    without traffic as idle after 5 to 10 s, and a batch may take some more."""
    clocks_ms: int = 60_000
    """The clocks of two machines differ at most so far."""
    held_ms: int = 900_000
    """What an engine has made reaches its topic at most so much later. A producer gives up after two minutes, and what
    is made again has another `emit_ms`; a broker that is away for ten minutes leaves some to spare."""
    overdue_ms: int = 60_000
    """A window that may still be open so long after its end and the disorder, by the newest arrival, makes its check
    unknown."""


EARLIER_MOST_MS = 1_800_000
"""A job of an earlier version may write so long after it was replaced: servers may have been away meanwhile."""


@dataclass(frozen=True)
class Versions:
    """The versions that a rule or summary had before the present one."""

    past: tuple[tuple[str | None, int], ...] = ()
    """Each with the moment at which it ended, the oldest first; None where there was no version."""

    @property
    def since_ms(self) -> int:
        """Since when the present version is in force."""
        return self.past[-1][1] if self.past else 0

    def spans_ms(self, version: str) -> Iterator[tuple[int, int]]:
        """From when until when a version was in force; it may have come back."""
        since_ms = 0
        for each, until_ms in self.past:
            if each == version:
                yield since_ms, until_ms
            since_ms = until_ms

    def may_write(self, at_ms: int, clocks_ms: int) -> bool:
        """Whether a job of an earlier version may have written something then."""
        earlier = {version for version, _ in self.past if version is not None}
        return any(
            since_ms - clocks_ms <= at_ms <= until_ms + EARLIER_MOST_MS
            for version in earlier
            for since_ms, until_ms in self.spans_ms(version)
        )


ENRICHED = "enriched"
"""The key of the intermediate topic among the outputs; other outputs have the names of their topics."""
FILES = "files"
"""The key of the Parquet rows among the stores."""
Messages = Sequence[tuple[Record, Event]]
"""Messages of an output, with the objects that they hold."""


RUNS = "recorded runs"
"""The key of the record of runs among what could not be read."""
FORGOTTEN = "forgotten"
"""The key of the forgotten keys among the stores."""


def table_key(table: str) -> str:
    """The key of a table among the stores."""
    return f"table of {table}"


@dataclass(frozen=True)
class Evidence:
    """Whole topics and stores of one pattern; None, or no entry, stands for what could not be read."""

    raw: Mapping[str, Sequence[Record] | None]
    """By kind of event: the judged events, the other streams, the reference data."""
    outputs: Mapping[str, Sequence[Record] | None] = field(default_factory=dict)
    """By kind: enriched events, alerts, dead letters, window results."""
    stores: Mapping[str, Any] = field(default_factory=dict)
    """What was persisted: the rows of the files, and for each table its rows by key."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why an output or store could not be read, by its key."""
    hop_ms: Sequence[float] | None = None
    """How long bare messages took through Kafka in the same minutes, from intended send time to the topic."""
    hop_sent_ms: Sequence[int] = ()
    """When each of them was sent; a sender of traffic sends them all the time, and nothing else does."""
    received_ms: Mapping[str, float] | None = None
    """When a reader received each alert, by alert id, if one was reading."""
    hop_received_ms: Sequence[float] | None = None
    """How long bare messages took until that reader had them."""
    deleted: Sequence[str] = ()
    """Kinds whose first messages are gone from their topics, so that their memory cannot be recomputed."""
    labels: Labels | None = None
    """For generated traffic: where each rule must alert."""
    unlabelled: Sequence[str] = ()
    """Why the labels of some generated runs cannot be used."""
    wrong_files: Sequence[str] = ()
    """What is wrong with whole files of the stores."""
    replaced: Sequence[Event] = ()
    """The rows of files that a compaction has replaced and not yet deleted."""
    read_ms: int = 0
    """When the last of it was read; 0 if that is not known."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Full topic name -> kind of event, to find the origin of outputs."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many partitions the raw topics without reference data and the outputs have, by their keys."""

    def part(self, name: str) -> Any:
        """The output or store of that key; None if it could not be read."""
        return self.outputs.get(name, self.stores.get(name))

    def origin(self, topic: str, partition: int, offset: int) -> Origin:
        """The origin that an output names by its topic; the name of a kind is none of a topic."""
        kind = self.kinds.get(topic)
        if kind is None:
            kind = f"no topic '{topic}'" if topic in self.kinds.values() else topic
        return kind, partition, offset


@dataclass(frozen=True)
class Read:
    """The messages of a topic as objects, and the places of unreadable ones."""

    events: tuple[tuple[Record, Event], ...]
    unreadable: tuple[str, ...]
    faults: tuple[str, ...] = ()
    """What of the messages that can be read is not as declared."""


def read(
    records: Sequence[Record],
    problem: Callable[[Event], str | None],
    faults: Callable[[Record, Event], Iterable[str]] = lambda record, event: (),
) -> Read:
    """Reads the messages of an output topic; each must be an object in which nothing is a problem."""
    events, unreadable, faulty = [], [], []
    for record in records:
        value = record.value or b""
        try:
            event = _READER.decode(value.decode())
        except (ValueError, RecursionError):
            event = None
        why = problem(event) if isinstance(event, dict) else "not a JSON object"
        if why is None and _is_deep(value, event):
            why = "nested too deep"
        if why is None:
            events.append((record, event))
            faulty += [f"{place(record)}: {each}" for each in faults(record, event)]
        else:
            unreadable.append(f"{place(record)} holds no {record.topic}: {why}: {(record.value or b'')[:60]!r}")
    return Read(tuple(events), tuple(unreadable), tuple(faulty))


def _is_deep(value: bytes, event: Event) -> bool:
    """Whether the object in these bytes is nested deeper than any output."""
    if value.count(b"[") + value.count(b"{") <= NESTED_MOST:
        return False
    level: list[Any] = [event]
    for _ in range(NESTED_MOST):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for own in inner for each in own if isinstance(each, dict | list)]
    return bool(level)


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no name is twice: readers differ in which value counts."""
    # A reader makes each name anew; for many messages that is much memory.
    found = {intern(name): value for name, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


_READER = json.JSONDecoder(object_pairs_hook=once_each)


def misfit(
    fields: Mapping[str, str], needed: Collection[str], event: Event, nullable: Collection[str] = ()
) -> str | None:
    """The first field that is not of its kind; one that is not needed may be null, or not there."""
    for name, kind in fields.items():
        value = event.get(name)
        if value is None and name in needed and name not in event:
            return f"'{name}' is not there"
        if not (name not in needed or name in nullable if value is None else FITS[kind](value)):
            return f"'{name}' is no {kind}"
    return None


def kinds_of(fields: Iterable[AnyField]) -> dict[str, str]:
    """The kinds of declared fields, by name."""
    return {each.name: KINDS.get(type(each), "") or each.kind for each in fields}  # type: ignore[union-attr]


def _is_text(value: Any) -> bool:
    """Half of a surrogate pair is none: no reader can write it again."""
    return isinstance(value, str) and (value.isascii() or not HALF_PAIR.search(value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


KINDS: Mapping[type, str] = {Words: "words", TextMap: "text map"}
FITS: Mapping[str, Callable[[Any], bool]] = {
    "text": _is_text,
    "whole": _is_whole,
    "real": lambda value: isinstance(value, float) or _is_whole(value),
    "flag": lambda value: isinstance(value, bool),
    "words": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "text map": lambda value: (
        isinstance(value, dict) and all(each is None or _is_text(each) for each in (*value, *value.values()))
    ),
}
"""Whether a value is of a kind of field."""


def place(record: Record) -> str:
    """Where a message is."""
    return f"{record.topic}[{record.partition}]@{record.offset}"


def place_of(origin: Origin) -> str:
    """Where a raw message is."""
    return f"{origin[0]}[{origin[1]}]@{origin[2]}"


def is_same(expected: Any, got: Any) -> bool:
    """Whether two values are the same but for the last digits of a computed number."""
    if isinstance(expected, float) and isinstance(got, _NUMBER) and not isinstance(got, bool):
        try:
            return abs(expected - got) <= 1e-9 * max(1.0, abs(expected))
        except OverflowError:  # no real number is so large
            return False
    if isinstance(expected, _LIST) and isinstance(got, _LIST):
        return len(expected) == len(got) and all(map(is_same, expected, got))
    return type(expected) is type(got) and bool(expected == got)


# Written in place, int | float is made anew for each value that is compared.
_NUMBER = (int, float)
_LIST = (list, tuple)


def is_copy(expected: Any, got: Any) -> bool:
    """Whether a value is the same to its last digit."""
    return is_same(expected, got) and bool(expected == got)


def is_text_of(text: Any, value: Any) -> bool:
    """Whether an operand, which an alert carries as text, is this value."""
    if value is None or text is None:
        return value is text
    if isinstance(value, bool):
        return str(text).lower() == str(value).lower()
    if isinstance(value, str):
        return bool(text == value)
    if isinstance(value, float):
        return REAL.fullmatch(str(text)) is not None and is_same(value, float(text))
    return bool(text == str(value))
