"""Unclosed: the windows that no event closed, because too few followed the last run of traffic."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.rules import WindowRule
from millrace.traffic.planned import is_closed
from millrace.verify.case import Case
from millrace.verify.recorded import span_ms


def notes(case: Case) -> Iterator[str]:
    """A line with the number of windows whose results may be missing, though no check fails.

    An interrupted run, and a run of a file, have no closing; one that is there closes the windows of rules, and not the
    longer ones of summaries. Windows that may still be open are not due.
    """
    last = max(case.question.runs, key=span_ms, default=None)
    if case.unread or last is None:
        return
    if counts := [f"{count} of {name}" for name, count in _awaited(case) if count]:
        name = f"the run '{last.name}'"
        what = f"the closing of {name} did not" if is_closed(last) else f"nothing followed {name} to"
        yield (
            f"{what} close its last windows: {', '.join(counts)} have no result and are not judged until later events "
            "close them"
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
