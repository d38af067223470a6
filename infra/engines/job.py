"""A job as every engine speaks of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from infra.errors import InfraError
from pipelines.patterns import EnginePlan

State = Literal["absent", "starting", "running", "failed", "stopped"]


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
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_up(self) -> bool:
        return self.state in ("starting", "running")


@dataclass(frozen=True)
class Running:
    """A job of a pattern that an engine runs, whoever started it."""

    job_id: str
    name: str
    where: str


class Engine(Protocol):
    """What the verbs ask of an engine."""

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

    def running(self) -> list[Running]:
        """Every job of a pattern that it runs, once for each time."""

    def latest_state(self, plan: EnginePlan) -> str | None:
        """The newest state from which the pattern's next generation can go on."""
