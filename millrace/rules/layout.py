"""How declared tables lie in HBase: families, row keys, cells and timestamps, and what a forgotten key leaves of them.

The writer, the checker and `millrace show` all take them from here. Every write is idempotent:

- A cell of an event or an alert is the same whenever it is written, and has HBase's own timestamp.
- The timestamp of a Max is its value, that of a Min counts down from `VALUES`: HBase keeps the largest, in any order.
- The timestamp of a Last is the arrival of the event that brought it.

A deletion in HBase hides all cells up to its timestamp, also later ones, until a major compaction. So each time that a
key is forgotten, the timestamps of its Max and Min rise by `VALUES`, above those that the deletion hides.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from millrace.rules.events import EventType, Text
from millrace.rules.expressions import RuleError
from millrace.rules.measures import Last, Max, Measure, signature
from millrace.rules.outputs import ALERTS, INGEST_MS
from millrace.rules.rules import UseCase
from millrace.rules.tables import VALUES, NewestFirst, Table, state_columns

EVENT, STATE, ALERT = "t", "s", "a"
"""The column families: a column for each field of an event, for each state, and `a:RULE|ALERT_ID` for each alert."""
MARK_FAMILIES: Mapping[str, Mapping[str, Any]] = {"f": {"max_versions": 1}}
NAMES_ONLY = "KeyOnlyFilter()"
"""The filter of a scan that reads no values."""
OFFSET_BITS = 20  # of an event's offset, behind its arrival's millisecond: no million events come within one

_LARGEST = 2**63 - 1
_UNTIL, _TIMES = b"f:until_ms", b"f:times"

Event = Mapping[str, Any]
Cells = Mapping[bytes, bytes]


@dataclass(frozen=True)
class Put:
    """Cells of one row; of two values of a cell the one with the larger timestamp is kept, the last one without."""

    table: str
    row: bytes
    cells: Cells
    timestamp: int | None = None


@dataclass(frozen=True)
class Delete:
    """Columns, or a whole family, of one row: up to a timestamp, or all that is there now."""

    table: str
    row: bytes
    columns: tuple[bytes, ...]
    timestamp: int | None = None


@dataclass(frozen=True)
class Mark:
    """Up to when a key was forgotten last, and how many times it was."""

    until_ms: int = -1
    times: int = 0


@dataclass(frozen=True)
class Forgotten:
    """The forgotten keys, by digest: what is left of a key is not the key."""

    marks: Mapping[bytes, Mark] = field(default_factory=dict)

    @classmethod
    def read(cls, rows: Iterable[tuple[bytes, Cells]]) -> Forgotten:
        """The rows of the table of marks."""
        return cls({row: Mark(int(cells[_UNTIL]), int(cells[_TIMES])) for row, cells in rows})

    def of(self, field: str, value: Any) -> Mark:
        """The mark of one key."""
        return self.marks.get(mark_row(field, value), Mark()) if self.marks else Mark()

    def has_event(self, table: Table, use: UseCase, event: Event) -> bool:
        """Whether a table no longer holds an event."""
        return self._is(event, ((name, event[name]) for name in reached_by(table, use)))

    def has_alert(self, table: Table, key: str, alert: Event) -> bool:
        """Whether a table no longer holds an alert of the key."""
        return self._is(alert, [(table.first, key)])

    def _is(self, arrived: Event, keys: Iterable[tuple[str, Any]]) -> bool:
        if not self.marks:
            return False
        return any(arrived[INGEST_MS.name] <= self.of(name, value).until_ms for name, value in keys)


Change = TypeVar("Change", Put, Delete)
NOTHING_FORGOTTEN = Forgotten()


def families(table: Table) -> dict[str, dict[str, Any]]:
    """Column family -> its options, as happybase takes them."""
    options: dict[str, Any] = {"max_versions": 1}
    if table.retention_hours is not None:
        options["time_to_live"] = table.retention_hours * 3600
    names = [EVENT] if table.columns else [STATE] * bool(table.state) + [ALERT] * table.alerts
    return {name: dict(options) for name in names}


def row_key(table: Table, event: Event) -> bytes:
    """The row of an event, or of its key."""
    return "|".join(
        _part(_LARGEST - event[part.field] if isinstance(part, NewestFirst) else event[part]) for part in table.parts
    ).encode()


def value_of(use: UseCase, field: str, text: str) -> Any:
    """The value of a field that a person wrote."""
    if use.enriched.kind(field) != "whole":
        return text
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > _LARGEST:
        raise RuleError(f"'{text}' is not a {field}: give a whole number of at most {_LARGEST}")
    return int(text)


def bounds(table: Table, value: Any) -> dict[str, Any]:
    """The scan of all rows with this value of the table's first field, as happybase takes it."""
    first = key_part(value)
    if len(table.parts) > 1:
        return {"row_prefix": first + b"|"}
    return {"row_start": first, "row_stop": first + b"\0"}


def forgettable(use: UseCase) -> set[str]:
    """The fields by which rows can be forgotten."""
    return {use.judged.key, *(table.first for table in use.tables)}


def reached_by(table: Table, use: UseCase) -> set[str]:
    """The fields by which a row of this table can be forgotten: of an event's row, all that identify somebody."""
    named = {*table.fields, *table.columns_of(use.enriched)} if table.columns else {table.first}
    return named & forgettable(use)


def search(table: Table, field: str, value: Any) -> tuple[dict[str, Any], Callable[[bytes, Cells], bool]]:
    """The scan that finds the rows with this value of a field, and which of its rows have it."""
    if field == table.first:
        return {**bounds(table, value), "filter": NAMES_ONLY}, lambda row, cells: True
    if field in table.fields:
        at, part = table.fields.index(field), key_part(value)
        return {"filter": NAMES_ONLY}, lambda row, cells: row.split(b"|")[at] == part
    column = f"{EVENT}:{field}".encode()
    return {"columns": [column]}, lambda row, cells: cells.get(column) == _cell(value)


def puts(use: UseCase, events: Iterable[Event], alerts: Iterable[Event], forgotten: Forgotten) -> list[Put]:
    """All that a batch of accepted events and alerts writes."""
    events, alerts, found = list(events), list(alerts), []
    for table in use.tables:
        own = [event for event in events if not forgotten.has_event(table, use, event)] if forgotten.marks else events
        if table.columns:
            columns = table.columns_of(use.enriched)
            found += [Put(table.name, row_key(table, event), event_cells(event, columns)) for event in own]
        found += _of_alerts(table, use, alerts, forgotten) if table.alerts else ()
        found += _of_state(table, own, forgotten)
    return found


def event_cells(event: Event, columns: Iterable[str]) -> dict[bytes, bytes]:
    """The cells of an event: texts as they are, other values as JSON, no cell for null."""
    return {f"{EVENT}:{name}".encode(): _cell(event[name]) for name in columns if event[name] is not None}


def row_of(table: Table, use: UseCase, row: bytes, cells: Cells) -> dict[str, Any]:
    """A row as it is shown: its key, then the event, or the state and the number of alerts by rule.

    Of an event only what is declared now: of a field that is gone nothing says what its cell holds, and rows of one
    table have the same columns.
    """
    key = key_of(table, use, row)
    if table.columns:
        columns = table.columns_of(use.enriched)
        declared = {f"{EVENT}:{name}".encode() for name in columns}
        event = event_of(use.enriched, columns, {name: cell for name, cell in cells.items() if name in declared})
        return {name: value for name, value in key.items() if name not in columns} | event
    return key | state_of(table, cells) | ({"alerts": alerts_of(cells)} if table.alerts else {})


def event_of(event_type: EventType, columns: Iterable[str], cells: Cells) -> dict[str, Any]:
    """The inverse of `event_cells`; a column without a cell is null."""
    texts = {each.name for each in event_type.fields if isinstance(each, Text)}
    found: dict[str, Any] = dict.fromkeys(columns)
    for column, value in cells.items():
        name = column.decode().partition(":")[2]
        found[name] = value.decode() if name in texts else json.loads(value)
    return found


def state_column(name: str) -> bytes:
    """The column of a state."""
    return f"{STATE}:{name}".encode()


def state_of(table: Table, cells: Cells) -> dict[str, Any]:
    """The state of a key; null where there is no cell."""
    held = {name: cells.get(state_column(name)) for name in table.state}
    return {name: None if cell is None else json.loads(cell) for name, cell in held.items()}


def state_value(table: Table, name: str, event: Event) -> Any:
    """The part of an event that a state is made of; None if the event has none."""
    measure = table.state[name]
    return _value(measure, state_columns(name, measure), event)


def alert_column(rule: str, alert_id: str) -> bytes:
    """The column of one alert of a key."""
    return f"{ALERT}:{rule}|{alert_id}".encode()


def alerts_of(cells: Cells) -> dict[str, int]:
    """How many alerts of each rule a row lists."""
    prefix = f"{ALERT}:"
    named = (column.decode() for column in cells if column.startswith(prefix.encode()))
    return dict(Counter(name.removeprefix(prefix).partition("|")[0] for name in named))


def alert_key(table: Table, use: UseCase, alert: Event) -> str | None:
    """The row of a table that counts an alert: the topic's key, or the rule's own; None if no row does."""
    if table.first == use.judged.key:
        return str(alert[ALERTS.key])
    keys = {rule.name: rule.key for rule in use.rules}
    return str(alert["key"]) if keys.get(alert["rule"]) == table.first else None


def deletes(table: Table, row: bytes, cells: Iterable[bytes], before: Mark, now: Mark) -> Iterator[Delete]:
    """What removes a row of a forgotten key, or hides it; `before` is the key's mark until now."""
    if table.columns:
        yield Delete(table.name, row, (EVENT.encode(),))
    if alerts := tuple(column for column in cells if column.startswith(f"{ALERT}:".encode())):
        yield Delete(table.name, row, alerts)
    for name, measure in table.state.items():
        is_last = isinstance(measure, Last)
        until = (now.until_ms + 1 << OFFSET_BITS) - 1 if is_last else (before.times + 1) * VALUES - 1
        yield Delete(table.name, row, (state_column(name),), until)


def taken_back(before: Iterable[Put], now: Iterable[Put]) -> Iterator[Delete]:
    """What removes events and alerts that were written although they were forgotten meanwhile; state is hidden."""
    kept = {(each.table, each.row, column) for each in now for column in each.cells}
    for each in before:
        gone = tuple(column for column in each.cells if (each.table, each.row, column) not in kept)
        if gone and each.timestamp is None:
            yield Delete(each.table, each.row, gone)


def by_call(changes: Iterable[Change]) -> dict[tuple[str, int | None], list[Change]]:
    """The changes by table and timestamp: a call to the Thrift server has one of each."""
    found: dict[tuple[str, int | None], list[Change]] = {}
    for each in changes:
        found.setdefault((each.table, each.timestamp), []).append(each)
    return found


def mark_put(field: str, value: str, mark: Mark) -> tuple[bytes, dict[bytes, bytes]]:
    """The row of a mark."""
    if (mark.times + 1) * VALUES > _LARGEST:
        raise RuleError(f"{field} '{value}' was forgotten {mark.times} times; HBase has no larger timestamps")
    return mark_row(field, value), {_UNTIL: b"%d" % mark.until_ms, _TIMES: b"%d" % mark.times}


def _of_alerts(table: Table, use: UseCase, alerts: Iterable[Event], forgotten: Forgotten) -> Iterator[Put]:
    """A column for each alert: readers count columns, so a repeated alert counts once."""
    for alert in alerts:
        key = alert_key(table, use, alert)
        if key is not None and not forgotten.has_alert(table, key, alert):
            cells = {alert_column(alert["rule"], alert["alert_id"]): b"%d" % alert["at_ms"]}
            yield Put(table.name, key_part(key), cells)


def _of_state(table: Table, events: Iterable[Event], forgotten: Forgotten) -> Iterator[Put]:
    """The cells of keys that events may change: of each key and state, the one with the largest timestamp."""
    states = [(name, measure, state_columns(name, measure)) for name, measure in table.state.items()]
    newest: dict[tuple[str, bytes], tuple[int, Any]] = {}
    for event in events if states else ():
        row, times = row_key(table, event), forgotten.of(table.first, event[table.first]).times
        for name, measure, columns in states:
            value = _value(measure, columns, event)
            if value is not None:
                timestamp = _timestamp(measure, value, event, times)
                if timestamp > newest.get((name, row), (-1, None))[0]:
                    newest[name, row] = (timestamp, value)
    for (name, row), (timestamp, value) in newest.items():
        yield Put(table.name, row, {state_column(name): json.dumps(value).encode()}, timestamp)


def _value(measure: Measure, columns: Mapping[str, str], event: Event) -> Any:
    if not isinstance(measure, Last) or measure.stream is None:
        (column,) = columns.values()
        return event.get(column)
    values = {own: event.get(column) for own, column in columns.items()}
    return None if all(value is None for value in values.values()) else values


def _timestamp(measure: Measure, value: Any, event: Event, times: int) -> int:
    """Of two values of a state, the one that counts has the larger one."""
    if isinstance(measure, Last):
        return _arrival(event)
    if isinstance(measure, Max):
        return int(times * VALUES + value)
    return int(times * VALUES + VALUES - 1 - value)


def _arrival(event: Event) -> int:
    """When an event arrived, as one number: of two of the same millisecond, the later one of their partition is larger.

    Events of the topic's key share a partition. To HBase the number is a version, not a time: it is far ahead of it.
    """
    return int(event[INGEST_MS.name] << OFFSET_BITS | event["source_offset"] % (1 << OFFSET_BITS))


def key_of(table: Table, use: UseCase, row: bytes) -> dict[str, Any]:
    """The fields of a row key: the inverse of `row_key`."""
    found: dict[str, Any] = {}
    for part, text in zip(table.parts, row.decode().split("|"), strict=True):
        name = part.field if isinstance(part, NewestFirst) else part
        if use.enriched.kind(name) == "text":
            found[name] = text.replace("%7C", "|").replace("%25", "%")
        else:
            found[name] = _LARGEST - int(text) if isinstance(part, NewestFirst) else int(text)
    return found


def _cell(value: Any) -> bytes:
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def key_part(value: Any) -> bytes:
    """A value within a row key: whole numbers in their order, and no separator inside a text."""
    return _part(value).encode()


def _part(value: Any) -> str:
    return value.replace("%", "%25").replace("|", "%7C") if isinstance(value, str) else f"{value:019d}"


def mark_row(field: str, value: Any) -> bytes:
    """The row of the mark of a key: a digest, from which nobody reads the key."""
    return hashlib.sha256(f"{field}|{value}".encode()).hexdigest().encode()


def version(table: Table, use: UseCase) -> str:
    """Eight hexadecimal digits that change with all that decides what is written."""
    state = {name: signature(measure, use.enriched) for name, measure in table.state.items()}
    content = [table.name, repr(table.parts), table.columns_of(use.enriched), state, table.alerts]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
