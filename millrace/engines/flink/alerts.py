"""Alerts as Flink SQL: the same columns for every kind of rule."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.engines.flink.expressions import text
from millrace.rules import ALERTS, EventRule, FoldRule, WindowRule
from millrace.rules.outputs import row

NOW_MS = "millis(CURRENT_ROW_TIMESTAMP())"


def alert_columns(rule: EventRule | FoldRule | WindowRule, key: str, fact: str, values: Mapping[str, str]) -> str:
    """The columns of the alerts topic: those that every alert of the rule has, and `values` for the others.

    `fact` is the alert's identity among those of one rule and key: the event's id, or the start of the window.
    """
    columns = {
        "alert_id": f"SUBSTRING(SHA256(CONCAT_WS('|', {text(rule.name)}, {text(rule.version)}, {key}, {fact})), 1, 32)",
        "rule": text(rule.name),
        "rule_version": text(rule.version),
        "key": key,
        "emit_ms": NOW_MS,
        **values,
    }
    return ", ".join(row(ALERTS.names, columns).values())


def operands(values: Mapping[str, str]) -> str:
    """Named values as a map of texts."""
    return f"MAP[{', '.join(f'{text(name)}, CAST({value} AS STRING)' for name, value in values.items())}]"
