"""A job of Kafka Streams that is stopped, changed or killed continues from its state, and loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import kernel
from millrace.engines.streams.libraries import compiled_against
from millrace.machine import processes
from millrace.patterns import EnginePlan, load
from millrace.patterns.model import AT_LEAST_ONCE, EXACTLY_ONCE
from millrace.settings import PROJECT, Settings
from millrace.target import Target
from tests.flink.test_recovery import (
    HOUR_MS,
    ROUNDS,
    check_nothing_is_lost,
    minutes,
    one_by_one,
    pays,
    rounds_of_purchases,
)
from tests.player import Player, own_plan, own_topics

VARIANT = load("streams")

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture(params=[AT_LEAST_ONCE, EXACTLY_ONCE])
def plan(request: pytest.FixtureRequest, target: Target) -> Iterator[EnginePlan]:
    """Two rules."""
    rules = ("above-previous-max", "away-from-phone")
    plan = own_plan(target, VARIANT, "recovery", events=rules, delivery=request.param)
    with own_topics(target, plan, VARIANT):
        yield plan


def test_nothing_is_lost_or_found_otherwise_when_the_process_is_killed(
    stack: Settings,
    target: Target,
    plan: EnginePlan,
    player: Player,
    now_ms: int,
) -> None:
    streams, early_ms = target.engine(plan.engine), now_ms - HOUR_MS
    streams.start(plan, None)
    rounds = rounds_of_purchases(now_ms)
    one_by_one(player, rounds[: ROUNDS // 2])
    player.play([], early_ms)
    one_by_one(player, rounds[ROUNDS // 2 : ROUNDS * 3 // 4])  # in flight, committed or not
    processes.kill(processes.records(stack.run)[f"job-{plan.pattern}-streams"])
    assert streams.job(plan).state == "failed"
    one_by_one(player, rounds[ROUNDS * 3 // 4 :])
    again = replace(plan, generation=2)
    streams.start(again, streams.latest_state(again))
    player.play([], early_ms)
    player.close(now_ms + HOUR_MS)
    found = player.outcome()
    check_nothing_is_lost(plan, found)
    if plan.delivery == EXACTLY_ONCE:
        assert len({event["source_offset"] for event in found.enriched}) == len(found.enriched)
        assert len({alert["alert_id"] for alert in found.alerts}) == len(found.alerts)


@pytest.mark.parametrize("plan", [EXACTLY_ONCE], indirect=True)
def test_a_job_that_is_replaced_by_one_with_other_rules_keeps_its_state(
    target: Target,
    plan: EnginePlan,
    player: Player,
    now_ms: int,
) -> None:
    streams, early_ms = target.engine(plan.engine), now_ms - HOUR_MS
    streams.start(plan, None)
    player.play([pays("b1", "berta", 5, now_ms), pays("b2", "berta", 5, now_ms + 10_000)], early_ms)
    more = replace(plan, generation=2, events=("spree", "away-from-phone", "above-previous-max"))
    streams.stop(plan)
    streams.start(more, None)
    player.play([pays("b3", "berta", 6, now_ms + 20_000), pays("b4", "berta", 5, now_ms + 30_001)], early_ms)
    player.close(now_ms + HOUR_MS)
    found = player.outcome()
    alerts = sorted((alert["rule"], *alert["event_ids"]) for alert in found.alerts)
    assert alerts == [("above-previous-max", "b3"), ("burst", "b1", "b2", "b3")]
    assert [row["purchases"] for row in found.windows if row["purchases"]] == [n for n, _ in minutes(now_ms)]


@pytest.mark.parametrize("plan", [AT_LEAST_ONCE], indirect=True)
def test_a_stopped_job_ends_within_seconds_and_leaves_nothing_running(
    target: Target,
    plan: EnginePlan,
    player: Player,
) -> None:
    streams = target.engine(plan.engine)
    streams.start(plan, None)
    assert processes.wait_until(lambda: streams.job(plan).state == "running", 300)
    assert [each.job_id for each in streams.running() if each.job_id == plan.job_id] == [plan.job_id]
    began = time.monotonic()
    streams.stop(plan)
    assert time.monotonic() - began < 30
    assert not streams.job(plan).is_up
    assert plan.job_id not in {each.job_id for each in streams.running()}


@pytest.mark.parametrize("plan", [AT_LEAST_ONCE], indirect=True)
def test_the_command_of_a_container_runs_the_same_job(
    stack: Settings, target: Target, plan: EnginePlan, player: Player, now_ms: int, tmp_path: Path
) -> None:
    jars = os.pathsep.join(map(str, [*compiled_against(stack), kernel.ensure(stack, plan.engine)]))
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    words = ["--plan", f"@{tmp_path / 'plan.json'}", "--jars", jars, "--folder", str(tmp_path)]
    with subprocess.Popen([sys.executable, "-m", "millrace.engines.streams.container", *words], cwd=PROJECT) as job:
        try:
            player.play([pays("b1", "berta", 5, now_ms)], now_ms - HOUR_MS)
        finally:
            job.terminate()
    assert [event["transaction_id"] for event in player.outcome().enriched] == ["b1"]
    assert json.loads((tmp_path / "progress.json").read_text())["state"] == "stopped"
