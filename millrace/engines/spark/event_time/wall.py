"""The wall clock, which may be set, beside one that is not."""

from __future__ import annotations

import time
from collections.abc import Callable

NOTICED_S = 5
"""Less is a batch that comes a little late."""


class WallClock:
    """Notices that the wall clock was set back."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead_s = self._ahead()

    def was_set_back(self) -> bool:
        """Whether it was since the look before."""
        before_s, self._ahead_s = self._ahead_s, self._ahead()
        return before_s - self._ahead_s > NOTICED_S

    def _ahead(self) -> float:
        return self._wall() - self._steady()
