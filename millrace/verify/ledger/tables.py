"""Judges HBase's tables in segments: the rows that the messages touch, and slice by slice all others.

A table is compared with the intermediate topic and the alerts, from which it is written; other checks compare these
with the oracle. It is read some minutes after the cut, and may be behind or ahead of it. So a row waits from the first
message on that it has not shown, and a cell is right if it holds what this message left or one of the later ones that
the topics had when the table was read. Those after the cut are known some segments later. Then the row waits for what
came since. Only a right reading ends its waiting, and a row without one for `Limits.outstanding_ms` is red, once.

The rows of a table with a row for each event are too many to remember. Those that were right are remembered by their
number and a sum of digests, for each value of the first field of the row key: this group is what the audit compares.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from millrace.oracle import Origin, Record
from millrace.rules import ALERTS, Last, Max, Table
from millrace.rules.layout import (
    ALERT,
    Forgotten,
    alert_column,
    alert_key,
    event_of,
    key_of,
    mark_row,
    reached_by,
    row_key,
    state_column,
    state_value,
    version,
)
from millrace.rules.outputs import FLAGS, INGEST_MS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.tables import is_cell_of
from millrace.verify.evidence import ENRICHED, Event, Read, Versions, table_key
from millrace.verify.ledger.raw import GAP_MOST
from millrace.verify.ledger.state import Done, Held, Reading, TableState, Waiting
from millrace.verify.ledger.step import Cells, Step, Tables, UnreadError

REPORTED_MOST = 1_000
"""So many rows of events that were red are still looked at: one that comes after all is not red again."""
SUMS = 1 << 64
OF_ALERTS = f"{ALERT}:"
"""In place of a column: all alerts of a key."""
Rows = Sequence[tuple[str, Cells]]
Sums = list[int]
"""How many rows or cells, and the sum of their digests."""


def judged(step: Step, parsed: Mapping[str, Read]) -> Iterator[Checker]:
    """Take in the messages of the segment and compare the tables; the check of each table has what was found."""
    tables = step.inputs.tables
    if tables is None:
        return
    forgotten, unread = Forgotten({row.encode(): mark for row, mark in step.state.marks.items()}), ""
    try:
        forgotten = tables.forgotten()
    except UnreadError as error:
        unread = str(error)
    marks = {row.decode(): mark for row, mark in forgotten.marks.items()}
    changed = {row for row, mark in forgotten.marks.items() if step.state.marks.get(row.decode()) != mark}
    for table in step.use.tables:
        of_events = bool(table.columns)
        watch: Watch = EventRows(step, table, forgotten) if of_events else KeyRows(step, table, forgotten)
        why = unread
        # HBase drops the rows of a table with a retention by its own clock.
        if table.retention_hours is not None:
            watch.figures["judged by `validate` alone"] = 1
        else:
            watch.forget(changed)
            watch.take(parsed)
            try:
                watch.compare(tables) if not unread else None
            except UnreadError as error:
                why = str(error)
            if why:
                watch.put_off()
        asks = "Does HBase hold what the judged messages left?"
        yield Checker(watch.name, asks, partial(_found, watch.figures, why), needs_inputs=False)
    if not unread:
        step.state.marks = marks


def _found(figures: Mapping[str, int], why: str, _: Case) -> Found | Undecided:
    return Undecided(f"could not be read: {why}", figures) if why else Found(figures)


class Watch:
    """One table while a segment is judged."""

    def __init__(self, step: Step, table: Table, forgotten: Forgotten) -> None:
        self.step, self.table, self.name, self.forgotten = step, table, table_key(table.name), forgotten
        state, present = step.state, version(table, step.use)
        self.since_ms = step.question.in_force.get(self.name, Versions()).since_ms
        own = state.tables.get(table.name)
        is_other = own is not None and own.version != present
        if own is None or is_other or state.assumed_since_ms == step.cut_ms:
            is_first = own is None and state.number == 0 and not state.assumed and not self.since_ms
            own = TableState(present, is_known=is_first)
            if not is_first:
                why = "is declared otherwise" if is_other else "holds what this ledger has not seen"
                step.unknown[self.name] = f"it {why}: the audit takes over what is there"
        self.own = state.tables[table.name] = own
        self.figures: dict[str, int] = {}
        self.unexplained: dict[str, Reading] = {}
        """Rows or groups whose time is over, with a reading that no message explains."""

    def compare(self, tables: Tables) -> None:
        """Read the rows that wait and the next slice, then compare; nothing is compared if a reading fails."""
        raise NotImplementedError

    def take(self, parsed: Mapping[str, Read]) -> None:
        """Take in the messages of the segment."""
        for record, event in parsed[ENRICHED].events:
            is_whole = all(event.get(name) is not None for name in (*self.table.fields, INGEST_MS.name))
            if not is_whole or self.forgotten.has_event(self.table, self.step.use, event):
                continue
            if event[INGEST_MS.name] >= self.since_ms:
                self.take_event(record, event)
            else:
                self.await_anything(_text(row_key(self.table, event)))

    def take_event(self, record: Record, event: Event) -> None:
        """Expect what an event leaves."""
        raise NotImplementedError

    def complaint(self, name: str, reading: Reading) -> str:
        """What is wrong with a row or a group."""
        raise NotImplementedError

    def take_over(self, name: str, reading: Reading) -> None:
        """From now on what is there counts: a fault is red once, and what is older than the ledger is not known."""
        raise NotImplementedError

    @property
    def waits(self) -> dict[str, Waiting]:
        """The rows or groups of which readings are kept until the later messages are known."""
        raise NotImplementedError

    def awaited(self) -> Waiting:
        return Waiting(self.step.cut_ms + self.step.limits.outstanding_ms, not self.own.is_known)

    def await_anything(self, row: str) -> None:
        """Take over what is there in the place of a row."""
        self.waits.setdefault(_group(row) if self.table.columns else row, self.awaited()).is_taken_over = True

    def is_over(self, waiting: Waiting) -> bool:
        return self.step.is_last or waiting.due_ms <= self.step.cut_ms

    def put_off(self) -> None:
        """A store that was away gets its time again: the job has to catch up."""
        for each in (*self.own.waiting.values(), *self.own.unsure.values()):
            each.due_ms = max(each.due_ms, self.step.cut_ms + self.step.limits.outstanding_ms)

    def decide(self) -> None:
        """Give up the readings that no message has explained, though all that the topics had then are known."""
        for name, waiting in list(self.waits.items()):
            reading = waiting.reading
            if reading is None or (self.step.cut_ms < reading.at_ms and not self.step.is_last):
                continue
            waiting.reading = None
            if waiting.is_taken_over:
                self.take_over(name, reading)
                del self.waits[name]
                self.count("taken over", 1)
            elif self.is_over(waiting):
                self.unexplained[name] = reading

    def complain(self) -> None:
        """What was unexplained and is not right by now is red."""
        if self.step.is_last:
            self.decide()
        for name, reading in self.unexplained.items():
            if name in self.waits:
                self.step.offenders[self.name].append(self.complaint(name, reading))
                self.take_over(name, reading)
                del self.waits[name]

    def to_read(self, of: Mapping[str, Waiting]) -> list[str]:
        """The waiting rows without a reading, those first that are due first."""
        found = [name for name, each in of.items() if each.reading is None]
        found.sort(key=lambda name: (of[name].is_reported, of[name].due_ms))
        most = self.step.limits.rows_most
        if len(found) > most:
            self.step.unknown[self.name] = f"{len(found) - most} rows still wait to be read"
        return found[:most]

    def rows(self, tables: Tables, names: Iterable[str]) -> dict[str, Cells]:
        found = tables.rows(self.table.name, [_bytes(name) for name in names])
        return {_text(row): cells for row, cells in found.items()}

    def scanned(self, tables: Tables, start: str, stop: str, limit: int | None) -> Rows:
        found = tables.scan(self.table.name, _bytes(start), _bytes(stop), limit)
        return [(_text(row), cells) for row, cells in found]

    def moved_to(self, cursor: str, rows: int) -> None:
        """The next slice of the audit begins there; at the end of the table the next round begins."""
        self.own.cursor = cursor
        self.count("audited", rows)
        if not cursor:
            self.own.rounds += 1
            self.own.is_known = True
            self.count("rounds", 1)

    def count(self, name: str, number: int) -> None:
        if number:
            self.figures[name] = self.figures.get(name, 0) + number

    def forget(self, changed: set[bytes]) -> None:
        """Expect nothing more of keys that were forgotten."""
        if not changed:
            return
        own, met = self.own, set()
        for name in {**own.held, **own.groups, **own.waiting, **own.unsure}:
            marks = changed & {self._mark_of(name)}
            for known in (own.held, own.groups, own.waiting, own.unsure):
                if marks:
                    known.pop(name, None)
            for mark in marks:
                met.add(mark)
                # What came between the mark and the last cut is in no sum: what is there counts.
                if self.forgotten.marks[mark].until_ms < self.step.state.cut_ms:
                    self.await_anything(name)
        if changed - met and reached_by(self.table, self.step.use) - {self.table.first}:
            self.step.unknown[self.name] = "keys within its rows were forgotten: the audit takes over what is there"
            own.is_known, own.cursor = False, ""
            own.groups.clear()
            own.waiting.clear()
            own.unsure.clear()

    def _mark_of(self, name: str) -> bytes:
        """The mark under which the rows that begin like this one may have been forgotten."""
        parts = [_bytes(_group(name)), *[b"0"] * (len(self.table.parts) - 1)]
        try:
            value = key_of(self.table, self.step.use, b"|".join(parts))[self.table.first]
        except ValueError:
            return b""
        return mark_row(self.table.first, value)


class EventRows(Watch):
    """A table with a row for each event."""

    def __init__(self, step: Step, table: Table, forgotten: Forgotten) -> None:
        super().__init__(step, table, forgotten)
        self.columns = table.columns_of(step.use.enriched)
        self.first: dict[int, int] = {}
        """By partition the first event that came out in this segment."""

    @property
    def waits(self) -> dict[str, Waiting]:
        return self.own.unsure

    def take(self, parsed: Mapping[str, Read]) -> None:
        for _, event in parsed[ENRICHED].events:
            _, partition, offset = self.step.source(event)
            self.first[partition] = min(offset, self.first.get(partition, offset))
        super().take(parsed)
        for partition, done in self.own.seen.items():
            if (kept := self.step.state.done.get((self.step.use.judged.name, partition))) is not None:
                done.forget(kept.base)

    def take_event(self, record: Record, event: Event) -> None:
        """Its row must be there; a later copy that differs may have replaced it."""
        row = _text(row_key(self.table, event))
        digest = self._digest(row, {name: event.get(name) for name in self.columns})
        origin, before = self.step.source(event), None
        if (seen := self._seen(origin)) is not None:
            if origin[2] < seen.base:
                return  # too old to be compared: the check of the enrichment is unknown
            before = seen.get(origin[2])
            seen.put(origin[2], digest)
        if before == digest:
            return
        if (waiting := self.own.waiting.get(row)) is None:
            waiting = self.own.waiting[row] = self.awaited()
            waiting.origin = None if seen is None else origin
            if before is not None:
                waiting.forms.append(before)
                self._add(_group(row), -1, -before)
        if digest not in waiting.forms:
            waiting.forms.append(digest)
        self._explain(record, row, waiting.forms, before)

    def _seen(self, origin: Origin) -> Done | None:
        """What is remembered of the events of a partition; None for one that no raw message explains."""
        kind, partition, offset = origin
        read_to = self.step.state.read_to.get((kind, partition), 0)
        if kind != self.step.use.judged.name or not read_to - GAP_MOST < offset < read_to + GAP_MOST:
            return None
        return self.own.seen.setdefault(partition, Done(max(self.first[partition], read_to - GAP_MOST)))

    def _explain(self, record: Record, row: str, forms: Sequence[int], before: int | None) -> None:
        """A later event explains its row in a reading of the group."""
        group = _group(row)
        reading = self.own.unsure[group].reading if group in self.own.unsure else None
        if reading is None or reading.rows.get(row) not in forms or not _had(reading, ENRICHED, record):
            return
        del reading.rows[row]
        if before is not None:
            reading.expected = _plus(reading.expected, -1, -before)
        if _sums(reading.rows) == reading.expected:
            del self.own.unsure[group]

    def compare(self, tables: Tables) -> None:
        own = self.own
        self.decide()
        wanted = self.to_read(own.waiting)
        rows = self.rows(tables, wanted)
        groups = self._read_again(tables)
        slice_end, audited = self._slice(tables)
        at_ms, ends = _now(tables)
        for row in wanted:
            self._compare_row(row, rows.get(row, {}))
        for group, of_group in groups.items():
            self._compare_group(group, of_group, at_ms, ends)
        of_slice = self._by_group(audited)
        for group in own.groups:
            if _is_within(self._begin(group), own.cursor, slice_end):
                of_slice.setdefault(group, {})
        for group, of_group in of_slice.items():
            if group not in own.unsure:
                self._compare_group(group, of_group, at_ms, ends)
        self.count("rows", len(wanted))
        self.moved_to(slice_end, len(audited))
        self.complain()

    def _read_again(self, tables: Tables) -> dict[str, dict[str, int]]:
        """The groups that were not right."""
        found: dict[str, dict[str, int]] = {}
        for group in self.to_read(self.own.unsure):
            if sum(map(len, found.values())) < self.step.limits.rows_most:
                found |= {group: {}} | self._by_group(self._read_group(tables, group))
        return found

    def _read_group(self, tables: Tables, group: str) -> Rows:
        return self.scanned(tables, self._begin(group), self._end(group), None)

    def _slice(self, tables: Tables) -> tuple[str, Rows]:
        """Where the next slice begins, or nothing at the end, and the rows of this one: whole groups."""
        most = self.step.limits.audited_rows
        found = self.scanned(tables, self.own.cursor, "", most + 1)
        if len(found) <= most:
            return "", found
        last = _group(found[-1][0])
        whole = [each for each in found if _group(each[0]) != last]
        return (self._begin(last), whole) if whole else (self._end(last), self._read_group(tables, last))

    def _compare_row(self, row: str, cells: Cells) -> None:
        waiting = self.own.waiting[row]
        digest = self._digest_of_cells(row, cells) if cells else None
        if digest is not None and digest in waiting.forms:
            del self.own.waiting[row]
            self._add(_group(row), 1, digest)
            if waiting.origin is not None:
                self.own.seen[waiting.origin[1]].put(waiting.origin[2], digest)
        elif self.is_over(waiting) and not waiting.is_reported:
            waiting.is_reported = True
            self.step.offenders[self.name].append(f"{'wrong' if cells else 'missing'}: {_shown(row)}")
            reported = [name for name, each in self.own.waiting.items() if each.is_reported]
            for name in reported[:-REPORTED_MOST]:
                del self.own.waiting[name]

    def _compare_group(self, group: str, rows: Mapping[str, int], at_ms: int, ends: dict[str, dict[str, int]]) -> None:
        """The rows that wait are compared one by one."""
        rows = {row: digest for row, digest in rows.items() if row not in self.own.waiting}
        expected = self.own.groups.get(group, [0, 0])
        if _sums(rows) == expected:
            self.own.unsure.pop(group, None)
        else:
            unsure = self.own.unsure.setdefault(group, self.awaited())
            unsure.reading = Reading(at_ms, ends, expected, rows=rows)

    def take_over(self, name: str, reading: Reading) -> None:
        count, total = _sums(reading.rows)
        self._add(name, count - reading.expected[0], total - reading.expected[1])

    def complaint(self, name: str, reading: Reading) -> str:
        (count, total), (expected, of_expected) = _sums(reading.rows), reading.expected
        if count == expected:
            return f"wrong: one of the {count} rows that begin with {_shown(name)} is not what its event left"
        for row, digest in reading.rows.items():
            if count == expected + 1 and digest == (total - of_expected) % SUMS:
                return f"extra: {_shown(row)}"
        what = "missing" if count < expected else "extra"
        return f"{what}: {count} rows begin with {_shown(name)}, not {expected}"

    def _add(self, group: str, count: int, digest: int) -> None:
        found = _plus(self.own.groups.pop(group, [0, 0]), count, digest)
        if found != [0, 0]:
            self.own.groups[group] = found

    def _begin(self, group: str) -> str:
        return f"{group}|" if len(self.table.parts) > 1 else group

    def _end(self, group: str) -> str:
        """Behind its rows: `}` follows the separator."""
        return f"{group}}}" if len(self.table.parts) > 1 else f"{group}\0"

    def _by_group(self, rows: Rows) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for row, cells in rows:
            found.setdefault(_group(row), {})[row] = self._digest_of_cells(row, cells)
        return found

    def _digest_of_cells(self, row: str, cells: Cells) -> int:
        try:
            return self._digest(row, event_of(self.step.use.enriched, self.columns, cells))
        except (ValueError, RecursionError):
            return _hash([row, *sorted([_text(name), _text(cell)] for name, cell in cells.items())])

    def _digest(self, row: str, event: Event) -> int:
        """Of what a row holds, read from a message or from its cells."""
        values = {name: value for name, value in event.items() if value is not None}
        for name in self.step.reals:
            if type(values.get(name)) is int:
                values[name] = float(values[name])
        if isinstance(flags := values.get(FLAGS.name), list):
            values[FLAGS.name] = sorted(flags, key=str)
        return _hash([row, values])


class KeyRows(Watch):
    """A table with a row for each key."""

    def __init__(self, step: Step, table: Table, forgotten: Forgotten) -> None:
        super().__init__(step, table, forgotten)
        self.columns = {name: state_column(name).decode() for name in table.state}

    @property
    def waits(self) -> dict[str, Waiting]:
        return self.own.waiting

    def take(self, parsed: Mapping[str, Read]) -> None:
        super().take(parsed)
        for record, alert in parsed[ALERTS.name].events if self.table.alerts else ():
            self._take_alert(record, alert)
        oldest_ms = self.step.cut_ms - self.step.limits.copies_ms
        self.own.alerts = {name: cut_ms for name, cut_ms in self.own.alerts.items() if cut_ms >= oldest_ms}

    def take_event(self, record: Record, event: Event) -> None:
        """It may change the state of its key."""
        row = _text(row_key(self.table, event))
        values = {name: state_value(self.table, name, event) for name in self.table.state}
        values = {name: value for name, value in values.items() if value is not None}
        if not values:
            return
        held, waiting = self._touched(row)
        for name, value in values.items():
            forms, measure = held.values.get(name, []), self.table.state[name]
            if not isinstance(measure, Last):
                held.values[name] = [(max if isinstance(measure, Max) else min)([value, *forms])]
            else:
                order, newest = [event[INGEST_MS.name], event["source_offset"]], held.orders.get(name, [-1, -1])
                if order > newest:
                    held.values[name], held.orders[name] = [value], order
                elif order == newest and value not in forms:
                    forms.append(value)
            if (reading := waiting.reading) is not None and _had(reading, ENRICHED, record):
                column = self.columns[name]
                if column in reading.open and _shows(reading.cells.get(column), held.values[name]):
                    reading.open.remove(column)
        self._note(row, held, waiting)

    def _take_alert(self, record: Record, alert: Event) -> None:
        """The row of its key must list it."""
        key, is_copy = alert_key(self.table, self.step.use, alert), alert["alert_id"] in self.own.alerts
        self.own.alerts[alert["alert_id"]] = self.step.cut_ms
        if key is None or is_copy or self.forgotten.has_alert(self.table, key, alert):
            return
        row = _text(row_key(self.table, {self.table.first: key}))
        held, waiting = self._touched(row)
        column = _text(alert_column(alert["rule"], alert["alert_id"]))
        digest = _hash([column, str(alert["at_ms"])])
        held.alerts = _plus(held.alerts, 1, digest)
        if (reading := waiting.reading) is not None and _had(reading, ALERTS.name, record):
            reading.expected = _plus(reading.expected, 1, digest)
            if OF_ALERTS in reading.open and reading.expected == _alerts(reading.cells):
                reading.open.remove(OF_ALERTS)
        self._note(row, held, waiting)

    def _touched(self, row: str) -> tuple[Held, Waiting]:
        return self.own.held.setdefault(row, Held()), self.own.waiting.setdefault(row, self.awaited())

    def _note(self, row: str, held: Held, waiting: Waiting) -> None:
        """What a message left may be shown from now on; a reading that is explained by now was right."""
        if waiting.reading is not None and not waiting.reading.open:
            waiting = self.own.waiting[row] = self.awaited()
        for column, values in self._left(held).items():
            passed = waiting.passed.setdefault(column, [])
            passed += [value for value in values if value not in passed]

    def _left(self, held: Held) -> dict[str, list[Any]]:
        """What the messages have left, by column."""
        left = {column: held.values.get(name) or [None] for name, column in self.columns.items()}
        return {**left, OF_ALERTS: [held.alerts]}

    def compare(self, tables: Tables) -> None:
        own = self.own
        self.decide()
        wanted = self.to_read(own.waiting)
        rows = self.rows(tables, wanted)
        most = self.step.limits.audited_rows
        found = self.scanned(tables, own.cursor, "", most + 1)
        slice_end, audited = (found[most][0], dict(found[:most])) if len(found) > most else ("", dict(found))
        at_ms, ends = _now(tables)
        for row in wanted:
            self._compare_row(row, rows.get(row, {}), at_ms, ends)
        lacking = [row for row in own.held if row not in audited and _is_within(row, own.cursor, slice_end)]
        for row in (*audited, *lacking):
            if row not in own.waiting and row not in rows:
                self._compare_row(row, audited.get(row, {}), at_ms, ends)
        self.count("rows", len(wanted))
        self.moved_to(slice_end, len(audited))
        self.complain()

    def _compare_row(self, row: str, cells: Cells, at_ms: int, ends: dict[str, dict[str, int]]) -> None:
        held, waiting = self.own.held.get(row) or Held(), self.own.waiting.get(row)
        shown = {_text(column): _text(cell) for column, cell in cells.items()}
        left = self._left(held)
        if held.excused and not list(self._wrong(replace(held, excused={}), shown, left)):
            held.excused = {}  # what was red is repaired
        if not list(self._wrong(held, shown, left)):
            self.own.waiting.pop(row, None)
            return
        wrong = [] if waiting is None else list(self._wrong(held, shown, waiting.passed))
        if waiting is None or not wrong:
            # Of a row that was right so far, only what is there now; of one that shows an earlier message, the later.
            waiting = self.own.waiting[row] = replace(self.awaited(), passed=left)
            wrong = list(self._wrong(held, shown, left))
        waiting.reading = Reading(at_ms, ends, held.alerts, cells=shown, open=wrong)

    def _wrong(self, held: Held, shown: Mapping[str, str], left: Mapping[str, Sequence[Any]]) -> Iterator[str]:
        """The columns that hold nothing of what the messages left."""
        for column in dict.fromkeys((*self.columns.values(), *shown)):
            if column.startswith(OF_ALERTS) or (column in held.excused and held.excused[column] == shown.get(column)):
                continue
            if not _shows(shown.get(column), left.get(column, [None])):
                yield column
        if _alerts(shown) not in left.get(OF_ALERTS, [[0, 0]]):
            yield OF_ALERTS

    def take_over(self, name: str, reading: Reading) -> None:
        held = self.own.held.setdefault(name, Held())
        held.excused |= {column: reading.cells.get(column) for column in reading.open if column != OF_ALERTS}
        if OF_ALERTS in reading.open:
            count, total = _alerts(reading.cells)
            held.alerts = _plus(held.alerts, count - reading.expected[0], total - reading.expected[1])

    def complaint(self, name: str, reading: Reading) -> str:
        held = self.own.held.get(name) or Held()
        if not reading.cells:
            return f"missing: {_shown(name)}"
        if not held.values and not held.alerts[0]:
            return f"extra: {_shown(name)}"
        values = {self.columns[state]: forms[0] for state, forms in held.values.items()}
        found = []
        for column in reading.open:
            if column != OF_ALERTS:
                shown = reading.cells.get(column)
                found.append(f"{_shown(column)} is {shown and _shown(shown)!r}, not {values.get(column)}")
            elif (count := _alerts(reading.cells)[0]) != reading.expected[0]:
                found.append(f"{count} alerts, not {reading.expected[0]}")
            else:
                found.append(f"one of its {count} alerts is not what was raised")
        return f"wrong: {_shown(name)}: {'; '.join(found)}"


def _now(tables: Tables) -> tuple[int, dict[str, dict[str, int]]]:
    at_ms, ends = tables.now()
    return at_ms, {kind: {str(number): end for number, end in own.items()} for kind, own in ends.items()}


def _had(reading: Reading, kind: str, record: Record) -> bool:
    """Whether the topic had a message when the table was read."""
    return record.offset < reading.ends.get(kind, {}).get(str(record.partition), 0)


def _alerts(cells: Mapping[str, str]) -> Sums:
    return _sums({name: _hash([name, cell]) for name, cell in cells.items() if name.startswith(OF_ALERTS)})


def _sums(digests: Mapping[str, int]) -> Sums:
    return [len(digests), sum(digests.values()) % SUMS]


def _plus(sums: Sums, count: int, digest: int) -> Sums:
    return [sums[0] + count, (sums[1] + digest) % SUMS]


def _hash(content: Any) -> int:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _is_within(row: str, start: str, end: str) -> bool:
    return start <= row and (not end or row < end)


def _group(row: str) -> str:
    """The first part of a row key."""
    return row.partition("|")[0]


def _shows(cell: str | None, values: Iterable[Any]) -> bool:
    """Whether a cell shows one of these values."""
    return any(is_cell_of(None if cell is None else _bytes(cell), value) for value in values)


def _text(name: bytes) -> str:
    """Bytes as text: without loss, and in their order."""
    return name.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _shown(name: str) -> str:
    return _bytes(name).decode(errors="replace")
