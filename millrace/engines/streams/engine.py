"""Kafka Streams applications: a process for each instance of a pattern's job, recorded like a server of the stack."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from millrace import kernel
from millrace.engines.streams import ENGINE
from millrace.engines.streams.job import MAIN, declaration
from millrace.engines.streams.libraries import compiled_against
from millrace.engines.streams.tuning import HEAP_MB
from millrace.job import Job, State
from millrace.job_processes import FIRST, ProcessJobs
from millrace.machine import archives, processes
from millrace.patterns import EnginePlan
from millrace.registry import Manifest
from millrace.servers.server import java, log4j2
from millrace.whole_files import write_whole

if TYPE_CHECKING:
    from millrace.target import Target

PLAN = "-Dmillrace.plan="
INSTANCE = "-Dmillrace.instance="
"""In the command of a process: the plan and its number, so that one without a record is recognised."""
STOP_WITHIN_S = 75
"""Longer than Main.java waits for its threads."""
STALLED_AFTER_S = 30
"""A job writes its progress every second."""
STARTED_WITHIN_S = 120


def connect(target: Target) -> Streams:
    """The processes of a target's stack."""
    return Streams(target.settings)


def job_of(progress: Mapping[str, Any], record: processes.ProcessRecord, now_s: float) -> Job:
    """The state of the job, from the progress of a live process."""
    silent_s = now_s - progress.get("written_ms", record.since * 1000) / 1000
    state: State = "running" if progress.get("state") == "running" else "starting"
    problem = ""
    if silent_s > (STALLED_AFTER_S if progress else STARTED_WITHIN_S):
        state, problem = "stalled", f"pid {record.pid} runs, and has made no progress for {silent_s:.0f} s"
    figures = {"lag": progress.get("lag", 0), "pid": record.pid}
    return Job(state=state, checkpoints=progress.get("commits", 0), problem=problem, figures=figures)


@dataclass(frozen=True)
class Streams(ProcessJobs):
    """Jobs in processes of their own."""

    engine: ClassVar[Manifest] = ENGINE
    stop_within_s: ClassVar[float] = STOP_WITHIN_S

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Start each process that does not run; it continues from the changelogs and committed offsets."""
        others = [own.plan for own in self._own(plan)]
        # What is skipped or changed, all processes of the job skip or change together.
        if self.instances(plan) > 1 and any(
            not each.is_same_as(plan) or each.accepted != plan.accepted for each in others
        ):
            self.stop(plan)
        self._remove_left(plan)
        for number in self._numbers(plan):
            if not self.instance(plan, number).is_up:
                self._start(plan, number)

    def local_state(self, plan: EnginePlan) -> Path:
        """A folder for each process: what the changelogs have, for a quick start."""
        return self.settings.state / "data" / ENGINE.name / plan.pattern

    def _remove_left(self, plan: EnginePlan) -> None:
        """Remove the folders of processes that the job has no longer."""
        numbers = {str(number) for number in self._numbers(plan)} | {str(own.instance) for own in self._own(plan)}
        for folder in self.local_state(plan).glob("*"):
            if folder.name not in numbers:
                shutil.rmtree(folder)

    def _start(self, plan: EnginePlan, number: int) -> None:
        def file(what: str, suffix: str = "json") -> Path:
            return self.file(plan, what, suffix, number)

        file("progress").unlink(missing_ok=True)
        folder = self.local_state(plan) / str(number)
        write_whole(file("job"), json.dumps(declaration(plan, folder, number, self.instances(plan))))
        write_whole(file("log4j2", "properties"), log4j2(self._log(plan, "log", number)))
        run = self.settings.run
        processes.start(
            self.name(plan, number), self._command(plan, number), {}, self._log(plan, "out", number), run, folder=run
        )

    def instances(self, plan: EnginePlan) -> int:
        """As many as the pattern's parallelism; the end of a finite stream is seen by one process alone."""
        return 1 if plan.finite else plan.parallelism

    def instance_of(self, words: Sequence[str]) -> int:
        return next((int(word.removeprefix(INSTANCE)) for word in words if word.startswith(INSTANCE)), FIRST)

    def alive(self, progress: Mapping[str, Any], record: processes.ProcessRecord, now_s: float) -> Job:
        return job_of(progress, record, now_s)

    def is_own(self, words: Sequence[str]) -> bool:
        return MAIN in words and words[words.index(MAIN) + 1].startswith(str(self.folder()))

    def plan_of(self, words: Sequence[str]) -> EnginePlan:
        return EnginePlan.from_json(next(word for word in words if word.startswith(PLAN)).removeprefix(PLAN))

    def _command(self, plan: EnginePlan, number: int) -> list[str]:
        class_path = os.pathsep.join(
            map(str, [*compiled_against(self.settings), kernel.ensure(self.settings, ENGINE.name)])
        )
        logging = f"-Dlog4j2.configurationFile={self.file(plan, 'log4j2', 'properties', number).as_uri()}"
        flags = (logging, f"{INSTANCE}{number}", f"{PLAN}{plan.to_json()}")
        files = [str(self.file(plan, each, number=number)) for each in ("job", "progress")]
        return archives.archived(
            self.settings, [*java(HEAP_MB, flags=flags, quick_start=False), "-cp", class_path, MAIN, *files]
        )

    def _log(self, plan: EnginePlan, suffix: str, number: int) -> Path:
        return self.settings.state / "logs" / f"{self.name(plan, number)}.{suffix}"
