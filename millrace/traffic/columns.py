"""A column map: how the lines of a recorded CSV file of a known format become events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.rules import EventType

Row = Mapping[str, str]


@dataclass(frozen=True)
class Columns:
    """The header that a file must have, and what is taken from its columns.

    A function that raises ValueError marks a line that cannot be parsed.
    """

    event: EventType
    header: tuple[str, ...]
    at_ms: Callable[[Row], int]
    """The time of a line, in milliseconds since 1970."""
    fields: Mapping[str, str | Callable[[Row], Any]]
    """Field -> its column, or a function of the line; a field whose column is empty, or that is None, is left out."""
    aligned_ms: int = 1
    """Times move by a multiple of it: windows of which it is one hold the events that they held in the file."""
    is_quoted: bool = True
    """Whether quotes may enclose commas; if not, a stray quote is an ordinary character."""
