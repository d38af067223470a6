"""A table with a row for each event: too many to remember, so sums of digests stand for those that were right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.oracle import Origin, Record
from millrace.rules import Table
from millrace.rules.layout import Forgotten, event_cells, event_of, row_key
from millrace.rules.outputs import FLAGS
from millrace.verify.evidence import ENRICHED, Event, Read
from millrace.verify.ledger.raw import GAP_MOST
from millrace.verify.ledger.state import Done, Reading, Waiting
from millrace.verify.ledger.step import Cells, Step, Tables
from millrace.verify.ledger.tables.cells import SUMS, Rows, digest_of, group_of, is_within, legible, plus, sums_of, text
from millrace.verify.ledger.tables.watch import Watch, had, now

REPORTED_MOST = 1_000
"""So many rows of events that were red are still looked at: one that comes after all is not red again."""


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
        row = text(row_key(self.table, event))
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
                self._add(group_of(row), -1, -before)
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
        group = group_of(row)
        reading = self.own.unsure[group].reading if group in self.own.unsure else None
        if reading is None or reading.rows.get(row) not in forms or not had(reading, ENRICHED, record):
            return
        del reading.rows[row]
        if before is not None:
            reading.expected = plus(reading.expected, -1, -before)
        if sums_of(reading.rows) == reading.expected:
            del self.own.unsure[group]

    def compare(self, tables: Tables) -> None:
        own = self.own
        self.decide()
        wanted = self.to_read(own.waiting)
        rows = self.rows(tables, wanted)
        groups = self._read_again(tables)
        slice_end, audited = self._slice(tables)
        at_ms, ends = now(tables)
        for row in wanted:
            self._compare_row(row, rows.get(row, {}))
        for group, of_group in groups.items():
            self._compare_group(group, of_group, at_ms, ends)
        of_slice = self._by_group(audited)
        for group in own.groups:
            if is_within(self._begin(group), own.cursor, slice_end):
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
        last = group_of(found[-1][0])
        whole = [each for each in found if group_of(each[0]) != last]
        return (self._begin(last), whole) if whole else (self._end(last), self._read_group(tables, last))

    def _compare_row(self, row: str, cells: Cells) -> None:
        waiting = self.own.waiting[row]
        digest = self._digest_of_cells(row, cells) if cells else None
        if digest is not None and digest in waiting.forms:
            del self.own.waiting[row]
            self._add(group_of(row), 1, digest)
            if waiting.origin is not None:
                self.own.seen[waiting.origin[1]].put(waiting.origin[2], digest)
        elif self.is_over(waiting) and not waiting.is_reported:
            waiting.is_reported = True
            self.step.offenders[self.name].append(f"{'wrong' if cells else 'missing'}: {legible(row)}")
            reported = [name for name, each in self.own.waiting.items() if each.is_reported]
            for name in reported[:-REPORTED_MOST]:
                del self.own.waiting[name]

    def _compare_group(self, group: str, rows: Mapping[str, int], at_ms: int, ends: dict[str, dict[str, int]]) -> None:
        """The rows that wait are compared one by one."""
        rows = {row: digest for row, digest in rows.items() if row not in self.own.waiting}
        expected = self.own.groups.get(group, [0, 0])
        if sums_of(rows) == expected:
            self.own.unsure.pop(group, None)
        else:
            unsure = self.own.unsure.setdefault(group, self.awaited())
            unsure.reading = Reading(at_ms, ends, expected, rows=rows)

    def take_over(self, name: str, reading: Reading) -> None:
        count, total = sums_of(reading.rows)
        self._add(name, count - reading.expected[0], total - reading.expected[1])

    def complaint(self, name: str, reading: Reading) -> str:
        (count, total), (expected, of_expected) = sums_of(reading.rows), reading.expected
        if count == expected:
            return f"wrong: one of the {count} rows that begin with {legible(name)} is not what its event left"
        for row, digest in reading.rows.items():
            if count == expected + 1 and digest == (total - of_expected) % SUMS:
                return f"extra: {legible(row)}"
        what = "missing" if count < expected else "extra"
        return f"{what}: {count} rows begin with {legible(name)}, not {expected}"

    def _add(self, group: str, count: int, digest: int) -> None:
        found = plus(self.own.groups.pop(group, [0, 0]), count, digest)
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
            found.setdefault(group_of(row), {})[row] = self._digest_of_cells(row, cells)
        return found

    def _digest_of_cells(self, row: str, cells: Cells) -> int:
        """The same of cells that a writer would write so, and of others that of their bytes."""
        try:
            event = event_of(self.step.use.enriched, self.columns, cells)
            if event_cells(event, event) != dict(cells):
                raise ValueError("other bytes than a writer's")
            return self._digest(row, event)
        except (ValueError, OverflowError, RecursionError):
            return digest_of([row, *sorted([text(name), text(cell)] for name, cell in cells.items())])

    def _digest(self, row: str, event: Event) -> int:
        """Of what a row holds, read from a message or from its cells."""
        values = {name: value for name, value in event.items() if value is not None}
        for name in self.step.reals:
            if type(values.get(name)) is int:
                values[name] = float(values[name])
        if isinstance(flags := values.get(FLAGS.name), list):
            values[FLAGS.name] = sorted(flags, key=str)
        return digest_of([row, values])
