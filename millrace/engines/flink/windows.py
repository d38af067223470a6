"""Windows as Flink SQL: alerts on complete windows, and the numbers for the charts."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.engines.flink.alerts import NOW_MS, alert_columns, operands
from millrace.engines.flink.events import JUDGED
from millrace.engines.flink.expressions import compiled, interval, quoted, text
from millrace.engines.flink.topics import INGEST_MS, TYPES
from millrace.engines.flink.tuning import LATE_MARGIN_MS
from millrace.patterns import EnginePlan
from millrace.rules import WindowRule, WindowSummary
from millrace.rules.measures import WindowMeasure
from millrace.rules.outputs import WINDOWS_TOPIC, row

TIMED, TIMELY = "timed", "timely"
LATE = "_late"


def has_windows(plan: EnginePlan) -> bool:
    """Whether the plan has a rule or a summary over windows."""
    return bool(plan.window_rules or plan.window_summaries)


def views(plan: EnginePlan) -> Iterator[tuple[str, str]]:
    """Judged events with whether they are late, and those that are not."""
    if has_windows(plan):
        is_late = f"rowtime <= CURRENT_WATERMARK(rowtime) + {interval(LATE_MARGIN_MS)}"
        yield TIMED, f"SELECT *, COALESCE({is_late}, FALSE) AS {LATE} FROM {JUDGED}"
        yield TIMELY, f"SELECT * FROM {TIMED} WHERE NOT {LATE}"


def alerts(rule: WindowRule) -> str:
    """The alerts of a rule that judges complete windows."""
    time, identity, key = quoted(rule.on.time or ""), quoted(rule.on.id or ""), quoted(rule.key)
    measured = {name: _aggregate(measure) for name, measure in rule.measures.items()}
    aggregates = {
        **measured,
        "first_ms": f"MIN({time})",
        "last_ms": f"MAX({time})",
        "_subject": f"MAX({quoted(rule.on.key)})",
        "_ids": f"ARRAY_SLICE(ARRAY_SORT(ARRAY_AGG({identity})), 1, {rule.ids_most})",
        "_sent_ms": "MAX(sent_ms)",
        "_ingest_ms": f"MAX({INGEST_MS})",
    }
    listed = ", ".join(f"{value} AS {quoted(name)}" for name, value in aggregates.items())
    values = {
        "subject": "_subject",
        "window_start_ms": "first_ms",
        "event_ids": "_ids",
        "operands": operands({name: quoted(name) for name in rule.operands}),
        "at_ms": "last_ms",
        "sent_ms": "_sent_ms",
        "ingest_ms": "_ingest_ms",
    }
    columns = alert_columns(rule, key, "CAST(first_ms AS STRING)", values)
    return (
        f"SELECT {columns} FROM (SELECT {key}, {listed} FROM "
        f"TABLE(SESSION(TABLE {TIMELY} PARTITION BY {key}, DESCRIPTOR(rowtime), {interval(rule.window.gap_ms)})) "
        f"GROUP BY {key}, window_start, window_end) WHERE {compiled(rule.condition, lambda f: f.name)}"
    )


def numbers(summary: WindowSummary) -> str:
    """The rows of a window summary: one for each window and key, when the window is complete."""
    keys = ", ".join(quoted(key) for key in summary.keys)
    values = {
        "summary": text(summary.name),
        "window_start_ms": "millis(window_start)",
        "window_end_ms": "millis(window_end)",
        **{key: quoted(key) for key in summary.keys},
        **{name: _aggregate(measure) for name, measure in summary.measures.items()},
        "emit_ms": NOW_MS,
    }
    return (
        f"SELECT {', '.join(row(summary.columns, values).values())} "
        f"FROM TABLE(TUMBLE(TABLE {TIMELY}, DESCRIPTOR(rowtime), {interval(summary.window.size_ms)})) "
        f"GROUP BY {keys}, window_start, window_end"
    )


def table_of(summary: WindowSummary) -> str:
    """The name of the table that the summary is written to: all of them are in one topic."""
    return f"{WINDOWS_TOPIC}.{summary.name}"


def columns_of(summary: WindowSummary) -> list[str]:
    """The columns of that table."""
    own = (*summary.keys, *summary.measures)
    return [f"{quoted(name) if name in own else name} {TYPES[kind]}" for name, kind in summary.columns.items()]


def _aggregate(measure: WindowMeasure) -> str:
    return "COUNT(*)" if measure.op == "count" else f"{measure.op.upper()}({quoted(measure.field)})"
