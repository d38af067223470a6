"""How event time goes on when no events come.

A window closes when an event is far enough behind it. After the last event of a day nothing is, and the last burst
would be told the next morning. So while there is no traffic at all, and all that there was has been dealt with, event
time goes on with the wall clock, as if other customers were still buying.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """What one look at a windows query and at the topics before it found."""

    offsets: object
    """Where the topics end: it changes with any traffic."""
    is_done: bool
    """Whether every message before these ends has been dealt with, by the stage before the query and by itself."""
    clock_ms: int
    """The event time that the query has reached; 0 when it has seen no event yet."""
    is_open: bool
    """Whether the query still holds windows."""


@dataclass
class Silence:
    """For how long nothing came, and what time it therefore is."""

    idle_ms: int
    ahead_ms: int = 0
    """How much further time goes at once, for whoever knows that nothing will ever come."""
    offsets: object = None
    since_ms: int = 0
    clock_ms: int = 0

    def tick(self, look: Look, now_ms: int) -> int | None:
        """The moment to tell the query; None while there is traffic, or nothing is left to close."""
        if look.offsets != self.offsets:
            self.offsets, self.since_ms, self.clock_ms = look.offsets, now_ms, 0
        silent_ms = now_ms - self.since_ms
        if not look.is_done or silent_ms < self.idle_ms or not look.clock_ms or not look.is_open:
            return None
        # The query's own clock now follows what it is told, so the one at which silence began is kept here.
        self.clock_ms = self.clock_ms or look.clock_ms
        return self.clock_ms + silent_ms + self.ahead_ms
