"""Spark applications: one driver process for each pattern, recorded like a server of the stack."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from millrace import kernel
from millrace.engines.spark import ENGINE
from millrace.engines.spark.libraries import package
from millrace.engines.spark.tuning import LOCAL, TASKS_AT_ONCE_MOST, tasks_at_once
from millrace.job import Job, State, is_crash_loop
from millrace.job_processes import ProcessJobs
from millrace.machine import archives, environments, jars, processes
from millrace.patterns import EnginePlan
from millrace.registry import Manifest

if TYPE_CHECKING:
    from millrace.target import Target

IS_HERE = re.compile(r"local(\[[0-9*]+\])?$|spark://(127\.0\.0\.1|localhost):[0-9]+$")
STOP_WITHIN_S = 90
STALLED_AFTER_S = 30
"""A driver writes its progress every second."""
STARTED_WITHIN_S = 180
"""Until its JVM and its queries are there, it writes nothing."""


def connect(target: Target) -> Spark:
    """The drivers of a target's stack."""
    return Spark(
        target.settings,
        target.address("SPARK_MASTER"),
        target.addresses.get("SPARK_PROMETHEUS", ""),
        target.addresses.get("HDFS_USER", ""),
    )


def job_of(progress: Mapping[str, Any], record: processes.ProcessRecord, now_s: float) -> Job:
    """The state of the job, from the progress of a live driver."""
    queries = progress.get("queries", {})
    silent_s = now_s - progress.get("written_ms", record.since * 1000) / 1000
    batches = min((query.get("batches", 0) for query in queries.values()), default=0)
    looping = {name for name, query in queries.items() if _is_looping(query, now_s)}
    failing = {name: query for name, query in queries.items() if query.get("failures") or name in looping}
    problem = "; ".join(f"{name}: {query['problem']}" for name, query in failing.items())
    state: State = "running" if batches else "starting"
    if silent_s > (STALLED_AFTER_S if queries else STARTED_WITHIN_S):
        state, problem = "stalled", f"pid {record.pid} runs, and has made no progress for {silent_s:.0f} s"
    elif looping:
        state = "crash-looping"
    elif failing:
        state = "degraded"
    return Job(
        state=state,
        checkpoints=batches,
        restarts=sum(query.get("restarts", 0) for query in queries.values()),
        web=progress.get("web", ""),
        metrics=(progress["metrics"],) if progress.get("metrics") else (),
        problem=problem,
        figures={"queries": queries, "pid": record.pid, "watermark_ms": _watermark_ms(queries)},
    )


def _is_looping(query: Mapping[str, Any], now_s: float) -> bool:
    failed_s = [ms / 1000 for ms in query.get("failed_ms", ())]
    return is_crash_loop(failed_s, query.get("well_ms", 0) / 1000, now_s)


def _watermark_ms(queries: Mapping[str, Any]) -> int | None:
    """That of the slowest query which has one."""
    shown = [query["watermark"] for query in queries.values() if query.get("watermark")]
    found = [int(datetime.fromisoformat(each).timestamp() * 1000) for each in shown]
    return min((each for each in found if each > 0), default=None)


@dataclass(frozen=True)
class Spark(ProcessJobs):
    """Drivers in processes of their own."""

    master: str
    prometheus: str = ""
    """The path of each driver's figures for Prometheus; without one it has no page."""
    hdfs_user: str = ""
    """Who writes checkpoints and files; empty: the user whose process the driver is."""

    engine: ClassVar[Manifest] = ENGINE
    called: ClassVar[str] = "driver"
    stop_within_s: ClassVar[float] = STOP_WITHIN_S

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Start the driver unless it runs; it continues from the checkpoints that the plan names."""
        if self.job(plan).is_up:
            return
        self.file(plan, "progress").unlink(missing_ok=True)
        run = self.settings.run
        processes.start(
            self.name(plan),
            [
                str(environments.python(self.settings, ENGINE.name)),
                "-m",
                "millrace.engines.spark.job",
                "--plan",
                plan.to_json(),
                "--master",
                self.master,
                "--jars",
                os.pathsep.join(map(str, self._jars())),
                "--progress",
                str(self.file(plan, "progress")),
                *(("--prometheus", self.prometheus) if self.prometheus else ()),
                f"--java-options={shlex.join(self._java_options())}",
            ],
            environments.variables_of_python(self.settings)
            | ({"HADOOP_USER_NAME": self.hdfs_user} if self.hdfs_user else {}),
            self.settings.state / "logs" / f"{self.name(plan)}.out",
            run,
            folder=run,
        )

    def refusal(self, plan: EnginePlan) -> str:
        """Why a driver cannot run a plan; the processes of a cluster on this machine run its tasks beside it."""
        if not IS_HERE.match(self.master):
            return (
                f"SPARK_MASTER is {self.master}, and a driver listens on 127.0.0.1 only, where executors on other "
                "machines cannot reach it; give MILLRACE_TARGET local, local[N] or spark://127.0.0.1:PORT"
            )
        if self.master != LOCAL or (tasks := tasks_at_once(plan)) <= TASKS_AT_ONCE_MOST:
            return ""
        return (
            f"in real time a task waits at each partition of the raw topics, which makes {tasks} with "
            f"partitions: {plan.partitions}, and a driver without a cluster runs at most {TASKS_AT_ONCE_MOST} at once; "
            "lower partitions, take real_time out, or give MILLRACE_TARGET the SPARK_MASTER of a cluster"
        )

    def alive(self, progress: Mapping[str, Any], record: processes.ProcessRecord, now_s: float) -> Job:
        return job_of(progress, record, now_s)

    def is_own(self, words: Sequence[str]) -> bool:
        is_driver = "millrace.engines.spark.job" in words
        return is_driver and words[words.index("--progress") + 1].startswith(str(self.folder()))

    def plan_of(self, words: Sequence[str]) -> EnginePlan:
        return EnginePlan.from_json(words[words.index("--plan") + 1])

    def _jars(self) -> list[Path]:
        return [*sorted(jars.folder(self.settings, "spark").glob("*.jar")), kernel.ensure(self.settings, ENGINE.name)]

    def _java_options(self) -> list[str]:
        """The archive of the driver's JVM, whose class path Spark makes of these jars and its own."""
        if not self.master.startswith("local"):
            return []  # the jars are copied to where each job is
        spark = package(self.settings)
        class_path = os.pathsep.join(map(str, [*self._jars(), spark / "conf", spark / "jars" / "*"]))
        return archives.options(self.settings, "org.apache.spark.deploy.SparkSubmit", class_path)
