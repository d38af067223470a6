"""A run of traffic: what was sent, when, and whether it was sent so punctually that it counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

BEHIND_MS_MOST = 100
"""At p99: a sender that is further behind its plan measures itself, not what it sends to."""
LONGEST_S = 10**9
"""Thirty years: more is no time that a sender took."""
Span = tuple[int, int]
"""From and until, in milliseconds since 1970."""


def is_within(spans_ms: Iterable[Span], at_ms: int) -> bool:
    """Whether a moment is in one of the spans."""
    return any(since <= at_ms <= until for since, until in spans_ms)


@dataclass(frozen=True)
class Run:
    """What was sent, when, and how punctually."""

    about: Mapping[str, Any]
    start_ms: int
    sent: int
    """Without the closing and the bare hops, which by_topic counts too."""
    by_topic: Mapping[str, int]
    seconds: float
    rate_per_s: float
    behind_ms: Mapping[str, float | int | str | None]
    """How long after its due time each message left: quantiles."""
    is_complete: bool
    digest: str = ""
    """Identifies the messages that were sent."""
    until_ms: int = 0
    """When the last message was due, of the closing too."""
    content: str = ""
    """Identifies what was sent to the last byte, the reference data and the closing too."""

    @property
    def name(self) -> str:
        """The tape, or the file."""
        return str(self.about.get("plan", self.about).get("name", self.about.get("file", "")))

    @property
    def span_ms(self) -> Span:
        """When its messages were due."""
        return self.start_ms, max(self.until_ms, self.start_ms + round(min(self.seconds, LONGEST_S) * 1000))

    @property
    def lateness(self) -> str | None:
        """Why no latency of the run counts; None if its sender was punctual."""
        behind = self.behind_ms.get("p99_ms")
        if not isinstance(behind, int | float):
            return "its sender's punctuality was not measured"
        if behind > BEHIND_MS_MOST:
            return f"its sender was {behind:,.0f} ms behind its plan at p99, more than {BEHIND_MS_MOST}"
        return None

    @property
    def contradiction(self) -> str | None:
        """What of the record contradicts the rest of it."""
        counted = sum(self.by_topic.values())
        return f"it counts {self.sent:,} messages, and {counted:,} by topic" if counted < self.sent else None

    def unlabelled(self, slack_ms: int) -> str | None:
        """Why its labels may be untrue; None if they hold."""
        if not self.is_complete:
            return "it was interrupted"
        if why := self.contradiction:
            return why
        worst = self.behind_ms.get("max_ms")
        if not isinstance(worst, int | float):
            return "its sender's punctuality was not measured"
        if worst >= slack_ms:
            return f"a message left {worst:,.0f} ms after it was due, and labels hold for less than {slack_ms:,}"
        return None
