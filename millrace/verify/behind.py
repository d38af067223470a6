"""How far an event is behind: the newest moment that may have been read before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Place = tuple[int, int]
"""A partition, and an offset in it."""


class Moved(NamedTuple):
    """A message that moves time."""

    arrived_ms: int
    partition: int
    offset: int
    at_ms: int
    """The moment to which it moves time."""


def newest_before(
    moved: Sequence[Moved],
    wanted: Iterable[tuple[int, int, int]],
    since: Mapping[int, int],
    ahead_ms: int = 0,
) -> dict[Place, int]:
    """The newest moment before each wanted message, which is its time of arrival, partition and offset.

    Where one partition alone moves time, its order stands: only earlier messages count. Between several there is no
    common order, and what comes of one may be in another by then: all count that arrived at most `ahead_ms` after it.
    `since` has the newest earlier moment by partition.
    """
    own: dict[Place, int] = {}
    reached = dict(since)
    for _, partition, offset, at_ms in sorted(moved, key=lambda each: each[1:3]):
        reached[partition] = own[partition, offset] = max(at_ms, reached.get(partition, 0))
    found: dict[Place, int] = {}
    newest_ms, arrivals, position = max(since.values(), default=0), sorted(moved), 0
    for arrived_ms, partition, offset in sorted(wanted):
        while position < len(arrivals) and arrivals[position].arrived_ms <= arrived_ms + ahead_ms:
            newest_ms = max(newest_ms, arrivals[position].at_ms)
            position += 1
        in_order_ms = own.get((partition, offset), 0)
        found[partition, offset] = max(in_order_ms, newest_ms) if len(reached) > 1 else in_order_ms
    return found
