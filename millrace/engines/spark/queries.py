"""Starts, restarts, stops and inspects one streaming query."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from millrace.engines.spark.checkpoints import Checkpoint, Committed
from millrace.engines.spark.failures import Failures
from millrace.engines.spark.folders import Folder
from millrace.engines.spark.progress import QueryProgress
from millrace.engines.spark.tuning import RESTART_PAUSE_S_MOST, STORE_PAUSE_S_MOST


@dataclass(frozen=True)
class Query:
    """What to run, how often, and where it keeps its state."""

    name: str
    writer: DataStreamWriter
    checkpoint: str
    every: str
    reads: Collection[str]
    """The topics that it reads."""
    layout: str = ""
    """What its state looks like: Spark continues no state of another layout."""
    goes_on: bool = True
    """Whether it then continues at the offsets that it has reached, and not with what its topics hold."""
    follows: Literal["", "events", "rules"] = ""
    """Whose event time it gets as ticks: that of the per-event stage, or that of the rules' windows."""
    is_real_time: bool = False
    """Whether a batch lasts for `every`, and each row is written as it comes."""
    is_store: bool = False
    """Whether it only persists results: it waits for its store for as long as that is unreachable."""


WINDOW_STATES = ("sessionWindowStateStoreSaveExec", "stateStoreSave")
"""Spark's operators that hold open windows."""


class RunningQuery:
    """A query that is restarted when it fails."""

    def __init__(self, spark: SparkSession, query: Query) -> None:
        self.query = query
        self.checkpoint = Checkpoint(Folder(spark, query.checkpoint))
        self._spark = spark
        writer = query.writer.queryName(query.name).option("checkpointLocation", query.checkpoint)
        self._writer = (
            writer.outputMode("update").trigger(realTime=query.every)
            if query.is_real_time
            else writer.trigger(processingTime=query.every)
        )
        self._stream: StreamingQuery | None = None
        self._is_taken_up = False
        self._restarts = 0
        self._failures = Failures()
        self._again_at = 0.0
        self._reported: tuple[str, Any] = ("", None)
        self._looked_at: str | None = None

    def ensure(self) -> str | None:
        """Start or restart the query; the reason if it has failed too often."""
        stream = self._stream
        if stream is not None and stream.isActive:
            if self._report() is not None:
                self._failures.end_row(_now_ms())
            return None
        if stream is not None:
            self._stream = None
            self._fail(_reason(stream))
        if self._failures.are_too_many:
            return f"query {self.query.name} failed {self._failures.in_a_row} times in a row: {self._failures.problem}"
        if time.monotonic() >= self._again_at:
            self._restarts += self._failures.in_a_row > 0
            # A pool for each query, so that they take turns task by task.
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.query.name)
            self._reported, self._looked_at = ("", None), None
            try:
                self._take_up()
                self._stream = self._writer.start()
            except Py4JJavaError as error:  # for example, the checkpoint's store is unreachable
                self._fail(str(error.java_exception).splitlines()[0])
        return None

    def _take_up(self) -> None:
        if not self._is_taken_up:
            self.checkpoint.take_up(self.query.layout, self.query.reads, goes_on=self.query.goes_on)
            self._is_taken_up = True

    def _fail(self, problem: str) -> None:
        self._failures.add(problem)
        pause_s = STORE_PAUSE_S_MOST if self.query.is_store else RESTART_PAUSE_S_MOST
        self._again_at = time.monotonic() + min(2**self._failures.in_a_row, pause_s)
        # A restart of the driver does not repair a store, so a failure counts only while the checkpoint is reachable.
        if not self.query.is_store and self._is_checkpoint_reachable():
            self._failures.count(_now_ms())
        print(f"query {self.query.name} failed ({self._failures.in_a_row}): {problem}", flush=True)

    def _is_checkpoint_reachable(self) -> bool:
        try:
            self.checkpoint.read_metadata()
        except Py4JError:
            return False
        return True

    @property
    def is_active(self) -> bool:
        return self._stream is not None and bool(self._stream.isActive)

    @property
    def is_due(self) -> bool:
        """Whether the next `ensure` starts it, or finds that it has failed."""
        return not self.is_active and time.monotonic() >= self._again_at

    def stop(self) -> None:
        """Stop it now; an unfinished batch is run again at the next start."""
        if self._stream is not None:
            self._stream.stop()

    def begin_anew(self) -> None:
        """Stop it; the next `ensure` starts it, and nothing has failed."""
        self.stop()
        self._stream = None

    @property
    def has_begun(self) -> bool:
        """Whether it has completed a round since the driver started."""
        return self.progress().batches > 0

    def progress(self) -> QueryProgress:
        """The query as it is now."""
        stream = self._stream
        failed = {
            "restarts": self._restarts,
            "failures": self._failures.in_a_row,
            "failed_ms": tuple(self._failures.own_ms),
            "well_ms": self._failures.well_ms,
            "problem": self._failures.problem,
        }
        if stream is None:
            return QueryProgress(0, **failed)
        last = self._report()
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

    def _report(self) -> Any:
        """Spark's report on the last batch; None before the first."""
        if (stream := self._stream) is None:
            return None
        known, content = self._reported
        if text := _later(self._spark)(stream._jsq, known):
            content = json.loads(text)
            self._reported = f"{content['runId']} {content['timestamp']}", content
        return content

    def committed(self) -> Committed | None:
        """The last completed batch; None before the first. Without a new report there is no other."""
        self._report()
        if (reported := self._reported[0]) != self._looked_at:
            self.checkpoint.committed()
            self._looked_at = reported
        return self.checkpoint.latest

    def holds_windows(self) -> bool:
        """Whether a window is open; true if that is unclear."""
        last = self._report()
        if last is None:
            return True
        if not last["stateOperators"]:
            # No batch since the start, so Spark reports nothing of the windows in the checkpoint.
            latest = self.checkpoint.latest
            return latest is not None and latest.watermark_ms > 0
        return any(each["numRowsTotal"] for each in last["stateOperators"] if each["operatorName"] in WINDOW_STATES)


@cache
def _later(spark: SparkSession) -> Callable[[Any, str], str]:
    later: Callable[[Any, str], str] = spark._jvm.millrace.spark.Reports.later
    return later


def _now_ms() -> int:
    return int(time.time() * 1000)


def _reason(stream: StreamingQuery) -> str:
    error = stream.exception()
    return str(error).strip().splitlines()[0] if error is not None else "it was stopped from outside"
