"""Whose a deployment is, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from infra import lifecycle
from infra.engines.job import EngineError, Job
from infra.settings import Settings
from infra.target import Target
from pipelines.patterns import EnginePlan

PATTERN, RUN = "spark", "manual__2026-01-01T00:00:00+00:00"


@dataclass
class Engine:
    """An engine without a server."""

    jobs: dict[str, Job] = field(default_factory=dict)

    def job(self, plan: EnginePlan) -> Job:
        return self.jobs.get(plan.job_id, Job("absent"))

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        self.jobs[plan.job_id] = Job("running", checkpoints=1)

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        return True

    def stop(self, plan: EnginePlan) -> None:
        self.jobs[plan.job_id] = Job("stopped")

    def latest_state(self, plan: EnginePlan) -> None:
        return None

    @property
    def is_up(self) -> bool:
        return any(job.is_up for job in self.jobs.values())


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(Target, "engine", lambda *_: engine)
    monkeypatch.setattr(lifecycle, "_complain_unless_provisioned", lambda *_: None)
    return engine


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})


def test_a_run_tears_down_what_it_deployed(target: Target, engine: Engine) -> None:
    lifecycle.deploy(target, PATTERN, for_run=RUN)
    lifecycle.deploy(target, PATTERN, for_run=RUN)  # as a task does that was killed and tried again
    lifecycle.teardown(target, PATTERN, for_run=RUN)
    assert (engine.is_up, lifecycle.is_wanted(target, PATTERN)) == (False, False)


@pytest.mark.parametrize("deployed_for", ["", "another run"], ids=["deployed for good", "kept by another run"])
def test_a_run_leaves_a_pattern_that_ran_before_it(target: Target, engine: Engine, deployed_for: str) -> None:
    lifecycle.deploy(target, PATTERN, for_run=deployed_for)
    lifecycle.deploy(target, PATTERN, for_run=RUN)
    (change,) = lifecycle.teardown(target, PATTERN, data=True, for_run=RUN)
    assert (change.action, change.detail) == ("keep", "not deployed by this run, so it stays")
    assert (engine.is_up, lifecycle.is_wanted(target, PATTERN)) == (True, True)


def test_a_pattern_that_is_deployed_for_good_while_a_run_uses_it_stays(target: Target, engine: Engine) -> None:
    lifecycle.deploy(target, PATTERN, for_run=RUN)
    lifecycle.deploy(target, PATTERN)
    lifecycle.teardown(target, PATTERN, for_run=RUN)
    assert engine.is_up


def test_a_job_that_is_restarted_still_belongs_to_its_run(target: Target, engine: Engine) -> None:
    lifecycle.deploy(target, PATTERN, for_run=RUN)
    engine.jobs.clear()
    lifecycle.deploy(target, PATTERN, only_missing=True)
    assert engine.is_up
    lifecycle.teardown(target, PATTERN, for_run=RUN)
    assert not engine.is_up


def test_a_teardown_for_nobody_stops_whatever_runs(target: Target, engine: Engine) -> None:
    lifecycle.deploy(target, PATTERN, for_run=RUN)
    lifecycle.teardown(target, PATTERN)
    assert not engine.is_up


def test_two_jobs_share_the_time_that_a_deployment_has(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(lifecycle, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep, time=lambda: 0.0))
    monkeypatch.setattr(engine, "start", lambda plan, _: engine.jobs.update({plan.job_id: Job("starting")}))
    lifecycle.deploy(target, "flink-spark", wait=False)
    first, second = lifecycle.deployed(target, "flink-spark").values()

    def job(plan: EnginePlan) -> Job:
        is_first_done = plan == first and clock[0] > lifecycle.DEPLOY_WITHIN_S * 0.9
        return Job("running", checkpoints=1) if is_first_done else Job("starting")

    monkeypatch.setattr(engine, "job", job)
    with pytest.raises(EngineError, match=rf"{lifecycle.job_name(second)} was starting"):
        lifecycle.await_healthy(target, "flink-spark")
    assert clock[0] < lifecycle.DEPLOY_WITHIN_S + 1
