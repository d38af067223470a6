"""The warm gateway of a stack: what it submits, what it refuses, and who can reach it."""

from __future__ import annotations

import json
import signal
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from millrace import stack as stacks
from millrace.engines.flink import gateway
from millrace.engines.flink.servers import Gateway
from millrace.engines.flink.warm_up import submission
from millrace.machine import processes
from millrace.patterns import EnginePlan, load
from millrace.settings import Settings
from millrace.stack.startup import Startup, fingerprint
from millrace.target import Target
from tests.conftest import settings_for_tests
from tests.player import ensure_topics, own_plan

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]


@dataclass(frozen=True)
class Alone(Gateway):
    """The gateway without the servers after which a stack starts it."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ()


@pytest.fixture(scope="module")
def server(test_port_base: int) -> Iterator[Gateway]:
    settings = settings_for_tests("gateway", test_port_base + 300)
    stacks.down(settings, purge=True)
    server = Alone(settings)
    Startup(settings, {server.name: server}, print).run()
    yield server
    stacks.down(settings, purge=True)


def at(server: Gateway) -> Path:
    return Path(server.address)


def library(server: Gateway) -> Path:
    return server.conf / "lib"


def job() -> dict[str, Any]:
    """A job for a cluster that does not exist."""
    return dict(json.loads(submission()))


def record(server: Gateway) -> processes.ProcessRecord:
    return processes.records(server.settings.run)[server.name]


def test_only_its_user_can_reach_it(server: Gateway) -> None:
    assert processes.listening(record(server)) == []  # no port: no web page and no other machine
    assert stat.S_ISSOCK(at(server).stat().st_mode)
    assert stat.S_IMODE(at(server).parent.stat().st_mode) == 0o700


def test_it_plans_a_job_as_far_as_the_cluster_that_is_not_there(server: Gateway) -> None:
    with pytest.raises(gateway.SubmissionError, match=r"Connection refused: /127\.0\.0\.1:1"):
        gateway.submit(at(server), job(), library(server))


def test_it_plans_two_jobs_at_once(server: Gateway) -> None:
    def submitted(_: int) -> str:
        with pytest.raises(gateway.SubmissionError) as refusal:
            gateway.submit(at(server), job(), library(server))
        return str(refusal.value)

    with ThreadPoolExecutor() as both:
        assert all("Connection refused: /127.0.0.1:1" in one for one in both.map(submitted, range(2)))


def test_it_refuses_to_plan_with_other_jars_than_the_clusters(server: Gateway, tmp_path: Path) -> None:
    for jar in library(server).iterdir():
        (tmp_path / jar.name).symlink_to(jar.resolve())
    another = tmp_path / "another-kernel.jar"
    another.touch()
    (tmp_path / "millrace-kernel.jar").unlink()
    (tmp_path / "millrace-kernel.jar").symlink_to(another)
    with pytest.raises(gateway.GatewayError, match="runs with other jars than the cluster's"):
        gateway.submit(at(server), job(), tmp_path)


def test_it_drops_a_job_whose_client_has_given_up(server: Gateway) -> None:
    jars = sorted(str(jar.resolve()) for jar in library(server).iterdir())
    late = {**job(), "library": jars, "until_ms": int(time.time() * 1000) - 1}
    assert gateway.request(at(server), json.dumps(late), 30) == {"refused": "its client has given up"}


def test_what_cannot_be_planned_is_answered_with_the_reason(server: Gateway) -> None:
    with pytest.raises(gateway.SubmissionError, match="Object 'nothing' not found"):
        gateway.submit(at(server), {**job(), "views": [["seen", "SELECT * FROM nothing"]]}, library(server))


@pytest.mark.parametrize("text", ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "[]", '{"library": []}'])
def test_what_is_no_submission_runs_nothing_and_stops_nothing(server: Gateway, text: str) -> None:
    answer = gateway.request(at(server), text, 30)
    assert answer.keys() <= {"error", "refused"}
    assert gateway.is_ready(at(server))


def test_a_gateway_that_hangs_is_given_up(server: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "SUBMIT_WITHIN_S", 1)
    processes.send(record(server), signal.SIGSTOP)
    began = time.monotonic()
    try:
        with pytest.raises(gateway.GatewayError, match="does not answer within 1 s"):
            gateway.submit(at(server), job(), library(server))
        assert time.monotonic() - began < 10
    finally:
        processes.send(record(server), signal.SIGCONT)


def test_another_kernel_is_another_configuration(
    server: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = fingerprint(server)
    monkeypatch.setattr("millrace.kernel.ensure", lambda settings, engine: tmp_path / "millrace-kernel.jar")
    assert fingerprint(server) != before


def test_a_killed_gateway_costs_time_and_no_job(stack: Settings) -> None:
    target = Target.read(stack, {})
    flink, variant = target.engine("flink"), load("flink")
    plan = own_plan(target, variant, "gateway", events=("above-previous-max",), windows=(), summaries=())
    ensure_topics(plan, variant)
    plans = [plan, replace(plan, generation=2)]
    try:
        assert "submitted by the gateway" in started(target, plans[0])
        assert processes.wait_until(lambda: flink.request_checkpoint(plans[0]), 300)
        state = flink.stop(plans[0])
        stacks.kill(stack, ["flink-gateway"])
        assert "a JVM is started instead" in started(target, plans[1], state)
    finally:
        for each in plans:
            flink.discard(each)
        stacks.up(stack, ["flink"])
    assert {one.state for one in stacks.status(stack) if one.name == "flink-gateway"} == {"running"}


def started(target: Target, plan: EnginePlan, state: str | None = None) -> str:
    """Start a job; gives the log of its submission."""
    target.engine("flink").start(plan, state)
    assert target.engine("flink").job(plan).is_up
    return (target.settings.state / "logs" / f"submit-{plan.pattern}-flink.log").read_text()
