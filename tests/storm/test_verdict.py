"""Storm's worker, supervisor and Nimbus are killed under labelled traffic: the verdict is ok."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millrace import deployments
from millrace import stack as stacks
from millrace.machine import processes
from millrace.patterns import load
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs.deploy import await_healthy, deploy
from millrace.verbs.provision import provision, wanted_topics
from millrace.verbs.teardown import teardown
from millrace.verbs.traffic import closing_ms
from millrace.verbs.validate import validate
from millrace.verify import Verdict
from tests.patterns import Sender, own_patterns

NAME, SECONDS = "killed", 20

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def target(with_storm: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The stack, with a pattern of one job: its windows are shown where Spark's are."""
    changes = {NAME: {"of": "storm-spark", "stages": {"windows": None, "persist": None}}}
    with own_patterns(tmp_path_factory.mktemp("patterns"), changes):
        yield Target.read(with_storm, {})


@pytest.fixture(scope="module")
def verdict(target: Target, with_storm: Settings) -> Iterator[Verdict]:
    provision(target, NAME)
    deploy(target, NAME, report=print)
    sender = Sender(target, NAME, f"{NAME}-t", SECONDS, closing_ms(load(NAME).use))
    enriched = {"enriched": load(NAME).topic("enriched")}

    def judged() -> int:
        return topics.lengths(target.bootstrap, enriched)["enriched"]

    def goes_on() -> bool:
        before = judged()
        return processes.wait_until(lambda: judged() > before + 50, 90)

    try:
        assert goes_on()
        plan = deployments.deployed(target, NAME)["storm"]
        target.engine(plan.engine).end_stalled(plan)  # the worker
        assert goes_on()
        for server in ("storm-nimbus", "storm-supervisor"):
            processes.kill(processes.records(with_storm.run)[server])
        stacks.up(with_storm, ["storm"], report=print)  # as the watcher would
        await_healthy(target, NAME)
        sender.end()
        yield validate(target, NAME, settled_after_s=10, report=print).verdict
    finally:
        teardown(target, NAME, data=True)


def test_the_verdict_is_ok_though_worker_supervisor_and_nimbus_were_killed(verdict: Verdict) -> None:
    problems = [f"{c.name} {c.status}: {c.why} {c.offenders[:3]}" for c in verdict.checks if c.status != "ok"]
    assert not problems
    assert verdict.status == "ok"


def test_a_teardown_with_data_leaves_none_of_its_topics(target: Target, verdict: Verdict) -> None:
    own = {topic.name for topic in wanted_topics(load(NAME))}
    assert "killed-memory" in own
    removed = {change.name for change in teardown(target, NAME, data=True) if change.action == "remove"}
    assert own <= removed
    with topics.admin(target.bootstrap) as admin:
        assert [name for name in admin.list_topics() if name.startswith(NAME)] == []
