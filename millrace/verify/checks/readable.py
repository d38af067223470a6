"""Readable: every message of an output is an object with the fields that its readers need, and with no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millrace.oracle import Record
from millrace.rules import ALERTS, DEAD_LETTERS, REPLAYED, Last, Max, Min, Text, Whole, card_numbers
from millrace.rules.measures import Measure
from millrace.rules.outputs import INGEST_MS, LETTER_IDENTITY, SOURCE, names
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import ENRICHED, Messages, place
from millrace.verify.verdict import Figure

DELAYED = (ENRICHED, ALERTS.name, DEAD_LETTERS.name)
"""The outputs that name when their cause arrived."""
IDENTITY = (*names(SOURCE), ALERTS.id or "", *names(LETTER_IDENTITY))
"""What copies have in common."""


def readable(case: Case) -> Found | Undecided:
    """The messages that are not such objects, and what else of them is not as declared."""
    outputs = case.outputs.values()
    figures: dict[str, Figure] = {"messages": sum(len(each.events) for each in outputs)}
    figures |= {
        f"{kind}: longest delay": found for kind in DELAYED if (found := _longest_delay(case.outputs[kind].events))
    }
    offenders = [found for each in outputs for found in (*each.unreadable, *each.faults)]
    for records in case.evidence.outputs.values():
        offenders += case.ahead(records or ())
    if not offenders and (doubtful := list(_with_card_numbers(case))):
        why = "rows of earlier summaries hold what may be card numbers"
        return Undecided(why, figures, tuple(doubtful), is_settled=True)
    return Found(figures, offenders)


def _with_card_numbers(case: Case) -> Iterator[str]:
    """The rows that no present summary declares and that hold one; what is by chance the same cannot be told apart."""
    since_ms = {each.name: case.versions(each.name).since_ms for each in case.question.summaries}
    measures = {each.name: each.measures for each in case.question.summaries}
    fields = case.question.use.enriched.fields
    may_hold = {each.name for each in fields if isinstance(each, Text | Whole) and each.may_pass_luhn}
    for record, row in case.windows:
        of = since_ms.get(row["summary"])
        for name, value in row.items() if of is None or row["window_start_ms"] < of else ():
            fields_of = _fields_of(measures.get(row["summary"], {}).get(name))
            if may_hold.isdisjoint((name, *fields_of)) and card_numbers.are_in(str(value)):
                yield f"{place(record)}: '{name}' may hold a card number"


def _fields_of(measure: Measure | None) -> tuple[str, ...]:
    """The fields of which a column of this measure has a value as it is."""
    if isinstance(measure, Max | Min):
        return (measure.field,)
    return measure.fields if isinstance(measure, Last) else ()


def _longest_delay(messages: Messages) -> str:
    """The longest time from the arrival of a cause, of a window its last event, to the first copy of what it caused."""
    first: dict[tuple[Any, ...], tuple[int, Record]] = {}
    for record, event in messages:
        if event.get("reason") != REPLAYED and event.get(INGEST_MS.name) is not None:
            identity = tuple(map(str, map(event.get, IDENTITY)))
            delay_ms = record.ingest_ms - event[INGEST_MS.name]
            known = first.get(identity)
            if known is None or delay_ms < known[0]:
                first[identity] = delay_ms, record
    if not first:
        return ""
    delay_ms, slowest = max(first.values(), key=lambda each: each[0])
    return f"{delay_ms / 1000:,.3f} s, {place(slowest)}"


CHECKER = Checker(
    "readable", "Can every output message be read, and is it as declared?", readable, needs_inputs=False, is_final=True
)
