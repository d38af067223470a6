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

    The order of a partition stands, so of its own partition only earlier messages count. Those of other partitions
    count if they arrived at most `ahead_ms` after it. `since` has the newest earlier moment by partition.
    """
    own: dict[Place, int] = {}
    reached = dict(since)
    for _, partition, offset, at_ms in sorted(moved, key=lambda each: each[1:3]):
        reached[partition] = own[partition, offset] = max(at_ms, reached.get(partition, 0))
    found: dict[Place, int] = {}
    newest, arrivals, position = _Newest(since), sorted(moved), 0
    for arrived_ms, partition, offset in sorted(wanted):
        while position < len(arrivals) and arrivals[position].arrived_ms <= arrived_ms + ahead_ms:
            newest.take(arrivals[position].partition, arrivals[position].at_ms)
            position += 1
        found[partition, offset] = max(own.get((partition, offset), 0), newest.beside(partition))
    return found


class _Newest:
    """The newest moment of all partitions, and the newest of those beside that one."""

    def __init__(self, since: Mapping[int, int]) -> None:
        self.partition, self.at_ms, self.beside_ms = -1, 0, 0
        for partition, at_ms in since.items():
            self.take(partition, at_ms)

    def take(self, partition: int, at_ms: int) -> None:
        if partition == self.partition:
            self.at_ms = max(at_ms, self.at_ms)
        elif at_ms > self.at_ms:
            self.partition, self.at_ms, self.beside_ms = partition, at_ms, self.at_ms
        else:
            self.beside_ms = max(at_ms, self.beside_ms)

    def beside(self, partition: int) -> int:
        """The newest moment of all other partitions."""
        return self.beside_ms if partition == self.partition else self.at_ms
