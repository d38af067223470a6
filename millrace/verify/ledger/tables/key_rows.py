"""A table with a row for each key: what its messages left is remembered, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from millrace.oracle import Record
from millrace.rules import ALERTS, Last, Max, Table
from millrace.rules.layout import ALERT, Forgotten, alert_column, alert_key, row_key, state_column, state_value
from millrace.rules.outputs import INGEST_MS
from millrace.verify.checks.tables import is_cell_of, is_forgotten
from millrace.verify.evidence import ENRICHED, Event, Read
from millrace.verify.ledger.state import Held, Reading, Waiting
from millrace.verify.ledger.step import Cells, Step, Tables
from millrace.verify.ledger.tables.cells import Sums, digest_of, encoded, is_within, legible, plus, sums_of, text
from millrace.verify.ledger.tables.watch import Watch, had, now

OF_ALERTS = f"{ALERT}:"
"""In place of a column: all alerts of a key."""


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
        row = text(row_key(self.table, event))
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
            if (reading := waiting.reading) is not None and had(reading, ENRICHED, record):
                column = self.columns[name]
                if column in reading.open and _shows(reading.cells.get(column), held.values[name]):
                    reading.open.remove(column)
        self._note(row, held, waiting)

    def _take_alert(self, record: Record, alert: Event) -> None:
        """The row of its key must list it."""
        key, is_copy = alert_key(self.table, self.step.use, alert), alert["alert_id"] in self.own.alerts
        self.own.alerts[alert["alert_id"]] = self.step.cut_ms
        if key is None or is_copy or is_forgotten(self.forgotten, self.table, key, alert):
            return
        row = text(row_key(self.table, {self.table.first: key}))
        held, waiting = self._touched(row)
        column = text(alert_column(alert["rule"], alert["alert_id"]))
        digest = digest_of([column, str(alert["at_ms"])])
        held.alerts = plus(held.alerts, 1, digest)
        if (reading := waiting.reading) is not None and had(reading, ALERTS.name, record):
            reading.expected = plus(reading.expected, 1, digest)
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
        at_ms, ends = now(tables)
        for row in wanted:
            self._compare_row(row, rows.get(row, {}), at_ms, ends)
        lacking = [row for row in own.held if row not in audited and is_within(row, own.cursor, slice_end)]
        for row in (*audited, *lacking):
            if row not in own.waiting and row not in rows:
                self._compare_row(row, audited.get(row, {}), at_ms, ends)
        self.count("rows", len(wanted))
        self.moved_to(slice_end, len(audited))
        self.complain()

    def _compare_row(self, row: str, cells: Cells, at_ms: int, ends: dict[str, dict[str, int]]) -> None:
        held, waiting = self.own.held.get(row) or Held(), self.own.waiting.get(row)
        shown = {text(column): text(cell) for column, cell in cells.items()}
        left = self._left(held)
        if held.excused and not list(self._wrong(replace(held, excused={}), shown, left)):
            held.excused = {}  # what was red is repaired
        if not list(self._wrong(held, shown, left)):
            self.own.waiting.pop(row, None)
            return
        wrong = [] if waiting is None else list(self._wrong(held, shown, waiting.passed))
        if waiting is None or not wrong:
            # Of a row that was right so far, only what is there now; of one that shows an earlier message, the later.
            self.unexplained.pop(row, None)
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
            held.alerts = plus(held.alerts, count - reading.expected[0], total - reading.expected[1])

    def complaint(self, name: str, reading: Reading) -> str:
        held = self.own.held.get(name) or Held()
        if not reading.cells:
            return f"missing: {legible(name)}"
        if not held.values and not held.alerts[0]:
            return f"extra: {legible(name)}"
        values = {self.columns[state]: forms[0] for state, forms in held.values.items()}
        found = []
        for column in reading.open:
            if column != OF_ALERTS:
                shown = reading.cells.get(column)
                found.append(f"{legible(column)} is {shown and legible(shown)!r}, not {values.get(column)}")
            elif (count := _alerts(reading.cells)[0]) != reading.expected[0]:
                found.append(f"{count} alerts, not {reading.expected[0]}")
            else:
                found.append(f"one of its {count} alerts is not what was raised")
        return f"wrong: {legible(name)}: {'; '.join(found)}"


def _alerts(cells: Mapping[str, str]) -> Sums:
    return sums_of({name: digest_of([name, cell]) for name, cell in cells.items() if name.startswith(OF_ALERTS)})


def _shows(cell: str | None, values: Iterable[Any]) -> bool:
    """Whether a cell shows one of these values."""
    return any(is_cell_of(None if cell is None else encoded(cell), value) for value in values)
