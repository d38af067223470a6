"""A streaming query and its life: started, begun again after a failure that may pass, stopped, looked at."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from millrace.engines.spark.clock import reached_ms
from millrace.engines.spark.folders import Folder
from millrace.engines.spark.gaps import Offsets, skipping
from millrace.engines.spark.progress import QueryProgress
from millrace.engines.spark.tuning import RESTART_PAUSE_S_MOST, RESTARTS_MOST, STORE_PAUSE_S_MOST
from millrace.patterns.loss import Loss


@dataclass(frozen=True)
class Query:
    """What to run, how often, and where it keeps its state."""

    name: str
    stage: DataStreamWriter
    checkpoint: str
    every: str
    follows: Literal["", "events", "rules"] = ""
    """Whose time is told to it: that of the per-event stage to the windows of rules, and theirs to the numbers."""
    is_store: bool = False
    """Whether it only keeps what others have found: it waits for its store for as long as that is away."""


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
        self._failed_ms: deque[int] = deque(maxlen=RESTARTS_MOST + 1)
        self._again_at = 0.0
        self._problem: str | None = None
        self._last_commit: int | None = None
        self._committed: Committed | None = None

    def ensure(self) -> str | None:
        """Start the query, or start it again; the reason if that has been tried often enough."""
        stream = self._stream
        if stream is not None and stream.isActive:
            if stream.lastProgress is not None:
                self._failures, self._problem = 0, None
                self._failed_ms.clear()
            return None
        if stream is not None:
            self._stream = None
            self._fail(_reason(stream))
        if len(self._failed_ms) > RESTARTS_MOST:
            return f"query {self.query.name} failed {len(self._failed_ms)} times in a row: {self._problem}"
        if time.monotonic() >= self._again_at:
            self._restarts += self._failures > 0
            # A pool of its own, so that the queries take turns task by task.
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.query.name)
            try:
                self._stream = self._stage.start()
            except Py4JJavaError as error:  # the checkpoint's store is away, for one
                self._fail(str(error.java_exception).splitlines()[0])
        return None

    def _fail(self, problem: str) -> None:
        self._failures, self._problem = self._failures + 1, problem
        pause_s = STORE_PAUSE_S_MOST if self.query.is_store else RESTART_PAUSE_S_MOST
        self._again_at = time.monotonic() + min(2**self._failures, pause_s)
        # To end the driver brings back no store: that helps only against what fails though its checkpoint is there.
        if not self.query.is_store and self._has_checkpoints():
            self._failed_ms.append(int(time.time() * 1000))
        print(f"query {self.query.name} failed ({self._failures}): {problem}", flush=True)

    def _has_checkpoints(self) -> bool:
        """Whether the store of its checkpoints answers, with what it holds."""
        checkpoint = Folder(self.spark, self.query.checkpoint)
        try:
            if checkpoint.has("metadata"):
                checkpoint.read("metadata")
        except Py4JError:
            return False
        return True

    @property
    def is_active(self) -> bool:
        return self._stream is not None and bool(self._stream.isActive)

    @property
    def is_due(self) -> bool:
        """Whether the next look starts it, or finds that it has failed."""
        return not self.is_active and time.monotonic() >= self._again_at

    def stop(self) -> None:
        """Stop where it is: a batch that is not finished is run again at the next start."""
        if self._stream is not None:
            self._stream.stop()

    @property
    def has_begun(self) -> bool:
        """Whether it has completed a round since the driver started."""
        return self.progress().batches > 0

    def progress(self) -> QueryProgress:
        """The query as it is now."""
        stream = self._stream
        failed = {
            "restarts": self._restarts,
            "failures": self._failures,
            "failed_ms": tuple(self._failed_ms),
            "problem": self._problem,
        }
        if stream is None:
            return QueryProgress(0, **failed)
        last: Any = stream.lastProgress
        if last is None:
            return QueryProgress(int(stream.status["message"] == "Waiting for data to arrive"), **failed)
        return QueryProgress(
            batches=last["batchId"] + 1,
            batch_id=last["batchId"],
            rows=last["numInputRows"],
            rows_per_s=round(last.get("processedRowsPerSecond") or 0.0, 1),
            batch_ms=last["durationMs"].get("triggerExecution", 0),
            watermark=last.get("eventTime", {}).get("watermark"),
            last_batch=last["timestamp"],
            dropped=sum(each["numRowsDroppedByWatermark"] for each in last["stateOperators"]),
            **failed,
        )

    def committed(self) -> Committed | None:
        """What the last committed batch says; None before the first."""
        commits = Folder(self.spark, f"{self.query.checkpoint}/commits")
        last = max((int(name) for name in commits.names() if name.isdecimal()), default=None)
        if last != self._last_commit:
            self._committed = None if last is None else self._read(commits, str(last))
            self._last_commit = last
        return self._committed

    def skip(self, gaps: Sequence[Loss]) -> None:
        """Continue behind the gaps: the checkpoint says so from now on. The query must not run."""
        folder, done = Folder(self.spark, f"{self.query.checkpoint}/offsets"), self._last_commit
        assert done is not None
        # Of the batch after the last that was committed, too: it may be planned, and is then run as planned.
        for name in (str(done), str(done + 1)):
            if folder.has(name):
                folder.replace(name, skipping(folder.read(name), gaps, is_planned=name != str(done)))
        self._last_commit, self._committed = None, None

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
