"""Messages that were deleted before they were read: an engine reports them, an operator may accept the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

SHOWN_MOST = 3


@dataclass(frozen=True)
class InFlight:
    """At most once: messages that were committed, and whose outputs were not all acknowledged, when a worker ended."""

    topic: str
    partition: int
    first: int
    end: int
    """The first offset behind them, where the next worker began."""
    at_ms: int
    """When it began."""


@dataclass(frozen=True)
class Loss:
    """The gap in one partition, as one reader finds it; Loss.java has the same fields, but for the reader."""

    topic: str
    partition: int
    wanted: int
    """The offset that was to be read next."""
    first: int
    """The first offset that is there now: after the loss is accepted, reading continues here."""
    end: int
    topic_id: str = ""
    was_id: str = ""
    """The id of the topic that was read; another one after it was deleted and created anew."""
    reader: str = ""
    """The query, where a job has several."""

    @property
    def is_new_topic(self) -> bool:
        return self.was_id != self.topic_id

    @property
    def offsets(self) -> str:
        """The offsets of the lost messages; open-ended if the topic was deleted."""
        if self.wanted < self.first and not self.is_new_topic:
            return f"offsets {self.wanted} to {self.first - 1}"
        return f"all from offset {self.wanted} on"

    @property
    def messages(self) -> int | None:
        """The number of lost offsets; None if the topic was deleted."""
        return self.first - self.wanted if self.wanted < self.first and not self.is_new_topic else None

    def __str__(self) -> str:
        there = f"the topic has offsets {self.first} to {self.end}"
        if self.is_new_topic:
            there = f"the topic was deleted and created anew, and has offsets {self.first} to {self.end}"
        reader = f"{self.reader}: " if self.reader else ""
        return f"{reader}{self.topic}[{self.partition}]: offset {self.wanted} was to be read next; {there}"

    def is_same_as(self, other: Loss) -> bool:
        """Whether it is the same gap; more messages may have arrived behind it."""
        return self._gap == other._gap

    @property
    def _gap(self) -> tuple[Any, ...]:
        return self.reader, self.topic, self.partition, self.wanted, self.first, self.topic_id

    @property
    def place(self) -> tuple[str, str, int]:
        """A reader is in one place of a partition only."""
        return self.reader, self.topic, self.partition

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def problem_of(pattern: str, lost: Sequence[Loss]) -> str:
    """Which messages are gone, and the remedy."""
    shown = "; ".join(map(str, lost[:SHOWN_MOST]))
    more = f"; and {len(lost) - SHOWN_MOST} more" if len(lost) > SHOWN_MOST else ""
    return (
        f"messages were deleted before they were read: {shown}{more}; `millrace deploy {pattern} --accept-loss` "
        "continues without them"
    )
