"""A process of Kafka Streams that is killed and stands still under traffic: the verdict is ok, with each guarantee."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from millrace import deployments
from millrace.machine import processes
from millrace.patterns import load
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs.deploy import await_healthy, deploy
from millrace.verbs.provision import provision, wanted_topics
from millrace.verbs.reconcile import reconcile
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import validate
from millrace.verify import Verdict
from millrace.verify.closing import closing_ms
from tests.patterns import Sender, own_patterns, problems

PATTERNS = {"killed": "at-least-once-with-ids", "killed-once": "exactly-once"}
SECONDS = 18
STANDS_STILL_S = 7
"""Longer than a partition without traffic holds back the windows."""

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The stack, with patterns of one job, which persists nothing."""
    changes = {
        name: {"of": "streams", "stages": {"persist": None}, "promises": {"delivery": delivery}}
        for name, delivery in PATTERNS.items()
    }
    with own_patterns(tmp_path_factory.mktemp("patterns"), changes):
        yield Target.read(stack, {})


@pytest.fixture(scope="module")
def verdicts(target: Target) -> Iterator[dict[str, Verdict]]:
    with ThreadPoolExecutor() as both:
        try:
            yield dict(zip(PATTERNS, both.map(lambda name: killed_under_traffic(target, name), PATTERNS), strict=True))
        finally:
            for name in PATTERNS:
                teardown(target, name, data=True)


def killed_under_traffic(target: Target, name: str) -> Verdict:
    provision(target, name)
    deploy(target, name, report=print)
    sender = Sender(target, name, f"{name}-t", SECONDS, closing_ms(load(name).use))
    enriched = {"enriched": load(name).topic("enriched")}

    def has_read(messages: int) -> bool:
        return topics.lengths(target.bootstrap, enriched)["enriched"] > messages

    def process() -> processes.ProcessRecord:
        return processes.records(target.settings.run)[f"job-{name}-streams"]

    assert processes.wait_until(lambda: has_read(100), 120)
    processes.kill(process())
    reconcile(target, report=print)
    await_healthy(target, name)
    assert processes.wait_until(lambda: has_read(300), 120)
    processes.send(process(), signal.SIGSTOP)  # as a busy machine would
    time.sleep(STANDS_STILL_S)
    processes.send(process(), signal.SIGCONT)
    sender.end()
    return validate(target, name, settled_after_s=10, report=print).verdict


@pytest.mark.parametrize("name", PATTERNS)
def test_the_verdict_is_ok_though_the_process_was_killed_and_stood_still(
    target: Target, verdicts: dict[str, Verdict], name: str
) -> None:
    verdict = verdicts[name]
    assert not problems(verdict)
    assert deployments.deployed(target, name)["streams"].generation == 2
    assert ("repetitions" in {check.name for check in verdict.checks}) == (PATTERNS[name] == "exactly-once")


def test_a_teardown_with_data_leaves_none_of_its_topics(target: Target, verdicts: dict[str, Verdict]) -> None:
    own = {topic.name for topic in wanted_topics(load("killed"))}
    assert {"killed-memory-changelog", "killed-windows-changelog", "killed-dealt"} <= own
    job = deployments.deployed(target, "killed")["streams"]
    local = target.engine(job.engine).local_state(job)
    assert local is not None
    assert local.exists()
    removed = {change.name for change in teardown(target, "killed", data=True) if change.action == "remove"}
    assert own <= removed
    assert not local.exists()
    with topics.admin(target.bootstrap) as admin:
        assert [name for name in admin.list_topics() if name.startswith("killed") and "once" not in name] == []
