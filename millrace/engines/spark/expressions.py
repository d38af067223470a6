"""The tree of a condition as a Spark column."""

from __future__ import annotations

import math
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from millrace.rules.expressions import EARTH_RADIUS_KM, Binary, Call, Expression, Field, Literal, Not, RuleError

# Not the plain operators: a number that overflows would come out wrong.
_ARITHMETIC = {"+": F.try_add, "-": F.try_subtract, "*": F.try_multiply}


def compiled(expression: Expression, column: Callable[[Field], Column]) -> Column:
    """The expression as a column; `column` gives the column of a field. Rules have SQL's three-valued logic."""
    match expression:
        case Field():
            return column(expression)
        case Literal(kind="whole", value=value):
            return F.lit(value).cast("long")
        case Literal(value=value):
            return F.lit(value)
        case Not(inner=inner):
            return ~compiled(inner, column)
        case Binary(op=op, left=left, right=right, kind="real"):
            return _finite(_binary(op, compiled(left, column), compiled(right, column)))
        case Binary(op=op, left=left, right=right):
            return _binary(op, compiled(left, column), compiled(right, column))
        case Call(function="km", arguments=arguments):
            return _finite(_km(*(compiled(each, column) for each in arguments)))
    raise RuleError(f"{expression} has no equivalent in Spark columns")


def _binary(op: str, left: Column, right: Column) -> Column:
    match op:
        case "+" | "-" | "*":
            return _ARITHMETIC[op](left, right)
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case "==":
            return left == right
        case "!=":
            return left != right
        case "&":
            return left & right
        case "|":
            return left | right
    raise RuleError(f"the operator {op} has no equivalent in Spark columns")


def _finite(value: Column) -> Column:
    """The number without the sign of a zero, or null; NaN is no less than infinity to Spark."""
    return F.when(F.abs(value) < math.inf, value + 0.0)


def _km(latitude: Column, longitude: Column, other_latitude: Column, other_longitude: Column) -> Column:
    half_latitude = F.sin(F.radians(other_latitude - latitude) / 2)
    half_longitude = F.sin(F.radians(other_longitude - longitude) / 2)
    chord = half_latitude * half_latitude + (
        F.cos(F.radians(latitude)) * F.cos(F.radians(other_latitude)) * half_longitude * half_longitude
    )
    # Not least(): it skips a null, and an unknown place would be half the globe away.
    within_one = F.when(chord > 1.0, F.lit(1.0)).otherwise(chord)
    return 2 * EARTH_RADIUS_KM * F.asin(F.sqrt(within_one))
