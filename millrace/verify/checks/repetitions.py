"""Repetitions: a pattern that promises exactly-once, or at-most-once, writes nothing twice."""

from __future__ import annotations

import json
from collections import Counter

from millrace.oracle import Origin
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import LETTER_IDENTITY, REPLAYED, WINDOWS_TOPIC, names
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import ENRICHED, Event, place_of


def repetitions(case: Case) -> Found:
    """Enriched events, alerts and dead letters that are there more than once, and the same rows of windows."""
    events = {named_event(origin): len(copies) for origin, copies in case.copies.items()}
    alerts = Counter(named_alert(alert) for _, alert in case.alerts)
    letters = Counter(
        named_letter(letter) for _, letter in case.outputs[DEAD_LETTERS.name].events if letter["reason"] != REPLAYED
    )
    rows = Counter(named_row(row) for _, row in case.windows)
    found = {**events, **alerts, **letters, **rows}
    offenders = [f"{what} is there {times} times" for what, times in found.items() if times > 1]
    return Found({"outputs": len(found)}, offenders)


def named_event(origin: Origin) -> str:
    """An enriched event in a complaint."""
    return f"the event of {place_of(origin)}"


def named_alert(alert: Event) -> str:
    """An alert in a complaint."""
    return f"the alert {alert['alert_id']}"


def named_letter(letter: Event) -> str:
    """A dead letter in a complaint."""
    return "the dead letter of " + " ".join(str(letter[name]) for name in names(LETTER_IDENTITY))


def named_row(row: Event) -> str:
    """A row of a summary in a complaint, but for when it was made: a window may have several, of different numbers."""
    return f"the row {json.dumps({name: value for name, value in row.items() if name != 'emit_ms'}, sort_keys=True)}"


CHECKER = Checker(
    "repetitions",
    "Is every output there only once?",
    repetitions,
    needs=(ENRICHED, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC),
    is_final=True,
)
