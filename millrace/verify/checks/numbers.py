"""Numbers: the last row of every finished window of a summary is correct."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from millrace.rules import DEAD_LETTERS, WindowSummary
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import Event, is_same


def checker(summary: WindowSummary) -> Checker:
    """The check of one summary's rows."""
    return Checker(
        f"numbers: {summary.name}",
        f"Are the numbers of {summary.name} correct?",
        partial(numbers, summary),
        needs=(WINDOWS_TOPIC, DEAD_LETTERS.name),
    )


def numbers(summary: WindowSummary, case: Case) -> Found | Undecided:
    """The rows of windows that are over and began under the summary's present version.

    What came late for the windows of rules may still be counted in a chart, whose window may be open for longer.
    """
    since_ms, rows_of = case.versions(summary.name).since_ms, case.rows_of(summary)
    got: dict[tuple[Any, ...], Event] = {}
    began_ms, with_late = rows_of.began_ms, rows_of.with_late
    implausible = []
    for record, row in sorted(case.windows, key=lambda each: (each[0].ingest_ms, each[0].partition, each[0].offset)):
        if row["summary"] == summary.name:
            key = row["window_start_ms"], *(row.get(name) for name in summary.keys)
            got[key] = row
            if key in began_ms and key[0] >= since_ms:
                end_ms = summary.window.end_ms(key[0], key[0])
                wrong = [] if row.get("window_end_ms") == end_ms else [f"it ends at {row.get('window_end_ms')}"]
                wrong += case.implausible(record, row, began_ms[key])
                implausible += [f"wrong: {key}: {each}" for each in wrong]
    due = {key: values for key, values in rows_of.over.items() if key[0] >= since_ms}
    offenders = [f"missing: {key}" for key in due if key not in got]
    offenders += [f"extra: {key}" for key in got if key not in with_late and key[0] >= since_ms]
    offenders += [
        f"wrong: {key}: {got[key]} is not between {values} and, with all that came late, {with_late[key]}"
        for key, values in due.items()
        if key in got and not is_between(got[key], values, with_late[key])
    ]
    offenders += implausible
    rows = sum(1 for _, row in case.windows if row["summary"] == summary.name)
    figures = {"due": len(due), "found": len(got), "rows": rows}
    awaited = (
        summary.window.end_ms(key[0], key[0])
        for key, values in rows_of.still_open.items()
        if not (key in got and is_between(got[key], values, with_late[key]))
    )
    if not offenders and (why := case.overdue(awaited)):
        return Undecided(why, figures)
    return Found(figures, offenders)


def is_between(row: Event, in_time: Mapping[str, Any], with_late: Mapping[str, Any]) -> bool:
    """Whether the row counts all events in time, and any number of the late ones."""

    def fits(value: Any, most: Any, got: Any) -> bool:
        is_number = isinstance(got, int | float) and not isinstance(got, bool)
        return is_same(value, got) or is_same(most, got) or (is_number and min(value, most) <= got <= max(value, most))

    return all(fits(value, with_late[name], row.get(name)) for name, value in in_time.items())
