"""The life of a plan's queries: one loop that keeps them running, their time correct, and reports their progress."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kafka.errors import KafkaError
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from millrace.engines.spark.event_time.clock import Clock
from millrace.engines.spark.event_time.ends import TopicEnds, covers
from millrace.engines.spark.event_time.ticks import ticking
from millrace.engines.spark.event_time.wall import WallClock
from millrace.engines.spark.losses import Losses
from millrace.engines.spark.progress import DriverState, ProgressFile
from millrace.engines.spark.queries import Query, RunningQuery
from millrace.engines.spark.tuning import (
    BACKGROUND_NICE,
    LOOK_AT_EVENTS_EVERY_S,
    LOOK_EVERY_S,
    PROGRESS_EVERY_S,
    STORES_WAIT_S,
)
from millrace.patterns import EnginePlan
from millrace.patterns.loss import problem_of


class Driver:
    """Runs the queries of a plan until it is stopped, one of them fails for good, or a finite stream is at its end."""

    def __init__(self, spark: SparkSession, plan: EnginePlan, queries: Sequence[Query], progress: ProgressFile) -> None:
        self.spark = spark
        self.plan = plan
        self.progress = progress
        self.running = [RunningQuery(spark, query) for query in queries]
        self.losses = Losses(plan, self.running)
        self.ends = TopicEnds(plan)
        self.clock = Clock(plan, self.running, ticking(spark), self.ends)
        self.stores_at = time.monotonic() + STORES_WAIT_S
        self.has_begun = False
        self.wall = WallClock()

    def run(self, stop: threading.Event) -> str | None:
        """Run until `stop` is set; the problem if it ends for another reason."""
        problem, ended = None, threading.Event()
        writing = threading.Thread(target=self._keep_writing_progress, args=(ended,), name="progress", daemon=True)
        writing.start()
        try:
            while not (stop.is_set() or problem or self._is_over()):
                due = self._due()
                if self.wall.was_set_back():
                    self._begin_anew()
                problem = self._find_lost(due) or next((found for each in due if (found := each.ensure())), None)
                self._keep_time()
                stop.wait(LOOK_AT_EVENTS_EVERY_S if self.plan.judges_events else LOOK_EVERY_S)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        ended.set()
        writing.join()
        for each in self.running:
            each.stop()
        self._write_progress("failed" if problem else "stopped", problem)
        self.ends.close()
        self.losses.close()
        return problem

    def _begin_anew(self) -> None:
        """Begin all queries anew: by a wall clock that was set back an hour, the next batch would be due in an hour."""
        print("the wall clock was set back; the queries begin anew", flush=True)
        for each in self.running:
            each.begin_anew()

    def _keep_writing_progress(self, ended: threading.Event) -> None:
        # A thread of its own: a check of an unreachable store takes minutes; the driver must report progress meanwhile.
        while not ended.wait(PROGRESS_EVERY_S):
            self._write_progress("running")

    def _due(self) -> Sequence[RunningQuery]:
        """The queries that should run by now: after a start, the stores follow once all others have begun."""
        first = [each for each in self.running if not each.query.is_store]
        if not self.has_begun and all(each.has_begun for each in first):
            self.has_begun = True
            if not self.plan.judges_events:
                jvm = self.spark.sparkContext._gateway.proc
                lower_priority(jvm.pid if jvm else os.getppid())  # spark-submit's JVM is this process's parent
        return self.running if self._is_under_way else first

    @property
    def _is_under_way(self) -> bool:
        """A query without messages may never begin."""
        return self.has_begun or time.monotonic() > self.stores_at

    def _find_lost(self, due: Sequence[RunningQuery]) -> str | None:
        """The problem if messages were deleted before a query has read them; checked before a query is started."""
        try:
            lost = self.losses.look(due)
        except (KafkaError, Py4JError) as error:
            print(f"lost messages: unknown: {type(error).__name__}: {error}", flush=True)
            self.losses.postpone()
            return None
        return problem_of(self.plan.pattern, lost) if lost else None

    def _keep_time(self) -> None:
        try:
            self.clock.keep(int(time.monotonic() * 1000))
        except (KafkaError, Py4JError) as error:
            self.clock.interrupt()
            # Event time stands still while Kafka or HDFS is unreachable; a query that needs them fails on its own.
            print(f"event time: unknown: {type(error).__name__}: {error}", flush=True)

    def _is_over(self) -> bool:
        """Whether a finite stream is at its end: all windows are closed, and every query has read all there is."""
        if not (self.plan.finite and self._is_under_way and self.clock.is_over):
            return False
        enriched = self.plan.topics[self.plan.use.enriched.name]
        try:
            # The windows are closed, so the topics have their last ends.
            reached = [
                committed.offsets if (committed := each.committed()) else {enriched: {}} for each in self.running
            ]
            ends = self.ends.of(sorted({topic for offsets in reached for topic in offsets}))
        except (KafkaError, Py4JError) as error:
            print(f"the end of the stream: unknown: {type(error).__name__}: {error}", flush=True)
            return False
        return all(covers(offsets, ends, topic) for offsets in reached for topic in offsets)

    def _write_progress(self, state: DriverState, problem: str | None = None) -> None:
        queries = {each.query.name: each.progress() for each in self.running}
        if state == "running" and not all(each.batches for each in queries.values()):
            state = "starting"
        self.progress.write(state, queries, problem, self.losses.found)


def lower_priority(jvm: int) -> None:
    """Give other processes of this machine precedence, by both ways in which Linux schedules."""
    # To Linux each thread has a priority of its own, which the threads that it starts inherit.
    for process in (os.getpid(), jvm):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread), BACKGROUND_NICE)
    # Where sessions are scheduled as groups, a process's priority counts only within its session.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(BACKGROUND_NICE), encoding="ascii")
