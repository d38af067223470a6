"""The plan of generated traffic, and its messages, each labelled with the alerts or the refusal that it must cause."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Label:
    """The kind of a message, and the outputs that it must cause."""

    kind: str
    episode: int = 0
    """Messages that belong together, such as the purchases of one burst, share a number."""
    alerts: tuple[str, ...] = ()
    """The rules that this purchase must set off; each purchase of a burst names it."""
    refusal: str | None = None
    """The reason with which the message must end among the dead letters."""


@dataclass(frozen=True)
class Message:
    """One message to send: when, counted from the start, and to which topic."""

    due_ms: int
    topic: str
    key: bytes | None
    value: bytes | None
    label: Label


@dataclass(frozen=True)
class TrafficPlan:
    """How much traffic, how fast and of what mixture; the shares count episodes, of which most are one message."""

    events: int
    rate_per_s: float
    seed: int = 1
    name: str = "run"
    """Part of every id, so that a second run over the same topics does not repeat the first one's."""
    customers: int = 0
    """0: enough for the rate, so that a customer's purchases do not come too fast."""
    fraud_share: float = 0.02
    edge_share: float = 0.01
    race_share: float = 0.001
    late_share: float = 0.0005
    poison_share: float = 0.01
    duplicate_share: float = 0.01

    def __post_init__(self) -> None:
        if self.events < 1 or self.rate_per_s < 10:
            raise ValueError("traffic needs at least 1 event and 10 events per second, or it cannot keep its disorder")
        for name in ("fraud_share", "edge_share", "race_share", "late_share", "poison_share", "duplicate_share"):
            if not 0 <= getattr(self, name) <= 0.3:
                raise ValueError(f"{name} must be from 0 to 0.3, not {getattr(self, name)}")

    @property
    def people(self) -> int:
        """How many customers take part."""
        return self.customers or max(20, min(self.events // 4, round(self.rate_per_s * 10)))

    def due_ms(self, position: int) -> int:
        """When the message at this position is due, independent of those before it."""
        return int(position * 1000 / self.rate_per_s)


def message(due_ms: int, topic: str, key: str, content: Mapping[str, Any], label: Label) -> Message:
    return Message(due_ms, topic, key.encode(), json.dumps(content, separators=(",", ":")).encode(), label)
