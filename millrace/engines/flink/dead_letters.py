"""Dead letters as Flink SQL: every message that is not judged or not counted, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.engines.flink import events, windows
from millrace.engines.flink.expressions import quoted, text
from millrace.engines.flink.topics import INGEST_MS, OFFSET, PARTITION, REFERENCES, REFUSED, TOPIC, VALUE
from millrace.patterns import EnginePlan
from millrace.rules.outputs import DEAD_LETTERS, DUPLICATE, LATE, row

EVENTS, WINDOWS = "events", "windows"
"""The stages that refuse a message."""


def dead_letters(plan: EnginePlan) -> Iterator[str]:
    """A query for each place of the job that refuses messages."""
    reason = events.refusal(plan.use)
    yield _refused(reason, EVENTS, events.arrived(plan.use), f"{reason} IS NOT NULL")
    if plan.use.references:
        yield _refused(REFUSED, EVENTS, quoted(REFERENCES), f"{REFUSED} IS NOT NULL")
    if plan.use.judged.id:
        yield _refused(text(DUPLICATE), EVENTS, events.REMEMBERED, events.DUPLICATE)
    if windows.has_windows(plan):
        yield _refused(text(LATE), WINDOWS, windows.TIMED, windows.LATE)


def _refused(reason: str, stage: str, view: str, condition: str) -> str:
    values = {
        "reason": reason,
        "topic": TOPIC,
        "partition": PARTITION,
        "offset": OFFSET,
        "ingest_ms": INGEST_MS,
        "stage": text(stage),
        "value_base64": f"base64({VALUE})",
    }
    columns = ", ".join(row(DEAD_LETTERS.names, values).values())
    return f"SELECT {columns} FROM {view} WHERE {condition}"
