"""Measures: what a rule remembers of a key's EARLIER events, in order of arrival, and what it counts in a window.

A measure is data: the oracle folds it in plain Python, the engines keep it natively. Nothing remembered yet is null,
except for a count, which is then 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.rules.events import EventType
from millrace.rules.expressions import Kind


@dataclass(frozen=True)
class Max:
    """The largest value of a field."""

    field: str
    op = "max"


@dataclass(frozen=True)
class Min:
    """The smallest value of a field."""

    field: str
    op = "min"


@dataclass(frozen=True)
class Sum:
    """The sum of a whole-number field."""

    field: str
    op = "sum"


@dataclass(frozen=True)
class Count:
    """How many events there were."""

    op = "count"


@dataclass(frozen=True)
class DistinctOthers:
    """How many values of a field, other than this event's own, earlier events had lately.

    Lately: not more than `within_ms` before the newest time that the key has shown, this event included.
    """

    field: str
    within_ms: int
    op = "others"


@dataclass(frozen=True)
class Last:
    """The fields of the last event of another stream that arrived for the same key."""

    stream: EventType
    fields: tuple[str, ...]
    op = "last"

    def __init__(self, stream: EventType, *fields: str) -> None:
        object.__setattr__(self, "stream", stream)
        object.__setattr__(self, "fields", fields)


Measure = Max | Min | Sum | Count | DistinctOthers | Last
WindowMeasure = Max | Min | Sum | Count


def outputs(name: str, measure: Measure, on: EventType) -> dict[str, Kind]:
    """The columns that a measure declared under a name gives a condition, with their kinds."""
    match measure:
        case Last(stream=stream, fields=fields):
            return {f"{name}_{field}": stream.kind(field) for field in fields}
        case Count():
            return {name: "whole"}
        case DistinctOthers(field=field):
            on.kind(field)
            return {name: "whole"}
        case Max(field=field) | Min(field=field) | Sum(field=field):
            return {name: on.kind(field)}


def signature(measure: Measure, on: EventType) -> str:
    """The measure without the name that a rule gives it: state is kept under its signature, so rules share it."""
    match measure:
        case Last(stream=stream, fields=fields):
            return f"last({stream.name}.{','.join(fields)})"
        case Count():
            return f"count({on.name})"
        case DistinctOthers(field=field, within_ms=within_ms):
            return f"others({on.name}.{field},{within_ms})"
        case Max(field=field) | Min(field=field) | Sum(field=field):
            return f"{measure.op}({on.name}.{field})"


def as_data(name: str, measure: Measure, on: EventType) -> dict[str, Any]:
    """A measure as plain data for the engines' native fold."""
    stream = measure.stream if isinstance(measure, Last) else on
    fields = measure.fields if isinstance(measure, Last) else (() if isinstance(measure, Count) else (measure.field,))
    return {
        "signature": signature(measure, on),
        "op": measure.op,
        "stream": stream.name,
        "fields": list(fields),
        "kinds": [stream.kind(field) for field in fields],
        "outputs": outputs(name, measure, on),
        "time": on.time if isinstance(measure, DistinctOthers) else None,
        "within_ms": measure.within_ms if isinstance(measure, DistinctOthers) else None,
    }
