"""Unclosed: the windows that no event closed, because none followed the last run of traffic."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.rules import WindowRule
from millrace.traffic.planned import is_closed
from millrace.verify.case import Case
from millrace.verify.recorded import span_ms


def notes(case: Case) -> Iterator[str]:
    """A line with the number of windows whose results may be missing, though no check fails.

    An interrupted run, and a run of a file, have no closing. Windows that may still be open are not due.
    """
    last = max(case.question.runs, key=span_ms, default=None)
    if case.unread or last is None or is_closed(last):
        return
    if counts := [f"{count} of {name}" for name, count in _awaited(case) if count]:
        yield (
            f"nothing followed the run '{last.name}' to close its last windows: {', '.join(counts)} have no result and "
            "are not judged until later events close them"
        )


def _awaited(case: Case) -> Iterator[tuple[str, int]]:
    """By rule and summary, how many windows may still be open and have no result."""
    alerts = {alert["alert_id"] for _, alert in case.alerts}
    for rule in case.question.rules:
        if isinstance(rule, WindowRule):
            yield rule.name, len(case.windows_of(rule)[1].keys() - alerts)
    for summary in case.question.summaries:
        columns = ("window_start_ms", *summary.keys)
        rows = {tuple(row.get(name) for name in columns) for _, row in case.windows if row["summary"] == summary.name}
        yield summary.name, len(case.rows_of(summary).still_open.keys() - rows)
