"""Alerts as messages: the same columns for every kind of rule."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.patterns import EnginePlan
from millrace.rules import ALERTS, EventRule, WindowRule
from millrace.rules.outputs import SEPARATOR, row


def alert(
    plan: EnginePlan, rule: EventRule | WindowRule, key: Column, fact: Column, values: Mapping[str, Column]
) -> Column:
    """A message for the alerts topic: the columns that every alert of the rule has, and `values` for the others.

    `fact` is the alert's identity among those of one rule and key: the event's id, or the start of the window.
    """
    columns = {
        "alert_id": F.substring(F.sha2(_identity(rule, key, fact), 256), 1, 32),
        "rule": F.lit(rule.name),
        "rule_version": F.lit(rule.version),
        "key": key,
        "emit_ms": topics.now_ms(),
        **values,
    }
    return topics.message(plan.topics[ALERTS.name], columns[ALERTS.key], row(ALERTS.names, columns))


def _identity(rule: EventRule | WindowRule, key: Column, fact: Column) -> Column:
    """What an alert's id is made from, as `millrace.rules.alert_id` describes."""

    def joined(name: str, key: Column) -> Column:
        return F.concat_ws(SEPARATOR, F.lit(name), F.lit(rule.version), key, fact)

    encoded = F.replace(F.replace(key, F.lit("%"), F.lit("%25")), F.lit(SEPARATOR), F.lit("%7C"))
    is_odd = F.contains(key, F.lit(SEPARATOR))
    return F.when(is_odd, joined(SEPARATOR + rule.name, encoded)).otherwise(joined(rule.name, key))


def operands(values: Mapping[str, Column]) -> Column:
    """Named values as a map of texts."""
    return F.create_map(*(each for name, value in values.items() for each in (F.lit(name), value.cast("string"))))
