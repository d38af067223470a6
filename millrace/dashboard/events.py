"""The accepted events that the page keeps: the latest, and earlier ones that its alerts rest on. Both are bounded."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator

EVENTS_KEPT, EVENT_BYTES_KEPT = 20_000, 16_000_000
"""Of the latest, and again of those that alerts rest on."""


class Events:
    """Accepted events as they came, by their ids."""

    def __init__(self) -> None:
        self._latest, self._cited = _Bounded(), _Bounded()
        self._alerts: Counter[str] = Counter()
        """How many alerts rest on an id."""

    def take(self, identity: str, value: bytes) -> None:
        """Keep an event, in place of an earlier one with its id."""
        self._cited.drop(identity)
        for old, its in self._latest.put(identity, value):
            if old in self._alerts:
                self._cited.put(old, its)

    def cite(self, ids: Iterable[str]) -> None:
        """An alert rests on these: they stay, however many others come."""
        self._alerts.update(ids)

    def release(self, ids: Iterable[str]) -> None:
        """An alert that rests on these is no longer kept."""
        for identity in ids:
            self._alerts[identity] -= 1
            if self._alerts[identity] <= 0:
                del self._alerts[identity]
                self._cited.drop(identity)

    def get(self, identity: str) -> bytes | None:
        """The event with this id, if it is kept."""
        return self._latest.values.get(identity) or self._cited.values.get(identity)

    def newest_first(self) -> Iterator[tuple[str, bytes]]:
        """All that are kept."""
        for kept in (self._latest, self._cited):
            yield from reversed(kept.values.items())

    def __len__(self) -> int:
        return len(self._latest.values) + len(self._cited.values)


class _Bounded:
    """Values by id, the oldest first."""

    def __init__(self) -> None:
        self.values: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def put(self, identity: str, value: bytes) -> list[tuple[str, bytes]]:
        """Add a value; those that are too many or too large then, the oldest."""
        self.drop(identity)
        self.values[identity] = value
        self._bytes += len(value)
        gone = []
        while len(self.values) > EVENTS_KEPT or self._bytes > EVENT_BYTES_KEPT:
            gone.append(self.values.popitem(last=False))
            self._bytes -= len(gone[-1][1])
        return gone

    def drop(self, identity: str) -> None:
        self._bytes -= len(self.values.pop(identity, b""))
