"""How often something is restarted: later each time, and a few times only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

BACK_OFF_S = (0.0, 1.0, 5.0, 15.0, 30.0)
"""Before the first restart within the span, the second, and so on."""
RESTARTS_MOST, SPAN_S = 5, 600.0


@dataclass
class Attempts:
    """The restarts of one subject: how long the next one waits, and when there were too many."""

    times: deque[float] = field(default_factory=deque)

    def wait_s(self, now: float) -> float | None:
        """How long to wait before the next restart; None when the subject is given up."""
        while self.times and self.times[0] < now - SPAN_S:
            self.times.popleft()
        if len(self.times) >= RESTARTS_MOST:
            return None
        if not self.times:
            return 0.0
        return max(0.0, self.times[-1] + BACK_OFF_S[len(self.times)] - now)

    def count(self, now: float) -> None:
        self.times.append(now)
