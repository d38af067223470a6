"""A condition as a small tree: built once from Python's operators, then compiled by each engine to its own expressions.

Null means "cannot judge": comparisons and arithmetic with null give null, `&` and `|` follow SQL's three-valued logic,
and only a condition that is true raises an alert. A computed number that leaves its kind, the 64 bits or the finite
doubles, is null too. A whole number beside a real one counts as the double nearest to it, in comparisons as well.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Protocol
from typing import Literal as OneOf

Kind = OneOf["whole", "real", "text", "flag"]
Value = int | float | str | bool | None
Values = Mapping[str, Mapping[str, Value]]
"""The values of fields by owner and name."""
Meaning = Callable[[Values], Value]

EARTH_RADIUS_KM = 6371.0088  # mean radius, IUGG

_ARITHMETIC = ("+", "-", "*")
_ORDERED = (">", ">=", "<", "<=")
_EQUALITY = ("==", "!=")
_LOGIC = ("&", "|")
_NO_IN = 'write (x == "a") | (x == "b") in place of x in ("a", "b")'


class DeclarationError(ValueError):
    """A declaration, in Python or in a file, that cannot be used; names the place and the remedy."""


class RuleError(DeclarationError):
    """A declaration that does not mean what it looks like; names what to write instead."""


class Expression:
    """Anything a condition is made of; its operators build a bigger tree and compute nothing."""

    kind: Kind

    def __gt__(self, other: Operand) -> Binary:
        return _binary(">", self, other)

    def __ge__(self, other: Operand) -> Binary:
        return _binary(">=", self, other)

    def __lt__(self, other: Operand) -> Binary:
        return _binary("<", self, other)

    def __le__(self, other: Operand) -> Binary:
        return _binary("<=", self, other)

    def __eq__(self, other: object) -> Binary:  # type: ignore[override]  # builds a tree, as in every query library
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Binary:  # type: ignore[override]  # as above
        return _binary("!=", self, other)

    def __add__(self, other: Operand) -> Binary:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> Binary:
        return _binary("+", _operand(other), self)

    def __sub__(self, other: Operand) -> Binary:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> Binary:
        return _binary("-", _operand(other), self)

    def __mul__(self, other: Operand) -> Binary:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> Binary:
        return _binary("*", _operand(other), self)

    def __truediv__(self, other: object) -> NoReturn:
        raise _no_division(self, other)

    def __rtruediv__(self, other: object) -> NoReturn:
        raise _no_division(other, self)

    __floordiv__, __rfloordiv__ = __truediv__, __rtruediv__

    def __mod__(self, other: object) -> NoReturn:
        raise RuleError(f"a condition has no remainder; send {_nested(self)} % {other} as a field of the event")

    def __rmod__(self, other: object) -> NoReturn:
        raise RuleError(f"a condition has no remainder; send {other} % {_nested(self)} as a field of the event")

    def __neg__(self) -> NoReturn:
        raise RuleError(f"a condition has no minus sign before a field; write 0 - {_nested(self)}")

    def __abs__(self) -> NoReturn:
        raise RuleError(f"a condition has no abs(); write ({self} > 5) | ({self} < -5) in place of abs({self}) > 5")

    def __and__(self, other: Operand) -> Binary:
        return _binary("&", self, other)

    def __rand__(self, other: Operand) -> Binary:
        return _binary("&", _operand(other), self)

    def __or__(self, other: Operand) -> Binary:
        return _binary("|", self, other)

    def __ror__(self, other: Operand) -> Binary:
        return _binary("|", _operand(other), self)

    def __invert__(self) -> Not:
        if self.kind != "flag":
            raise RuleError(f"~ needs a condition, but {self} is {_a(self.kind)}; put each comparison in parentheses")
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise RuleError(
            f"({self}) was used as true or false while the rule was being declared: write & | ~ in place of "
            f"and / or / not / if, {_NO_IN}, split a chained comparison such as a < b < c into (a < b) & (b < c), and "
            "put each comparison in parentheses"
        )

    def __hash__(self) -> NoReturn:
        # Python looks a value up in a set by its hash alone, and a field would never be found.
        raise RuleError(f"{self} was looked up in a set or a dictionary while the rule was being declared: {_NO_IN}")

    @cached_property
    def meaning(self) -> Meaning:
        """What computes the value from those of the fields."""
        return _meaning(self)

    def as_data(self) -> dict[str, Any]:
        """The tree as plain data, for an engine that reads it as JSON; `from_data` is the inverse."""
        raise RuleError(f"a node of the kind {type(self).__name__} has no form as data")


@dataclass(frozen=True, eq=False)
class Field(Expression):
    """A value of the event being judged (`now`), remembered from earlier ones (`before`) or of a window (`w`)."""

    owner: str
    name: str
    kind: Kind

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"

    def as_data(self) -> dict[str, Any]:
        return {"node": "field", "owner": self.owner, "name": self.name, "kind": self.kind}


@dataclass(frozen=True, eq=False)
class Literal(Expression):
    """A constant of the rule."""

    value: int | float | str | bool
    kind: Kind

    def __str__(self) -> str:
        return repr(self.value)

    def as_data(self) -> dict[str, Any]:
        return {"node": "literal", "value": self.value, "kind": self.kind}


@dataclass(frozen=True, eq=False)
class Binary(Expression):
    """Two operands and an operator between them."""

    op: str
    left: Expression
    right: Expression
    kind: Kind

    def __str__(self) -> str:
        return f"{_nested(self.left)} {self.op} {_nested(self.right)}"

    def as_data(self) -> dict[str, Any]:
        operands = {"left": self.left.as_data(), "right": self.right.as_data()}
        return {"node": "binary", "op": self.op, **operands, "kind": self.kind}


@dataclass(frozen=True, eq=False)
class Not(Expression):
    """The opposite of a condition."""

    inner: Expression
    kind: Kind = "flag"

    def __str__(self) -> str:
        return f"~{_nested(self.inner)}"

    def as_data(self) -> dict[str, Any]:
        return {"node": "not", "inner": self.inner.as_data(), "kind": self.kind}


@dataclass(frozen=True, eq=False)
class Call(Expression):
    """A function that every engine implements under this name."""

    function: str
    arguments: tuple[Expression, ...]
    kind: Kind

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"

    def as_data(self) -> dict[str, Any]:
        arguments = [argument.as_data() for argument in self.arguments]
        return {"node": "call", "function": self.function, "arguments": arguments, "kind": self.kind}


Operand = Expression | int | float | str | bool


class Place(Protocol):
    """Something with a latitude and a longitude in degrees."""

    @property
    def latitude(self) -> Expression: ...
    @property
    def longitude(self) -> Expression: ...


def km(here: Place, there: Place) -> Call:
    """The great-circle distance in kilometres between two places of a rule."""
    return Call("km", (here.latitude, here.longitude, there.latitude, there.longitude), "real")


def haversine_km(latitude: float, longitude: float, other_latitude: float, other_longitude: float) -> float:
    """The meaning of `km`, in the order of operations that the engines repeat."""
    half_latitude = math.sin(math.radians(other_latitude - latitude) / 2)
    half_longitude = math.sin(math.radians(other_longitude - longitude) / 2)
    chord = half_latitude * half_latitude + (
        math.cos(math.radians(latitude)) * math.cos(math.radians(other_latitude)) * half_longitude * half_longitude
    )
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, chord)))


def value_of(expression: Expression, values: Values) -> Value:
    """The value of an expression, given those of its fields: the meaning of a condition."""
    return expression.meaning(values)


def from_data(data: Mapping[str, Any]) -> Expression:
    """The expression that `as_data` gave."""
    match data:
        case {"node": "field", "owner": owner, "name": name, "kind": kind}:
            return Field(owner, name, kind)
        case {"node": "literal", "value": value, "kind": kind}:
            return Literal(value, kind)
        case {"node": "not", "inner": inner}:
            return Not(from_data(inner))
        case {"node": "binary", "op": op, "left": left, "right": right, "kind": kind}:
            return Binary(op, from_data(left), from_data(right), kind)
        case {"node": "call", "function": function, "arguments": arguments, "kind": kind}:
            return Call(function, tuple(from_data(each) for each in arguments), kind)
    raise RuleError(
        f"no expression has a node '{data.get('node')}' of {', '.join(key for key in data if key != 'node')}; "
        "there are field, literal, not, binary and call"
    )


def fields_of(expression: Expression) -> tuple[Field, ...]:
    """The fields an expression reads, each once, in the order of their appearance."""
    match expression:
        case Field():
            found: tuple[Field, ...] = (expression,)
        case Not(inner=inner):
            found = fields_of(inner)
        case Binary(left=left, right=right):
            found = fields_of(left) + fields_of(right)
        case Call(arguments=arguments):
            found = tuple(field for argument in arguments for field in fields_of(argument))
        case _:
            found = ()
    return tuple({str(field): field for field in found}.values())


def condition(built: object, of: str, argument: str = "alert_when") -> Expression:
    """The lambda's result, if it is a condition."""
    if not isinstance(built, Expression) or built.kind != "flag":
        raise RuleError(f"{of}: {argument} must give a comparison of fields, not {built!r}")
    return built


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def _meaning(expression: Expression) -> Meaning:
    """A node as a function, made of those of the nodes below it."""
    match expression:
        case Field(owner=owner, name=name):
            return lambda values: values[owner][name]
        case Literal(value=value):
            return lambda values: value
        case Binary(op="&", left=left, right=right):
            return _joined(left.meaning, right.meaning, decisive=False)
        case Binary(op="|", left=left, right=right):
            return _joined(left.meaning, right.meaning, decisive=True)
        case Binary(op=op, left=left, right=right):
            sides = left.meaning, right.meaning
            if left.kind != right.kind:  # a whole number beside a real one
                sides = _double(sides[0]), _double(sides[1])
            return _computed(_OPERATIONS[op], *sides) if op in _ARITHMETIC else _compared(_OPERATIONS[op], *sides)
        case Not(inner=inner):
            return _computed(operator.not_, inner.meaning)
        case Call(function="km", arguments=arguments):
            return _computed(haversine_km, *(argument.meaning for argument in arguments))
    raise RuleError(f"{expression} has no meaning in the oracle")


def _joined(left: Meaning, right: Meaning, decisive: bool) -> Meaning:
    """Two conditions, of which one alone decides if it has the value that is `decisive`."""

    def joined(values: Values) -> Value:
        truth = left(values)
        if truth is decisive:
            return decisive
        other = right(values)
        if other is decisive:
            return decisive
        return None if truth is None or other is None else not decisive

    return joined


def _double(number: Meaning) -> Meaning:
    def double(values: Values) -> Value:
        found = number(values)
        return None if found is None else float(found)

    return double


def _compared(comparison: Callable[..., Value], left: Meaning, right: Meaning) -> Meaning:
    def compared(values: Values) -> Value:
        one, other = left(values), right(values)
        return None if one is None or other is None else comparison(one, other)

    return compared


def _computed(operation: Callable[..., Value], *operands: Meaning) -> Meaning:
    def computed(values: Values) -> Value:
        given = [operand(values) for operand in operands]
        if None in given:
            return None
        found = operation(*given)
        if isinstance(found, float):
            return found + 0.0 if math.isfinite(found) else None  # -0.0 + 0.0 is 0.0
        return None if type(found) is int and not _fits(found) else found

    return computed


def _fits(value: int) -> bool:
    """Whether a whole number is one of the 64 bits that engines compute with."""
    return -(2**63) <= value < 2**63


def _binary(op: str, left: Expression, right: object) -> Binary:
    other = _operand(right)
    kinds = {left.kind, other.kind}
    if op in _LOGIC:
        if kinds != {"flag"}:
            raise RuleError(
                f"{op} joins two conditions, but got ({left}) {op} ({other}); put each comparison in parentheses"
            )
        return Binary(op, left, other, "flag")
    if op in _EQUALITY:
        if len(kinds) > 1 and kinds != {"whole", "real"}:
            raise RuleError(f"{left} is {_a(left.kind)} and {other} is {_a(other.kind)}: they can never be equal")
        return Binary(op, left, other, "flag")
    if not kinds <= {"whole", "real"}:
        raise RuleError(f"{op} needs numbers, but got {left} ({left.kind}) {op} {other} ({other.kind})")
    if op in _ORDERED:
        return Binary(op, left, other, "flag")
    return Binary(op, left, other, "real" if "real" in kinds else "whole")


def _operand(value: object) -> Expression:
    match value:
        case Expression():
            return value
        case None:
            raise RuleError("a rule compares nothing with None: a comparison with null is null, and never alerts")
        case bool():
            return Literal(value, "flag")
        case int() if _fits(value):
            return Literal(value, "whole")
        case float() if math.isfinite(value):
            return Literal(value, "real")
        case str():
            return Literal(value, "text")
    raise RuleError(
        f"a rule compares fields with texts, finite numbers and whole numbers of 64 bits, not with {value!r}"
    )


def _no_division(left: object, right: object) -> RuleError:
    above, below = _nested(left), _nested(right)
    return RuleError(f"a condition has no division; write {above} > 5 * {below} in place of {above} / {below} > 5")


def _nested(operand: object) -> str:
    return f"({operand})" if isinstance(operand, Binary) else str(operand)


def _a(kind: str) -> str:
    return {"flag": "a condition", "text": "a text"}.get(kind, "a number")
