"""Airflow on PostgreSQL beside the real stack: what a person's script and a person's browser see.

What takes minutes overlaps: a proof that is green, one that is red, one of a pattern that was deployed before, and a
deployment that waits for a person are under way at once. Only the green one persists: what the others show needs no
Spark driver, which takes as long as everything else.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.airflow_rest import AirflowRest, Refused
from millrace import deployments
from millrace import stack as stacks
from millrace.machine import processes
from millrace.patterns import load, names
from millrace.servers.postgres import Postgres
from millrace.settings import Settings
from millrace.stack.startup import stop_all
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs import dispositions, letters, traffic
from millrace.verbs import reconcile as reconciling
from millrace.verbs.alerts import alerts
from millrace.verbs.provision import provision
from tests.airflow.test_dags import UPKEEP
from tests.browser import browser, shows
from tests.patterns import SETTLED_AFTER_S, own_patterns
from tests.searching import contents

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]

TAPE = f"tape-{time.time_ns() // 1_000_000}"
SMALL = {"events": 1200, "rate_per_s": 200, "seed": 5, "tape": TAPE}
WHOLE, QUICK, FORGED = "flink-spark", "quick", "forged"
"""Patterns: as the project has it; without stores; and one of those that raised an alert which nothing explains."""
DEPLOY_QUICK, DEPLOY_FORGED = "deploy-quick", "deploy-forged"
PROVE_WHOLE, PROVE_QUICK, PROVE_FORGED = "prove-flink-spark", "prove-quick", "prove-forged"
RUN_WITHIN_S, SHOWN_WITHIN_S = 900, 300
PLANTED = "planted-4f1c-secret-Zb77"


@pytest.fixture(scope="module")
def patterns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the tests' own patterns."""
    folder = tmp_path_factory.mktemp("patterns")
    without_stores = {"of": "flink", "stages": {"persist": None}}
    with own_patterns(folder, {WHOLE: {"of": WHOLE}, QUICK: without_stores, FORGED: without_stores}):
        yield folder


@pytest.fixture(scope="module")
def airflow(stack: Settings, patterns: Path) -> Iterator[AirflowRest]:
    """Airflow beside the tests' stack, gone after these tests."""
    stacks.up(replace(stack, patterns=patterns), ["airflow", "dashboard"], ["airflow-postgres"], report=print)
    rest = AirflowRest(stack)
    dags = 2 * len(names()) + len(UPKEEP)
    # Counted by Airflow: the list of all DAGs is long, and this probes often.
    assert processes.wait_until(lambda: rest.api("GET", "/dags?limit=1")["total_entries"] == dags, SHOWN_WITHIN_S)
    yield rest
    ours = ("airflow-", "postgres", "dashboard")
    own = {name: one for name, one in processes.records(stack.run).items() if name.startswith(ours)}
    stop_all(stack, own, own, lambda *_: None)


@pytest.fixture(scope="module")
def leaky(airflow: AirflowRest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The command line, found by connection, that prints its secret whenever it is used.

    Its verdicts wait as long for outstanding outputs as those of all tests: other tests take the drivers' time.
    """
    command = tmp_path_factory.mktemp("leaky") / "millrace"
    real = airflow.settings.project / ".venv" / "bin" / "millrace"
    patient = f'[ "$1" != validate ] || set -- "$@" --settled-after {SETTLED_AFTER_S:.0f}'
    command.write_text(f'#!/bin/sh\necho "I know $BROKER_PASSWORD" >&2\n{patient}\nexec "{real}" "$@"\n')
    command.chmod(0o755)
    extra = {"command": str(command), "environment": {"BROKER_PASSWORD": PLANTED}}
    body = {"connection_id": "millrace", "conn_type": "generic", "password": PLANTED, "extra": json.dumps(extra)}
    airflow.api("POST", "/connections", body)
    yield
    airflow.http("DELETE", "/api/v2/connections/millrace")


@dataclass(frozen=True)
class Runs:
    """The runs that overlap, by their ids."""

    proven: str
    """Of PROVE_WHOLE: green, and the pattern is down afterwards."""
    deployed: str
    """Of DEPLOY_QUICK."""
    proven_as_deployed: str
    """Of PROVE_QUICK, on what was deployed, with a crash."""
    red: str
    """Of PROVE_FORGED: red."""
    refused: str
    """Of DEPLOY_FORGED: it waits for a person."""


@pytest.fixture(scope="module")
def asked(airflow: AirflowRest, leaky: None) -> Runs:
    """All runs, under way."""
    runs = Runs(*(unique(name) for name in ("proven", "deployed", "proven-as-deployed", "red", "refused")))
    airflow.trigger(DEPLOY_QUICK, runs.deployed)
    airflow.trigger(PROVE_WHOLE, runs.proven, SMALL)
    airflow.trigger(DEPLOY_FORGED, runs.refused, {"approval": True})
    target = Target.read(airflow.settings, {})
    provision(target, FORGED)
    forged = {
        "alert_id": "0" * 32,
        "rule": "spree",
        "rule_version": "1",
        "key": "c",
        "subject": "c",
        "window_start_ms": None,
    }
    forged |= {"event_ids": ["t"], "operands": {}, "at_ms": 1, "sent_ms": 1, "ingest_ms": 1, "emit_ms": 1}
    topics.publish(target.bootstrap, [(f"{FORGED}.alerts", b"c", json.dumps(forged).encode())])
    airflow.trigger(PROVE_FORGED, runs.red, {"events": 0, "remove_data": True})
    ends_as(airflow, DEPLOY_QUICK, runs.deployed, "success")
    airflow.trigger(PROVE_QUICK, runs.proven_as_deployed, SMALL | {"faults": ["flink-taskmanager"]})
    return runs


@pytest.fixture(scope="module")
def proven(airflow: AirflowRest, asked: Runs) -> str:
    """A green proof of a pattern."""
    return ends_as(airflow, PROVE_WHOLE, asked.proven, "success")


@pytest.fixture(scope="module")
def proven_as_deployed(airflow: AirflowRest, asked: Runs) -> str:
    """A green proof of a pattern that was deployed before."""
    return ends_as(airflow, PROVE_QUICK, asked.proven_as_deployed, "success")


@pytest.fixture(scope="module")
def red(airflow: AirflowRest, asked: Runs) -> str:
    """A proof of a pattern that raised an alert that nothing explains."""
    return ends_as(airflow, PROVE_FORGED, asked.red, "failed")


def ends_as(airflow: AirflowRest, dag: str, run_id: str, wanted: str) -> str:
    """The run's id, once it has ended so."""
    state = airflow.await_end(dag, run_id, RUN_WITHIN_S)
    tasks = airflow.tasks(dag, run_id)
    assert state == wanted, {name: task["state"] for name, task in tasks.items()}
    return run_id


def unique(name: str) -> str:
    """A run's id that a kept stack does not have yet."""
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
        airflow.trigger(PROVE_QUICK, "wrong", wrong)
    assert refused.value.status == 400
    with pytest.raises(Refused) as absent:
        airflow.run(PROVE_QUICK, "wrong")
    assert absent.value.status == 404


def test_a_viewer_sees_the_dags_and_triggers_none(airflow):
    viewer = AirflowRest(airflow.settings, "viewer")
    dags = {f"{what}-{name}" for what in ("deploy", "prove") for name in names()}
    assert {dag["dag_id"] for dag in viewer.api("GET", "/dags")["dags"]} >= dags
    for ask in (
        lambda: viewer.trigger(DEPLOY_QUICK, "not-mine"),
        lambda: viewer.api("PATCH", f"/dags/{DEPLOY_QUICK}", {"is_paused": True}),
        lambda: viewer.api("GET", "/connections"),
    ):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.status == 403


def test_the_passwords_are_for_the_owner_of_the_account_only(airflow):
    path = airflow.settings.state / "conf" / "airflow-passwords.json"
    assert path.stat().st_mode & 0o077 == 0


def test_a_green_run_has_proven_the_pattern_and_taken_it_down(airflow, proven):
    states = {name: task["state"] for name, task in airflow.tasks(PROVE_WHOLE, proven).items()}
    assert states.pop("fault") == "skipped"
    assert set(states.values()) == {"success"}
    verdict = airflow.xcom(PROVE_WHOLE, proven, "validate")
    assert verdict["verdict"] == "ok"
    assert set(verdict["checks"].values()) == {"ok"}
    target = Target.read(airflow.settings, {})
    assert not any(job.is_up for _, job in deployments.jobs(target, WHOLE).values())
    assert reconciling.extra(target) == []


def test_a_deployment_sends_nothing_and_stays_up(airflow, asked):
    states = {name: task["state"] for name, task in airflow.tasks(DEPLOY_QUICK, asked.deployed).items()}
    assert states == dict.fromkeys(("approve", "provision", "declared", "deploy", "await_healthy"), "success")
    (started,) = airflow.xcom(DEPLOY_QUICK, asked.deployed, "deploy")
    assert (started["kind"], started["action"]) == ("job", "start")
    tapes = traffic.runs(airflow.settings, QUICK)
    assert [tape.about["plan"]["name"] for tape in tapes if tape.about["plan"]["name"] != TAPE] == []


def test_a_pattern_that_was_deployed_is_proven_as_it_runs_and_stays_up(airflow, proven_as_deployed):
    assert airflow.xcom(PROVE_QUICK, proven_as_deployed, "deploy") == []
    assert airflow.xcom(PROVE_QUICK, proven_as_deployed, "teardown") == []
    assert airflow.xcom(PROVE_QUICK, proven_as_deployed, "validate")["verdict"] == "ok"
    assert airflow.tasks(PROVE_QUICK, proven_as_deployed)["fault[0]"]["state"] == "success"
    target = Target.read(airflow.settings, {})
    assert [job.is_up for _, job in deployments.jobs(target, QUICK).values()] == [True]


def test_an_alert_is_marked_through_airflow_in_the_name_of_who_has_logged_in(airflow, proven_as_deployed):
    target = Target.read(airflow.settings, {})
    alert_id = alerts(target, load(QUICK))[0].alert["alert_id"]
    headers = {"Origin": airflow.url, "X-Millrace-Token": airflow.live()["token"], "Content-Type": "application/json"}
    body = json.dumps({"mark": "unsure", "by": "somebody else", "note": "asked the bank"}).encode()

    def is_marked() -> bool:
        """The page may not have read the alert yet."""
        try:
            airflow.opened(f"/millrace/live/alerts/{QUICK}/{alert_id}/mark", body, headers).close()
        except Refused as refused:
            if refused.status != 404:
                raise
            return False
        return True

    assert processes.wait_until(is_marked, SHOWN_WITHIN_S)
    (made,) = dispositions.dispositions(target, load(QUICK)).values()
    assert (made.mark, made.by, made.note) == ("unsure", "admin", "asked the bank")


def test_dead_letters_are_replayed_through_airflow(airflow, proven_as_deployed):
    target, variant = Target.read(airflow.settings, {}), load(QUICK)
    raw = {each.name: variant.topic(each) for each in variant.use.raw}

    def refused() -> dict[letters.Place, letters.Letter]:
        """Without reference data, which is sent again only with a correction."""
        return {each.place: each for each in letters.read(target, variant, "missing:") if each.topic in raw.values()}

    before, there = refused(), sum(topics.lengths(target.bootstrap, raw).values())
    assert before
    run = unique("replay")
    airflow.trigger("replay-dead-letters", run, {"pattern": QUICK, "reason": "missing:"})
    ends_as(airflow, "replay-dead-letters", run, "success")
    assert airflow.xcom("replay-dead-letters", run, "replay")["replayed"] == len(before)
    assert sum(topics.lengths(target.bootstrap, raw).values()) == there + len(before)
    assert processes.wait_until(lambda: len(refused().keys() - before.keys()) == len(before), SHOWN_WITHIN_S), (
        "not refused again"
    )


def test_a_verdict_is_an_asset_event_small_enough_for_one(airflow, proven):
    events = airflow.api("GET", "/assets/events?limit=50")["asset_events"]
    mine = [event for event in events if event["source_run_id"] == proven and event["name"] == f"verdict-{WHOLE}"]
    assert [event["extra"]["verdict"] for event in mine] == ["ok"]
    assert len(json.dumps(mine[0]["extra"])) < 4_000


def test_each_task_leads_to_the_flink_job_and_to_the_report(airflow, proven):
    path = f"/dags/{PROVE_WHOLE}/dagRuns/{proven}/taskInstances/validate/links"
    links = airflow.api("GET", path)["extra_links"]
    assert "#/job/" in links["Flink job"]
    assert links["Report"] == f"/dags/{PROVE_WHOLE}/runs/{proven}/plugin/report"


def test_the_report_is_for_those_who_may_see_the_dag(airflow, proven):
    page = airflow.http("GET", f"/millrace/report/{PROVE_WHOLE}?run={proven}").decode()
    assert "conservation" in page
    assert AirflowRest(airflow.settings, "viewer").http("GET", f"/millrace/report/{PROVE_WHOLE}?run={proven}")
    with pytest.raises(Refused) as nobody:
        airflow._http("GET", f"/millrace/report/{PROVE_WHOLE}?run={proven}", None, "")
    assert nobody.value.status == 401
    with pytest.raises(Refused) as nothing:
        airflow.http("GET", f"/millrace/report/{PROVE_WHOLE}?run=../../../etc/passwd")
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
    tasks = airflow.tasks(PROVE_FORGED, red)
    assert {name: tasks[name]["state"] for name in ("traffic", "validate", "proven", "report", "teardown")} == {
        "traffic": "skipped",
        "validate": "failed",
        "proven": "upstream_failed",
        "report": "success",
        "teardown": "success",
    }
    verdict = airflow.xcom(PROVE_FORGED, red, "validate", "verdict")
    assert verdict["verdict"] == "failed"
    assert verdict["checks"]["alert ids"] == "failed"
    assert b"alert ids" in airflow.http("GET", f"/millrace/report/{PROVE_FORGED}?run={red}")
    target = Target.read(airflow.settings, {})
    assert not any(job.is_up for _, job in deployments.jobs(target, FORGED).values())
    assert provision(target, FORGED, plan=True)[0].action == "create", "its data ought to be gone"


def test_two_patterns_on_one_tape_are_compared_by_themselves(airflow, proven, proven_as_deployed):
    def compared() -> set[str]:
        runs = airflow.api("GET", "/dags/compare/dagRuns?order_by=-run_after&limit=10")["dag_runs"]
        paths = [f"/dags/compare/dagRuns/{each['dag_run_id']}/taskInstances?limit=50" for each in runs]
        tasks = [task for path in paths for task in airflow.api("GET", path)["task_instances"]]
        return {task["state"] for task in tasks if TAPE in str(task["rendered_map_index"])}

    assert processes.wait_until(lambda: compared() == {"success"}, SHOWN_WITHIN_S), compared()


def test_a_teardown_takes_a_pattern_down_and_its_data_if_asked_to(airflow, proven_as_deployed):
    run = unique("teardown")
    airflow.trigger("teardown", run, {"pattern": QUICK, "remove_data": True})
    ends_as(airflow, "teardown", run, "success")
    target = Target.read(airflow.settings, {})
    assert deployments.deployed(target, QUICK) == {}
    assert provision(target, QUICK, plan=True)[0].action == "create", "its data ought to be gone"


def test_nothing_happens_before_a_person_agrees(airflow, asked):
    path = f"/dags/{DEPLOY_FORGED}/dagRuns/{asked.refused}/taskInstances/approve"
    assert processes.wait_until(lambda: airflow.api("GET", path)["state"] == "awaiting_input", SHOWN_WITHIN_S)
    viewer = AirflowRest(airflow.settings, "viewer")
    with pytest.raises(Refused) as forbidden:
        viewer.answer(DEPLOY_FORGED, asked.refused, "approve", "Reject")
    assert forbidden.value.status == 403
    airflow.answer(DEPLOY_FORGED, asked.refused, "approve", "Reject")
    airflow.await_end(DEPLOY_FORGED, asked.refused, RUN_WITHIN_S)
    states = {name: task["state"] for name, task in airflow.tasks(DEPLOY_FORGED, asked.refused).items()}
    assert states.pop("approve") == "success"
    assert set(states.values()) == {"skipped"}


def test_airflow_runs_on_postgresql_behind_a_socket_of_its_owners(airflow, proven):
    assert processes.listening(processes.records(airflow.settings.run)["postgres"]) == []
    data = Postgres(airflow.settings).data
    assert data.stat().st_mode & 0o077 == 0
    assert next(data.glob(".s.PGSQL.*")).stat().st_mode & 0o077 == 0
    assert not (airflow.settings.state / "data" / "airflow-on-postgres" / "airflow.db").exists()


@pytest.mark.drill
def test_what_a_person_sees(airflow, asked, proven):
    """Kept as pictures, for a look at the pages."""
    pictures = airflow.settings.state / "pictures"
    for old in pictures.glob("*.png"):
        old.unlink()
    with browser(1500, 1000) as page:
        page.goto(f"{airflow.url}/auth/login/")
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", airflow.password())
        page.click("button[type=submit]")
        shows(page, "Dags")
        page.goto(f"{airflow.url}/dags?tags=quick")
        shows(page, "2 Dags")
        page.screenshot(path=pictures / "dags-of-a-pattern.png")
        page.goto(f"{airflow.url}/dags")
        shows(page, "replay-dead-letters")
        page.screenshot(path=pictures / "dags.png")
        for dag, fields in ((DEPLOY_QUICK, ["Fresh start"]), (PROVE_QUICK, ["Rate per second", "Servers to crash"])):
            page.goto(f"{airflow.url}/dags/{dag}")
            page.locator("button", has_text=re.compile("^Trigger$")).first.click()
            for field in fields:
                shows(page, field)
            page.screenshot(path=pictures / f"{dag}-form.png")
        for dag, run, tasks in ((DEPLOY_QUICK, asked.deployed, 5), (PROVE_WHOLE, proven, 13)):
            page.goto(f"{airflow.url}/dags/{dag}/runs/{run}")
            shows(page, "await_healthy")
            page.evaluate("document.querySelector('[aria-label*=raph i]')?.click()")
            page.wait_for_function(f"document.querySelectorAll('.react-flow__node').length >= {tasks}")
            page.locator(".react-flow__node").first.hover(trial=True)  # returns once it stands still
            page.screenshot(path=pictures / f"{dag}-graph.png")
        page.goto(f"{airflow.url}/dags/{PROVE_WHOLE}/runs/{proven}/plugin/report")
        page.frame_locator("iframe").get_by_text("conservation").first.wait_for()
        page.frame_locator("iframe").locator("canvas").first.wait_for()
        page.screenshot(path=pictures / "report.png")
    assert all(path.stat().st_size > 20_000 for path in pictures.glob("*.png"))
