"""Measures: what a rule remembers of a key's EARLIER events, in order of arrival, and what it counts in a window.

A measure is data: the oracle folds it in plain Python, the engines keep it natively. Nothing remembered yet is null,
except for a count, which is then 0. A measure of a field leaves out the events in which that field is null. A sum of
whole numbers that leaves the 64 bits stays at the limit: what is remembered after each event, a window at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.rules.containers import require_mappings
from millrace.rules.events import SPAN_MOST_MS, WHOLE_MOST, EventType, Real, Text, is_whole, require_name
from millrace.rules.expressions import Expression, Kind, RuleError, condition
from millrace.rules.names import event_names
from millrace.rules.places import placed

EVENTS_MOST = 2**30
"""More events than any window has."""


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
    """The sum of a field."""

    field: str
    op = "sum"


@dataclass(frozen=True)
class Count:
    """How many events there were: in a window those for which `where` holds, of a key those of the last `within_ms`.

    The last: not more than `within_ms` before the newest time that the key has shown, this event included.
    """

    where: Callable[[Any], Any] | None = None
    within_ms: int | None = None

    @property
    def op(self) -> str:
        return "count" if self.within_ms is None else "recent"


@dataclass(frozen=True)
class CountDistinct:
    """How many different values of a field a window has."""

    field: str
    op = "distinct"


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
    """The fields of the last event of another stream that arrived for the same key: `Last(places, "latitude", ...)`.

    In a window: the value of a field in the last event by arrival that has one: `Last("ip")`.
    """

    stream: EventType | None
    fields: tuple[str, ...]
    op = "last"

    def __init__(self, first: EventType | str, *fields: str) -> None:
        of_stream = isinstance(first, EventType)
        object.__setattr__(self, "stream", first if of_stream else None)
        object.__setattr__(self, "fields", fields if of_stream else (first, *fields))


Measure = Max | Min | Sum | Count | CountDistinct | DistinctOthers | Last


def outputs(name: str, measure: Measure, on: EventType) -> dict[str, Kind]:
    """The columns that a measure declared under a name gives a condition, with their kinds."""
    match measure:
        case Last(stream=None, fields=(field,)):
            return {name: on.kind(field)}
        case Last(stream=stream, fields=fields):
            return {f"{name}_{field}": (stream or on).kind(field) for field in fields}
        case Count():
            return {name: "whole"}
        case DistinctOthers(field=field) | CountDistinct(field=field):
            on.kind(field)
            return {name: "whole"}
        case Max(field=field) | Min(field=field) | Sum(field=field):
            return {name: on.kind(field)}


def require_remembered(measures: Mapping[str, Measure], on: EventType, of: str) -> None:
    """Refuse what cannot be remembered of a key."""
    require_mappings(of, '{"n": Count()}', remembers=measures)
    for name, measure in measures.items():
        require_name(of, "measure", name)
        reason = None
        match measure:
            case CountDistinct():
                reason = "is of windows; DistinctOthers counts the values of a key's earlier events"
            case Last(stream=None):
                reason = f"is of windows; name the stream too: Last({on.name}, ...)"
            case Last(fields=fields) if not fields or len({*fields}) < len(fields):
                reason = 'names no field, or one twice; write Last(STREAM, "first", "second")'
            case Count(where=where) if where is not None:
                reason = "is of windows; take `where` away, or declare a rule on windows"
            case Count(within_ms=within_ms) | DistinctOthers(within_ms=within_ms) if within_ms is not None:
                reason = _span_refusal(within_ms, on)
        _require(of, name, measure, on, reason)


def require_windowed(measures: Mapping[str, Measure], on: EventType, of: str) -> None:
    """Refuse what cannot be measured in a window."""
    require_mappings(of, '{"n": Count()}', measures=measures)
    for name, measure in measures.items():
        require_name(of, "measure", name)
        reason = None
        match measure:
            case DistinctOthers():
                reason = "is of a key's earlier events; CountDistinct counts the values in a window"
            case Last(stream=stream, fields=fields) if stream is not None or len(fields) != 1:
                reason = 'takes one field in a window: Last("field")'
            case Count(within_ms=within_ms) if within_ms is not None:
                reason = "takes no within_ms in a window: the window has its own span"
        _require(of, name, measure, on, reason)


def conditions_of(measures: Mapping[str, Measure], on: EventType, of: str) -> dict[str, Expression]:
    """The conditions of the events that counts take, by the names of these counts; one without takes all events."""
    found = {}
    for name, measure in measures.items():
        if isinstance(measure, Count) and measure.where is not None:
            with placed(of, measure.where):
                found[name] = condition(measure.where(event_names(on, of)), f"'{name}'", "where")
    return found


def texts_shown(measures: Mapping[str, Measure], on: EventType) -> dict[str, Text]:
    """The columns of measures that are texts, with the field of each."""
    found: dict[str, Text] = {}
    for name, measure in measures.items():
        data = as_data(name, measure, on)
        stream = (measure.stream or on) if isinstance(measure, Last) else on
        texts = {each.name: each for each in stream.fields if isinstance(each, Text)}
        columns = zip(data["outputs"].items(), data["fields"], strict=False)  # a count has no field
        found |= {column: texts[field] for (column, kind), field in columns if kind == "text"}
    return found


def text_of(measure: Measure, where: Expression | None) -> str:
    """A measure of a window as the text that its rule's version is made of."""
    if isinstance(measure, Count):
        return "Count()" if where is None else f"Count(where={where})"
    if isinstance(measure, Last):
        return f"Last({', '.join(measure.fields)})"
    return repr(measure)


def fits_64_bits(on: EventType, field: str) -> bool:
    """Whether no window can hold so many events that the sum of a field leaves the 64 bits."""
    declared = next(each for each in on.readable if each.name == field)
    most = 0 if isinstance(declared, Real | Text) else max(abs(declared.least), abs(declared.most))
    return most <= WHOLE_MOST // EVENTS_MOST


def signature(measure: Measure, on: EventType) -> str:
    """The measure without the name that a rule gives it: state is kept under its signature, so rules share it."""
    match measure:
        case Last(stream=stream, fields=fields):
            return f"last({(stream or on).name}.{','.join(fields)})"
        case Count(within_ms=None):
            return f"count({on.name})"
        case Count(within_ms=within_ms):
            return f"recent({on.name},{within_ms})"
        case DistinctOthers(field=field, within_ms=within_ms):
            return f"others({on.name}.{field},{within_ms})"
        case Max(field=field) | Min(field=field) | Sum(field=field) | CountDistinct(field=field):
            return f"{measure.op}({on.name}.{field})"


def as_data(name: str, measure: Measure, on: EventType) -> dict[str, Any]:
    """A measure as plain data for the engines' native fold."""
    stream = (measure.stream or on) if isinstance(measure, Last) else on
    fields = measure.fields if isinstance(measure, Last) else (() if isinstance(measure, Count) else (measure.field,))
    within_ms = measure.within_ms if isinstance(measure, Count | DistinctOthers) else None
    return {
        "signature": signature(measure, on),
        "op": measure.op,
        "stream": stream.name,
        "fields": list(fields),
        "kinds": [stream.kind(field) for field in fields],
        "outputs": outputs(name, measure, on),
        "time": on.time if within_ms is not None else None,
        "within_ms": within_ms,
    }


def _require(of: str, name: str, measure: Measure, on: EventType, reason: str | None) -> None:
    if not isinstance(measure, Measure):
        raise RuleError(f"{of}: '{name}' is {measure!r}, which is no measure; write one, such as Count()")
    if isinstance(measure, Sum) and on.kind(measure.field) not in ("whole", "real"):
        reason = f"adds numbers, and {measure.field} is {on.kind(measure.field)}"
    if reason:
        raise RuleError(f"{of}: '{name}': {type(measure).__name__} {reason}")


def _span_refusal(within_ms: Any, on: EventType) -> str | None:
    if not is_whole(within_ms, 1, SPAN_MOST_MS):
        return f"needs within_ms as a whole number of milliseconds from 1 to {SPAN_MOST_MS:,}, not {within_ms!r}"
    return None if on.time else f"needs a time, and events of '{on.name}' have none"
