"""Tuples and mappings of a declaration; a forgotten comma leaves one thing where a tuple is needed."""

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
