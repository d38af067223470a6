"""Alerts as Flink SQL: the same columns for every kind of rule."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.engines.flink.expressions import text
from millrace.rules import ALERTS, EventRule, FoldRule, WindowRule
from millrace.rules.outputs import SEPARATOR, row

NOW_MS = "millis(CURRENT_ROW_TIMESTAMP())"


def alert_columns(rule: EventRule | FoldRule | WindowRule, key: str, fact: str, values: Mapping[str, str]) -> str:
    """The columns of the alerts topic: those that every alert of the rule has, and `values` for the others.

    `fact` is the alert's identity among those of one rule and key: the event's id, or the start of the window.
    """
    columns = {
        "alert_id": f"SUBSTRING(SHA256({_identity(rule, key, fact)}), 1, 32)",
        "rule": text(rule.name),
        "rule_version": text(rule.version),
        "key": key,
        "emit_ms": NOW_MS,
        **values,
    }
    return ", ".join(row(ALERTS.names, columns).values())


def _identity(rule: EventRule | FoldRule | WindowRule, key: str, fact: str) -> str:
    """What an alert's id is made from, as `millrace.rules.alert_id` describes."""

    def joined(name: str, key: str) -> str:
        return f"CONCAT_WS({text(SEPARATOR)}, {text(name)}, {text(rule.version)}, {key}, {fact})"

    encoded = f"REPLACE(REPLACE({key}, '%', '%25'), {text(SEPARATOR)}, '%7C')"
    is_odd = f"POSITION({text(SEPARATOR)} IN {key}) > 0"
    return f"CASE WHEN {is_odd} THEN {joined(SEPARATOR + rule.name, encoded)} ELSE {joined(rule.name, key)} END"


def operands(values: Mapping[str, str]) -> str:
    """Named values as a map of texts."""
    return f"MAP[{', '.join(f'{text(name)}, CAST({value} AS STRING)' for name, value in values.items())}]"
