"""Rules and events as declarations: the vocabulary of a use, independent of engines."""

from millrace.rules.events import EventType, Real, Text, TextMap, Whole, Words
from millrace.rules.expressions import RuleError, km
from millrace.rules.measures import Count, DistinctOthers, Last, Max, Min, Sum
from millrace.rules.outputs import ALERTS, DEAD_LETTERS, REPLAYED, alert_id
from millrace.rules.rules import (
    ENRICHMENT,
    OUT_OF_ORDER_MS,
    Enrichment,
    EventRule,
    FoldRule,
    Lookup,
    Rule,
    Session,
    Tumbling,
    UseCase,
    WindowRule,
    WindowSummary,
)

__all__ = [
    "ALERTS",
    "DEAD_LETTERS",
    "ENRICHMENT",
    "OUT_OF_ORDER_MS",
    "REPLAYED",
    "Count",
    "DistinctOthers",
    "Enrichment",
    "EventRule",
    "EventType",
    "FoldRule",
    "Last",
    "Lookup",
    "Max",
    "Min",
    "Real",
    "Rule",
    "RuleError",
    "Session",
    "Sum",
    "Text",
    "TextMap",
    "Tumbling",
    "UseCase",
    "Whole",
    "WindowRule",
    "WindowSummary",
    "Words",
    "alert_id",
    "km",
]
