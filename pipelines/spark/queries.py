"""A streaming query and its life: started, begun again after a failure that may pass, stopped, looked at."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from pipelines.spark.clock import reached_ms
from pipelines.spark.folders import Folder
from pipelines.spark.progress import QueryProgress
from pipelines.spark.tuning import RESTART_PAUSE_S_MOST, RESTARTS_MOST

Offsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> the offset after the last message."""


@dataclass(frozen=True)
class Query:
    """What to run, how often, and where it keeps its state."""

    name: str
    stage: DataStreamWriter
    checkpoint: str
    every: str
    follows: Literal["", "events", "rules"] = ""
    """Whose time is told to it: that of the per-event stage to the windows of rules, and theirs to the numbers."""


@dataclass(frozen=True)
class Committed:
    """What a query's last committed batch says of it."""

    offsets: Offsets
    clock_ms: int
    """The newest event time it has counted with; 0 before the first event."""


class Running:
    """A query that is kept running."""

    def __init__(self, spark: SparkSession, query: Query, every: str) -> None:
        self.query = query
        self.spark = spark
        self._stage = query.stage.queryName(query.name).option("checkpointLocation", query.checkpoint)
        self._stage = self._stage.trigger(processingTime=every)
        self._stream: StreamingQuery | None = None
        self._restarts = 0
        self._failures = 0
        self._again_at = 0.0
        self._problem: str | None = None
        self._last_commit: int | None = None
        self._committed: Committed | None = None

    def ensure(self) -> str | None:
        """Start the query, or start it again; the reason if that has been tried often enough."""
        if self._stream is not None and self._stream.isActive:
            if self._stream.lastProgress is not None:
                self._failures = 0
            return None
        if self._stream is not None:
            self._problem = _reason(self._stream)
            self._stream, self._failures = None, self._failures + 1
            self._again_at = time.monotonic() + min(2**self._failures, RESTART_PAUSE_S_MOST)
            print(f"query {self.query.name} failed ({self._failures}): {self._problem}", flush=True)
        if self._failures > RESTARTS_MOST:
            return f"query {self.query.name} failed {self._failures} times in a row: {self._problem}"
        if time.monotonic() >= self._again_at:
            self._restarts += self._failures > 0
            # A pool of its own, so that the queries take turns task by task.
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.query.name)
            self._stream = self._stage.start()
        return None

    def stop(self) -> None:
        """Stop where it is: a batch that is not finished is run again at the next start."""
        if self._stream is not None:
            self._stream.stop()

    def progress(self) -> QueryProgress:
        """The query as it is now."""
        if self._stream is None:
            return QueryProgress(0, restarts=self._restarts, problem=self._problem)
        last: Any = self._stream.lastProgress
        if last is None:
            is_waiting = self._stream.status["message"] == "Waiting for data to arrive"
            return QueryProgress(int(is_waiting), restarts=self._restarts, problem=self._problem)
        return QueryProgress(
            batches=last["batchId"] + 1,
            batch_id=last["batchId"],
            rows=last["numInputRows"],
            rows_per_s=round(last.get("processedRowsPerSecond") or 0.0, 1),
            batch_ms=last["durationMs"].get("triggerExecution", 0),
            watermark=last.get("eventTime", {}).get("watermark"),
            last_batch=last["timestamp"],
            dropped=sum(each["numRowsDroppedByWatermark"] for each in last["stateOperators"]),
            restarts=self._restarts,
            problem=self._problem,
        )

    def committed(self) -> Committed | None:
        """What the last committed batch says; None before the first."""
        commits = Folder(self.spark, f"{self.query.checkpoint}/commits")
        last = max((int(name) for name in commits.names() if name.isdecimal()), default=None)
        if last != self._last_commit:
            self._committed = None if last is None else self._read(commits, str(last))
            self._last_commit = last
        return self._committed

    def holds_windows(self) -> bool:
        """Whether windows are open, as far as is known."""
        last: Any = self._stream.lastProgress if self._stream is not None else None
        if last is None:
            return True
        if not last["stateOperators"]:
            # It has done no batch since it started, and says nothing of the windows that it found in its checkpoint.
            return self._committed is not None and self._committed.clock_ms > 0
        return any(each["numRowsTotal"] for each in last["stateOperators"] if "sessionWindow" in each["operatorName"])

    def _read(self, commits: Folder, number: str) -> Committed:
        watermark_ms = json.loads(commits.read(number).splitlines()[1])["nextBatchWatermarkMs"]
        # The first two lines are the format's version and the batch's settings, then comes a line for each source.
        sources = Folder(self.spark, f"{self.query.checkpoint}/offsets").read(number).splitlines()[2:]
        offsets: dict[str, dict[int, int]] = {}
        for line in sources:
            if line.startswith("{"):
                topics = json.loads(line).items()
                offsets |= {topic: {int(partition): n for partition, n in ends.items()} for topic, ends in topics}
        return Committed(offsets, reached_ms(watermark_ms))


def _reason(stream: StreamingQuery) -> str:
    error = stream.exception()
    return str(error).strip().splitlines()[0] if error is not None else "it was stopped by somebody else"
