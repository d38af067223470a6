"""Kafka topics as Flink tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from millrace.engines.flink.expressions import interval, quoted, text
from millrace.engines.flink.tuning import DISORDER_MARGIN_MS, SINK_OPTIONS
from millrace.patterns import EnginePlan
from millrace.rules import EventType, UseCase

ARRIVALS, REFERENCES = "arrivals", "references"
TYPES = {"text": "STRING", "whole": "BIGINT", "real": "DOUBLE", "flag": "BOOLEAN"}

# What the source adds to an event's own fields; no field of an event may begin with an underscore.
STREAM, BACKLOG, BEHIND, REFUSED, VALUE, TOPIC, PARTITION, OFFSET, INGEST_MS, AT = (
    "_stream",
    "_backlog",
    "_behind",
    "_refused",
    "_value",
    "_topic",
    "_partition",
    "_offset",
    "_ingest_ms",
    "_at",
)
ADDED = (BACKLOG, BEHIND, VALUE, TOPIC, PARTITION, OFFSET, INGEST_MS)
"""Those of them that an event keeps through the whole job."""


def columns_of(use: UseCase, stream: EventType) -> dict[str, str]:
    """The column of each field of a raw stream; the keys of all streams are in the column of the judged one's."""
    if stream is use.judged:
        return {f.name: f.name for f in stream.readable}
    return {f.name: use.judged.key if f.name == stream.key else f"{stream.name}.{f.name}" for f in stream.readable}


def columns_of_streams(use: UseCase) -> dict[str, dict[str, str]]:
    """For each raw stream, the column of each field."""
    return {stream.name: columns_of(use, stream) for stream in use.raw}


def arrivals(name: str, plan: EnginePlan) -> str:
    """The table of all raw topics: every message in the order of its arrival; `_refused` has the reason of a refusal.

    Only judged events move event time, and none moves it beyond its own arrival: a device whose clock is ahead must
    not make the events of others late.
    """
    # Of the same millisecond, side streams come before the judged event.
    streams = (*plan.use.others, plan.use.judged)
    delay = interval(plan.use.disorder_ms + DISORDER_MARGIN_MS)
    watermark = f"WATERMARK FOR {AT} AS LEAST({AT}, TO_TIMESTAMP_LTZ({INGEST_MS}, 3)) - {delay}"
    return _arrivals(name, plan, streams, [watermark])


def references(name: str, plan: EnginePlan) -> str:
    """The table of all reference topics, read for refusals only: lookups read their references themselves."""
    return _arrivals(name, plan, plan.use.references, [])


def _arrivals(name: str, plan: EnginePlan, streams: Sequence[EventType], time: Sequence[str]) -> str:
    use = plan.use
    fields = {columns_of(use, stream)[f.name]: TYPES[f.kind] for stream in streams for f in stream.readable}
    columns = [
        *(f"{quoted(column)} {sql_type}" for column, sql_type in fields.items()),
        f"{STREAM} STRING",
        f"{BACKLOG} BOOLEAN",
        f"{BEHIND} BOOLEAN",
        f"{TOPIC} STRING",
        f"{PARTITION} INT",
        f"{OFFSET} BIGINT",
        f"{INGEST_MS} BIGINT",
        f"{AT} TIMESTAMP_LTZ(3)",
        f"{REFUSED} STRING",
        f"{VALUE} BYTES",
        *time,
    ]
    declared = [
        {
            "stream": stream.name,
            "topic": plan.topics[stream.name],
            "event": json.dumps(stream.reader()),
            "time": stream.time,
            "columns": columns_of(use, stream),
            "keeps": stream is use.judged,
            "deletes": stream in use.references,
        }
        for stream in streams
    ]
    options = {
        "connector": "millrace-arrivals",
        "bootstrap": plan.bootstrap,
        "group": plan.pattern,
        "streams": json.dumps(declared),
        "leads": use.judged.name,
        "live-ms": str(use.disorder_ms // 2),
        "disorder-ms": str(use.disorder_ms),
    }
    if plan.accepted:
        options["accepted"] = json.dumps([each.plain() for each in plan.accepted])
    return _table(name, columns, options)


def sink(name: str, event_type: EventType, topic: str, bootstrap: str, metadata: Sequence[str] = ()) -> str:
    """The table of a topic that the job writes, with the key of its event type; metadata is not in its values."""
    columns = [f"{quoted(f.name)} {_type(f)}" for f in event_type.fields]
    return sink_of(name, [*columns, *metadata], event_type.key, topic, bootstrap)


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


def _type(field: object) -> str:
    kind = getattr(field, "kind", None)
    if kind is not None:
        return TYPES[kind]
    return "ARRAY<STRING>" if type(field).__name__ == "Words" else "MAP<STRING, STRING>"


def _table(name: str, columns: list[str], options: Mapping[str, str]) -> str:
    listed = ",\n  ".join(columns)
    settings = ",\n  ".join(f"{text(option)} = {text(value)}" for option, value in options.items())
    return f"CREATE TEMPORARY TABLE {quoted(name)} (\n  {listed}\n) WITH (\n  {settings}\n)"
