"""Windows as Flink SQL: alerts on complete windows, and the numbers for the charts."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.engines.flink.alerts import NOW_MS, alert_columns, operands
from millrace.engines.flink.events import added, event_stage, from_judged
from millrace.engines.flink.expressions import compiled, interval, quoted, text
from millrace.engines.flink.topics import BEHIND, INGEST_MS, OFFSET, PARTITION, TOPIC, TYPES, VALUE
from millrace.engines.flink.tuning import LATE_MARGIN_MS
from millrace.patterns import EnginePlan
from millrace.rules import Count, Last, Session, Sliding, Window, WindowRule, WindowSummary, read_by_windows
from millrace.rules.events import WHOLE_LEAST, WHOLE_MOST
from millrace.rules.measures import fits_64_bits
from millrace.rules.outputs import WINDOWS_TOPIC, row

TIMED, TIMELY = "timed", "timely"
LATE = "_late"
SUMMARY = "summary"
"""The column that names the summary of a row: also the key of its message, where the summary has no keys."""


def has_windows(plan: EnginePlan) -> bool:
    """Whether the plan has a rule or a summary over windows."""
    return bool(plan.window_rules or plan.window_summaries)


def views(plan: EnginePlan) -> Iterator[tuple[str, str]]:
    """Enriched events with whether they are late, and those that are not; with the columns that are read from them."""
    if has_windows(plan):
        stage = event_stage(plan)
        computed = added(stage)
        # Flink copies each column at each step.
        fields = dict.fromkeys([*read_by_windows(plan.window_rules, plan.window_summaries), "sent_ms"])
        made = [f"{computed[name]} AS {quoted(name)}" if name in computed else quoted(name) for name in fields]
        is_late = f"rowtime <= CURRENT_WATERMARK(rowtime) + {interval(LATE_MARGIN_MS)}"
        of_late = [TOPIC, VALUE, f"{BEHIND} OR COALESCE({is_late}, FALSE) AS {LATE}"]
        columns = ", ".join([*made, INGEST_MS, PARTITION, OFFSET, "rowtime", *of_late])
        yield TIMED, f"SELECT {columns} {from_judged(stage, plan.fold_rules)}"
        read = ", ".join([*map(quoted, fields), INGEST_MS, PARTITION, OFFSET, "rowtime"])
        yield TIMELY, f"SELECT {read} FROM {TIMED} WHERE NOT {LATE}"


def alerts(rule: WindowRule) -> str:
    """The alerts of a rule that judges complete windows."""
    time, key = quoted(rule.on.time or ""), quoted(rule.key)
    measured = {name: _aggregate(name, rule) for name in rule.measures}
    start_ms = "first_ms" if isinstance(rule.window, Session) else "_start_ms"
    aggregates = {
        **measured,
        "first_ms": f"MIN({time})",
        "last_ms": f"MAX({time})",
        **({} if isinstance(rule.window, Session) else {"_start_ms": "millis(window_start)"}),
        "_subject": f"MAX({quoted(rule.on.key)})",
        **({"_ids": _ids(rule.on.id, rule.ids_most)} if rule.on.id else {}),
        "_sent_ms": "MAX(sent_ms)",
        "_ingest_ms": f"MAX({INGEST_MS})",
    }
    listed = ", ".join(f"{value} AS {quoted(name)}" for name, value in aggregates.items())
    values = {
        "subject": "_subject",
        "window_start_ms": start_ms,
        "event_ids": "_ids" if rule.on.id else "ARRAY_REMOVE(ARRAY[CAST(NULL AS STRING)], CAST(NULL AS STRING))",
        "operands": operands({name: quoted(name) for name in rule.operands}),
        "at_ms": "last_ms",
        "sent_ms": "_sent_ms",
        "ingest_ms": "_ingest_ms",
    }
    columns = alert_columns(rule, key, f"CAST({start_ms} AS STRING)", values)
    return (
        f"SELECT {columns} FROM (SELECT {key}, {listed} FROM "
        f"TABLE({_windowed(rule.window, key)}) "
        f"GROUP BY {key}, window_start, window_end) WHERE {compiled(rule.condition, lambda f: f.name)}"
    )


def numbers(summary: WindowSummary) -> str:
    """The rows of a window summary: one for each window and key, when the window is complete."""
    grouped = [*map(quoted, summary.keys), "window_start", "window_end"]
    values = {
        SUMMARY: text(summary.name),
        "window_start_ms": "millis(window_start)",
        "window_end_ms": "millis(window_end)",
        **{key: quoted(key) for key in summary.keys},
        **{name: _aggregate(name, summary) for name in summary.measures},
        "emit_ms": NOW_MS,
    }
    return (
        f"SELECT {', '.join(row(summary.columns, values).values())} "
        f"FROM TABLE({_windowed(summary.window)}) "
        f"GROUP BY {', '.join(grouped)}"
    )


def table_of(summary: WindowSummary) -> str:
    """The name of the table that the summary is written to: all of them are in one topic."""
    return f"{WINDOWS_TOPIC}.{summary.name}"


def columns_of(summary: WindowSummary) -> list[str]:
    """The columns of that table."""
    own = (*summary.keys, *summary.measures)
    return [f"{quoted(name) if name in own else name} {TYPES[kind]}" for name, kind in summary.columns.items()]


def _windowed(window: Window, key: str = "") -> str:
    match window:
        case Session(gap_ms=gap_ms):
            return f"SESSION(TABLE {TIMELY} PARTITION BY {key}, DESCRIPTOR(rowtime), {interval(gap_ms)})"
        case Sliding(size_ms=size_ms, step_ms=step_ms):
            return f"HOP(TABLE {TIMELY}, DESCRIPTOR(rowtime), {interval(step_ms)}, {interval(size_ms)})"
        case _:
            return f"TUMBLE(TABLE {TIMELY}, DESCRIPTOR(rowtime), {interval(window.size_ms)})"


def _aggregate(name: str, of: WindowRule | WindowSummary) -> str:
    measure = of.measures[name]
    if isinstance(measure, Count):
        where = of.where.get(name)
        return "COUNT(*)" if where is None else f"COUNT(*) FILTER (WHERE {compiled(where, lambda field: field.name)})"
    field = measure.fields[0] if isinstance(measure, Last) else measure.field
    column = quoted(field)
    if isinstance(measure, Last):
        return f"CAST({_last(column)} AS {TYPES[of.on.kind(field)]})"
    if measure.op == "distinct":
        return f"COUNT(DISTINCT {column})"
    if measure.op == "sum" and not fits_64_bits(of.on, field):
        return _within_64_bits(f"SUM(CAST({column} AS DECIMAL(19, 0)))")
    return f"{measure.op.upper()}({column})"


def _ids(identity: str, most: int) -> str:
    return f"first_ids(ARRAY_AGG({quoted(identity)}), {most})"


def _last(column: str) -> str:
    """The value of the last event by arrival: the place of each in this order stands before its value, as text."""
    digits = ((INGEST_MS, 19), (PARTITION, 10), (OFFSET, 19))
    place = ", ".join(f"LPAD(CAST({number} AS STRING), {width}, '0')" for number, width in digits)
    widest = sum(width for _, width in digits)
    return f"SUBSTRING(MAX(CONCAT({place}, CAST({column} AS STRING))), {widest + 1})"


def _within_64_bits(total: str) -> str:
    """A whole number at the limit that it would leave."""
    limits = f"WHEN {total} > {WHOLE_MOST} THEN {WHOLE_MOST} WHEN {total} < {WHOLE_LEAST} THEN {WHOLE_LEAST}"
    return f"CAST(CASE {limits} ELSE {total} END AS BIGINT)"
