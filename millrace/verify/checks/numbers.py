"""Numbers: the last row of every finished window of a summary is correct, and every other one is possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import accumulate, chain, combinations
from operator import add
from typing import Any

from millrace.oracle import Record, measured, within_64_bits
from millrace.rules import DEAD_LETTERS, Count, CountDistinct, Last, Sum, WindowSummary
from millrace.rules.measures import Measure
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.verify.case import Case, RowKey, Rows
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import Event, is_same

PARTS_MOST = 2
"""Of so many partitions all ways are tried in which a row may count their events."""
LATE_MOST = 10
"""Of so many late events of a window all ways are tried in which its row may count some of them."""
WAYS_MOST = 10_000
"""So many ways are tried for an earlier row with late events at most; beyond that it only has to be possible."""
MEASURED_MOST = 1_000_000
"""So many events are measured anew for one row at most; beyond that it only has to be possible."""
COMBINED: Mapping[str, Callable[[Any, Any], Any]] = {"count": add, "sum": add, "max": max, "min": min}
"""How measures of two parts of a window are one of both, by their names."""


def checker(summary: WindowSummary) -> Checker:
    """The check of one summary's rows."""
    return Checker(
        f"numbers: {summary.name}",
        f"Are the numbers of {summary.name} correct?",
        partial(numbers, summary),
        needs=(WINDOWS_TOPIC, DEAD_LETTERS.name),
    )


def numbers(summary: WindowSummary, case: Case) -> Found | Undecided:
    """The rows of windows without an event from before the summary's present version: the last ones of those over.

    With some engines, what came late for the windows of rules may still be counted in a chart, whose window may be open
    for longer. Earlier rows, and those of open windows, count some of the events.
    """
    since_ms, rows_of = case.versions(summary.name).since_ms, case.rows_of(summary)
    rows: dict[RowKey, list[tuple[Record, Event]]] = defaultdict(list)
    for record, row in case.windows:
        if row["summary"] == summary.name:
            rows[row["window_start_ms"], *(row.get(name) for name in summary.keys)].append((record, row))
    got = {key: last[1] for key, own in rows.items() if (last := last_of(own)) is not None}
    parts_of = case.parts_of(summary)
    with_late = rows_of.with_late

    def is_judged(key: RowKey) -> bool:
        return key[0] >= since_ms and key not in rows_of.from_before

    due = {key: values for key, values in rows_of.over.items() if is_judged(key)}
    offenders = [f"missing: {key}" for key in due if key not in got]
    offenders += [f"extra: {key}" for key in got if key not in with_late and not 0 <= key[0] < since_ms]
    wrong = {
        key: f"wrong: {key}: {got[key]} is not between {values} and, with all that came late, {with_late[key]}"
        for key, values in due.items()
        if key in got and not counts_all(summary, got[key], values, with_late[key], *rows_of.apart(key))
    }
    offenders += wrong.values()
    for key, own in rows.items():
        if key in with_late and is_judged(key):
            offenders += [
                f"wrong: {key}: {each}"
                for record, row in own
                for each in implausible(case, summary, record, row, rows_of.began_ms[key])
            ]
            present = (row for record, row in own if record.ingest_ms >= since_ms)
            others = [row for row in present if not (key in wrong and row is got[key])]
            impossible = list(_impossible(summary, rows_of, key, others))
            offenders += impossible or unordered(summary, rows_of, key, others, parts_of.get(key, ()))
    held, doubtful = case.held([each for own in rows.values() for each in own])
    offenders += held
    figures = {"due": len(due), "found": len(got), "rows": sum(map(len, rows.values()))}
    if case.is_whole:
        figures["still open"] = len(rows_of.still_open)
    if left_out := len(rows_of.over) - len(due):
        figures["of windows from before a change, not judged"] = left_out
    awaited = (
        summary.window.end_ms(key[0], key[0])
        for key, values in rows_of.still_open.items()
        if is_judged(key)
        and not (key in got and counts_all(summary, got[key], values, with_late[key], *rows_of.apart(key)))
    )
    if doubtful and not offenders:
        return Undecided("rows came long after their emit_ms: was the machine suspended?", figures, tuple(doubtful))
    if not offenders and (why := case.overdue(awaited)):
        return Undecided(why, figures)
    lacking = rows_of.over.keys() - got.keys()
    if not offenders and not due and lacking and case.is_whole:
        return Undecided(
            f"no window can be judged, and {len(lacking)} have no row: let later events come first", figures
        )
    return Found(figures, offenders)


def last_of(rows: Iterable[tuple[Record, Event]]) -> tuple[Record, Event] | None:
    """The last of a window's rows: a key is in one partition, whose order stands whatever the append times."""
    found: tuple[Record, Event] | None = None
    for each in rows:
        if found is None or _is_behind(each[0], found[0]):
            found = each
    return found


def _is_behind(record: Record, other: Record) -> bool:
    if record.partition == other.partition:
        return record.offset > other.offset
    return (record.ingest_ms, record.partition) > (other.ingest_ms, other.partition)


def implausible(case: Case, summary: WindowSummary, record: Record, row: Event, began_ms: int) -> list[str]:
    """The complaints about a row with another end than its window's, or from another time."""
    end_ms = summary.window.end_ms(row["window_start_ms"], row["window_start_ms"])
    wrong = [] if row.get("window_end_ms") == end_ms else [f"it ends at {row.get('window_end_ms')}"]
    return wrong + case.implausible(record, row, began_ms)


def _impossible(summary: WindowSummary, rows_of: Rows, key: RowKey, rows: Iterable[Event]) -> Iterator[str]:
    """The rows of a window whose numbers no part of its events has."""
    most, (late, in_time), nothing = rows_of.with_late[key], rows_of.apart(key), measured(summary, ())
    is_of_few = not in_time and len(late) <= LATE_MOST
    possible = {name: Possible(measure, rows_of.events[key], most[name]) for name, measure in summary.measures.items()}
    for row in rows:
        others = {name: row.get(name) for name, value in most.items() if not is_same(value, row.get(name))}
        if wrong := [name for name, got in others.items() if got not in possible[name]]:
            yield f"wrong: {key}: {row} is no count of its events: {', '.join(wrong)}"
        elif others and is_of_few and not counts_all(summary, row, nothing, most, late, in_time):
            yield f"wrong: {key}: {row} is no count of some of its events, which came late"


def unordered(
    summary: WindowSummary, rows_of: Rows, key: RowKey, rows: Iterable[Event], parts: Sequence[Sequence[Event]]
) -> Iterator[str]:
    """The rows of a window that do not count, of each partition, its first events up to some."""
    counts = [name for name, each in summary.measures.items() if isinstance(each, Count) and each.where is None]
    late = rows_of.late.get(key, ())
    if not counts or not 1 <= len(parts) <= PARTS_MOST or len(late) > LATE_MOST:
        return
    first, last = (Part(summary, events) for events in ((), *parts)[-PARTS_MOST:])
    if late and (len(first.events) + 1) << len(late) > WAYS_MOST:
        return
    for row in rows:
        if all(is_same(value, row.get(name)) for name, value in rows_of.with_late[key].items()):
            continue
        count = row[counts[0]]
        ways = list(_ways(summary, row, count, first, last, late))
        is_small = len(ways) * count <= MEASURED_MOST
        if not ways or (is_small and not any(_has_others(summary, row, [*chain(*way)]) for way in ways)):
            yield f"wrong: {key}: {row} does not count the first {count} events"


def _ways(
    summary: WindowSummary, row: Event, count: int, first: Part, last: Part, late: Sequence[Event]
) -> Iterator[Sequence[Sequence[Event]]]:
    """The ways in which a row may count so many events: the first ones of both parts, and some of the late ones."""
    for some in some_of(late):
        of_some, left = measured(summary, some), count - len(some)
        for at in range(max(0, left - len(last.events)), min(left, len(first.events)) + 1):
            if _adds_up(summary, row, first.first(at), last.first(left - at), of_some):
                yield first.events[:at], last.events[: left - at], some


def some_of(late: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Each choice of late events that a row may count."""
    return chain.from_iterable(combinations(late, size) for size in range(len(late) + 1))


def _adds_up(summary: WindowSummary, row: Event, *parts: Mapping[str, Any]) -> bool:
    """Whether a row has the measures of these parts of a window together, as far as they can be combined."""
    return all(
        is_same(within_64_bits(reduce(partial(_together, measure.op), (part[name] for part in parts))), row.get(name))
        for name, measure in summary.measures.items()
        if measure.op in COMBINED
    )


def _has_others(summary: WindowSummary, row: Event, events: Sequence[Event]) -> bool:
    """The same of the other measures, for which all events are measured anew."""
    others = [name for name, measure in summary.measures.items() if measure.op not in COMBINED]
    return not others or all(is_same(measured(summary, events)[name], row.get(name)) for name in others)


@dataclass(frozen=True)
class Part:
    """The events of a window that are in one partition, in its order."""

    summary: WindowSummary
    events: Sequence[Event]

    @cached_property
    def measured(self) -> Mapping[str, Sequence[Any]]:
        """Measures of the first events, by their number."""
        alone = [measured(self.summary, [event]) for event in self.events]
        return {
            name: [None, *accumulate((each[name] for each in alone), partial(_together, measure.op))]
            for name, measure in self.summary.measures.items()
            if measure.op in COMBINED
        }

    def first(self, count: int) -> Mapping[str, Any]:
        """Measures of so many events."""
        return {name: own[count] for name, own in self.measured.items()}


def _together(op: str, one: Any, other: Any) -> Any:
    """A measure of the events of two parts; of none it is null."""
    return other if one is None else one if other is None else COMBINED[op](one, other)


@dataclass(frozen=True)
class Possible:
    """What a measure may be over some of the events of a window."""

    measure: Measure
    events: Sequence[Event]
    of_all: Any

    def __contains__(self, got: Any) -> bool:
        if isinstance(self.measure, Count | CountDistinct):
            return _is_within(0, self.of_all, got)
        if got is None:
            return self.may_be_null
        if isinstance(self.measure, Sum):
            return _is_within(*self.sums, got)
        return any(is_same(each, got) for each in self.values)

    @cached_property
    def may_be_null(self) -> bool:
        return any(event[self.field] is None for event in self.events)

    @cached_property
    def sums(self) -> tuple[Any, Any]:
        """The least and the most."""
        values = [event[self.field] for event in self.events if event[self.field] is not None]
        return sum(each for each in values if each < 0), sum(each for each in values if each > 0)

    @cached_property
    def values(self) -> Collection[Any]:
        """Each once: there are far fewer than events."""
        return {
            repr(value): value for value in (event[self.field] for event in self.events) if value is not None
        }.values()

    @property
    def field(self) -> str:
        assert not isinstance(self.measure, Count)
        return self.measure.fields[0] if isinstance(self.measure, Last) else self.measure.field


def _is_within(least: Any, most: Any, got: Any) -> bool:
    is_number = isinstance(got, int | float) and not isinstance(got, bool)
    return is_number and (least <= got <= most or is_same(float(least), got) or is_same(float(most), got))


def counts_all(
    summary: WindowSummary,
    row: Event,
    in_time: Mapping[str, Any],
    with_late: Mapping[str, Any],
    late: Sequence[Event],
    events: Sequence[Event] | None,
) -> bool:
    """Whether the row counts all events in time, and some of the late ones.

    Of very many late ones, each number only has to be between both; so does one that does not add up, where the events
    in time are not remembered, or too many.
    """
    if not 0 < len(late) <= LATE_MOST:
        return is_between(row, in_time, with_late)
    if events is None or len(events) << len(late) > MEASURED_MOST:
        others = {name: value for name, value in in_time.items() if summary.measures[name].op not in COMBINED}
        return is_between(row, others, with_late) and any(
            _adds_up(summary, row, in_time, measured(summary, some)) for some in some_of(late)
        )
    return any(
        _adds_up(summary, row, in_time, measured(summary, some)) and _has_others(summary, row, [*events, *some])
        for some in some_of(late)
    )


def is_between(row: Event, in_time: Mapping[str, Any], with_late: Mapping[str, Any]) -> bool:
    """Whether each number of the row is between those of the events in time and of all."""

    def fits(value: Any, most: Any, got: Any) -> bool:
        if is_same(value, got) or is_same(most, got):
            return True
        if most is None or isinstance(got, bool) or not isinstance(got, int | float):
            return False
        # Null in time, it has a value by the late ones alone.
        return value is None or min(value, most) <= got <= max(value, most)

    return all(fits(value, with_late[name], row.get(name)) for name, value in in_time.items())
