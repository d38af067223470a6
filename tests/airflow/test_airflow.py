"""Airflow on PostgreSQL beside the real stack: what a person's script and a person's browser see.

What takes minutes overlaps: a green run, a red one and one that waits for a person are asked for at once.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from infra import lifecycle, processes
from infra import stack as stacks
from infra.rise import stop_all
from infra.servers.postgres import Postgres
from infra.settings import Settings
from infra.stores import topics
from infra.target import Target
from lab.airflow_rest import AirflowRest, Refused
from pipelines.patterns import names
from tests.browser import browser, shows
from tests.searching import contents

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]

SMALL = {"events": 1200, "rate_per_s": 200, "seed": 5}
TAPE = f"tape-{time.time_ns() // 1_000_000}"
RUN_WITHIN_S = 900
PLANTED = "planted-4f1c-secret-Zb77"


@pytest.fixture(scope="module")
def airflow(stack: Settings) -> Iterator[AirflowRest]:
    """Airflow beside the tests' stack, gone after these tests."""
    stacks.up(stack, ["airflow"], ["airflow-postgres"], report=print)
    rest = AirflowRest(stack)
    assert processes.wait_until(lambda: len(rest.api("GET", "/dags")["dags"]) == len(names()) + 5, 300)
    yield rest
    own = {name: one for name, one in processes.records(stack.run).items() if name.startswith(("airflow-", "postgres"))}
    stop_all(stack, own, own, lambda *_: None)


@pytest.fixture(scope="module")
def leaky(airflow: AirflowRest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The command line, found by connection, that says its secret whenever it is used."""
    command = tmp_path_factory.mktemp("leaky") / "millrace"
    real = airflow.settings.project / ".venv" / "bin" / "millrace"
    command.write_text(f'#!/bin/sh\necho "I know $BROKER_PASSWORD" >&2\nexec "{real}" "$@"\n')
    command.chmod(0o755)
    extra = {"command": str(command), "environment": {"BROKER_PASSWORD": PLANTED}}
    body = {"connection_id": "millrace", "conn_type": "generic", "password": PLANTED, "extra": json.dumps(extra)}
    airflow.api("POST", "/connections", body)
    yield
    airflow.http("DELETE", "/api/v2/connections/millrace")


@dataclass(frozen=True)
class Asked:
    """The runs that were asked for at once, by their ids."""

    proven: str
    red: str
    refused: str


@pytest.fixture(scope="module")
def asked(airflow: AirflowRest, leaky: None) -> Asked:
    """A run of each pattern, all under way: one to be green, one with a forged alert, one that waits for a person."""
    runs = Asked(unique("proven"), unique("red"), unique("refused"))
    airflow.trigger("flink-spark", runs.proven, SMALL | {"tape": TAPE})
    airflow.trigger("spark", runs.refused, SMALL | {"approval": True})
    target = Target.read(airflow.settings, {})
    lifecycle.provision(target, "flink")
    forged = {"alert_id": "0" * 32, "rule": "spree", "rule_version": "1", "key": "c", "customer": "c"}
    forged |= {"transaction_ids": ["t"], "operands": {}, "at_ms": 1, "sent_ms": 1, "ingest_ms": 1, "emit_ms": 1}
    topics.publish(target.bootstrap, [("flink.alerts", b"c", json.dumps(forged).encode())])
    airflow.trigger("flink", runs.red, SMALL | {"remove_data": True})
    return runs


@pytest.fixture(scope="module")
def proven(airflow: AirflowRest, asked: Asked) -> str:
    """A green run of a pattern."""
    state = airflow.await_end("flink-spark", asked.proven, RUN_WITHIN_S)
    tasks = airflow.tasks("flink-spark", asked.proven)
    assert state == "success", {name: task["state"] for name, task in tasks.items()}
    return asked.proven


@pytest.fixture(scope="module")
def red(airflow: AirflowRest, asked: Asked) -> str:
    """A run of a pattern that raised an alert that nothing explains."""
    assert airflow.await_end("flink", asked.red, RUN_WITHIN_S) == "failed"
    return asked.red


def unique(name: str) -> str:
    """A run's id that a kept stack does not know yet."""
    return f"{name}-{time.time_ns() // 1_000_000}"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"events": -1}, "less than the minimum"),
        ({"events": "many"}, "not of type 'integer'"),
        ({"rate_per_s": 9}, "less than the minimum"),
        ({"poison_share": 0.5}, "greater than the maximum"),
        ({"faults": ["the-moon"]}, "is not one of"),
        ({"tape": "A tape; with spaces"}, "does not match"),
        ({"keep": "yes"}, "not of type 'boolean'"),
    ],
)
def test_a_wrong_value_is_refused_before_a_run_exists(airflow, wrong, complaint):
    with pytest.raises(Refused, match=complaint) as refused:
        airflow.trigger("flink", "wrong", wrong)
    assert refused.value.status == 400
    with pytest.raises(Refused) as absent:
        airflow.run("flink", "wrong")
    assert absent.value.status == 404


def test_a_viewer_sees_the_dags_and_triggers_none(airflow):
    viewer = AirflowRest(airflow.settings, "viewer")
    assert {dag["dag_id"] for dag in viewer.api("GET", "/dags")["dags"]} >= set(names())
    for ask in (
        lambda: viewer.trigger("flink", "not-mine"),
        lambda: viewer.api("PATCH", "/dags/flink", {"is_paused": True}),
        lambda: viewer.api("GET", "/connections"),
    ):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.status == 403


def test_the_passwords_are_for_the_owner_of_the_account_only(airflow):
    path = airflow.settings.state / "conf" / "airflow-passwords.json"
    assert path.stat().st_mode & 0o077 == 0


def test_a_green_run_has_proven_the_pattern_and_taken_it_down(airflow, proven):
    tasks = airflow.tasks("flink-spark", proven)
    states = {name: task["state"] for name, task in tasks.items() if "[" not in name}
    assert states.pop("fault") == "skipped"
    assert set(states.values()) == {"success"}
    assert {task["state"] for name, task in tasks.items() if name.startswith("declared[")} == {"success"}
    verdict = airflow.xcom("flink-spark", proven, "validate")
    assert verdict["verdict"] == "ok"
    assert set(verdict["checks"].values()) == {"ok"}
    target = Target.read(airflow.settings, {})
    assert not any(job.is_up for _, job in lifecycle.jobs(target, "flink-spark").values())
    assert lifecycle.extra(target) == []


def test_a_verdict_is_an_asset_event_small_enough_for_one(airflow, proven):
    events = airflow.api("GET", "/assets/events?limit=50")["asset_events"]
    mine = [event for event in events if event["source_run_id"] == proven and event["name"] == "verdict-flink-spark"]
    assert [event["extra"]["verdict"] for event in mine] == ["ok"]
    assert len(json.dumps(mine[0]["extra"])) < 4_000


def test_each_task_leads_to_the_flink_job_and_to_the_report(airflow, proven):
    path = f"/dags/flink-spark/dagRuns/{proven}/taskInstances/validate/links"
    links = airflow.api("GET", path)["extra_links"]
    assert "#/job/" in links["Flink job"]
    assert links["Report"] == f"/dags/flink-spark/runs/{proven}/plugin/report"


def test_the_report_is_for_those_who_may_see_the_dag(airflow, proven):
    page = airflow.http("GET", f"/millrace/report/flink-spark?run={proven}").decode()
    assert "conservation" in page
    assert AirflowRest(airflow.settings, "viewer").http("GET", f"/millrace/report/flink-spark?run={proven}")
    with pytest.raises(Refused) as nobody:
        airflow._http("GET", f"/millrace/report/flink-spark?run={proven}", None, "")
    assert nobody.value.status == 401
    with pytest.raises(Refused) as nothing:
        airflow.http("GET", "/millrace/report/flink-spark?run=../../../etc/passwd")
    assert nothing.value.status == 404
    for path in ("/millrace/docs", "/millrace/openapi.json", "/millrace/redoc"):
        with pytest.raises(Refused):
            airflow._http("GET", path, None, "")


def test_no_secret_is_in_logs_rendered_fields_or_results(airflow, proven):
    said = "I know ***"
    logs = [
        path.read_text(errors="replace")
        for path in (airflow.settings.state / "data" / "airflow-on-postgres" / "logs").rglob("*.log*")
    ]
    assert sum(said in log for log in logs) > 5, (
        "the command line said its secret in every task; it must be masked there"
    )
    conf = airflow.settings.state / "conf"
    card_key, passwords = conf / "card.key", conf / "airflow-passwords.json"
    secrets = [PLANTED.encode(), card_key.read_bytes().strip(), airflow.password().encode()]
    found = {
        (path, secret) for path, written in contents(airflow.settings.state) for secret in secrets if secret in written
    }
    assert found == {(card_key, secrets[1]), (passwords, secrets[2])}


def test_a_red_verdict_makes_the_run_red_and_the_pattern_still_goes_down(airflow, red):
    tasks = airflow.tasks("flink", red)
    assert {name: tasks[name]["state"] for name in ("traffic", "validate", "proven", "report", "teardown")} == {
        "traffic": "success",
        "validate": "failed",
        "proven": "upstream_failed",
        "report": "success",
        "teardown": "success",
    }
    verdict = airflow.xcom("flink", red, "validate", "verdict")
    assert verdict["verdict"] == "failed"
    assert verdict["checks"]["alert ids"] == "failed"
    assert b"alert ids" in airflow.http("GET", f"/millrace/report/flink?run={red}")
    target = Target.read(airflow.settings, {})
    assert not any(job.is_up for _, job in lifecycle.jobs(target, "flink").values())
    assert lifecycle.provision(target, "flink", plan=True)[0].action == "create", "its data ought to be gone"


def test_two_patterns_on_one_tape_are_compared_by_themselves(airflow, proven, red):
    run = unique("same-tape")
    airflow.trigger("flink", run, SMALL | {"tape": TAPE, "faults": ["flink-taskmanager"]})
    assert airflow.await_end("flink", run, RUN_WITHIN_S) == "success"
    assert airflow.tasks("flink", run)["fault[0]"]["state"] == "success", "a killed task manager must not matter"

    def compared() -> list[str]:
        runs = airflow.api("GET", "/dags/compare/dagRuns?order_by=-run_after&limit=10")["dag_runs"]
        paths = [f"/dags/compare/dagRuns/{each['dag_run_id']}/taskInstances?limit=50" for each in runs]
        tasks = [task for path in paths for task in airflow.api("GET", path)["task_instances"]]
        return [task["state"] for task in tasks if TAPE in str(task["rendered_map_index"])]

    assert processes.wait_until(lambda: compared() == ["success"], 300), compared()


def test_nothing_happens_before_a_person_agrees(airflow, asked):
    path = f"/dags/spark/dagRuns/{asked.refused}/taskInstances/approve"
    assert processes.wait_until(lambda: airflow.api("GET", path)["state"] == "awaiting_input", 120)
    viewer = AirflowRest(airflow.settings, "viewer")
    with pytest.raises(Refused) as forbidden:
        viewer.answer("spark", asked.refused, "approve", "Reject")
    assert forbidden.value.status == 403
    airflow.answer("spark", asked.refused, "approve", "Reject")
    airflow.await_end("spark", asked.refused, 300)
    states = {name: task["state"] for name, task in airflow.tasks("spark", asked.refused).items()}
    assert (states.pop("form"), states.pop("approve")) == ("success", "success")
    assert set(states.values()) == {"skipped"}


def test_airflow_runs_on_postgresql_behind_a_socket_of_its_owners(airflow, proven):
    assert processes.listening(processes.records(airflow.settings.run)["postgres"]) == []
    data = Postgres(airflow.settings).data
    assert data.stat().st_mode & 0o077 == 0
    assert next(data.glob(".s.PGSQL.*")).stat().st_mode & 0o077 == 0
    assert not (airflow.settings.state / "data" / "airflow-on-postgres" / "airflow.db").exists()


def test_what_a_person_sees(airflow, proven):
    """Kept as pictures, for whoever wants to know what it looks like."""
    pictures = airflow.settings.state / "pictures"
    with browser(1500, 1000) as page:
        page.goto(f"{airflow.url}/auth/login/")
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", airflow.password())
        page.click("button[type=submit]")
        shows(page, "Dags")
        page.goto(f"{airflow.url}/dags")
        shows(page, "replay-dead-letters")
        page.screenshot(path=pictures / "dags.png")
        page.goto(f"{airflow.url}/dags/flink-spark")
        page.locator("button", has_text=re.compile("^Trigger$")).first.click()
        shows(page, "Rate per second")
        shows(page, "Servers to crash")
        page.screenshot(path=pictures / "form.png")
        page.goto(f"{airflow.url}/dags/flink-spark/runs/{proven}")
        shows(page, "await_healthy")
        page.evaluate("document.querySelector('[aria-label*=raph i]')?.click()")
        page.wait_for_function("document.querySelectorAll('.react-flow__node').length >= 13")
        page.locator(".react-flow__node").first.hover(trial=True)  # returns once it stands still
        page.screenshot(path=pictures / "graph.png")
        page.goto(f"{airflow.url}/dags/flink-spark/runs/{proven}/plugin/report")
        page.frame_locator("iframe").get_by_text("conservation").first.wait_for()
        page.screenshot(path=pictures / "report.png")
    assert all(path.stat().st_size > 20_000 for path in pictures.glob("*.png"))
