"""The tree of a condition as Flink SQL."""

from __future__ import annotations

from collections.abc import Callable

from millrace.rules.expressions import Binary, Call, Expression, Field, Kind, Literal, Not, RuleError

_OPERATORS = {"==": "=", "!=": "<>", "&": "AND", "|": "OR"}
_FUNCTIONS = {"km": "km"}


def compiled(expression: Expression, column: Callable[[Field], str]) -> str:
    """The expression as SQL text; `column` gives the column of a field. Rules have SQL's three-valued logic."""
    match expression:
        case Field():
            return quoted(column(expression))
        case Literal(kind="text", value=value):
            return text(str(value))
        case Literal(kind="flag", value=value):
            return "TRUE" if value else "FALSE"
        case Literal(kind="whole", value=value):
            return f"CAST({value} AS BIGINT)"
        case Literal(value=value):
            # A plain 0.1 would be an exact DECIMAL, and Python's floats are not.
            return f"CAST('{float(value)!r}' AS DOUBLE)"
        case Not(inner=inner):
            return f"(NOT {compiled(inner, column)})"
        case Binary(op="+" | "-" | "*" as op, kind=kind):
            left, right = (_of_kind(kind, each, column) for each in (expression.left, expression.right))
            return f"compute('{op}', {left}, {right})"
        case Binary(op=op, left=left, right=right):
            return f"({compiled(left, column)} {_OPERATORS.get(op, op)} {compiled(right, column)})"
        case Call(function=function, arguments=arguments) if function in _FUNCTIONS:
            return f"{_FUNCTIONS[function]}({', '.join(compiled(each, column) for each in arguments)})"
    raise RuleError(f"{expression} has no equivalent in Flink SQL")


def _of_kind(kind: Kind, number: Expression, column: Callable[[Field], str]) -> str:
    own = compiled(number, column)
    return own if number.kind == kind else f"CAST({own} AS DOUBLE)"


def quoted(name: str) -> str:
    """A name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A text as a literal."""
    return "'" + value.replace("'", "''") + "'"


def interval(ms: int) -> str:
    """A length of time as a literal."""
    return f"INTERVAL '{ms / 1000:.3f}' SECOND({len(str(ms // 1000))}, 3)"
