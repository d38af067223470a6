"""Airflow with PostgreSQL in place of SQLite: the same DAGs, a run, and no port opened by the database."""

from collections.abc import Iterator

import pytest

from infra import processes
from infra import stack as stacks
from infra.servers.postgres import Postgres
from lab.airflow_rest import AirflowRest
from pipelines.patterns import names
from tests.conftest import settings_for_tests

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def airflow(test_port_base: int) -> Iterator[AirflowRest]:
    # A socket's path may have 107 letters, and what PostgreSQL makes of a folder beyond ASCII is tested here too.
    settings = settings_for_tests("postgres", test_port_base + 400)
    stacks.down(settings, purge=True)
    stacks.up(settings, ["airflow"], ["airflow-postgres"], report=print)
    yield AirflowRest(settings)
    stacks.down(settings, purge=True)


def test_airflow_runs_on_postgresql(airflow):
    assert processes.wait_until(lambda: len(airflow.api("GET", "/dags")["dags"]) == len(names()) + 5, 300)
    airflow.trigger("spark", "refused", {"approval": True})
    path = "/dags/spark/dagRuns/refused/taskInstances/approve"
    assert processes.wait_until(lambda: airflow.api("GET", path)["state"] == "awaiting_input", 300)
    airflow.answer("spark", "refused", "approve", "Reject")
    airflow.await_end("spark", "refused", 300)
    states = {task["state"] for name, task in airflow.tasks("spark", "refused").items() if name != "approve"}
    assert states == {"skipped"}
    assert not (airflow.settings.state / "data" / "airflow-on-postgres" / "airflow.db").exists()


def test_the_database_is_behind_a_socket_of_its_owners(airflow):
    record = processes.records(airflow.settings.run)["postgres"]
    assert processes.listening(record) == []
    data = Postgres(airflow.settings).data
    assert data.stat().st_mode & 0o077 == 0
    assert next(data.glob(".s.PGSQL.*")).stat().st_mode & 0o077 == 0
