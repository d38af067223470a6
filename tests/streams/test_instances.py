"""A job of two processes, over four partitions: one is killed under traffic, the other takes over what it read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from millrace import deployments
from millrace.deployments import jobs
from millrace.job import Job
from millrace.machine import processes
from millrace.patterns import load
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import provision
from millrace.verbs.reconcile import extra
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import validate
from millrace.verify import Verdict
from millrace.verify.closing import closing_ms
from tests.patterns import Sender, own_patterns, problems

PATTERNS = {"shared": "at-least-once-with-ids", "shared-once": "exactly-once"}
SECONDS = 45
BACKLOG_S = 8
TAKEN_OVER_WITHIN_S = 60
FEW = 30
"""Purchases: half a second of them, of which a job has always some to commit."""

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Story:
    """What was seen on the way, and the verdict."""

    alone: Job
    """The job while one process ran it."""
    unread: int
    """What the process that was left had not read once it had taken over."""
    again: Job
    extra: int
    verdict: Verdict


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The stack, with patterns of two processes that persist nothing."""
    shared = load("streams").pattern.stages.events.model_copy(update={"parallelism": 2})
    changes = {
        name: {
            "of": "streams",
            "partitions": 4,
            "stages": {"events": shared.model_dump(mode="json"), "persist": None},
            "promises": {"delivery": delivery},
        }
        for name, delivery in PATTERNS.items()
    }
    with own_patterns(tmp_path_factory.mktemp("patterns"), changes):
        yield Target.read(stack, {})


@pytest.fixture(scope="module")
def stories(target: Target) -> Iterator[dict[str, Story]]:
    with ThreadPoolExecutor() as both:
        try:
            yield dict(zip(PATTERNS, both.map(lambda name: told(target, name), PATTERNS), strict=True))
        finally:
            for name in PATTERNS:
                teardown(target, name, data=True)


def told(target: Target, name: str) -> Story:
    provision(target, name)
    variant = load(name)
    judged = variant.topic(variant.use.judged.name)

    def unread() -> int:
        return topics.unread(target.bootstrap, name, [judged])

    sender = Sender(target, name, f"{name}-t", SECONDS, closing_ms(variant.use))
    time.sleep(BACKLOG_S)  # what was sent until then is a backlog
    deploy(target, name, report=print)
    assert processes.wait_until(lambda: unread() < FEW, 120)
    processes.kill(processes.records(target.settings.run)[f"job-{name}-streams-2"])
    ((_, alone),) = jobs(target, name).values()
    assert processes.wait_until(lambda: unread() > 2 * FEW, 20), "nobody read what the dead process would have read"
    processes.wait_until(lambda: unread() < FEW, TAKEN_OVER_WITHIN_S)
    left = unread()
    deploy(
        target, name, only_missing=True, report=print
    )  # as the watcher does; `reconcile` would look at the other, too
    ((_, again),) = jobs(target, name).values()
    found = [each for each in extra(target) if each.name.startswith(f"{name} ")]
    sender.end()
    verdict = validate(target, name, settled_after_s=10, report=print).verdict
    return Story(alone, left, again, len(found), verdict)


@pytest.mark.drill
@pytest.mark.parametrize("name", PATTERNS)
def test_the_verdict_is_ok_though_one_of_two_processes_was_killed_and_came_back(
    target: Target, stories: dict[str, Story], name: str
) -> None:
    verdict = stories[name].verdict
    assert not problems(verdict)
    assert ("repetitions" in {check.name for check in verdict.checks}) == (PATTERNS[name] == "exactly-once")


@pytest.mark.drill
@pytest.mark.parametrize("name", PATTERNS)
def test_the_process_that_is_left_takes_over_and_the_other_one_alone_is_started_again(
    target: Target, stories: dict[str, Story], name: str
) -> None:
    story = stories[name]
    assert (story.alone.state, story.alone.missing) == ("degraded", 1)
    assert story.unread < FEW
    assert (story.again.state, story.extra) == ("running", 0)
    assert deployments.deployed(target, name)["streams"].generation == 1
