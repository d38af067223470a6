"""Storm's worker, supervisor and Nimbus are killed under labelled traffic: the verdict is ok, with each guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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

PATTERNS = {"killed": "at-least-once-with-ids", "killed-once": "exactly-once"}
FOLLOWED = "followed"
SECONDS = 20
GO_ON_WITHIN_S, BACK_WITHIN_S = 90, 120

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def target(with_storm: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The stack, with patterns that persist nothing; one has its windows in Spark."""
    changes: dict[str, dict[str, Any]] = {
        name: {"of": "storm-spark", "stages": {"windows": None, "persist": None}, "promises": {"delivery": delivery}}
        for name, delivery in PATTERNS.items()
    }
    changes[FOLLOWED] = {"of": "storm-spark", "stages": {"persist": None}}
    with own_patterns(tmp_path_factory.mktemp("patterns"), changes):
        yield Target.read(with_storm, {})


@pytest.fixture(scope="module")
def verdicts(target: Target, with_storm: Settings) -> Iterator[dict[str, Verdict]]:
    topic_of = {name: load(name).topic("enriched") for name in PATTERNS}

    def go_on() -> bool:
        before = topics.lengths(target.bootstrap, topic_of)

        def have_more() -> bool:
            now = topics.lengths(target.bootstrap, topic_of)
            return all(now[name] > before[name] + 50 for name in PATTERNS)

        return processes.wait_until(have_more, GO_ON_WITHIN_S)

    try:
        for name in PATTERNS:
            provision(target, name)
            deploy(target, name, report=print)
        senders = [Sender(target, name, f"{name}-t", SECONDS, closing_ms(load(name).use)) for name in PATTERNS]
        assert go_on()
        jobs = {name: deployments.deployed(target, name)["storm"] for name in PATTERNS}
        for plan in jobs.values():
            target.engine(plan.engine).end_stalled(plan)  # its worker

        def are_back() -> bool:
            found = [target.engine(plan.engine).job(plan) for plan in jobs.values()]
            return all(job.restarts and job.state == "running" for job in found)

        assert processes.wait_until(are_back, BACK_WITHIN_S)
        for server in ("storm-nimbus", "storm-supervisor"):
            processes.kill(processes.records(with_storm.run)[server])
        stacks.up(with_storm, ["storm"], report=print)  # as the watcher would
        for sender, name in zip(senders, PATTERNS, strict=True):
            await_healthy(target, name)
            sender.end()
        yield {name: validate(target, name, settled_after_s=10, report=print).verdict for name in PATTERNS}
    finally:
        for name in PATTERNS:
            teardown(target, name, data=True)


def check_it_is_ok(verdict: Verdict) -> None:
    problems = [f"{c.name} {c.status}: {c.why} {c.offenders[:3]}" for c in verdict.checks if c.status != "ok"]
    assert not problems
    assert verdict.status == "ok"


@pytest.mark.parametrize("name", PATTERNS)
def test_the_verdict_is_ok_though_worker_supervisor_and_nimbus_were_killed(
    verdicts: dict[str, Verdict], name: str
) -> None:
    verdict = verdicts[name]
    check_it_is_ok(verdict)
    assert ("repetitions" in {check.name for check in verdict.checks}) == (PATTERNS[name] == "exactly-once")


def test_a_teardown_with_data_leaves_none_of_its_topics(target: Target, verdicts: dict[str, Verdict]) -> None:
    own = {topic.name for topic in wanted_topics(load("killed"))}
    assert "killed-memory" in own
    removed = {change.name for change in teardown(target, "killed", data=True) if change.action == "remove"}
    assert own <= removed
    with topics.admin(target.bootstrap) as admin:
        assert [name for name in admin.list_topics() if name.startswith("killed") and "once" not in name] == []


@pytest.mark.drill
def test_the_verdict_is_ok_with_windows_in_spark_behind(target: Target) -> None:
    provision(target, FOLLOWED)
    try:
        deploy(target, FOLLOWED, report=print)
        Sender(target, FOLLOWED, f"{FOLLOWED}-t", SECONDS, closing_ms(load(FOLLOWED).use)).end()
        check_it_is_ok(validate(target, FOLLOWED, settled_after_s=30, report=print).verdict)
    finally:
        teardown(target, FOLLOWED, data=True)
