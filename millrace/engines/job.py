"""A job as every engine speaks of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from millrace.errors import InfraError
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss

State = Literal[
    "absent", "starting", "running", "degraded", "crash-looping", "stalled", "failed", "given-up", "stopped"
]
UP: Collection[State] = ("starting", "running", "degraded", "crash-looping", "stalled")
"""The engine runs it: another start would run it twice."""
SICK: Collection[State] = ("degraded", "crash-looping", "stalled", "failed", "given-up")
"""Somebody should look."""

RESTARTS_MOST, RESTARTS_WITHIN_S = 3, 300
LOOPING_AFTER_S = 30
"""A server that is killed makes its jobs restart a few times within seconds, until it is back: no crash loop yet."""


class EngineError(InfraError):
    """A job that did not do what was asked; names the job, the engine and where to look."""


class UsedUpError(EngineError):
    """A job whose id the engine takes no more: a job with it has ended, though the engine may no longer speak of it."""


@dataclass(frozen=True)
class Job:
    """What an engine says of the job of a plan."""

    state: State
    checkpoints: int = 0
    """Completed since it started: with one, a crash loses nothing."""
    restarts: int = 0
    web: str = ""
    problem: str = ""
    lost: tuple[Loss, ...] = ()
    """What was deleted before the job read it: no restart helps, a person must give it up."""
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_up(self) -> bool:
        return self.state in UP

    @property
    def is_sick(self) -> bool:
        return self.state in SICK


@dataclass(frozen=True)
class Running:
    """A job of a pattern that an engine runs, whoever started it."""

    job_id: str
    name: str
    where: str


def is_crash_loop(restarted_s: Iterable[float], healthy_s: float, now_s: float) -> bool:
    """Whether a job restarts too often, without a checkpoint since: `healthy_s` is when it completed its last one."""
    lately = [at for at in restarted_s if at > max(healthy_s, now_s - RESTARTS_WITHIN_S)]
    return len(lately) >= RESTARTS_MOST and min(lately) < now_s - LOOPING_AFTER_S


class Engine(Protocol):
    """What the verbs ask of an engine."""

    restarts_stalled: ClassVar[bool]
    """Whether a restart helps a job that makes no progress."""

    def job(self, plan: EnginePlan) -> Job:
        """The job of this plan as it is now."""

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Start the job, from a savepoint or checkpoint if one is given; starting it twice makes one job."""

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        """Trigger a checkpoint of the running job ahead of its time; False when it cannot take one yet."""

    def stop(self, plan: EnginePlan) -> str | None:
        """Stop the job so that it can go on later; gives the place of its state when there is a name for it."""

    def rehearse(self, running: EnginePlan, rehearsal: EnginePlan) -> None:
        """Try in a job of its own whether the running one's state can be restored; raises if not, leaves nothing."""

    def discard(self, plan: EnginePlan) -> None:
        """Stop the job and throw away the state that it made itself."""

    def end_stalled(self, plan: EnginePlan) -> None:
        """End a job that makes no progress, as a crash would, if a restart helps it."""

    def running(self) -> list[Running]:
        """Every job of a pattern that it runs, once for each time."""

    def latest_state(self, plan: EnginePlan) -> str | None:
        """The newest state from which the pattern's next generation can go on."""
