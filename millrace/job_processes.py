"""Jobs that are processes of this machine: one for each pattern, recorded like a server of the stack."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil

from millrace.job import EngineError, Job, Running
from millrace.machine import processes
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss, problem_of
from millrace.registry import Manifest
from millrace.settings import Settings


@dataclass(frozen=True)
class ProcessJobs(ABC):
    """What the engines share whose jobs are processes with a progress file that they keep fresh."""

    settings: Settings

    engine: ClassVar[Manifest]
    called: ClassVar[str] = "process"
    stop_within_s: ClassVar[float]
    restarts_stalled: ClassVar[bool] = True

    @abstractmethod
    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Start the process unless it runs."""

    @abstractmethod
    def alive(self, progress: Mapping[str, Any], record: processes.ProcessRecord, now_s: float) -> Job:
        """The state of the job, from the progress of a live process."""

    @abstractmethod
    def is_own(self, words: Sequence[str]) -> bool:
        """Whether a command is that of a job of this stack."""

    @abstractmethod
    def plan_of(self, words: Sequence[str]) -> EnginePlan:
        """The plan in a command."""

    def job(self, plan: EnginePlan) -> Job:
        """The state of the job, from its process and its progress file."""
        record = self._record(plan)
        if record is None:
            # The command that started it may have been killed before the record was written.
            unrecorded = [pid for pid, other in self._processes() if other.pattern == plan.pattern]
            return Job("starting", problem=f"pid {unrecorded[0]} has no record yet") if unrecorded else Job("absent")
        progress = self._progress(plan)
        if processes.alive(record):
            return self.alive(progress, record, time.time())
        if self.plan_of(record.command).generation != plan.generation:
            return Job("absent")  # it is another generation's process that died
        if progress.get("state") == "stopped":
            return Job("stopped")
        lost = tuple(Loss(**each) for each in progress.get("lost", ()))
        last = next((line for line in reversed(processes.tail(record.log, 50)) if line.strip()), "")
        problem = progress.get("problem") or f"the {self.called} has ended; the last lines of its log: {last}"
        return Job("failed", problem=problem_of(plan.pattern, lost) if lost else problem, lost=lost)

    def stop(self, plan: EnginePlan) -> str | None:
        """Let the process finish what it has begun, and end."""
        record = self._record(plan)
        if record is not None:
            processes.stop(record, self.stop_within_s)
            processes.forget(record, self.settings.run)
        for pid, other in self._processes():
            if other.pattern == plan.pattern:
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()
        return None

    def finish(self, plan: EnginePlan) -> bool:
        """Whether the process has ended, as that of a finite plan does by itself."""
        return self.job(plan).state == "stopped"

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        """Nothing to trigger: a job commits all the time."""
        return True

    def rehearse(self, running: EnginePlan, rehearsal: EnginePlan) -> None:  # noqa: B027 - for most there is none
        """Nothing to try: memory is kept by each measure's signature, and another version of a window begins anew."""

    def discard(self, plan: EnginePlan) -> None:
        """Stop the process; its state is that of all generations and stays."""
        self.stop(plan)

    def end_stalled(self, plan: EnginePlan) -> None:
        """End the process and its descendants."""
        if (record := self._record(plan)) is not None:
            processes.stop(record, within_s=1)

    def running(self) -> list[Running]:
        """Every process of this stack's patterns, recorded or not."""
        return [
            Running(plan.job_id, f"{plan.pattern} (generation {plan.generation})", f"pid {pid}")
            for pid, plan in self._processes()
        ]

    def latest_state(self, plan: EnginePlan) -> str | None:
        """None: a job finds its state by the pattern's name."""
        return None

    def name(self, plan: EnginePlan) -> str:
        """The name of the process among those of the stack."""
        return self.engine.process.format(pattern=plan.pattern)

    def file(self, plan: EnginePlan, what: str, suffix: str = "json") -> Path:
        """A file of the job in the state folder."""
        return self.folder() / f"{plan.pattern}-{self.engine.name}-{what}.{suffix}"

    def folder(self) -> Path:
        """Where these files are; their names distinguish the jobs of this stack from those of another."""
        folder = self.settings.state / "patterns"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _processes(self) -> Iterator[tuple[int, EnginePlan]]:
        for process in psutil.process_iter():
            with suppress(psutil.Error, ValueError, StopIteration):
                words = process.cmdline()
                if self.is_own(words):
                    yield process.pid, self.plan_of(words)

    def _record(self, plan: EnginePlan) -> processes.ProcessRecord | None:
        return processes.read(self.settings.run / f"{self.name(plan)}.json")

    def _progress(self, plan: EnginePlan) -> dict[str, Any]:
        path = self.file(plan, "progress")
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise EngineError(f"{path} is not valid JSON; stop and deploy {plan.pattern} again") from None
        return found
