"""Kafka topics as Flink tables."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pipelines.flink.expressions import interval, quoted, text
from pipelines.flink.tuning import SINK_OPTIONS, WATERMARK_DELAY_MS
from pipelines.rules import EventType

TYPES = {"text": "STRING", "whole": "BIGINT", "real": "DOUBLE", "flag": "BOOLEAN"}

# What the source adds to an event's own fields; no field of an event may begin with an underscore.
REFUSED, VALUE, TOPIC, PARTITION, OFFSET, INGEST_MS, AT = (
    "_refused",
    "_value",
    "_topic",
    "_partition",
    "_offset",
    "_ingest_ms",
    "_at",
)
ADDED = (VALUE, TOPIC, PARTITION, OFFSET, INGEST_MS)
"""What of it goes all the way with an event."""


def source(name: str, event_type: EventType, topic: str, bootstrap: str, group: str, leads: bool) -> str:
    """The table of a raw topic: every message, read and checked, with the reason in `_refused` if it is refused.

    Only a source that leads moves event time.
    """
    refused = _refused(event_type)
    at_ms = f"CASE WHEN {refused} IS NULL THEN {quoted(event_type.time or '')} ELSE 0 END"
    columns = [
        *(f"{quoted(f.name)} {TYPES[f.kind]}" for f in event_type.readable),
        "`_reason` STRING",
        f"{VALUE} BYTES",
        f"{TOPIC} STRING METADATA FROM 'topic' VIRTUAL",
        f"{PARTITION} INT METADATA FROM 'partition' VIRTUAL",
        f"{OFFSET} BIGINT METADATA FROM 'offset' VIRTUAL",
        "_arrived TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL",
        f"{INGEST_MS} AS millis(_arrived)",
        f"{REFUSED} AS {refused}",
        f"{AT} AS TO_TIMESTAMP_LTZ({at_ms}, 3)",
        f"WATERMARK FOR {AT} AS {AT} - {interval(WATERMARK_DELAY_MS)}",
    ]
    options = {
        "connector": "kafka" if leads else "millrace-side-stream",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "properties.group.id": group,
        "properties.auto.offset.reset": "earliest",
        "scan.startup.mode": "earliest-offset",
        "scan.topic-partition-discovery.interval": "0",  # the partitions of a topic are fixed by its pattern
        "format": "millrace-event",
        "millrace-event.declaration": json.dumps(event_type.reader()),
    }
    return _table(name, columns, options)


def sink(name: str, event_type: EventType, topic: str, bootstrap: str) -> str:
    """The table of a topic that the job writes, keyed as its event type says."""
    columns = [f"{quoted(f.name)} {_type(f)}" for f in event_type.fields]
    return sink_of(name, columns, event_type.key, topic, bootstrap)


def sink_of(name: str, columns: list[str], key: str, topic: str, bootstrap: str) -> str:
    """The table of a topic with these columns as JSON."""
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "key.format": "raw",
        "key.fields": key,
        "value.format": "json",
        "value.fields-include": "ALL",
        **SINK_OPTIONS,
    }
    return _table(name, columns, options)


def _refused(event_type: EventType) -> str:
    if event_type.time is None:
        return "`_reason`"
    time = quoted(event_type.time)
    return (
        "CASE WHEN `_reason` IS NOT NULL THEN `_reason` "
        f"WHEN {time} < millis(_arrived) - {event_type.past_ms} THEN {text('past:' + event_type.time)} "
        f"WHEN {time} > millis(_arrived) + {event_type.future_ms} THEN {text('future:' + event_type.time)} END"
    )


def _type(field: object) -> str:
    kind = getattr(field, "kind", None)
    if kind is not None:
        return TYPES[kind]
    return "ARRAY<STRING>" if type(field).__name__ == "Words" else "MAP<STRING, STRING>"


def _table(name: str, columns: list[str], options: Mapping[str, str]) -> str:
    listed = ",\n  ".join(columns)
    settings = ",\n  ".join(f"{text(option)} = {text(value)}" for option, value in options.items())
    return f"CREATE TEMPORARY TABLE {quoted(name)} (\n  {listed}\n) WITH (\n  {settings}\n)"
