"""Jobs that are processes of this machine: one or more for each pattern, recorded like servers of the stack."""

from __future__ import annotations

import json
import signal
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil

from millrace.job import EngineError, Job, Running, State
from millrace.machine import processes
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss, problem_of
from millrace.registry import Manifest
from millrace.settings import Settings

WORST_LAST: Sequence[State] = ("running", "starting", "degraded", "crash-looping", "stalled")
ENDED_WORST_LAST: Sequence[State] = ("absent", "stopped", "failed")
FIRST = 1


@dataclass(frozen=True)
class Own:
    """A process of a job, as its command shows it."""

    pid: int
    plan: EnginePlan
    instance: int


def combined(found: Sequence[Job]) -> Job:
    """The state of a job of several instances: the worst of them, and degraded if one has ended while others run."""
    if len(found) == 1:
        return found[0]
    up = [each.state for each in found if each.is_up]
    missing = len(found) - len(up) if up else 0
    states = [*up, "degraded"] if missing else up or [each.state for each in found]
    problems = [f"instance {n} of {len(found)}: {each.problem}" for n, each in enumerate(found, FIRST) if each.problem]
    return Job(
        state=max(states, key=(WORST_LAST if up else ENDED_WORST_LAST).index),
        checkpoints=min(each.checkpoints for each in found),
        restarts=sum(each.restarts for each in found),
        web=found[0].web,
        problem="; ".join(problems),
        lost=tuple(loss for each in found for loss in each.lost),
        figures={"instances": [each.figures for each in found]},
        missing=missing,
    )


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
        """Start each process that does not run."""

    @abstractmethod
    def alive(self, progress: Mapping[str, Any], record: processes.ProcessRecord, now_s: float) -> Job:
        """The state of the job, from the progress of a live process."""

    @abstractmethod
    def is_own(self, words: Sequence[str]) -> bool:
        """Whether a command is that of a job of this stack."""

    @abstractmethod
    def plan_of(self, words: Sequence[str]) -> EnginePlan:
        """The plan in a command."""

    def instances(self, plan: EnginePlan) -> int:
        """How many processes run a plan together."""
        return 1

    def instance_of(self, words: Sequence[str]) -> int:
        """Which of them has this command."""
        return FIRST

    def refusal(self, plan: EnginePlan) -> str:
        """None: the processes run on this machine."""
        return ""

    def job(self, plan: EnginePlan) -> Job:
        """The state of the job, from its processes and their progress files."""
        return combined([self.instance(plan, number) for number in self._numbers(plan)])

    def instance(self, plan: EnginePlan, number: int) -> Job:
        """The state of one of its processes."""
        record = self._record(plan, number)
        if record is None:
            # The command that started it may have been killed before the record was written.
            unrecorded = [own.pid for own in self._own(plan) if own.instance == number]
            return Job("starting", problem=f"pid {unrecorded[0]} has no record yet") if unrecorded else Job("absent")
        progress = self._progress(plan, number)
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
        """Let the processes finish what they have begun, and end."""
        records = [record for number in self._numbers(plan) if (record := self._record(plan, number))]
        for record in records if len(records) > 1 else ():
            processes.send(record, signal.SIGTERM)  # to all at once, so that none takes over what another read
        for record in records:
            processes.stop(record, self.stop_within_s)
            processes.forget(record, self.settings.run)
        for own in self._own(plan):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(own.pid).kill()
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

    def discard_earlier(self, plan: EnginePlan, kept: Collection[str]) -> None:  # noqa: B027 - as above
        """Nothing to delete: all generations share their state."""

    def watermark_ms(self, plan: EnginePlan) -> int | None:
        """As the processes report it, if they do."""
        found: int | None = self.job(plan).figures.get("watermark_ms")
        return found

    def end_stalled(self, plan: EnginePlan) -> None:
        """End the processes without progress, and their descendants."""
        for number in self._numbers(plan):
            if self.instance(plan, number).state == "stalled" and (record := self._record(plan, number)) is not None:
                processes.stop(record, within_s=1)

    def running(self) -> list[Running]:
        """Every job of this stack's patterns, its processes recorded or not; twice if an instance runs twice."""
        jobs: dict[tuple[str, int], list[Own]] = defaultdict(list)
        seen: dict[tuple[str, int], int] = defaultdict(int)
        for own in self._processes():
            place = seen[own.plan.job_id, own.instance]
            seen[own.plan.job_id, own.instance] += 1
            jobs[own.plan.job_id, place].append(own)
        return [
            Running(
                job_id,
                f"{owns[0].plan.pattern} (generation {owns[0].plan.generation})",
                f"pid {', '.join(str(own.pid) for own in owns)}",
            )
            for (job_id, _), owns in jobs.items()
        ]

    def latest_state(self, plan: EnginePlan) -> str | None:
        """None: a job finds its state by the pattern's name."""
        return None

    def local_state(self, plan: EnginePlan) -> Path | None:
        """None, unless its processes keep some."""
        return None

    def name(self, plan: EnginePlan, number: int = FIRST) -> str:
        """The name of a process of the job among those of the stack."""
        return self.engine.process_of(plan.pattern, number)

    def file(self, plan: EnginePlan, what: str, suffix: str = "json", number: int = FIRST) -> Path:
        """A file of a process of the job in the state folder."""
        instance = "" if number == FIRST else f"-{number}"
        return self.folder() / f"{plan.pattern}-{self.engine.name}-{what}{instance}.{suffix}"

    def folder(self) -> Path:
        """Where these files are; their names distinguish the jobs of this stack from those of another."""
        folder = self.settings.state / "patterns"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _numbers(self, plan: EnginePlan) -> range:
        return range(FIRST, FIRST + self.instances(plan))

    def _own(self, plan: EnginePlan) -> list[Own]:
        return [own for own in self._processes() if own.plan.pattern == plan.pattern]

    def _processes(self) -> Iterator[Own]:
        for process in psutil.process_iter():
            with suppress(psutil.Error, ValueError, StopIteration):
                words = process.cmdline()
                if self.is_own(words):
                    yield Own(process.pid, self.plan_of(words), self.instance_of(words))

    def _record(self, plan: EnginePlan, number: int) -> processes.ProcessRecord | None:
        return processes.read(self.settings.run / f"{self.name(plan, number)}.json")

    def _progress(self, plan: EnginePlan, number: int) -> dict[str, Any]:
        path = self.file(plan, "progress", number=number)
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise EngineError(f"{path} is not valid JSON; stop and deploy {plan.pattern} again") from None
        return found
