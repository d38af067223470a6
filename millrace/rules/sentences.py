"""Conditions and measures as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from millrace.rules.expressions import Binary, Call, Expression, Field, Literal, Not, Value, fields_of, value_of
from millrace.rules.measures import Count, DistinctOthers, Last, Max, Measure, Min, Sum
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
_COMPARISONS = frozenset({">", ">=", "<", "<=", "==", "!="})
_FUNCTIONS = {"km": "the distance in km between {}"}


Shown = Callable[[Expression], str]


def phrased(expression: Expression, phrases: Mapping[tuple[str, str], str], shown: Shown = lambda each: "") -> str:
    """The expression in words: each field by its phrase, or else by its name.

    `shown` gives what follows each side of a comparison.
    """
    match expression:
        case Field(owner=owner, name=name):
            return phrases.get((owner, name), f"the {words(name)}")
        case Literal(value=value):
            return str(value)
        case Not(inner=inner):
            return f"it is not so that {phrased(inner, phrases, shown)}"
        case Binary(op=op, left=left, right=right) if op in _COMPARISONS:
            return f"{phrased(left, phrases)}{shown(left)} {_WORDS[op]} {phrased(right, phrases)}{shown(right)}"
        case Binary(op=op, left=left, right=right):
            return f"{phrased(left, phrases, shown)} {_WORDS[op]} {phrased(right, phrases, shown)}"
        case Call(function=function, arguments=arguments):
            return _FUNCTIONS[function].format(_places(arguments, phrases))
    return str(expression)


def values_shown(operands: Mapping[str, str | None]) -> Shown:
    """Shows the value that each side of a comparison had, from the operands of an alert."""

    def shown(expression: Expression) -> str:
        fields = fields_of(expression)
        values = {(field.owner, field.name): _value(field, operands.get(operand_name(field))) for field in fields}
        value = value_of(expression, values) if fields and None not in values.values() else None
        if value is None:
            return ""
        if isinstance(expression, Field) and expression.name.endswith("_cents"):
            return f" ({float(value) / 100:.2f})"
        return f" ({value:.6g})" if isinstance(value, float) else f" ({value})"

    return shown


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
    """What a measure remembers or counts, in words."""
    match measure:
        case Max(field=field):
            return f"the largest {words(field)} of the {key}'s earlier events"
        case Min(field=field):
            return f"the smallest {words(field)} of the {key}'s earlier events"
        case Sum(field=field):
            return f"the sum of the {words(field)}"
        case Count():
            return "the number of events"
        case DistinctOthers(field=field, within_ms=within_ms):
            return f"the number of other values of {words(field)} that the {key} showed in the last {within_ms} ms"
        case Last(stream=stream):
            return f"the {words(column)} of the {key}'s last event on {stream.name}"


def words(name: str) -> str:
    """A field's name as words."""
    return name.replace("_", " ")


def _places(arguments: tuple[Expression, ...], phrases: Mapping[tuple[str, str], str]) -> str:
    here, there = arguments[0], arguments[2]
    return f"{_owner(here, phrases)} and {_owner(there, phrases)}"


def _owner(latitude: Expression, phrases: Mapping[tuple[str, str], str]) -> str:
    phrase = phrased(latitude, phrases)
    return "this event" if phrase == "the latitude" else phrase.removeprefix("the latitude of ")
