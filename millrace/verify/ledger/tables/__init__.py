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

from collections.abc import Iterator, Mapping
from functools import partial

from millrace.rules.layout import Forgotten, Mark
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.tables import misfits
from millrace.verify.evidence import Read
from millrace.verify.ledger.step import Step, UnreadError
from millrace.verify.ledger.tables.cells import encoded, text
from millrace.verify.ledger.tables.event_rows import EventRows
from millrace.verify.ledger.tables.key_rows import KeyRows
from millrace.verify.ledger.tables.watch import Watch


def judged(step: Step, parsed: Mapping[str, Read]) -> Iterator[Checker]:
    """Take in the messages of the segment and compare the tables; the check of each table has what was found."""
    tables = step.inputs.tables
    if tables is None:
        return
    before = {encoded(row): mark for row, mark in step.state.marks.items()}
    forgotten, changed, offenders, unread = Forgotten(before), set[bytes](), list[str](), ""
    try:
        found = tables.forgotten()
        new = {row: mark for row, mark in found.marks.items() if before.get(row) != mark}
        offenders = misfits(new, tables.now()[0] + step.bounds.clocks_ms) if new else []
        offenders += _receding(before, found.marks, step.bounds.clocks_ms)
        forgotten, changed = found, set(new)
    except UnreadError as error:
        unread = str(error)
    for table in step.use.tables:
        of_events = bool(table.columns)
        watch: Watch = EventRows(step, table, forgotten) if of_events else KeyRows(step, table, forgotten)
        why = unread
        # HBase drops the rows of a table with a retention by its own clock.
        if table.retention_hours is not None:
            watch.figures["judged by `validate` alone"] = 1
        else:
            step.offenders[watch.name] += offenders
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
        step.state.marks = {text(row): mark for row, mark in forgotten.marks.items()}
        step.state.marks_ms = step.cut_ms


def _receding(before: Mapping[bytes, Mark], marks: Mapping[bytes, Mark], clocks_ms: int) -> Iterator[str]:
    """The complaints about marks that are gone or of an earlier moment: no mark is ever removed.

    A key that was forgotten again from another machine may have an earlier one.
    """
    for row, was in before.items():
        mark = marks.get(row, Mark())
        least_ms = was.until_ms - clocks_ms * (mark.times > was.times)
        if mark.times < was.times or mark.until_ms < least_ms:
            shown = f"until {mark.until_ms}, {mark.times} times" if row in marks else "no more"
            yield f"{row.decode(errors='replace')} was forgotten until {was.until_ms}, {was.times} times, now {shown}"


def _found(figures: Mapping[str, int], why: str, _: Case) -> Found | Undecided:
    return Undecided(f"could not be read: {why}", figures) if why else Found(figures)
