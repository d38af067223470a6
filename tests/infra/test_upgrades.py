"""Upgrades on the real stack: under traffic, refused before anything stops, and taken back."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from infra import lifecycle, upgrades
from infra.engines.flink import Flink
from infra.engines.job import EngineError, Job
from infra.environments import python
from infra.settings import Settings
from infra.target import Target
from pipelines.patterns import Variant, load

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]


@pytest.fixture
def target(stack: Settings) -> Target:
    return Target.read(stack, {})


@pytest.fixture
def running(target: Target, request: pytest.FixtureRequest) -> Iterator[str]:
    """A pattern that runs, and is gone with all its data afterwards."""
    name = request.param
    lifecycle.teardown(target, name, data=True)
    lifecycle.provision(target, name)
    lifecycle.deploy(target, name, report=print)
    yield name
    lifecycle.teardown(target, name, data=True)


def generations(target: Target, name: str) -> dict[str, int]:
    return {engine: plan.generation for engine, plan in lifecycle.deployed(target, name).items()}


def traffic(stack: Settings, pattern: str, seconds: int, name: str) -> subprocess.Popen[bytes]:
    words = ["traffic", pattern, "--rate", "100", "--seconds", str(seconds), "--name", name]
    environment = stack.environment() | {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.Popen([str(python("cli").with_name("millrace")), *words], env=environment, cwd="/")


def died(target: Target, name: str) -> None:
    """Its job is gone, and is started again as whatever watches over it does."""
    target.engine("flink").discard(lifecycle.deployed(target, name)["flink"])
    lifecycle.reconcile(target, report=print)
    lifecycle.await_healthy(target, name)


def without_windows(variant: Variant) -> Variant:
    """The same pattern, its windows in Spark: what Flink remembers of them would have nowhere to go."""
    stages = variant.pattern.stages
    moved = stages.model_copy(update={"windows": stages.windows.model_copy(update={"engine": "spark"})})
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": moved}))


@pytest.mark.parametrize("running", ["flink-spark"], indirect=True)
def test_an_upgrade_under_traffic_loses_and_doubles_nothing_and_says_its_gap(stack, target, running):
    first = generations(target, running)
    sender = traffic(stack, running, 60, "across")
    done = upgrades.upgrade(target, load(running), "one", report=print)
    again = upgrades.upgrade(target, load(running), "one")
    assert sender.wait(300) == 0
    assert [change.action for change in done.changes] == ["change", "change"]
    assert generations(target, running) == {engine: number + 1 for engine, number in first.items()}, (
        "said again with the same id, it goes on with the same upgrade"
    )
    assert again.gap_ms == done.gap_ms > 0
    found = lifecycle.validate(target, running, report=print)
    assert found.verdict.status == "ok", found.page
    assert f"{done.gap_ms} ms" in found.page.read_text()
    assert lifecycle.extra(target) == []


@pytest.mark.parametrize("running", ["flink"], indirect=True)
@pytest.mark.parametrize("how", ["moved to another engine", "not restorable"])
def test_an_upgrade_whose_state_fits_not_is_refused_while_the_old_job_runs(stack, target, running, how, monkeypatch):
    wanted = load(running)
    if how == "not restorable":
        other = [replace(plan, options={"pipeline.max-parallelism": "7"}) for plan in upgrades.plans(target, wanted)]
        monkeypatch.setattr(upgrades, "plans", lambda *_: other)
    else:
        wanted = without_windows(wanted)
    assert traffic(stack, running, 15, "before").wait(300) == 0
    before, old = lifecycle.jobs(target, running)["flink"]
    with pytest.raises(EngineError, match=r"upgrade refused, flink/flink generation \d+ goes on as it was"):
        upgrades.upgrade(target, wanted, "refused", report=print)
    after, job = lifecycle.jobs(target, running)["flink"]
    assert after == before
    assert job.state == "running"
    assert job.figures["since_ms"] == old.figures["since_ms"], "it was never stopped"
    assert lifecycle.extra(target) == []
    assert lifecycle.validate(target, running).verdict.status == "ok"


@pytest.mark.parametrize("running", ["flink"], indirect=True)
def test_an_upgrade_can_be_taken_back(stack, target, running):
    first = generations(target, running)
    assert traffic(stack, running, 15, "first").wait(300) == 0
    upgrades.upgrade(target, load(running), "regretted", report=print)
    died(target, running)
    sender = traffic(stack, running, 15, "second")
    upgrades.roll_back(target, running, report=print)
    assert sender.wait(300) == 0
    assert generations(target, running) == {"flink": first["flink"] + 3, "spark": first["spark"] + 2}, (
        "the upgraded job had been started again as one generation more, and that was not taken for the old one"
    )
    assert lifecycle.validate(target, running, report=print).verdict.status == "ok"
    assert lifecycle.extra(target) == []


@pytest.mark.parametrize("running", ["flink"], indirect=True)
def test_an_upgrade_that_was_killed_goes_on_though_the_old_job_was_started_again(stack, target, running):
    first = generations(target, running)
    assert traffic(stack, running, 15, "first").wait(300) == 0
    old = lifecycle.deployed(target, running)
    upgrades._write(target, running, upgrades.Before("killed", int(time.time() * 1000), old, {}))
    assert target.engine("flink").stop(old["flink"])
    lifecycle.reconcile(target, report=print)
    lifecycle.await_healthy(target, running)
    upgrades.upgrade(target, load(running), "killed", report=print)
    assert generations(target, running) == {"flink": first["flink"] + 2, "spark": first["spark"] + 1}
    assert lifecycle.validate(target, running, report=print).verdict.status == "ok"


@pytest.mark.parametrize("running", ["flink"], indirect=True)
def test_what_died_goes_on_and_what_was_torn_down_stays_down(target, running):
    plan, _ = lifecycle.jobs(target, running)["flink"]
    target.engine("flink").discard(plan)
    following = lifecycle.job_name(replace(plan, generation=plan.generation + 1))
    assert [change.name for change in lifecycle.reconcile(target, plan=True)[0] if change.action == "start"] == [
        following
    ]
    changes, extra = lifecycle.reconcile(target, report=print)
    lifecycle.await_healthy(target, running)
    assert [change.name for change in changes if change.action == "start"] == [following]
    assert extra == []
    lifecycle.teardown(target, running)
    assert lifecycle.reconcile(target) == ([], [])


@pytest.mark.parametrize("running", ["flink"], indirect=True)
def test_a_job_goes_on_though_flink_has_forgotten_that_it_had_its_id(target, running, monkeypatch):
    asked, first = Flink.job, generations(target, running)

    def an_hour_later(flink, plan):
        found = asked(flink, plan)
        return found if found.is_up else Job("absent")

    monkeypatch.setattr(Flink, "job", an_hour_later)
    lifecycle.teardown(target, running)
    lifecycle.deploy(target, running, report=print)
    assert generations(target, running)["flink"] == first["flink"] + 1


@pytest.mark.parametrize("running", ["flink"], indirect=True)
def test_a_job_that_nobody_asked_for_is_named_and_left_alone(target, running):
    plan, _ = lifecycle.jobs(target, running)["flink"]
    stray = replace(plan, generation=77, checkpoints=f"{plan.checkpoints}-stray")
    target.engine("flink").start(stray, None)
    _, extra = lifecycle.reconcile(target)
    assert [(running.name, running.job_id) for running in extra] == [("flink (generation 77)", stray.job_id)]
    assert target.engine("flink").job(stray).is_up
    target.engine("flink").discard(stray)
