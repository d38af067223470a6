"""When a query failed: in a row, for its next start, and lately, for the state of its job."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from millrace.engines.spark.tuning import FAILURES_KEPT, RESTARTS_MOST


@dataclass
class Failures:
    """The failures of one query; a batch that it completes ends their row."""

    in_a_row: int = 0
    problem: str | None = None
    """The last one."""
    well_ms: int = 0
    """When it was last known to have completed a batch."""
    own_ms: deque[int] = field(default_factory=lambda: deque(maxlen=FAILURES_KEPT))
    """The newest that no unreachable store explains."""

    def add(self, problem: str) -> None:
        self.in_a_row, self.problem = self.in_a_row + 1, problem

    def count(self, at_ms: int) -> None:
        """Add the last one to those that no unreachable store explains."""
        self.own_ms.append(at_ms)

    def end_row(self, at_ms: int) -> None:
        self.in_a_row, self.well_ms = 0, at_ms

    @property
    def are_too_many(self) -> bool:
        """Whether the query failed so often in a row that a restart of the driver is due."""
        return sum(at > self.well_ms for at in self.own_ms) > RESTARTS_MOST
