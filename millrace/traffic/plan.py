"""The plan of generated traffic, and its messages, each labelled with the alerts or the refusal that it must cause."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from millrace.rules.events import NAME_PATTERN

RATE_PER_S_LEAST = 10
CLOSING = "closing"
"""The kind of label of messages that only move time on after the traffic."""


@dataclass(frozen=True)
class Label:
    """The kind of a message, and the outputs that it must cause."""

    kind: str
    episode: int = 0
    """Messages that belong together, such as those of one attack, share a number."""
    alerts: tuple[str, ...] = ()
    """The rules that this event must set off, itself or together with others, each of which names the rule."""
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
class TrafficPlan:
    """How much traffic, how fast and of what mixture; `plan_for` makes one that fits a use."""

    events: int
    rate_per_s: float
    seed: int = 1
    name: str = "run"
    """Part of every id, so that a second run over the same topics does not repeat the first one's."""
    shares: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.events < 1 or self.rate_per_s < RATE_PER_S_LEAST:
            raise ValueError(
                f"traffic needs at least 1 event and {RATE_PER_S_LEAST} events per second, or it cannot keep its "
                "disorder"
            )
        if not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"'{self.name}' would be in each id; name the traffic in letters, digits and dashes")

    def due_ms(self, position: int) -> int:
        """When the message at this position is due, independent of those before it."""
        return int(position * 1000 / self.rate_per_s)


def message(due_ms: int, topic: str, key: str, content: Mapping[str, Any], label: Label) -> Message:
    """A message that carries an event."""
    return Message(due_ms, topic, key.encode(), json.dumps(content, separators=(",", ":")).encode(), label)
