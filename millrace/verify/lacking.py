"""What a job did not remember when it read a message: a memory begins with the version of a rule that needs it.

An event belongs to the version under which its last copy came out. Of the other streams nothing comes out: their
messages are read beside the events that arrive with them, and may be a little apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from millrace.oracle import Origin, Record
from millrace.traffic.runs import Span


@dataclass(frozen=True)
class Edge:
    """Which messages of other streams a job read while it lacked a memory, by their time of arrival."""

    after_ms: float
    """What arrived until then was read before."""
    last_ms: float
    """What arrived until then was read while the job lacked it, and"""
    first_ms: float
    """what arrived later was read after."""


@dataclass(frozen=True)
class Lacking:
    """What a job did not remember of each message."""

    judged: str = ""
    away_ms: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """By the name under which a memory is kept: when no rule of the job needed it."""
    out_ms: Mapping[Origin, int] = field(default_factory=dict)
    """When the last copy of each judged event came out."""
    not_out_ms: float = math.inf
    """In place of that, of an event that did not come out."""
    edges: Mapping[str, Sequence[Edge]] = field(default_factory=dict)

    def of(self, record: Record) -> list[str]:
        """The memories that lack a message."""
        if record.topic != self.judged:
            return [name for name in self.edges if self.lacks(name, record.ingest_ms)]
        out_ms = self.out_ms.get(record.origin, self.not_out_ms)
        return [name for name, spans in self.away_ms.items() if any(since <= out_ms < until for since, until in spans)]

    def lacks(self, name: str, arrived_ms: int, skew_ms: int = 0) -> bool:
        """Whether a memory lacks a message of another stream: with a skew whether it may, of less than 0 surely."""
        return any(
            edge.after_ms < arrived_ms and arrived_ms <= (edge.first_ms if skew_ms > 0 else edge.last_ms) + skew_ms
            for edge in self.edges.get(name, ())
        )


REMEMBERED = Lacking()
"""Nothing is lacking."""


def edges(away_ms: Mapping[str, Sequence[Span]], read: Iterable[tuple[int, int]]) -> dict[str, list[Edge]]:
    """Which messages of other streams are lacking, by when each judged event last came out and when it arrived."""
    known = list(read)
    return {name: [_edge(span, known) for span in spans] for name, spans in away_ms.items()}


def _edge(span: Span, read: Iterable[tuple[int, int]]) -> Edge:
    since, until = span
    before, lacked, after = list[int](), list[int](), list[int]()
    for out_ms, arrived_ms in read:
        (before if out_ms < since else lacked if out_ms < until else after).append(arrived_ms)
    after_ms = max(before, default=-math.inf)
    last_ms = max(lacked, default=after_ms)
    return Edge(after_ms, last_ms, max(last_ms, min(after, default=last_ms)))
