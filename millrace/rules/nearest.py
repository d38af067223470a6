"""The remedy for a mistyped name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is spelled most like this one, as a question; or all known names."""
    names = list(known)
    near = get_close_matches(name, names, 1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"choose one of: {', '.join(names)}" if names else "there is none"
