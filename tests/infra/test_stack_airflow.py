"""Airflow runs as four processes of the stack, and comes back when they are killed. The live page is behind it."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from lab.airflow_rest import AirflowRest, Refused
from millrace import stack as stacks
from millrace.machine import processes
from millrace.servers import airflow
from millrace.servers.dashboard import url
from millrace.settings import Settings
from tests.browser import browser
from tests.conftest import settings_for_tests

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PARTS = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")


@pytest.fixture(scope="module")
def with_airflow(test_port_base: int) -> Iterator[Settings]:
    settings = settings_for_tests("airflow", test_port_base + 300)
    stacks.down(settings, purge=True)
    stacks.up(settings, ["airflow", "dashboard"], report=print)
    yield settings
    stacks.down(settings)
    assert processes.records(settings.run) == {}


def ask(settings: Settings, path: str, token: str | None = None, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        airflow.url(settings) + path,
        data=json.dumps(body).encode() if body else None,
        headers={"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}),
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_nothing_listens_beyond_loopback_not_even_the_log_servers(with_airflow: Settings) -> None:
    listening = {name: processes.listening(record) for name, record in processes.records(with_airflow.run).items()}
    assert listening == {name: [] for name in PARTS} | {
        "airflow-api-server": [("127.0.0.1", with_airflow.port("airflow"))],
        "dashboard": [("127.0.0.1", with_airflow.port("dashboard"))],
    }


def test_one_may_log_in_with_the_generated_password(with_airflow: Settings) -> None:
    passwords = json.loads(airflow.Airflow(with_airflow).passwords.read_text())
    body = {"username": "admin", "password": passwords["admin"]}
    token = ask(with_airflow, "/auth/token", body=body)["access_token"]
    assert ask(with_airflow, "/api/v2/dags?limit=1", token)["total_entries"] >= 0


def test_the_live_page_is_for_those_who_have_logged_in(with_airflow: Settings) -> None:
    viewer = AirflowRest(with_airflow, "viewer")
    for path in ("/millrace/live/", "/millrace/live/live", "/millrace/live/metrics", "/millrace/live/of/prove-flink"):
        with pytest.raises(Refused) as nobody:
            viewer._http("GET", path, None, "")
        assert nobody.value.status == 401, path
    assert b'<main id="main"' in viewer.http("GET", "/millrace/live/")
    assert viewer.http("GET", "/millrace/live/page/main.js") == direct(with_airflow, "page/main.js")
    assert viewer.http("GET", "/millrace/live/assets/world.json") == direct(with_airflow, "assets/world.json")
    with viewer.opened("/millrace/live/") as answer:
        assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert viewer.live()["boards"] == {}


def test_only_who_may_trigger_runs_may_mark_an_alert_and_only_from_a_page_of_airflow(with_airflow: Settings) -> None:
    admin, viewer = AirflowRest(with_airflow, "admin"), AirflowRest(with_airflow, "viewer")
    token = admin.live()["token"]

    def status(one: AirflowRest, origin: str, token: str, body: bytes = b'{"mark": "unsure"}') -> int:
        headers = {"Origin": origin, "X-Millrace-Token": token, "Content-Type": "application/json"}
        with pytest.raises(Refused) as refused:
            one.opened("/millrace/live/alerts/flink/none/mark", body, headers)
        return refused.value.status

    own = airflow.url(with_airflow)
    assert status(viewer, own, token) == 403
    assert status(admin, "http://evil.example", token) == 403
    assert status(admin, own.replace("http:", "https:"), token) == 403
    assert status(admin, own, token, b'{"note": ' + b"[" * 4_000 + b"]" * 4_000 + b"}") == 400
    assert status(admin, own, "guessed") == 403
    assert status(admin, own, token) == 404, "the page's server was asked, and knows no such alert"


def test_the_live_page_is_in_the_navigation_and_a_tab_of_a_patterns_dag(with_airflow: Settings) -> None:
    """Kept as pictures, for a look at the pages."""
    rest = AirflowRest(with_airflow)
    dag = "/api/v2/dags/prove-flink"
    assert processes.wait_until(lambda: status_of(rest, dag) == 200, within_s=300, every_s=1)
    pictures = with_airflow.state / "pictures"
    with browser(1500, 1000) as page:
        page.goto(f"{rest.url}/auth/login/")
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", rest.password())
        page.click("button[type=submit]")
        page.get_by_role("link", name="Live").click()
        expect(page.frame_locator("iframe").locator("#connection")).to_have_text("live")
        page.screenshot(path=pictures / "live.png")
        page.goto(f"{rest.url}/dags/prove-flink")
        live = page.get_by_role("link", name="Live")
        expect(live).to_have_count(2)  # that of the navigation, and the tab of the DAG, which comes later
        live.last.click()
        framed = page.frame_locator("iframe")
        expect(framed.locator("#connection")).to_have_text("live")
        expect(framed.locator("article h1")).to_contain_text("flink")
        page.screenshot(path=pictures / "live-of-a-dag.png")


def status_of(rest: AirflowRest, path: str) -> int:
    try:
        rest.http("GET", path)
    except Refused as refused:
        return refused.status
    return 200


def direct(settings: Settings, path: str) -> bytes:
    """The same without Airflow."""
    with urllib.request.urlopen(url(settings) + path, timeout=30) as answer:
        return bytes(answer.read())


def test_a_page_that_is_away_is_reported_with_the_remedy(with_airflow: Settings) -> None:
    viewer = AirflowRest(with_airflow, "viewer")
    stacks.kill(with_airflow, ["dashboard"])
    with pytest.raises(Refused, match="millrace up dashboard") as away:
        viewer.http("GET", "/millrace/live/")
    assert away.value.status == 502


def test_killed_processes_are_shown_as_dead_and_come_back(with_airflow: Settings) -> None:
    stacks.kill(with_airflow, PARTS)
    found = {one.name: one.state for one in stacks.status(with_airflow) if one.service == "airflow"}
    assert found == dict.fromkeys(PARTS, "dead")
    stacks.up(with_airflow, ["airflow"])
    found = {one.name: one.state for one in stacks.status(with_airflow) if one.service == "airflow"}
    assert found == dict.fromkeys(PARTS, "running")
