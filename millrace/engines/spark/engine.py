"""Spark applications: one driver process for each pattern, recorded like a server of the stack."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psutil

from millrace import kernel
from millrace.engines.spark import ENGINE
from millrace.engines.spark.libraries import package
from millrace.job import EngineError, Job, Running, State, is_crash_loop
from millrace.machine import archives, environments, jars, processes
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss
from millrace.settings import Settings

if TYPE_CHECKING:
    from millrace.target import Target

STOP_WITHIN_S = 90
STALLED_AFTER_S = 30
"""A driver writes its progress every second."""
STARTED_WITHIN_S = 180
"""Until its JVM and its queries are there, it writes nothing."""


def connect(target: Target) -> Spark:
    """The drivers of a target's stack."""
    return Spark(target.settings, target.address("SPARK_MASTER"))


def job_of(progress: Mapping[str, Any], record: processes.ProcessRecord, now_s: float) -> Job:
    """The state of the job, from the progress of a live driver."""
    queries = progress.get("queries", {})
    silent_s = now_s - progress.get("written_ms", record.since * 1000) / 1000
    batches = min((query.get("batches", 0) for query in queries.values()), default=0)
    failing = {name: query for name, query in queries.items() if query.get("failures")}
    is_looping = any(is_crash_loop([ms / 1000 for ms in query["failed_ms"]], 0, now_s) for query in failing.values())
    problem = "; ".join(f"{name}: {query['problem']}" for name, query in failing.items())
    state: State = "running" if batches else "starting"
    if silent_s > (STALLED_AFTER_S if queries else STARTED_WITHIN_S):
        state, problem = "stalled", f"pid {record.pid} runs, and has made no progress for {silent_s:.0f} s"
    elif is_looping:
        state = "crash-looping"
    elif failing:
        state = "degraded"
    return Job(
        state=state,
        checkpoints=batches,
        restarts=sum(query.get("restarts", 0) for query in queries.values()),
        web=progress.get("web", ""),
        problem=problem,
        figures={"queries": queries, "pid": record.pid},
    )


@dataclass(frozen=True)
class Spark:
    """Drivers in processes of their own; their progress is a file that they keep fresh."""

    settings: Settings
    master: str

    restarts_stalled: ClassVar[bool] = True

    def job(self, plan: EnginePlan) -> Job:
        """The state of the job, from the driver's process and its progress file."""
        record = self._record(plan)
        if record is None:
            # The command that started it may have been killed before the record was written.
            unrecorded = [pid for pid, other in self._drivers() if other.pattern == plan.pattern]
            return Job("starting", problem=f"pid {unrecorded[0]} has no record yet") if unrecorded else Job("absent")
        progress = self._progress(plan)
        if not processes.alive(record):
            if _plan_of(record.command).generation != plan.generation:
                return Job("absent")  # it is another generation's driver that died
            if progress.get("state") == "stopped":
                return Job("stopped")
            last = next((line for line in reversed(processes.tail(record.log, 50)) if line.strip()), "")
            problem = progress.get("problem") or f"the driver has ended; the last lines of its log: {last}"
            return Job("failed", problem=problem, lost=tuple(Loss(**each) for each in progress.get("lost", ())))
        return job_of(progress, record, time.time())

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Start the driver unless it runs; it continues from the checkpoints that the plan names."""
        if self.job(plan).is_up:
            return
        self._progress_file(plan).unlink(missing_ok=True)
        run = self.settings.state / "run"
        processes.start(
            self._name(plan),
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
                str(self._progress_file(plan)),
                f"--java-options={shlex.join(self._java_options())}",
            ],
            environments.variables_of_python(self.settings),
            self.settings.state / "logs" / f"{self._name(plan)}.out",
            run,
            folder=run,
        )

    def stop(self, plan: EnginePlan) -> str | None:
        """Let the driver finish its batch and end."""
        record = self._record(plan)
        if record is not None:
            processes.stop(record, STOP_WITHIN_S)
            processes.forget(record, self.settings.state / "run")
        for pid, other in self._drivers():
            if other.pattern == plan.pattern:
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()
        return None

    def finish(self, plan: EnginePlan) -> bool:
        """Whether the driver has ended, as that of a finite plan does by itself."""
        return self.job(plan).state == "stopped"

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        """Nothing to trigger: each batch ends with a checkpoint."""
        return True

    def owned(self, plan: EnginePlan) -> list[str]:
        """None: all state is in checkpoints."""
        return []

    def rehearse(self, running: EnginePlan, rehearsal: EnginePlan) -> None:
        """Nothing to try: memory is kept by each measure's signature, and another version of a window begins anew."""

    def discard(self, plan: EnginePlan) -> None:
        """Stop the driver; its checkpoints are those of all generations and stay."""
        self.stop(plan)

    def end_stalled(self, plan: EnginePlan) -> None:
        """End the driver and its JVM."""
        if (record := self._record(plan)) is not None:
            processes.stop(record, within_s=1)

    def running(self) -> list[Running]:
        """Every driver of this stack's patterns among the machine's processes, recorded or not."""
        return [
            Running(plan.job_id, f"{plan.pattern} (generation {plan.generation})", f"pid {pid}")
            for pid, plan in self._drivers()
        ]

    def latest_state(self, plan: EnginePlan) -> str | None:
        """None: Spark finds its checkpoints in the plan's folder."""
        return None

    def _drivers(self) -> Iterator[tuple[int, EnginePlan]]:
        folder = str(self._progress_folder())
        for process in psutil.process_iter():
            with suppress(psutil.Error, ValueError):
                words = process.cmdline()
                if "millrace.engines.spark.job" in words and words[words.index("--progress") + 1].startswith(folder):
                    yield process.pid, _plan_of(words)

    def _jars(self) -> list[Path]:
        return [*sorted(jars.folder(self.settings, "spark").glob("*.jar")), kernel.ensure(self.settings, ENGINE.name)]

    def _java_options(self) -> list[str]:
        """The archive of the driver's JVM, whose class path Spark makes of these jars and its own."""
        if not self.master.startswith("local"):
            return []  # the jars are copied to where each job is
        spark = package(self.settings)
        class_path = os.pathsep.join(map(str, [*self._jars(), spark / "conf", spark / "jars" / "*"]))
        return archives.options(self.settings, "org.apache.spark.deploy.SparkSubmit", class_path)

    def _record(self, plan: EnginePlan) -> processes.ProcessRecord | None:
        return processes.read(self.settings.state / "run" / f"{self._name(plan)}.json")

    def _name(self, plan: EnginePlan) -> str:
        return ENGINE.process.format(pattern=plan.pattern)

    def _progress_file(self, plan: EnginePlan) -> Path:
        return self._progress_folder() / f"{plan.pattern}-spark-progress.json"

    def _progress_folder(self) -> Path:
        folder = self.settings.state / "patterns"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _progress(self, plan: EnginePlan) -> dict[str, Any]:
        path = self._progress_file(plan)
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise EngineError(f"{path} is not valid JSON; stop and deploy {plan.pattern} again") from None
        return found


def _plan_of(command: Sequence[str]) -> EnginePlan:
    """The plan in a driver's command."""
    return EnginePlan.from_json(command[command.index("--plan") + 1])
