"""Readable: every message of an output is an object with the fields that its readers need, and with no other."""

from __future__ import annotations

from typing import Any

from millrace.oracle import Record
from millrace.rules import ALERTS, DEAD_LETTERS, REPLAYED
from millrace.rules.outputs import INGEST_MS, LETTER_IDENTITY, SOURCE, names
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import ENRICHED, Messages, place
from millrace.verify.verdict import Figure

DELAYED = (ENRICHED, ALERTS.name, DEAD_LETTERS.name)
"""The outputs that name when their cause arrived."""
IDENTITY = (*names(SOURCE), ALERTS.id or "", *names(LETTER_IDENTITY))
"""What copies have in common."""


def readable(case: Case) -> Found:
    """The messages that are not such objects, and what else of them is not as declared."""
    outputs = case.outputs.values()
    figures: dict[str, Figure] = {"messages": sum(len(each.events) for each in outputs)}
    figures |= {
        f"{kind}: longest delay": found for kind in DELAYED if (found := _longest_delay(case.outputs[kind].events))
    }
    return Found(figures, [found for each in outputs for found in (*each.unreadable, *each.faults)])


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
