"""What a pipeline writes: the columns of enriched events, alerts, window results and dead letters, each declared once.

The oracle, the engines and the checks take names and order from here. `row` refuses a column without a value, so an
engine that omits one fails while its job is built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from millrace.rules.events import EventType, Text, TextMap, Whole, Words
from millrace.rules.expressions import Field, Kind, RuleError

V = TypeVar("V")

FLAGS = Words("flags")
"""The names of the per-event rules that alerted on an enriched event."""
SOURCE = (
    Text("source_topic", max_length=249),
    Whole("source_partition", least=0),
    Whole("source_offset", least=0),
)
"""The raw message that an enriched event comes from."""
INGEST_MS = Whole("ingest_ms")
"""When Kafka appended that message."""
PROVENANCE = (*SOURCE, INGEST_MS)
BACKLOG_HEADER = "backlog"
"""The header of a message of the intermediate topic that moves no time: its job has not caught up (millrace/job.py)."""

ALERT_FACTS = (
    Text("alert_id", pattern="[0-9a-f]{32}", max_length=32),
    Text("rule"),
    Text("rule_version"),
    Text("key"),
    Text("subject"),
    Whole("window_start_ms", required=False),
    Words("event_ids"),
    TextMap("operands"),
    Whole("at_ms"),
)
"""What an alert states; every engine writes the same."""
ALERTS = EventType(
    "alerts",
    "One finding of one rule; at least once, and exactly once for a reader that keeps one of each alert_id.",
    (*ALERT_FACTS, Whole("sent_ms", required=False), INGEST_MS, Whole("emit_ms")),
    key="subject",
    id="alert_id",
    time="at_ms",
    version=2,
)

LETTER_IDENTITY = (
    Text("reason", max_length=128),
    Text("topic", max_length=249),
    Whole("partition", least=0),
    Whole("offset", least=0),
    INGEST_MS,
)
"""Why which message is a dead letter."""
DEAD_LETTERS = EventType(
    "dead-letters",
    "What could not be judged, with the reason and the place it came from; identity: topic, partition, offset, reason.",
    (
        *LETTER_IDENTITY,
        Text("stage"),
        Text("value_base64", pattern="[A-Za-z0-9+/=]*", max_length=24_000, required=False),
    ),
    key="topic",
)
DUPLICATE, LATE, REPLAYED = "duplicate", "late", "replayed"
"""Reasons of dead letters: a repeated id; an accepted event that no window counts; a message that was sent again."""

WINDOWS_TOPIC = "windows"
"""The topic of all window results of a pattern."""
HOP = "hop"
REHEARSAL = "rehearsal"
"""The topic of a trial job; `upgrade` removes it."""
"""The topic of bare messages: their time through Kafka stands beside the latencies of alerts."""
VERDICTS_TOPIC = "verdicts"
"""The topic of a pattern's ledger: the verdict on each segment of its messages."""
CONFIRMED, DISMISSED, UNSURE = MARKS = ("confirmed", "dismissed", "unsure")
"""What a person may make of an alert."""
DISPOSITIONS = EventType(
    "dispositions",
    "What a person made of an alert; the last one of an alert_id counts.",
    (
        Text("alert_id", pattern="[0-9a-f]{32}", max_length=32, may_pass_luhn=True),
        Text("mark", pattern=f"({'|'.join(MARKS)})"),
        Text("note", pattern="[^\\x00-\\x1f]*", max_length=500),
        Text("by", pattern="[^\\x00-\\x1f]+"),
        Whole("at_ms"),
        Text("rule"),
        Text("rule_version", may_pass_luhn=True),
        Whole("alert_at_ms"),
    ),
    key="alert_id",
)
WINDOW_SPAN = ("first_ms", "last_ms")
"""The operands that an alert on a window has besides the rule's measures: the times of its first and last event."""

SEPARATOR = "|"
"""Between the parts of what an alert's id is made from; rules and their versions have none."""


def names(columns: Iterable[Text | Whole | Words | TextMap]) -> tuple[str, ...]:
    """The names of columns, in their order."""
    return tuple(column.name for column in columns)


_PROVENANCE_NAMES = names(PROVENANCE)


def window_result(numbers: Mapping[str, Kind]) -> dict[str, Kind]:
    """The columns of a window result around the keys and measures of its summary."""
    return {"summary": "text", "window_start_ms": "whole", "window_end_ms": "whole", **numbers, "emit_ms": "whole"}


def row(columns: Iterable[str], values: Mapping[str, V]) -> dict[str, V]:
    """The value of each column, in the order of the declaration; refuses a column too few or too many."""
    ordered = dict.fromkeys(columns)
    if values.keys() != ordered.keys():
        if missing := [name for name in ordered if name not in values]:
            raise RuleError(f"no value for the column(s) {', '.join(missing)}; declared are {', '.join(ordered)}")
        unknown = [name for name in values if name not in ordered]
        raise RuleError(f"no such column(s): {', '.join(unknown)}; declared are {', '.join(ordered)}")
    return {name: values[name] for name in ordered}


def provenance(topic: V, partition: V, offset: V, ingest_ms: V) -> dict[str, V]:
    """The columns of an enriched event that name its raw message."""
    return dict(zip(_PROVENANCE_NAMES, (topic, partition, offset, ingest_ms), strict=True))


def operand_name(field: Field) -> str:
    """The name of a field's value among an alert's operands."""
    return f"before_{field.name}" if field.owner == "before" else field.name


def alert_id(rule: str, version: str, key: str, fact: str) -> str:
    """The identity of an alert: the same fact under the same rule gives the same one on every engine.

    The fact is the id of the event, or the start of the window in milliseconds. A key that holds the separator is
    percent-encoded, and a separator comes first: no other identity begins with one.
    """
    if SEPARATOR in key:
        rule, key = f"{SEPARATOR}{rule}", key.replace("%", "%25").replace(SEPARATOR, "%7C")
    return hashlib.sha256(SEPARATOR.join((rule, version, key, fact)).encode()).hexdigest()[:32]
