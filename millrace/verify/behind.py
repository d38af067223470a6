"""How far an event is behind: the newest moment that may have been read before it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
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


class Newest:
    """The newest moment before each message.

    Where one partition alone moves time, its order stands: only earlier messages count. Between several there is no
    common order, and what comes of one may be in another by then.
    """

    def __init__(self, moved: Sequence[Moved], since: Mapping[int, int]) -> None:
        """`since` has the newest earlier moment by partition."""
        self._in_order: dict[Place, int] = {}
        reached = dict(since)
        for _, partition, offset, at_ms in sorted(moved, key=itemgetter(1, 2)):
            reached[partition] = self._in_order[partition, offset] = max(at_ms, reached.get(partition, 0))
        arrived = sorted(moved) if len(reached) > 1 else []
        self._arrived_ms = [each.arrived_ms for each in arrived]
        since_ms = max(since.values(), default=0) if len(reached) > 1 else 0
        self._newest_ms = list(accumulate((each.at_ms for each in arrived), max, initial=since_ms))

    def before(self, arrived_ms: int, partition: int, offset: int, ahead_ms: int = 0) -> int:
        """The newest moment before a message; of several partitions all count that arrived at most so long after it."""
        newest_ms = self._newest_ms[bisect_right(self._arrived_ms, arrived_ms + ahead_ms)]
        return max(self._in_order.get((partition, offset), 0), newest_ms)
