"""Rules and events as declarations: the vocabulary in which a use is written, with no engine in sight."""

from pipelines.rules.events import EventType, Numbers, Real, Text, Whole, Words
from pipelines.rules.expressions import RuleError, km
from pipelines.rules.measures import Count, Last, Max, Min, Others, Sum
from pipelines.rules.rules import (
    ALERTS,
    DEAD_LETTERS,
    OUT_OF_ORDER_MS,
    REPLAYED,
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
    alert_id,
)

__all__ = [
    "ALERTS",
    "DEAD_LETTERS",
    "OUT_OF_ORDER_MS",
    "REPLAYED",
    "Count",
    "Enrichment",
    "EventRule",
    "EventType",
    "FoldRule",
    "Last",
    "Lookup",
    "Max",
    "Min",
    "Numbers",
    "Others",
    "Real",
    "Rule",
    "RuleError",
    "Session",
    "Sum",
    "Text",
    "Tumbling",
    "UseCase",
    "Whole",
    "WindowRule",
    "WindowSummary",
    "Words",
    "alert_id",
    "km",
]
