"""A table while a segment is judged: which rows wait, for how long, and what of a reading no message explains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from millrace.oracle import Record
from millrace.rules import Table
from millrace.rules.layout import Forgotten, key_of, mark_row, reached_by, row_key, version
from millrace.rules.outputs import INGEST_MS
from millrace.verify.evidence import ENRICHED, Event, Read, Versions, table_key
from millrace.verify.ledger.state import Reading, TableState, Waiting
from millrace.verify.ledger.step import Cells, Step, Tables
from millrace.verify.ledger.tables.cells import Rows, encoded, group_of, text


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
            fields = defaultdict(lambda: None, event)  # one that is not there is null
            if not is_whole or self.forgotten.has_event(self.table, self.step.use, fields):
                continue
            if event[INGEST_MS.name] >= self.since_ms:
                self.take_event(record, event)
            else:
                self.await_anything(text(row_key(self.table, event)))

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
        self.waits.setdefault(group_of(row) if self.table.columns else row, self.awaited()).is_taken_over = True

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
        found = tables.rows(self.table.name, [encoded(name) for name in names])
        return {text(row): cells for row, cells in found.items()}

    def scanned(self, tables: Tables, start: str, stop: str, limit: int | None) -> Rows:
        found = tables.scan(self.table.name, encoded(start), encoded(stop), limit)
        return [(text(row), cells) for row, cells in found]

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
                until_ms = self.forgotten.marks[mark].until_ms
                if until_ms < self.step.state.cut_ms:
                    self.await_anything(name)
                if until_ms < self.step.state.marks_ms:
                    why = "is of before the marks were read last, and was not there: what its rows hold is taken over"
                    self.step.unknown[self.name] = f"the mark {mark.decode(errors='replace')} {why}"
        if changed - met and reached_by(self.table, self.step.use) - {self.table.first}:
            self.step.unknown[self.name] = "keys within its rows were forgotten: the audit takes over what is there"
            own.is_known, own.cursor = False, ""
            own.groups.clear()
            own.waiting.clear()
            own.unsure.clear()

    def _mark_of(self, name: str) -> bytes:
        """The mark under which the rows that begin like this one may have been forgotten."""
        parts = [encoded(group_of(name)), *[b"0"] * (len(self.table.parts) - 1)]
        try:
            value = key_of(self.table, self.step.use, b"|".join(parts))[self.table.first]
        except ValueError:
            return b""
        return mark_row(self.table.first, value)


def now(tables: Tables) -> tuple[int, dict[str, dict[str, int]]]:
    at_ms, ends = tables.now()
    return at_ms, {kind: {str(number): end for number, end in own.items()} for kind, own in ends.items()}


def had(reading: Reading, kind: str, record: Record) -> bool:
    """Whether the topic had a message when the table was read."""
    return record.offset < reading.ends.get(kind, {}).get(str(record.partition), 0)
