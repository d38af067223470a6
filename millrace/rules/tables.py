"""HBase tables, declared by a use: a row for each event, or a row for each key with its running state and its alerts.

`millrace/rules/layout.py` derives row keys and cells. A table keeps only what idempotent writes can keep.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from millrace.rules.containers import require_mappings, require_tuples
from millrace.rules.events import AnyField, EventType, Real, Text, Whole, is_whole, whole_from
from millrace.rules.expressions import RuleError
from millrace.rules.measures import Count, CountDistinct, DistinctOthers, Last, Max, Measure, Min, Sum
from millrace.rules.nearest import nearest

ALL: Literal["all"] = "all"
"""Every field of the enriched event."""
FORGOTTEN = "forgotten"
"""The table that marks forgotten keys; the first `millrace forget` creates it."""
VERBS = (
    *("demo", "init", "doctor", "setup"),
    *("up", "down", "status", "dashboard", "watch", "logs", "restart", "kill", "env"),
    *("patterns", "provision", "deploy", "await", "jobs", "upgrade", "roll-back", "reconcile", "observe", "declare"),
    *("teardown", "traffic", "canaries", "alerts", "explain", "mark", "backfill", "validate", "verdicts", "verify"),
    *("replay", "compare", "show", "forget", "compact", "topics", "dead-letters", "service"),
)
"""What the command line has itself: a verb of that name that shows a key would never be reached."""
VALUES = 2**54
"""The timestamp of a Max is its value, because HBase keeps the cell with the largest one; so it is less than this."""
HOURS_MOST = 24 * 365 * 50
"""HBase counts the seconds in 32 bits."""
_ADDS = "a batch that is written again after a crash would be added twice"
_NOT_KEPT: tuple[tuple[type, str], ...] = (
    (Sum, _ADDS),
    (Count, _ADDS),
    (CountDistinct, "it needs every value that there was"),
    (DistinctOthers, "it needs every value of its span"),
)


@dataclass(frozen=True)
class NewestFirst:
    """A part of a row key: the rows with a larger value of this whole number come first."""

    field: str


def newest_first(field: str) -> NewestFirst:
    """A time in a row key, so that a short scan reads the latest rows."""
    return NewestFirst(field)


@dataclass(frozen=True)
class Table:
    """A table. With `columns` each event has a row; with `state` or `alerts` each key has one."""

    name: str
    key: str | tuple[str | NewestFirst, ...]
    """The fields of the enriched event that make the row key."""
    columns: tuple[str, ...] | Literal["all"] = ()
    """The fields that a row of an event holds."""
    state: Mapping[str, Measure] = field(default_factory=dict)
    """Name -> Max, Min or Last of a field, or Last of another stream, which the enrichment adds as `NAME_FIELD`."""
    alerts: bool = False
    """Whether a key's row lists its alerts."""
    retention_hours: int | None = None
    """After so long HBase drops a row; None keeps it."""
    shows: tuple[str, ...] = ()
    """The columns that `millrace show` prints for people; by default all."""
    called: str = ""
    """The name of one key: `millrace CALLED KEY` shows its state and latest rows, from all tables with this key."""

    def __post_init__(self) -> None:
        of = f"table '{self.name}'"
        require_tuples(of, columns=() if self.columns == ALL else self.columns, shows=self.shows)
        require_mappings(of, '{"most": Max("FIELD")}', state=self.state)
        for complaint in _complaints(self):
            raise RuleError(f"{of}: {complaint}")

    @cached_property
    def parts(self) -> tuple[str | NewestFirst, ...]:
        """The parts of the row key."""
        return (self.key,) if isinstance(self.key, str) else self.key

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of the row key."""
        return tuple(part.field if isinstance(part, NewestFirst) else part for part in self.parts)

    @property
    def first(self) -> str:
        """The field whose rows are adjacent: `show` and `forget` take one value of it."""
        return self.fields[0]

    def columns_of(self, enriched: EventType) -> tuple[str, ...]:
        """The fields of an event's row, in their order."""
        return enriched.names if self.columns == ALL else tuple(self.columns)


def state_columns(name: str, measure: Measure) -> dict[str, str]:
    """The fields of the enriched event that a state is made of, by the names that its cell gives them."""
    match measure:
        case Max(field=field) | Min(field=field) | Last(stream=None, fields=(field,)):
            return {name: field}
        case Last(stream=None):
            raise RuleError(f"state '{name}': Last takes one field; give each its own name")
        case Last(fields=fields):
            return {field: f"{name}_{field}" for field in fields}
    raise RuleError(f"state '{name}': a table cannot keep {type(measure).__name__}")


def require_tables(tables: tuple[Table, ...], enriched: EventType, rule_keys: Collection[str]) -> None:
    """Refuse tables that do not fit the enriched event, the rules, or one another."""
    for this in ("name", "called"):
        taken = [value for table in tables if (value := getattr(table, this))]
        for value in taken:
            if taken.count(value) > 1:
                raise RuleError(f"{taken.count(value)} tables have the {this} '{value}'; rename one of them")
    for table in tables:
        for complaint in _misfits(table, enriched, rule_keys):
            raise RuleError(f"table '{table.name}': {complaint}")


def _complaints(table: Table) -> Iterator[str]:
    """What is wrong whatever the events are."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", table.name):
        yield "its name must be of small letters, digits, dashes and underscores"
    if table.name == FORGOTTEN:
        yield "a table of that name marks forgotten keys; give it another name"
    if table.called and not re.fullmatch(r"[a-z][a-z-]*", table.called):
        yield f"called '{table.called}': it is a word on the command line, of small letters and dashes"
    if table.called in VERBS:
        yield f"called '{table.called}': `millrace {table.called}` is a verb of its own; give it another name"
    if not table.parts:
        yield "it has no key; name the fields of the row key"
    elif isinstance(table.parts[0], NewestFirst):
        yield "its key begins with newest_first; begin with the field whose rows are read together"
    if bool(table.columns) == bool(table.state or table.alerts):
        yield "give either columns, for a row for each event, or state or alerts, for a row for each key"
    if table.retention_hours is not None and not is_whole(table.retention_hours, 1, HOURS_MOST):
        yield f"retention_hours must be {whole_from(1, HOURS_MOST)}, not {table.retention_hours!r}"
    if table.retention_hours is not None and table.state:
        yield "no retention with state: HBase counts from a cell's timestamp, and a state's is its value or its arrival"
    if table.shows and not table.columns:
        yield "shows chooses among columns, and it has none"
    for name, measure in table.state.items():
        for kind, why in _NOT_KEPT:
            if isinstance(measure, kind):
                yield f"state '{name}': a table keeps Max, Min and Last, but no {kind.__name__}: {why}"


def _misfits(table: Table, enriched: EventType, rule_keys: Collection[str]) -> Iterator[str]:
    """What does not fit the enriched event."""
    known = {each.name: each for each in enriched.fields}
    needed = [*table.fields, *table.columns_of(enriched), *table.shows]
    needed += [column for name, measure in table.state.items() for column in state_columns(name, measure).values()]
    for name in needed:
        if name not in known:
            yield f"'{enriched.name}' has no field '{name}'; {nearest(name, list(known))}"
            return
    for part in table.parts:
        yield from _no_key(part, known[part.field if isinstance(part, NewestFirst) else part])
    if lacking := [name for name in table.shows if name not in table.columns_of(enriched)]:
        yield f"shows '{lacking[0]}', which is none of its columns"
    identities = ((enriched.key, enriched.id), ("source_partition", "source_offset"))
    if table.columns and not any(all(name in table.fields for name in identity) for identity in identities):
        wanted = f"'{enriched.key}' and '{enriched.id}', or " if enriched.id else ""
        yield f"two events could share a row; its key needs {wanted}'source_partition' and 'source_offset'"
    if table.alerts and len(table.parts) > 1:
        yield "a table with alerts has one field as its key: an alert has no other"
    elif table.alerts and table.first not in {enriched.key, *rule_keys}:
        yield f"'{table.first}' has no alerts: it is neither the key of the topic nor of a rule"
    for name, measure in table.state.items():
        yield from _no_state(table, name, measure, known, enriched)


def _no_key(part: str | NewestFirst, declared: AnyField) -> Iterator[str]:
    name = declared.name
    if not isinstance(declared, Text | Whole):
        yield f"'{name}' cannot be in a row key: it is neither a text nor a whole number"
    elif not declared.required:
        yield f"'{name}' cannot be in a row key: it is optional"
    elif isinstance(declared, Text) and re.fullmatch(declared.pattern, ""):
        yield f"'{name}' cannot be in a row key: it may be empty; give it a pattern that refuses that"
    elif isinstance(declared, Whole) and declared.least < 0:
        yield f"'{name}' cannot be in a row key: its rows would not be in order; declare least=0"
    if isinstance(part, NewestFirst) and not isinstance(declared, Whole):
        yield f"newest_first('{name}') needs a whole number"


def _no_state(
    table: Table, name: str, measure: Measure, known: Mapping[str, AnyField], enriched: EventType
) -> Iterator[str]:
    if isinstance(measure, Last):
        if table.fields != (enriched.key,):
            yield (
                f"state '{name}': only the events of one '{enriched.key}' are in order; give the table this key to "
                "keep the last one"
            )
        return
    (column,) = state_columns(name, measure).values()
    declared = known[column]
    if isinstance(declared, Real) or not isinstance(declared, Whole):
        yield f"state '{name}': '{column}' is not a whole number, and HBase keeps the largest whole timestamp"
    elif declared.least < 0 or (declared.most >= VALUES and column != enriched.time):  # time is near the arrival
        yield f"state '{name}': '{column}' must be from 0 to less than 2**54; declare its least and most"
