"""The interface of an engine for the verbs, and the states of its jobs.

Besides this protocol, a job keeps seven promises that its callers rest on:

- **At least once.** An output is acknowledged by Kafka before the state that covers its input is complete. A job that
  is killed and started from its newest state writes some outputs again, under the same ids.
- **Committed offsets.** A job that runs the per-event stage (`windows-elsewhere`) commits, for the consumer group that
  is named like the pattern, how far it has judged each partition of the judged topic: the next offset, and only once
  the outputs of all messages before it are acknowledged, refusals included. In silence it reaches the ends. The
  windows of another engine (`events-elsewhere`) read it: when it has reached the end and nothing more comes, they
  close. A finite job ends behind the ends. A rehearsal is another pattern by name, so it commits elsewhere.
- **Time of a backlog.** Tasks of a job do not wait for each other, and while they read a backlog the intermediate topic
  is in no order of time. An event that such a job writes has the header `backlog` until all of its tasks have caught up
  and all that they wrote before is acknowledged; windows of another engine take no time from it. Beside the committed
  offsets of the judged topic stands a note, as JSON: `newest_ms`, the newest moment to which an event of the partition
  has moved time, or 0; `through_ms`, the moment before which no event of the partition is still to be written. It may
  have more, for the engine itself. Time follows these (decision 0042). A job without header and notes writes its events
  in the order of their arrival.
- **Exactly once.** Where the plan's `delivery` is that, and the engine declares it, a reader of committed messages gets
  no output twice. Its transactional ids begin with the pattern's name and a dash: Kafka's ACLs name that prefix.
- **At most once.** Where `delivery` is that, offsets are committed before their messages are judged, and the state is
  written before its outputs: the promises on outputs, committed offsets and backlogs do not hold. `Job.in_flight` has
  the offsets that each restart may have lost (decision 0055).
- **State in topics.** State that is not below `plan.checkpoints` is in topics that the engine's manifest declares.
- **Stable names.** State is kept by the names of rules and measures: the next generation of a job restores what the
  rules it still has remembered, and drops the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from millrace.errors import InfraError
from millrace.patterns import EnginePlan
from millrace.patterns.loss import InFlight, Loss

State = Literal[
    "absent", "starting", "running", "degraded", "crash-looping", "stalled", "failed", "given-up", "stopped"
]
"""How a job is:

- `absent`: the engine has no job of this id, or has lost it in a crash; the id can be used.
- `starting`: taken, and not all of it works yet; also while the engine restarts it after a failure.
- `running`: all of it works.
- `degraded`: it works, and a part of it has failed, which is retried or started again: a store is unreachable, or one
  of its processes has died.
- `crash-looping`: it restarts again and again, without a checkpoint in between or with some (`is_crash_loop`).
- `stalled`: it is up and makes no progress.
- `failed`: it has ended with an error, and its id is used up; the engine does not restart it.
- `given-up`: the watcher does not restart it either; no engine reports this.
- `stopped`: it has ended after a stop request, and its id is used up.
"""
UP: Collection[State] = ("starting", "running", "degraded", "crash-looping", "stalled")
"""The engine runs it: another start would run it twice."""
SICK: Collection[State] = ("degraded", "crash-looping", "stalled", "failed", "given-up")
"""The states that need a person."""
DOWN: Collection[State] = ("absent", "stopped")
"""It does not run, and no error has ended it: an outage of a deployed pattern, unless a verb replaces the job."""

RESTARTS_MOST, RESTARTS_WITHIN_S = 3, 300
"""Without a checkpoint."""
OUTAGES_MOST, OUTAGES_WITHIN_S = 8, 600
"""With checkpoints in between: a job that dies every minute completes some, and repeats its outputs each time."""
OUTAGE_S = 30
"""A server that is killed makes its jobs restart a few times within seconds, until it is back: that is one outage."""
WELL_AFTER_S = 120
"""A job that has not restarted for so long has recovered, however often it did before."""
RESTARTS_KEPT = 50
"""So many, the newest, an engine has to show: those of as many outages, several in each."""


class EngineError(InfraError):
    """A failed request to a job; names the job, the engine and the place of the log."""


class UsedUpError(EngineError):
    """A job whose id is used up: a job with it has ended, even if the engine reports it as absent by now."""


@dataclass(frozen=True)
class Job:
    """How the job of a plan is."""

    state: State
    checkpoints: int = 0
    """Completed since it started: with one, a crash loses nothing."""
    checkpointed_ms: int | None = None
    """When it completed the last one, where the engine has that time."""
    restarts: int = 0
    web: str = ""
    metrics: tuple[str, ...] = ()
    """Where Prometheus reads the engine's own figures of it."""
    problem: str = ""
    lost: tuple[Loss, ...] = ()
    """What was deleted before the job read it: no restart helps, a person must give it up."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    in_flight: tuple[InFlight, ...] = ()
    """At most once: what its restarts may have lost, those of earlier generations too."""
    missing: int = 0
    """Parts of it that have ended while others run: another start of the same plan runs them again."""

    @property
    def is_up(self) -> bool:
        return self.state in UP

    @property
    def is_whole(self) -> bool:
        """Whether all of it is up."""
        return self.is_up and not self.missing

    @property
    def is_sick(self) -> bool:
        return self.state in SICK


@dataclass(frozen=True)
class Running:
    """A job of a pattern that an engine runs, deployed or not."""

    job_id: str
    name: str
    where: str


def is_crash_loop(restarted_s: Iterable[float], healthy_s: float, now_s: float) -> bool:
    """Whether its engine restarts a job too often; `healthy_s` is when it completed its last checkpoint.

    Not counted: a process that ends, be it Spark's driver or an instance of Kafka Streams. The watcher restarts it, and
    has a limit of its own.
    """
    times = sorted(restarted_s)
    since = [at for at in times if at > max(healthy_s, now_s - RESTARTS_WITHIN_S)]
    if len(since) >= RESTARTS_MOST and since[0] < now_s - OUTAGE_S:
        return True
    lately = [at for at in _outages(times) if at > now_s - OUTAGES_WITHIN_S]
    return len(lately) >= OUTAGES_MOST and times[-1] > now_s - WELL_AFTER_S


def _outages(times_s: Iterable[float]) -> list[float]:
    """When each outage began; of restarts in order."""
    began: list[float] = []
    for at in times_s:
        if not began or at > began[-1] + OUTAGE_S:
            began.append(at)
    return began


class Engine(Protocol):
    """The jobs of one engine on a target; `engines/<name>/engine.py` gives one by `connect(target)`.

    A job is named by its plan's `job_id`, which each generation of a pattern has anew. Every method is idempotent and
    may be called again after a crash in the middle of it. A method that cannot reach the engine raises `EngineError`.
    """

    restarts_stalled: ClassVar[bool]
    """Whether a restart helps a job that makes no progress."""

    def job(self, plan: EnginePlan) -> Job:
        """The state of the plan's job now."""

    def watermark_ms(self, plan: EnginePlan) -> int | None:
        """The moment of event time that all windows of the plan's job have reached; None where there is none."""

    def refusal(self, plan: EnginePlan) -> str:
        """Why the engine cannot take the plan's job now, with the remedy; empty if it can, or if it runs there.

        `deploy` calls it for every engine of a pattern before it changes anything.
        """

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Submit the job, with the state at that place if one is given; return once the engine has taken it.

        A second start makes no second job, and starts the missing parts of one. An id that is used up raises
        `UsedUpError`.
        """

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        """Trigger a checkpoint of the running job ahead of its time; False while it cannot take one yet."""

    def stop(self, plan: EnginePlan) -> str | None:
        """Stop the job with its state, and return once it has ended and writes nothing more.

        Returns the place of that state for `start`. None means that `start` without a place finds it, or, after a job
        that could not save it any more, that `latest_state` has the newest there is.
        """

    def finish(self, plan: EnginePlan) -> bool:
        """Whether the job of a finite plan has judged all, closed its windows and ended; ends it when it can.

        Call it until it returns True. Jobs of the plan's earlier stages must have ended.
        """

    def rehearse(self, running: EnginePlan, rehearsal: EnginePlan) -> None:
        """Try in a job of its own whether the running one's state can be restored.

        Raises `EngineError` with the reason if it cannot. The running job is not disturbed, and nothing is left.
        """

    def discard(self, plan: EnginePlan) -> None:
        """Stop the job and delete the state that this generation made, and no other's."""

    def discard_earlier(self, plan: EnginePlan, kept: Collection[str]) -> None:
        """Delete the state that earlier generations made, and no kept place.

        Nothing is deleted before the plan's job has a checkpoint of its own, or where generations share their state.
        """

    def end_stalled(self, plan: EnginePlan) -> None:
        """End a job that makes no progress, as a crash would; nothing where a restart does not help."""

    def running(self) -> list[Running]:
        """Every job of a pattern that the engine runs now, deployed or not; one that runs twice is there twice."""

    def latest_state(self, plan: EnginePlan) -> str | None:
        """The place of the newest complete state of any generation; None if there is none, or `start` finds it."""

    def local_state(self, plan: EnginePlan) -> Path | None:
        """The folder of this machine where all jobs of the pattern keep state, there or not; None if they keep none."""
