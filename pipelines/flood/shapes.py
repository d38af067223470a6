"""What traffic is made of: messages, each with a label, the plan that they follow, and what a use declares of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from millrace.rules import EventType

Row = Mapping[str, str]
"""The cells of a line that are not empty, by column."""
CLOSING = "closing"


@dataclass(frozen=True)
class Label:
    """What a message was made to be."""

    kind: str
    episode: int = 0
    """Messages that belong together, such as those of one attack, share a number."""
    alerts: tuple[str, ...] = ()
    """The rules that must alert for the window of this message."""
    refusal: str | None = None
    """The reason with which the message must end among the dead letters."""


class Message(NamedTuple):
    """One message to send: when, counted from the start, and to which topic."""

    due_ms: int
    topic: str
    key: bytes | None
    value: bytes | None
    label: Label


@dataclass(frozen=True)
class Share:
    """A part of the traffic, from 0 to `most`."""

    default: float
    help: str
    most: float = 0.3


@dataclass(frozen=True)
class Size:
    """A whole number that shapes the traffic."""

    default: int
    help: str
    most: int = 1_000_000


@dataclass(frozen=True)
class TrafficPlan:
    """How much traffic, how fast and of what mixture."""

    events: int
    rate_per_s: float
    seed: int = 1
    name: str = "run"
    shares: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def due_ms(self, position: int) -> int:
        """When the message at this position is due, whatever became of those before it."""
        return int(position * 1000 / self.rate_per_s)


@dataclass(frozen=True)
class Columns:
    """The header that a recorded file must have, and what is taken from its columns."""

    event: EventType
    header: tuple[str, ...]
    at_ms: Callable[[Row], int]
    fields: Mapping[str, str | Callable[[Row], Any]]
    """Field -> its column, or a function of the line that raises ValueError or KeyError if it cannot be parsed."""
    is_quoted: bool = True
