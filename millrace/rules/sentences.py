"""Conditions and measures as sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from millrace.rules import figures
from millrace.rules.expressions import Binary, Call, Expression, Field, Literal, Not, Value, fields_of, value_of
from millrace.rules.measures import Count, CountDistinct, DistinctOthers, Last, Max, Measure, Min, Sum
from millrace.rules.outputs import operand_name

_WORDS = {
    ">": "is greater than",
    ">=": "is at least",
    "<": "is less than",
    "<=": "is at most",
    "==": "is",
    "!=": "is not",
    "&": "and",
    "|": "or",
    "+": "plus",
    "-": "minus",
    "*": "times",
}
_EQUALITY = frozenset({"==", "!="})
_COMPARISONS = _EQUALITY | {">", ">=", "<", "<="}
_BOUNDS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Each, and what it is of the negated numbers."""
_FUNCTIONS = {"km": "the distance between {}"}
_PLAIN = "plain"
"""The unit of whole numbers that are only equal or not: they may be codes, which have no thousands."""


Shown = Callable[[Expression, Expression, str], str]
"""What follows one side of a comparison, beside the other one, in their unit."""


def phrased(expression: Expression, phrases: Mapping[tuple[str, str], str], shown: Shown = lambda *each: "") -> str:
    """The expression in words: each field by its phrase, or else by its name."""
    match expression:
        case Field(owner=owner, name=name):
            return phrases.get((owner, name), f"the {words(name)}")
        case Literal():
            return _constant(expression, "")
        case Not(inner=inner):
            return f"not ({phrased(inner, phrases, shown)})"
        case Binary(op=op, left=Binary(op="-") as difference, right=Literal(value=int(limit_ms))) if (
            op in _BOUNDS and _is_span(difference)
        ):
            return _apart(op, difference, limit_ms, phrases, shown)
        case Binary(op=op, left=left, right=right) if op in _COMPARISONS:
            of = _unit(left) or _unit(right) or (_PLAIN if op in _EQUALITY else "")
            here, there = _side(left, of, phrases), _side(right, of, phrases)
            return f"{here}{shown(left, right, of)} {_WORDS[op]} {there}{shown(right, left, of)}"
        case Binary(op=op, left=left, right=right) if op in ("+", "-"):
            of = _unit(expression)
            return f"{_side(left, of, phrases)} {_WORDS[op]} {_side(right, of, phrases)}"
        case Binary(op=op, left=left, right=right):
            return f"{phrased(left, phrases, shown)} {_WORDS[op]} {phrased(right, phrases, shown)}"
        case Call(function=function, arguments=arguments):
            return _FUNCTIONS[function].format(_places(arguments, phrases))
    return str(expression)


def _side(side: Expression, of: str, phrases: Mapping[tuple[str, str], str]) -> str:
    """One side of a comparison; a number takes the unit of what it is compared with."""
    return _constant(side, of) if isinstance(side, Literal) else phrased(side, phrases)


def _constant(literal: Literal, of: str) -> str:
    value = literal.value
    if isinstance(value, (bool, str)):
        return str(value)
    if of == "ms" and abs(value) < figures.MOMENTS_FROM_MS:
        return span(int(value))
    return str(value) if of == _PLAIN and isinstance(value, int) else figures.exact(value, of)


def _unit(expression: Expression) -> str:
    """The unit of a value; none where the declaration gives none."""
    match expression:
        case Field(name=name):
            return figures.unit(name)
        case Call(function=function):
            return figures.unit(function)
        case Binary(op=op, left=left, right=right) if op in ("+", "-", "*"):
            found = [each for each in (_unit(left), _unit(right)) if each]
            return found[0] if len(found) == 1 or (op != "*" and len(set(found)) == 1) else ""
    return ""


def _is_span(expression: Expression) -> bool:
    """Whether it is how far one time is from another."""
    match expression:
        case Binary(op="-", left=left, right=right):
            return _unit(left) == _unit(right) == "ms"
    return False


def _apart(op: str, times: Binary, limit_ms: int, phrases: Mapping[tuple[str, str], str], shown: Shown) -> str:
    """How far one time is from another: `a - b >= -10_000` is "a is at most 10 seconds before b"."""
    bound, order = (op, "after") if limit_ms >= 0 else (_BOUNDS[op], "before")
    bounds = {"<=": "at most", "<": "less than", ">=": "at least", ">": "more than"}
    first, second = phrased(times.left, phrases), phrased(times.right, phrases)
    value = shown(times, Literal(limit_ms, "whole"), "ms").replace(f" {order})", ")")
    return f"{first} is {bounds[bound]} {span(abs(limit_ms))} {order} {second}{value}"


def span(ms: int) -> str:
    """A span of time in the largest unit of which it is a whole number."""
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if ms and ms % size == 0:
            return f"{ms // size} {unit}{'' if ms == size else 's'}"
    return f"{ms} ms"


def values_shown(operands: Mapping[str, str | None]) -> Shown:
    """Shows the value that each side of a comparison had, from the operands of an alert."""

    def computed(expression: Expression) -> Value:
        fields = fields_of(expression)
        values: dict[str, dict[str, Value]] = {field.owner: {} for field in fields}
        for field in fields:
            values[field.owner][field.name] = _value(field, operands.get(operand_name(field)))
        return None if any(None in own.values() for own in values.values()) else value_of(expression, values)

    def shown(side: Expression, other: Expression, of: str) -> str:
        value, beside = computed(side), computed(other)
        if value is None or not fields_of(side):
            return ""
        if isinstance(value, (bool, str)) or (of == _PLAIN and isinstance(value, int)):
            return f" ({value})"
        compared = None if isinstance(beside, (bool, str)) else beside
        if not _is_span(side):
            return f" ({figures.in_unit(value, of, compared)})"
        distance = figures.in_unit(abs(value), of, None if compared is None else abs(compared))
        return f" ({distance} {'after' if value >= 0 else 'before'})"

    return shown


def named(name: str, value: str | None) -> str:
    """A value of an alert with its name, in its unit."""
    try:
        number = float(value or "")
    except ValueError:
        number = math.nan
    is_measured = figures.unit(name) and math.isfinite(number)
    return f"{words(name)} {figures.in_unit(number, figures.unit(name)) if is_measured else value}"


def _value(field: Field, text: str | None) -> Value:
    if text is None:
        return None
    match field.kind:
        case "whole":
            return int(text)
        case "real":
            return float(text)
        case "flag":
            return str(text).lower() == "true"
    return text


def measure_phrase(column: str, measure: Measure, key: str) -> str:
    """What a measure remembers of a key, in words."""
    match measure:
        case Max(field=field):
            return f"the largest {words(field)} of the {key}'s earlier events"
        case Min(field=field):
            return f"the smallest {words(field)} of the {key}'s earlier events"
        case Sum(field=field):
            return f"the sum of the {words(field)} of the {key}'s earlier events"
        case Count(within_ms=None):
            return f"the number of the {key}'s earlier events"
        case Count(within_ms=int(within_ms)):
            return f"the number of the {key}'s earlier events in the last {span(within_ms)}"
        case DistinctOthers(field=field, within_ms=within_ms):
            return f"the number of other values of {words(field)} of the {key} in the last {span(within_ms)}"
        case Last(stream=stream):
            return f"the {words(column)} of the {key}'s last event on {stream.name if stream else 'its stream'}"
    return words(column)


def window_phrase(column: str, measure: Measure, where: Expression | None) -> str:
    """What a measure counts in a window, in words."""
    match measure:
        case Max(field=field):
            return f"the largest {words(field)}"
        case Min(field=field):
            return f"the smallest {words(field)}"
        case Sum(field=field):
            return f"the sum of the {words(field)}"
        case Count():
            return "the number of events" if where is None else f"the number of events where {phrased(where, {})}"
        case CountDistinct(field=field):
            return f"the number of different values of {words(field)}"
        case Last(fields=(field, *_)):
            return f"the {words(field)} of the last event"
    return words(column)


def words(name: str) -> str:
    """A field's name as words, without its unit."""
    known = {"at_ms": "time"}.get(name, name.removesuffix("_ms").removesuffix("_cents"))
    return known.replace("_", " ")


def _places(arguments: tuple[Expression, ...], phrases: Mapping[tuple[str, str], str]) -> str:
    here, there = arguments[0], arguments[2]
    return f"{_owner(here, phrases)} and {_owner(there, phrases)}"


def _owner(latitude: Expression, phrases: Mapping[tuple[str, str], str]) -> str:
    phrase = phrased(latitude, phrases)
    return "this event" if phrase == "the latitude" else phrase.removeprefix("the latitude of ")
