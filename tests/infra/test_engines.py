"""What is known of a job from what is left of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from infra import processes
from infra.engines.spark import Spark
from infra.settings import Settings
from pipelines.patterns import EnginePlan

PLAN = EnginePlan("p", 1, "spark", "fraud", "127.0.0.1:1", {}, "file:///nowhere")


@pytest.fixture
def dead_driver(tmp_path: Path) -> Spark:
    """Of generation 1; nobody took its record away."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    command = [sys.executable, "-c", "print('no memory')", "--plan", PLAN.to_json()]
    name, run = "job-p-spark", settings.state / "run"
    record = processes.start(name, command, {}, settings.state / "logs" / f"{name}.out", run)
    assert processes.wait_until(lambda: not processes.alive(record), 60)
    return Spark(settings, "local[1]")


def test_a_driver_that_died_is_failed_with_its_last_words(dead_driver: Spark) -> None:
    job = dead_driver.job(PLAN)
    assert job.state == "failed"
    assert "no memory" in job.problem


def test_the_driver_of_another_generation_says_nothing_of_this_one(dead_driver: Spark) -> None:
    assert dead_driver.job(replace(PLAN, generation=2)).state == "absent"
