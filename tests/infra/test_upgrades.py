"""Upgrades on the real stack: under traffic, refused before anything stops, and taken back."""

import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from millrace import deployments
from millrace.engines.flink.engine import Flink
from millrace.job import EngineError, Job
from millrace.machine import processes
from millrace.patterns import Variant, load
from millrace.patterns import topics as topics_of
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs import reconcile as reconciling
from millrace.verbs import upgrade as upgrading
from millrace.verbs.deploy import await_healthy, deploy
from millrace.verbs.provision import provision
from millrace.verbs.reconcile import reconcile
from millrace.verbs.teardown import teardown
from millrace.verbs.upgrade import Before, roll_back, upgrade
from millrace.verbs.validate import validate
from millrace.verify.closing import closing_ms
from pipelines.fraud import FRAUD
from tests.patterns import Sender, own_patterns, problems

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

# Nothing is persisted here: what a store holds has tests of its own, and a driver less is started and stopped.
ONE_JOB, TWO_JOBS = "upgraded", "upgraded-apart"


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The stack, with patterns of one Flink job and of a Flink job and a Spark driver."""
    target = Target.read(stack, {})
    said = {ONE_JOB: {"of": "flink"}, TWO_JOBS: {"of": "flink-spark"}}
    without_stores = {name: changes | {"stages": {"persist": None}} for name, changes in said.items()}
    with own_patterns(tmp_path_factory.mktemp("patterns"), without_stores):
        yield target
        for name in (ONE_JOB, TWO_JOBS):
            teardown(target, name, data=True)


@pytest.fixture
def one(target: Target) -> str:
    """The pattern of one job, running, as whichever test before left it."""
    return running(target, ONE_JOB)


def running(target: Target, name: str) -> str:
    provision(target, name)
    deploy(target, name, report=print)
    return name


def generations(target: Target, name: str) -> dict[str, int]:
    return {engine: plan.generation for engine, plan in deployments.deployed(target, name).items()}


def wrong(target: Target, name: str) -> list[str]:
    return problems(validate(target, name, settled_after_s=10, report=print).verdict)


def died(target: Target, name: str) -> None:
    """Its job is cancelled, which keeps its checkpoints, and is started again as whatever watches over it does."""
    flink, plan = target.engine("flink"), deployments.deployed(target, name)["flink"]
    assert isinstance(flink, Flink)
    flink._cancel(plan)
    reconcile(target, report=print)
    await_healthy(target, name)


def with_windows_in_spark(variant: Variant) -> Variant:
    """The same pattern, its windows in Spark: what Flink remembers of them would have nowhere to go."""
    stages = variant.pattern.stages
    moved = stages.model_copy(update={"windows": stages.windows.model_copy(update={"engine": "spark"})})
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": moved}))


@pytest.mark.parametrize("pattern", [ONE_JOB, pytest.param(TWO_JOBS, marks=pytest.mark.drill)])
def test_an_upgrade_under_traffic_loses_and_doubles_nothing_and_reports_its_gap(target: Target, pattern: str) -> None:
    name = running(target, pattern)
    first = generations(target, name)
    raw = {"raw": topics_of(load(name))[FRAUD.judged.name]}
    before = topics.lengths(target.bootstrap, raw)
    senders: list[Sender] = []

    def under_traffic(line: str) -> None:
        print(line)
        if "stopping with its state" in line and not senders:  # the trial before may take as long as the traffic
            senders.append(Sender(target, name, "across", seconds=15 * len(first), closing_ms=closing_ms(FRAUD)))
            assert processes.wait_until(lambda: topics.lengths(target.bootstrap, raw) != before, 300)

    done = upgrade(target, load(name), "one", report=under_traffic)
    again = upgrade(target, load(name), "one")
    (sender,) = senders
    sender.end()
    assert [change.action for change in done.changes] == ["change"] * len(first)
    assert generations(target, name) == {engine: number + 1 for engine, number in first.items()}, (
        "said again with the same id, it goes on with the same upgrade"
    )
    assert again.gap_ms == done.gap_ms > 0
    found = validate(target, name, report=print)
    assert not problems(found.verdict), found.page
    assert f"{done.gap_ms} ms" in found.page.read_text()
    assert reconciling.extra(target) == []


@pytest.mark.parametrize("how", ["moved to another engine", "not restorable"])
def test_an_upgrade_whose_state_fits_not_is_refused_while_the_old_job_runs(target, one, how, monkeypatch):
    wanted = load(one)
    if how == "not restorable":
        other = [replace(plan, options={"pipeline.max-parallelism": "7"}) for plan in deployments.plans(target, wanted)]
        monkeypatch.setattr("millrace.verbs.upgrade.plans", lambda *_: other)
    else:
        wanted = with_windows_in_spark(wanted)
    before, old = deployments.jobs(target, one)["flink"]
    with pytest.raises(EngineError, match=r"upgrade refused, upgraded/flink generation \d+ keeps running"):
        upgrade(target, wanted, f"refused: {how}", report=print)
    after, job = deployments.jobs(target, one)["flink"]
    assert after == before
    assert job.state == "running"
    assert job.figures["since_ms"] == old.figures["since_ms"], "it was never stopped"
    assert reconciling.extra(target) == []


def test_an_upgrade_can_be_taken_back(target, one):
    first = generations(target, one)
    Sender(target, one, "first", seconds=5).end()
    upgrade(target, load(one), "regretted", report=print)
    died(target, one)
    sender = Sender(target, one, "second", seconds=5, closing_ms=closing_ms(FRAUD))
    roll_back(target, one, report=print)
    sender.end()
    assert generations(target, one) == {"flink": first["flink"] + 3}, (
        "the upgraded job had been started again as one generation more, and that was not taken for the old one"
    )
    assert not wrong(target, one)
    await_healthy(target, one)
    plan = deployments.deployed(target, one)["flink"]
    states = target.hdfs.outline(urlsplit(plan.checkpoints).path)
    assert {place.split("/")[0] for place in states} == {plan.job_id}, "no start needs what earlier generations left"
    assert reconciling.extra(target) == []


def test_an_upgrade_that_was_killed_resumes_even_if_the_old_job_was_restarted(target, one):
    first = generations(target, one)
    sender = Sender(target, one, "third", seconds=5, closing_ms=closing_ms(FRAUD))
    old = deployments.deployed(target, one)
    upgrading._write(target, one, Before("killed", int(time.time() * 1000), old, {}))
    assert target.engine("flink").stop(old["flink"])
    reconcile(target, report=print)
    await_healthy(target, one)
    upgrade(target, load(one), "killed", report=print)
    sender.end()
    assert generations(target, one) == {"flink": first["flink"] + 2}
    assert not wrong(target, one)


def test_a_dead_job_is_restarted_and_one_that_was_torn_down_stays_down(target, one):
    plan, _ = deployments.jobs(target, one)["flink"]
    target.engine("flink").discard(plan)
    following = deployments.job_name(replace(plan, generation=plan.generation + 1))
    assert [change.name for change in reconcile(target, plan=True)[0] if change.action == "start"] == [following]
    changes, extra = reconcile(target, report=print)
    await_healthy(target, one)
    assert [change.name for change in changes if change.action == "start"] == [following]
    assert extra == []
    teardown(target, one)
    assert reconcile(target) == ([], [])


def test_a_job_continues_even_if_flink_no_longer_has_its_id(target, one, monkeypatch):
    asked, first = Flink.job, generations(target, one)

    def an_hour_later(flink, plan):
        found = asked(flink, plan)
        return found if found.is_up else Job("absent")

    monkeypatch.setattr(Flink, "job", an_hour_later)
    teardown(target, one)
    deploy(target, one, report=print)
    assert generations(target, one)["flink"] == first["flink"] + 1


def test_a_job_that_was_never_deployed_is_listed_and_left_alone(target, one):
    plan, _ = deployments.jobs(target, one)["flink"]
    stray = replace(plan, generation=77, checkpoints=f"{plan.checkpoints}-stray")
    target.engine("flink").start(stray, None)
    _, extra = reconcile(target)
    assert [(running.name, running.job_id) for running in extra] == [("upgraded (generation 77)", stray.job_id)]
    assert target.engine("flink").job(stray).is_up
    target.engine("flink").discard(stray)
