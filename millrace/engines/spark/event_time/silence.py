"""Event time while no events come.

A window closes when an event is far enough behind it. After the last event of a day none is, and its last session would
be reported the next morning. So while there is no traffic, and all earlier messages are judged and counted, event time
advances with a clock, as if the events of other keys still came.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """The windows and the topics before them at one moment."""

    ends: object
    """The ends of the topics: any traffic changes them."""
    is_done: bool
    """Whether every message before these ends is judged and counted."""
    clock_ms: int
    """The event time that the windows have reached; 0 before the first event."""
    is_open: bool
    """Whether a window is open."""
    stage_ms: int = 0
    """The event time that the stage before the windows has committed, which may be ahead of theirs; 0 if unknown."""


@dataclass
class Silence:
    """How long no message has come, and the event time that follows from it."""

    idle_ms: int
    leap_ms: int = 0
    """How far time moves at once: where nothing more can come, no window needs to wait for the wall clock."""
    ends: object = None
    since_ms: int = 0
    clock_ms: int = 0

    def tick(self, look: Look, now_ms: int) -> int | None:
        """The moment to send to the windows; None while there is traffic, or if no window is open."""
        if look.ends != self.ends:
            self.ends, self.since_ms, self.clock_ms = look.ends, now_ms, 0
        silent_ms = now_ms - self.since_ms
        if not look.is_done or silent_ms < self.idle_ms or not look.clock_ms or not look.is_open:
            return None
        # Ticks move the windows' own clock, so the one at which silence began is kept here.
        self.clock_ms = max(self.clock_ms or look.clock_ms, look.stage_ms)
        return self.clock_ms + silent_ms + self.leap_ms

    def interrupt(self) -> None:
        """Begin anew with the next look."""
        self.ends = None
