"""Tuples and mappings of a declaration, and the plain data of a step's state.

A forgotten comma leaves one thing where a tuple is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millrace.rules.expressions import RuleError


def require_tuples(of: str, **given: object) -> None:
    """Refuse what is not a tuple: without its comma `(rule)` is the rule, and `("key")` is three letters."""
    for name, value in given.items():
        if isinstance(value, tuple | list):
            continue
        kind = "text" if isinstance(value, str) else type(value).__name__
        if isinstance(value, Iterable) and not isinstance(value, str):
            raise RuleError(f"{of}: {name} is a {kind}, not a tuple; write {name}=(FIRST, SECOND)")
        one = f'"{value}"' if isinstance(value, str) else f"{kind}(...)"
        raise RuleError(f"{of}: {name} is one {kind}, not a tuple; write {name}=({one},)")


def require_mappings(of: str, example: str, **given: object) -> None:
    """Refuse what is not a mapping, such as a set of names."""
    for name, value in given.items():
        if not isinstance(value, Mapping):
            raise RuleError(f"{of}: {name} is a {type(value).__name__}, not a mapping; write {name}={example}")


_SINGLE = frozenset({str, int, float, bool, type(None)})


def require_plain(of: str, state: object) -> None:
    """Refuse a state that an engine, which keeps it as JSON text, would read otherwise than it was written."""
    if found := _unlike_json(state):
        raise RuleError(
            f"{of}: the state that its step returned is not plain JSON data: state{found}; an engine would read it "
            "otherwise, so keep dicts with keys of text, lists, texts, numbers, booleans and None only"
        )


def _unlike_json(value: object) -> str:
    """Where in a value is what JSON has no equal of, and what it is; empty if nothing is."""
    kind = type(value)
    if kind in _SINGLE:
        return ""
    inside: Iterable[tuple[object, object]]
    values: Iterable[object]
    if isinstance(value, dict) and kind is dict:
        for key in value:
            if type(key) is not str:
                return f" has the key {key!r}, which is not text"
        inside, values = value.items(), value.values()
    elif isinstance(value, list) and kind is list:
        inside, values = enumerate(value), value
    else:
        return f" is of the type {kind.__name__}"
    if _SINGLE.issuperset(map(type, values)):  # most are; this is ten times as fast as a call for each
        return ""
    return next((f"[{at!r}]{found}" for at, each in inside if (found := _unlike_json(each))), "")
