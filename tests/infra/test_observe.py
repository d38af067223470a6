"""What an observer reports: servers that do not run, a plan that became another; and its answer to Terraform."""

import json
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace import deployments, stack
from millrace.errors import UsageError
from millrace.job import Job
from millrace.machine import processes
from millrace.patterns import Stores, engine_plans, load
from millrace.settings import PROJECT, Settings
from millrace.target import Target
from millrace.verbs import observation_server
from millrace.verbs.observe import differences, notes, observe, sick_of

STORES = Stores("hdfs://store/p", "localhost", 1, "p")


@pytest.fixture
def settings(tmp_path: Path, free_port_base: int) -> Settings:
    return Settings(PROJECT, tmp_path / "home", tmp_path / "state", free_port_base)


def test_a_stack_that_does_not_run_is_one_difference_for_each_server_and_leaves_the_rest_unknown(settings: Settings):
    found = observe(Target.read(settings, {}), ["flink"], environ={})
    assert found.servers["kafka-1"] == ["kafka-1 is stopped"]
    assert found.provision == found.deploy == {"flink": ["unknown: kafka-1 is stopped"]}


def with_one_dead(settings: Settings, monkeypatch: pytest.MonkeyPatch, dead: str) -> None:
    """As if all servers ran but one, and each pattern had a sick job."""
    states = dict.fromkeys(stack.servers_of(settings), "running") | {dead: "dead"}
    found = [SimpleNamespace(name=name, state=state) for name, state in states.items()]
    monkeypatch.setattr(stack, "status", lambda *_: found)
    monkeypatch.setattr("millrace.verbs.observe._provision", lambda *_: [])
    monkeypatch.setattr("millrace.verbs.observe._deploy", lambda *_: ["job is sick"])


def test_a_page_that_is_away_is_a_difference_and_hides_no_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_one_dead(settings, monkeypatch, "dashboard")
    found = observe(Target.read(settings, {}), ["flink"], environ={})
    assert found.servers["dashboard"] == ["dashboard is dead"]
    assert found.deploy == {"flink": ["job is sick"]}


def test_servers_of_services_that_nobody_asked_for_are_no_difference(settings: Settings) -> None:
    found = observe(Target.read(settings, {}), ["storm-spark"], ["kafka", "storm"], environ={})
    assert found.servers["kafka-1"] == ["kafka-1 is stopped"]
    assert found.servers["storm-nimbus"] == ["storm-nimbus is stopped"]
    assert [name for name in found.servers if not name.startswith(("kafka", "storm"))] == []
    with pytest.raises(UsageError, match="no service or server 'kafak'; did you mean 'kafka'"):
        observe(Target.read(settings, {}), [], ["kafak"], environ={})


def test_a_server_hides_only_what_patterns_do_that_need_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with_one_dead(settings, monkeypatch, "hbase-master")
    found = observe(Target.read(settings, {}), ["flink", "flood-streams"], environ={})
    assert found.deploy == {"flink": ["unknown: hbase-master is dead"], "flood-streams": ["job is sick"]}


def test_each_sick_job_is_a_difference() -> None:
    plan = engine_plans(load("flink"), 3, "k:1", "hdfs://c", STORES)[0]
    jobs = [(plan, Job("running")), (plan, Job("crash-looping", problem="no slot")), (plan, Job("stalled"))]
    assert sick_of(jobs) == [
        f"job {deployments.job_name(plan)} is crash-looping: no slot",
        f"job {deployments.job_name(plan)} is stalled: ",
    ]


def test_notes_come_back_as_they_were_left(settings: Settings):
    target = Target.read(settings, {})
    notes(target).mkdir(parents=True)
    (notes(target) / "deploy.flink").write_text("it was gone", encoding="utf-8")
    assert observe(target, [], environ={}).settled == {"deploy.flink": "it was gone"}


def test_servers_that_are_already_there_are_not_judged_by_what_this_machine_started(settings: Settings):
    target = Target.read(settings, {"MILLRACE_TARGET": '{"KAFKA_BOOTSTRAP": "127.0.0.1:1"}'})
    assert observe(target, [], environ={"MILLRACE_TARGET": "{}"}).servers == {}


def test_a_changed_plan_is_described_part_by_part():
    old = engine_plans(load("flink"), 1, "k:1", "hdfs://c", STORES)[0]
    new = replace(old, generation=2, parallelism=2, events=("spree",), versions={**old.versions, "spree": "12345678"})
    assert differences(old, new) == [
        "events: above-previous-max, away-from-phone, spree, burst-at-once -> spree",
        "parallelism: 1 -> 2",
        f"versions.spree: {old.versions['spree']} -> 12345678",
    ]


def test_a_plan_that_differs_in_its_generation_only_is_the_same():
    old = engine_plans(load("flink"), 1, "k:1", "hdfs://c", STORES)[0]
    assert differences(old, replace(old, generation=2)) == []


def test_the_observer_answers_terraform_until_it_is_stopped(settings: Settings):
    observation_server.ensure(settings)
    try:
        record = processes.read(settings.run / "observer.json")
        assert record is not None
        assert processes.listening(record) == [("127.0.0.1", settings.port("observer"))]
        asked = f"http://127.0.0.1:{settings.port('observer')}/observation?pattern=flink"
        with urllib.request.urlopen(asked, timeout=60) as reply:
            state = json.load(reply)
        assert state["version"] == 4
        said = json.loads(state["outputs"]["observation"]["value"])
        assert (said["version"], said["verb"]) == (1, "observe")
        assert said["servers"]["kafka-1"] == ["kafka-1 is stopped"]
        observation_server.ensure(settings)
        assert processes.read(settings.run / "observer.json") == record
    finally:
        assert observation_server.stop(settings)
    assert not observation_server.stop(settings)


def test_an_observer_for_other_ports_is_another_one(settings: Settings) -> None:
    observation_server.ensure(settings)
    moved = replace(settings, port_base=settings.port_base + 100)
    try:
        observation_server.ensure(moved)
        record = processes.read(settings.run / "observer.json")
        assert record is not None
        assert processes.listening(record) == [("127.0.0.1", moved.port("observer"))]
    finally:
        assert observation_server.stop(moved)


def test_what_is_no_pattern_reaches_no_command(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observation_server.subprocess, "run", lambda *_, **__: pytest.fail("a command was run"))
    for asked in (["--stop"], ["flink", "--serve"], ["no-such-pattern"], [""]):
        assert json.loads(observation_server.answer(asked, []))["problem"].startswith("there is no pattern")


def test_the_observer_answers_no_web_page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observation_server, "answer", lambda *_: "{}")
    server = ThreadingHTTPServer(("127.0.0.1", 0), observation_server.Answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address, here = f"http://127.0.0.1:{server.server_port}", f"localhost:{server.server_port}"
    try:
        assert status(f"{address}/observation", {}) == status(f"{address}/observation", {"Host": here}) == 200
        for header in ({"Host": "elsewhere.example"}, {"Origin": "http://elsewhere.example"}, {"Origin": "null"}):
            assert status(f"{address}/observation", header) == 403
        assert status(f"{address}/observation", {"Sec-Fetch-Site": "cross-site"}) == 403
        assert status(f"{address}/elsewhere", {}) == 404
    finally:
        server.shutdown()
        server.server_close()


def status(url: str, headers: dict[str, str]) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_an_observation_that_fails_is_its_answer(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MILLRACE_STATE", str(settings.state))
    said = json.loads(observation_server.answer(["no-such-pattern"], []))
    assert said["problem"].startswith("there is no pattern 'no-such-pattern'")
