"""What a driver tells the world of itself: one small JSON file, always whole, never older than a few seconds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from millrace.patterns.loss import Loss
from millrace.whole_files import write_whole

State = Literal["starting", "running", "failed", "stopped"]


@dataclass(frozen=True)
class QueryProgress:
    """One query as it is now."""

    batches: int
    """Rounds that were completed since the driver started: a batch that was committed, or a look that found nothing."""
    batch_id: int | None = None
    rows: int = 0
    """Rows of the last batch."""
    rows_per_s: float = 0.0
    batch_ms: int = 0
    watermark: str | None = None
    last_batch: str | None = None
    dropped: int = 0
    """Rows that Spark itself left out as too late: none but in summaries, whose numbers nobody waits for."""
    restarts: int = 0
    failures: int = 0
    """In a row: 0 as soon as it completes a batch."""
    failed_ms: tuple[int, ...] = ()
    """When it failed in that row, but for those times at which only a store was away: the last few."""
    problem: str | None = None


@dataclass(frozen=True)
class ProgressFile:
    """The file in which the lifecycle looks."""

    path: Path

    def write(
        self,
        state: State,
        queries: Mapping[str, QueryProgress],
        problem: str | None = None,
        lost: Sequence[Loss] = (),
    ) -> None:
        """Replace what the file says."""
        content: dict[str, Any] = {"state": state, "pid": os.getpid(), "written_ms": int(time.time() * 1000)}
        content |= {"problem": problem, "queries": {name: asdict(query) for name, query in queries.items()}}
        content |= {"lost": [each.plain() for each in lost]}
        write_whole(self.path, json.dumps(content, indent=1))
