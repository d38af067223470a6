"""Runs all Spark stages of a pattern in one driver.

The driver keeps its progress in a file, ends in good order on SIGTERM, begins a query again that failed for a reason
that may pass, for ever if it waits for a store, and ends with an error when an event or window query does not get on.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kafka.errors import KafkaError
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from millrace.engines.spark import events, files, tables, topics, windows
from millrace.engines.spark.losses import Losses
from millrace.engines.spark.progress import ProgressFile, State
from millrace.engines.spark.queries import Query, Running
from millrace.engines.spark.session import session
from millrace.engines.spark.ticks import Look, Silence
from millrace.engines.spark.traffic import Traffic, covers
from millrace.engines.spark.tuning import (
    AT_ONCE,
    BACKGROUND_NICE,
    DRAINED_AHEAD_MS,
    EVENTS_EVERY,
    FILES_EVERY,
    IDLE_MS,
    IDS_EVERY_S,
    LOOK_EVERY_S,
    STORES_WAIT_S,
    TABLES_EVERY,
    WINDOWS_EVERY,
)
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss, problem_of


def main(argv: Sequence[str]) -> int:
    arguments = _arguments(argv)
    plan = EnginePlan.read(arguments.plan)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    progress = ProgressFile(arguments.progress)
    progress.write("starting", {})
    jars = [Path(jar) for jar in arguments.jars.split(os.pathsep)]
    name = f"{plan.pattern} (generation {plan.generation})"
    spark = session(name, arguments.master, jars, plan.options, java_options=arguments.java_options)
    driver = Driver(spark, plan, progress, is_drain=arguments.drain)
    try:
        problem = driver.run(stop)
    finally:
        spark.stop()
    if problem:
        print(f"{plan.pattern}: {problem}", file=sys.stderr, flush=True)
    return 1 if problem else 0


def step_back(jvm: int) -> None:
    """Leave the processor to others of this machine, in the two ways in which Linux shares it out."""
    # To Linux each thread has a number of its own, which those that it starts inherit.
    for process in (os.getpid(), jvm):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread), BACKGROUND_NICE)
    # Where sessions are scheduled as groups, the first number counts only among the processes of this very session.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(BACKGROUND_NICE), encoding="ascii")


def queries(spark: SparkSession, plan: EnginePlan) -> Iterator[Query]:
    """Every query of the plan, the per-event stage first."""
    options, place = topics.sink_options(plan.bootstrap), plan.checkpoints
    if plan.events:
        checkpoint = f"{place}/events"
        stage = events.messages(spark, plan).writeStream.format("kafka").options(**options)
        yield Query("events", stage, checkpoint, EVENTS_EVERY)
    for rule in plan.window_rules:
        # Another version of a rule holds other windows: it begins with what the topic still has.
        name, checkpoint = f"window-{rule.name}", f"{place}/window-{rule.name}-{rule.version}"
        stage = windows.findings(spark, plan, rule, name).writeStream.format("kafka").options(**options)
        yield Query(name, stage, checkpoint, WINDOWS_EVERY, follows="events")
    for of in plan.window_summaries:
        name, checkpoint = f"summary-{of.name}", f"{place}/numbers-{of.name}-{of.version}"
        rows = windows.summary(spark, plan, of, name)
        stage = rows.writeStream.format("kafka").options(**options).outputMode("update")
        yield Query(name, stage, checkpoint, WINDOWS_EVERY, follows="rules")
    if "hdfs" in plan.persist:
        checkpoint = f"{place}/files"
        stage = files.events(spark, plan).writeStream.foreachBatch(files.writer(plan, checkpoint))
        yield Query("files", stage, checkpoint, FILES_EVERY, is_store=True)
    if "hbase" in plan.persist:
        stage = tables.messages(spark, plan).writeStream.foreachBatch(tables.writer(plan))
        yield Query("tables", stage, f"{place}/tables", TABLES_EVERY, is_store=True)


class Driver:
    """The life of a plan's queries."""

    def __init__(self, spark: SparkSession, plan: EnginePlan, progress: ProgressFile, *, is_drain: bool) -> None:
        self.spark = spark
        self.plan = plan
        self.progress = progress
        self.is_drain = is_drain
        self.running = [Running(spark, query, AT_ONCE if is_drain else query.every) for query in queries(spark, plan)]
        self.stores_at = time.monotonic() + STORES_WAIT_S
        self.is_under_way = False
        self._traffic: Traffic | None = None
        self.losses = Losses(spark, plan)
        self.lost: Sequence[Loss] = ()
        self.topic_ids: Mapping[str, str] = {}
        self.ids_at = 0.0
        self.silence = Silence(0, DRAINED_AHEAD_MS) if is_drain else Silence(IDLE_MS)
        self.ticks = spark._jvm.millrace.spark.Ticks
        self.clocks_ms: dict[str, int] = {}

    def run(self, stop: threading.Event) -> str | None:
        """Run until told to stop, or to the end of the topics if draining; the reason if it ends otherwise."""
        problem, is_finished, ended = None, False, threading.Event()
        writing = threading.Thread(target=self._keep_writing_progress, args=(ended,), name="progress", daemon=True)
        writing.start()
        try:
            while not (stop.is_set() or problem or (self.is_drain and is_finished)):
                due = self._due()
                problem = self._find_lost(due) or next((found for each in due if (found := each.ensure())), None)
                is_finished = self._time_is_kept()
                stop.wait(LOOK_EVERY_S)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        ended.set()
        writing.join()
        for each in self.running:
            each.stop()
        self._write_progress("failed" if problem else "stopped", problem)
        if self._traffic is not None:
            self._traffic.close()
        self.losses.close()
        return problem

    def _keep_writing_progress(self, ended: threading.Event) -> None:
        # In a thread of its own: a look at a store that is away takes minutes, and the driver lives on meanwhile.
        while not ended.wait(LOOK_EVERY_S):
            self._write_progress("running")

    def _due(self) -> Sequence[Running]:
        """The queries that ought to run by now: at a start the stores come last, behind all else on this machine."""
        if self.is_under_way:
            return self.running
        first = [each for each in self.running if not each.query.is_store]
        self.is_under_way = time.monotonic() > self.stores_at or all(each.has_begun for each in first)
        if self.is_under_way and not self.plan.events:
            jvm = self.spark.sparkContext._gateway.proc
            step_back(jvm.pid if jvm else os.getppid())  # spark-submit's JVM is the one that started us
        return self.running if self.is_under_way else first

    def _find_lost(self, due: Sequence[Running]) -> str | None:
        """The problem if messages were deleted before a query read them; looked at before a query is started."""
        try:
            ids = self.topic_ids if time.monotonic() < self.ids_at else self.losses.ids()
            # All of them at the start, and where a topic has become another.
            checked = [each for each in due if each.is_due] if ids == self.topic_ids else self.running
            self.lost = self.losses.of(checked)
        except (KafkaError, Py4JError) as error:
            print(f"cannot see whether messages were lost: {type(error).__name__}: {error}", flush=True)
            if self.topic_ids:  # or it waits for a broker that is away at every look
                self.ids_at = time.monotonic() + IDS_EVERY_S
            return None
        if ids is not self.topic_ids:
            self.topic_ids, self.ids_at = ids, time.monotonic() + IDS_EVERY_S
        return problem_of(self.plan.pattern, self.lost) if self.lost else None

    @property
    def traffic(self) -> Traffic:
        # Not before it is needed: a broker that is away at the start would end the driver.
        self._traffic = self._traffic or Traffic(self.plan)
        return self._traffic

    def _time_is_kept(self) -> bool:
        try:
            return self._keep_time()
        except (KafkaError, Py4JError) as error:
            # Time stands still while Kafka or HDFS do not answer; whether the queries can live with it, they say.
            print(f"cannot see how far the topics are: {type(error).__name__}: {error}", flush=True)
            return False

    def _keep_time(self) -> bool:
        """Tell the windows what time it is; whether there is nothing left to do at all."""
        committed = {each.query.name: each.committed() for each in self.running}
        clocks = {name: each.clock_ms for name, each in committed.items() if each}
        windows = {each.query.name: each for each in self.running if each.query.follows == "events"}
        summaries = [each.query.name for each in self.running if each.query.follows == "rules"]
        events_ms = clocks.get("events", 0)
        self._advance(summaries, min((clocks.get(name, 0) for name in windows), default=events_ms))
        self._advance(windows, events_ms)
        enriched, judged = self.plan.topics[self.plan.use.enriched.name], self.traffic.judged
        ends = self.traffic.ends([judged, enriched])
        reached = {name: each.offsets if each else {} for name, each in committed.items()}
        judged_until = reached["events"] if self.plan.events else self.traffic.dealt_with()
        # Who drains asks for what is there to be dealt with; what another engine has yet to write is not there.
        is_judged = (self.is_drain and not self.plan.events) or covers(judged_until, ends, [judged])
        behind = {name for name, each in reached.items() if name != "events" and not covers(each, ends, [enriched])}
        waiting = [each for each in windows.values() if each.holds_windows()]
        # The windows may have read the last events before they were told of them.
        clock_ms = max((clocks.get(name, 0) for name in ("events", *windows)), default=0)
        look = Look(ends, is_judged and not behind & windows.keys(), clock_ms, bool(waiting))
        tick = self.silence.tick(look, int(time.time() * 1000))
        if tick is not None:
            self._advance([each.query.name for each in waiting], tick)
        return is_judged and not behind and not waiting

    def _advance(self, windows: Iterable[str], moment_ms: int) -> None:
        for name in windows:
            if moment_ms > self.clocks_ms.get(name, 0):
                self.ticks.advance(name, moment_ms)
                self.clocks_ms[name] = moment_ms

    def _write_progress(self, state: State, problem: str | None = None) -> None:
        told = {each.query.name: each.progress() for each in self.running}
        if state == "running" and not all(each.batches for each in told.values()):
            state = "starting"
        self.progress.write(state, told, problem, self.lost)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m millrace.engines.spark.job", description=main.__doc__)
    parser.add_argument("--plan", required=True, help="an engine plan as JSON, or @FILE")
    parser.add_argument("--jars", required=True, help="the Kafka connector's jars and the kernel's")
    parser.add_argument("--progress", required=True, type=Path, help="the file to keep the progress in")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--java-options", default="", help="of the driver's JVM, besides its settings")
    parser.add_argument("--drain", action="store_true", help="deal with all there is, close all windows, and end")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
