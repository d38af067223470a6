"""The progress of a driver: one small JSON file, replaced atomically about once a second."""

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

DriverState = Literal["starting", "running", "failed", "stopped"]


@dataclass(frozen=True)
class QueryProgress:
    """One query as it is now."""

    batches: int
    """Rounds completed since the driver started: batches that were committed, or a look that found no message."""
    batch_id: int | None = None
    rows: int = 0
    """Rows of the last batch."""
    rows_per_s: float = 0.0
    batch_ms: int = 0
    watermark: str | None = None
    last_batch: str | None = None
    dropped: int = 0
    """Rows that Spark itself dropped as too late; only summaries can have any."""
    restarts: int = 0
    failures: int = 0
    """In a row: 0 as soon as it completes a batch."""
    failed_ms: tuple[int, ...] = ()
    """When it failed lately, batches in between or not, except while only a store was unreachable."""
    well_ms: int = 0
    """When it was last known to have completed a batch."""
    problem: str | None = None
    """Of the last failure."""


@dataclass(frozen=True)
class ProgressFile:
    """The file that the engine's client reads."""

    path: Path
    web: str = ""
    """The driver's page."""
    metrics: str = ""
    """Where Prometheus reads the driver's figures."""

    def write(
        self,
        state: DriverState,
        queries: Mapping[str, QueryProgress],
        problem: str | None = None,
        lost: Sequence[Loss] = (),
    ) -> None:
        """Replace the file."""
        content: dict[str, Any] = {"state": state, "pid": os.getpid(), "written_ms": int(time.time() * 1000)}
        content |= {"problem": problem, "queries": {name: asdict(query) for name, query in queries.items()}}
        content |= {"lost": [each.plain() for each in lost], "web": self.web, "metrics": self.metrics}
        write_whole(self.path, json.dumps(content, indent=1))
