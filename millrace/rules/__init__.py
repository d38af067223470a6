"""Rules and events as declarations: the vocabulary of a use, independent of engines."""

from millrace.rules.events import TOKEN_LENGTH, TOKEN_PATTERN, EventType, Real, Secret, Text, TextMap, Whole, Words
from millrace.rules.expressions import RuleError, km
from millrace.rules.measures import Count, CountDistinct, DistinctOthers, Last, Max, Min, Sum
from millrace.rules.outputs import ALERTS, DEAD_LETTERS, REPLAYED, alert_id
from millrace.rules.rules import (
    ENRICHMENT,
    LIMITS,
    Enrichment,
    EventRule,
    FoldRule,
    Lookup,
    Rule,
    UseCase,
    WindowRule,
    WindowSummary,
    limits_version,
    memories,
    read_by_measure,
    read_by_windows,
)
from millrace.rules.tables import Table, newest_first
from millrace.rules.windows import Session, Sliding, Tumbling, Window

__all__ = [
    "ALERTS",
    "DEAD_LETTERS",
    "ENRICHMENT",
    "LIMITS",
    "REPLAYED",
    "TOKEN_LENGTH",
    "TOKEN_PATTERN",
    "Count",
    "CountDistinct",
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
    "Secret",
    "Session",
    "Sliding",
    "Sum",
    "Table",
    "Text",
    "TextMap",
    "Tumbling",
    "UseCase",
    "Whole",
    "Window",
    "WindowRule",
    "WindowSummary",
    "Words",
    "alert_id",
    "km",
    "limits_version",
    "memories",
    "newest_first",
    "read_by_measure",
    "read_by_windows",
]
