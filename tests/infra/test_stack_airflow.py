"""Airflow runs as four processes of the stack, and comes back when they are killed."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from millrace import stack as stacks
from millrace.machine import processes
from millrace.servers import airflow
from millrace.settings import Settings
from tests.conftest import settings_for_tests

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PARTS = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")


@pytest.fixture(scope="module")
def with_airflow(test_port_base: int) -> Iterator[Settings]:
    settings = settings_for_tests("airflow", test_port_base + 300)
    stacks.down(settings, purge=True)
    stacks.up(settings, ["airflow"], report=print)
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
        "airflow-api-server": [("127.0.0.1", with_airflow.port("airflow"))]
    }


def test_one_may_log_in_with_the_generated_password(with_airflow: Settings) -> None:
    passwords = json.loads(airflow.Airflow(with_airflow).passwords.read_text())
    body = {"username": "admin", "password": passwords["admin"]}
    token = ask(with_airflow, "/auth/token", body=body)["access_token"]
    assert ask(with_airflow, "/api/v2/dags?limit=1", token)["total_entries"] >= 0


def test_killed_processes_are_said_to_be_dead_and_come_back(with_airflow: Settings) -> None:
    stacks.kill(with_airflow, PARTS)
    found = {one.name: one.state for one in stacks.status(with_airflow) if one.service == "airflow"}
    assert found == dict.fromkeys(PARTS, "dead")
    stacks.up(with_airflow, ["airflow"])
    found = {one.name: one.state for one in stacks.status(with_airflow) if one.service == "airflow"}
    assert found == dict.fromkeys(PARTS, "running")
