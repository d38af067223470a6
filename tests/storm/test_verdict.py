"""Storm's worker, supervisor and Nimbus are killed under labelled traffic: the verdict is ok, with each guarantee."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from millrace import deployments, records
from millrace import stack as stacks
from millrace.engines.storm import tuning
from millrace.machine import processes
from millrace.patterns import load
from millrace.patterns.model import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs.deploy import await_healthy, deploy
from millrace.verbs.provision import provision, wanted_topics
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import validate
from millrace.verify import Verdict
from millrace.verify.closing import closing_ms
from tests.patterns import Sender, counts, own_patterns, problems

ALONE = {AT_LEAST_ONCE: "storm", EXACTLY_ONCE: "storm-exactly-once", AT_MOST_ONCE: "storm-at-most-once"}
"""The project's pattern for each guarantee."""
PATTERNS = {"killed": AT_LEAST_ONCE, "killed-once": EXACTLY_ONCE}
FOLLOWED = "followed"
COUNTED = {"counted": AT_LEAST_ONCE, "counted-once": EXACTLY_ONCE, "counted-lossy": AT_MOST_ONCE}
WORKER, SERVERS = "worker", ("storm-nimbus", "storm-supervisor")
IN_FLIGHT_MS = 2_000
"""The worker that loses has up to so much in flight when it is killed."""
SECONDS, SECONDS_OF_THREE = 20, 40
CONTINUES_WITHIN_S, BACK_WITHIN_S = 300, 300

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def target(with_storm: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The stack, with the project's patterns for Storm under other names; one has its windows in Spark."""
    changes: dict[str, dict[str, Any]] = {
        name: {"of": ALONE[delivery]} for name, delivery in {**PATTERNS, **COUNTED}.items()
    }
    changes[FOLLOWED] = {"of": "storm-spark", "stages": {"persist": None}}
    with own_patterns(tmp_path_factory.mktemp("patterns"), changes):
        yield Target.read(with_storm, {})


@dataclass(frozen=True)
class Judged:
    pattern: str
    verdict: Verdict


@pytest.fixture(scope="module", params=["killed", pytest.param("killed-once", marks=pytest.mark.drill)])
def judged(request: pytest.FixtureRequest, target: Target, with_storm: Settings) -> Iterator[Judged]:
    """A pattern whose worker, Nimbus and supervisor were killed while it had traffic."""
    name: str = request.param
    try:
        sender = under_traffic(target, name)
        kill_worker(target, name)
        kill_servers(with_storm, *SERVERS)
        await_healthy(target, name)
        sender.end()
        yield Judged(name, validate(target, name, settled_after_s=10, report=print).verdict)
    finally:
        teardown(target, name, data=True)


def under_traffic(target: Target, name: str, seconds: float = SECONDS) -> Sender:
    """Deploy a pattern, and return when its traffic comes out."""
    topic = load(name).topic("enriched")
    provision(target, name)
    deploy(target, name, report=print)
    sender = Sender(target, name, f"{name}-t", seconds, closing_ms(load(name).use))
    before = topics.lengths(target.bootstrap, {name: topic})[name]
    assert processes.wait_until(
        lambda: topics.lengths(target.bootstrap, {name: topic})[name] > before + 50, CONTINUES_WITHIN_S
    )
    return sender


def kill_worker(target: Target, name: str) -> None:
    """Kill the worker of a pattern, and return when another one runs."""
    plan = deployments.deployed(target, name)["storm"]
    engine = target.engine(plan.engine)
    engine.end_stalled(plan)

    def is_back() -> bool:
        job = engine.job(plan)
        return bool(job.restarts) and job.state == "running"

    assert processes.wait_until(is_back, BACK_WITHIN_S)


def kill_servers(settings: Settings, *names: str) -> None:
    for name in names:
        processes.kill(processes.records(settings.run)[name])
    stacks.up(settings, ["storm"], report=print)  # as the watcher would


def check_it_is_ok(verdict: Verdict) -> None:
    assert not problems(verdict)


def test_the_verdict_is_ok_though_worker_supervisor_and_nimbus_were_killed(judged: Judged) -> None:
    check_it_is_ok(judged.verdict)
    checks = {check.name for check in judged.verdict.checks}
    assert ("repetitions" in checks) == (PATTERNS[judged.pattern] == EXACTLY_ONCE)


def test_a_teardown_with_data_leaves_none_of_its_topics(target: Target, judged: Judged) -> None:
    name = judged.pattern
    own = {topic.name for topic in wanted_topics(load(name))}
    assert f"{name}-memory" in own
    job = deployments.deployed(target, name)["storm"]
    local = target.engine(job.engine).local_state(job)
    assert local is not None
    assert local.exists()
    removed = {change.name for change in teardown(target, name, data=True) if change.action == "remove"}
    assert own <= removed
    assert not local.exists()
    with topics.admin(target.bootstrap) as admin:
        assert own.isdisjoint(admin.list_topics())


@pytest.mark.drill
def test_the_verdict_is_ok_with_windows_in_spark_behind(target: Target) -> None:
    provision(target, FOLLOWED)
    try:
        deploy(target, FOLLOWED, report=print)
        Sender(target, FOLLOWED, f"{FOLLOWED}-t", SECONDS, closing_ms(load(FOLLOWED).use)).end()
        check_it_is_ok(validate(target, FOLLOWED, settled_after_s=30, report=print).verdict)
    finally:
        teardown(target, FOLLOWED, data=True)


@pytest.mark.drill
@pytest.mark.timeout(1800)
def test_what_a_kill_loses_at_most_once_is_counted_by_the_verdict(
    target: Target, with_storm: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nimbus has no messages in flight; a supervisor that starts again starts its workers again."""
    monkeypatch.setitem(tuning.CHECKPOINT_EVERY_MS, AT_MOST_ONCE, IN_FLIGHT_MS)
    found = {killed: counted_after(target, with_storm, killed) for killed in (WORKER, *SERVERS)}
    for counted in found.values():
        assert counted[AT_LEAST_ONCE]["events lost"] == counted[EXACTLY_ONCE]["events lost"] == 0
        assert counted[EXACTLY_ONCE]["copies"] == counted[AT_MOST_ONCE]["copies"] == 0
    assert found[WORKER][AT_MOST_ONCE]["events lost"] > 0
    # Where lab/records.py looks for it, not in the folder of the tests' stack.
    records.append(Settings.read(os.environ), "storm-kills", {"in_flight_ms": IN_FLIGHT_MS, "killed": found})


def counted_after(target: Target, settings: Settings, killed: str) -> dict[str, dict[str, Any]]:
    """What the verdict counts with each guarantee, after a kill under traffic."""

    def judged(name: str, sender: Sender) -> Verdict:
        await_healthy(target, name)
        sender.end()
        return validate(target, name, settled_after_s=10, report=print).verdict

    try:
        with ThreadPoolExecutor(len(COUNTED)) as all_at_once:
            senders = [*all_at_once.map(partial(under_traffic, target, seconds=SECONDS_OF_THREE), COUNTED)]
            if killed == WORKER:
                list(all_at_once.map(partial(kill_worker, target), COUNTED))
            else:
                kill_servers(settings, killed)
            found = [*all_at_once.map(judged, COUNTED, senders)]
    finally:
        for name in COUNTED:
            teardown(target, name, data=True)
    for verdict in found:
        check_it_is_ok(verdict)
    return dict(zip(COUNTED.values(), map(counts, found), strict=True))
