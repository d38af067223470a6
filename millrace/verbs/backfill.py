"""`backfill` runs a pattern's stages over a finite stream, under a name of its own, and judges the result.

First all events are written, then the engines run one after the other. Recorded time passes thousands of times as fast
as the clock: an engine that read while another still writes would take what comes a moment later for late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from millrace import deployments
from millrace.errors import InfraError, UsageError
from millrace.job import EngineError, State
from millrace.machine.processes import wait_until
from millrace.patterns import EnginePlan, Variant, backfills, is_name, load, names
from millrace.patterns import topics as topics_of
from millrace.rules import ALERTS, DEAD_LETTERS, UseCase
from millrace.stores import topics
from millrace.stores.topics import TimedMessage
from millrace.target import Target
from millrace.traffic import Columns, Label, Message
from millrace.traffic.replay import read_replay
from millrace.verbs import traffic
from millrace.verbs.cost import cpu_seconds
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import provision
from millrace.verbs.stored import is_stored, read_stored, require_restorable
from millrace.verbs.validate import Validation, validate

Report = Callable[[str], None]
REPORT_EVERY_S = 2.0
LOOK_EVERY_S = 1.0
STALLED_AFTER_S = 300
"""A job that has not ended, and has shown no sign of life for so long, never will."""
WORKS_FROM = 0.1
"""The share of a processor that the processes of a job use at least while they start; those that only wait use less."""
SUBMITTED_WITHIN_S = 15
RESTORED = Label("restored")


@dataclass(frozen=True)
class Recorded:
    """A finite stream: reference data, then events, each due at its arrival in milliseconds since 1970."""

    source: str
    about: str
    first_ms: int
    references: Callable[[], Iterator[Message]]
    messages: Callable[[], Iterator[Message]]


@dataclass(frozen=True)
class Backfill:
    """What a backfill wrote, and its verdict."""

    name: str
    of: str
    source: str
    counts: dict[str, int]
    """Kind of message -> how many messages its topic holds."""
    seconds: float
    validation: Validation


def backfill(target: Target, of: str, recorded: Recorded, name: str, *, report: Report = lambda line: None) -> Backfill:
    """Run the pattern `of` over all recorded events, as a pattern called `name`; its data stays until `teardown`."""
    began = time.monotonic()
    require_free(name)
    pattern = load(of)
    backfills.keep(name, of, recorded.source, pattern.pattern.model_dump(mode="json"))
    variant = load(name)
    provision(target, name)
    with _without_jobs_behind(target, name, report):
        _publish(target, variant, recorded, report)
        for plan in deployments.plans(target, variant):
            deploy(target, name, engines=[plan.engine], wait=False, report=report)
            _finish(target, variant, deployments.deployed(target, name)[plan.engine], report)
        report("all judged; the oracle compares")
        validation = validate(target, name, settled_after_s=0, report=report)
    counts = topics.lengths(target.bootstrap, topics_of(variant))
    return Backfill(name, of, recorded.source, counts, round(time.monotonic() - began, 1), validation)


def require_free(name: str) -> None:
    """Refuse a name that is invalid, or that a pattern or another backfill has."""
    if not is_name(name):
        raise UsageError(f"--into {name}: a name has lower-case letters, digits and dashes, as in march-2016")
    if name in names():
        raise UsageError(f"--into {name}: a pattern has this name; choose another one")
    if (content := backfills.content(name)) is not None:
        raise InfraError(
            f"there is a backfill '{name}' already, of {content['of']} from {content['from']}; remove it with "
            f"`millrace teardown {name} --data`, or choose another name"
        )


def read(target: Target, use: UseCase, source: str, columns: Columns | None = None) -> Recorded:
    """The events of a CSV or JSON-lines file, or those that a pattern stored as Parquet."""
    if is_stored(source):
        require_restorable(source, use)
        stored = read_stored(target, use, source)
        return Recorded(
            source,
            f"{len(stored):,} stored events",
            stored.table["ingest_ms"][0].as_py(),
            lambda: iter(()),
            lambda: (Message(each.ingest_ms, each.topic, each.key, each.value, RESTORED) for each in stored.records()),
        )
    replay = read_replay(Path(source), use, traffic.secrets_of(target.settings, use), columns)
    about = f"{replay.events:,} events" + (f", {replay.unparsed:,} of them unparsed" if replay.unparsed else "")
    return Recorded(source, about, replay.first_ms, replay.references, replay.recorded)


def _publish(target: Target, variant: Variant, recorded: Recorded, report: Report) -> None:
    topic_of = topics_of(variant)
    report(f"{recorded.source}: {recorded.about}")

    def timed() -> Iterator[TimedMessage]:
        # Kafka's client takes 0 for now.
        for each in recorded.references():
            yield topic_of[each.topic], each.key, each.value, max(1, recorded.first_ms)
        for each in recorded.messages():
            yield topic_of[each.topic], each.key, each.value, max(1, each.due_ms)

    def counted() -> Iterator[TimedMessage]:
        reported_at = time.monotonic()
        for count, message in enumerate(timed()):
            yield message
            if time.monotonic() > reported_at + REPORT_EVERY_S:
                reported_at = time.monotonic()
                report(f"{count:,} messages written")

    report(f"{topics.publish(target.bootstrap, counted()):,} messages written to {topic_of[variant.use.judged.name]}")


@dataclass
class Life:
    """The last sign of life of a job: its state changed, its outputs grew, or its processes worked while it started."""

    seen_at: float = 0.0
    looked_at: float = 0.0
    cpu_s: float = 0.0
    found: object = None

    def look(self, now: float, state: State, counts: Mapping[str, int], cpu_s: float) -> None:
        """Compare the job with what the look before has found."""
        works = cpu_s - self.cpu_s > WORKS_FROM * (now - self.looked_at)
        if (state, counts) != self.found or (state == "starting" and works):
            self.seen_at = now
        self.looked_at, self.cpu_s, self.found = now, cpu_s, (state, counts)


def _finish(target: Target, variant: Variant, plan: EnginePlan, report: Report) -> None:
    """Return when the job has judged all and has ended."""
    engine, job_name = target.engine(plan.engine), deployments.job_name(plan)
    outputs = {kind: topic for kind, topic in topics_of(variant).items() if kind in _outputs(variant)}
    life, reported_at = Life(), 0.0
    while not engine.finish(plan):
        job = engine.job(plan)
        if not job.is_up and job.state != "stopped":
            raise EngineError(f"{job_name} is {job.state}: {job.problem or 'no reason given'}; see `millrace logs`")
        if (now := time.monotonic()) > reported_at + REPORT_EVERY_S:
            reported_at, counts = now, topics.lengths(target.bootstrap, outputs)
            report(f"{job_name}: {job.state}; " + ", ".join(f"{count:,} {kind}" for kind, count in counts.items()))
            life.look(now, job.state, counts, cpu_seconds(target.settings, plan.pattern).get(plan.engine, 0.0))
            if now > life.seen_at + STALLED_AFTER_S:
                raise EngineError(
                    f"{job_name} has done nothing for {STALLED_AFTER_S} s and has not ended "
                    f"({job.state}: {job.problem or 'no error'}); see {job.web or '`millrace logs`'}"
                )
        time.sleep(LOOK_EVERY_S)
    report(f"{job_name}: ended")


def _outputs(variant: Variant) -> tuple[str, ...]:
    return variant.use.enriched.name, ALERTS.name, DEAD_LETTERS.name


@contextmanager
def _without_jobs_behind(target: Target, name: str, report: Report) -> Iterator[None]:
    """End the jobs of a backfill, whatever ends it."""
    try:
        yield
    except KeyboardInterrupt:
        report(f"interrupted: the jobs are stopped; `millrace teardown {name} --data` removes what was written")
        for plan in deployments.deployed(target, name).values():
            # An interrupted submission may still arrive.
            wait_until(partial(_is_there, target, plan), SUBMITTED_WITHIN_S)
        raise
    finally:
        for plan in deployments.deployed(target, name).values():
            target.engine(plan.engine).discard(plan)
        deployments.unwant(target, name)


def _is_there(target: Target, plan: EnginePlan) -> bool:
    return target.engine(plan.engine).job(plan).state != "absent"
