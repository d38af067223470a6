"""Airflow: four processes over one database, SQLite or PostgreSQL, in Airflow's own environment."""

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from millrace.machine.environments import python, python_path
from millrace.servers import postgres
from millrace.servers.server import LOOPBACK, Preparation, Server
from millrace.settings import Settings

USERS = {"admin": "admin", "viewer": "viewer"}
"""User -> role: a viewer sees everything and triggers nothing."""

# Airflow would generate them, too, but prints them into its log and makes the file readable for all.
GENERATE_PASSWORDS = """
import json, os, secrets, sys
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
os.write(file, json.dumps({user: secrets.token_urlsafe(12) for user in sys.argv[2:]}).encode())
"""


@dataclass(frozen=True)
class Airflow(Server):
    """One of Airflow's processes; all share a home, so that the page shows the logs of every one."""

    part: str = "api-server"
    on_postgres: bool = False

    environments: ClassVar[tuple[str, ...]] = ("airflow",)
    # A first start imports for half a minute on a busy machine.
    within_s: ClassVar[float] = 300

    @property
    def name(self) -> str:
        return f"airflow-{self.part}"

    @property
    def doors(self) -> Mapping[str, int]:
        return {"http": self.settings.port("airflow")} if self.part == "api-server" else {}

    @property
    def address(self) -> str:
        return super().address if self.doors else ""

    @property
    def web(self) -> str:
        return url(self.settings) if self.part == "api-server" else ""

    @property
    def hint(self) -> str:
        return f"log in as {' or '.join(USERS)}; their passwords are in {self.passwords}" if self.web else ""

    @property
    def needs(self) -> tuple[str, ...]:
        # It creates the database.
        if self.part == "api-server":
            return ("postgres",) if self.on_postgres else ()
        return ("airflow-api-server",)

    @property
    def log(self) -> Path:
        return self.output  # it prints its log and does not rotate it

    @property
    def data(self) -> Path:
        return self.settings.state / "data" / ("airflow-on-postgres" if self.on_postgres else "airflow")

    @property
    def passwords(self) -> Path:
        """The file of the users' passwords, readable by this account only."""
        return self.settings.state / "conf" / "airflow-passwords.json"

    def preparation(self) -> Preparation | None:
        if self.part != "api-server":
            return None
        generate = (str(python(self.settings, "airflow")), "-c", GENERATE_PASSWORDS, str(self.passwords), *USERS)
        return Preparation(self.data, ((*self._airflow(), "db", "migrate"), generate))

    def command(self) -> list[str]:
        # Their own log servers listen on every address; the pages read the shared folder without them.
        quiet = ["--skip-serve-logs"] if self.part in ("scheduler", "triggerer") else []
        return [*self._airflow(), self.part, *quiet]

    def environment(self) -> dict[str, str]:
        port = self.settings.port("airflow")
        return {
            "PYTHONPATH": str(python_path(self.settings)),
            "AIRFLOW_HOME": str(self.data),
            "AIRFLOW__API__BASE_URL": f"http://{LOOPBACK}:{port}",
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__WORKERS": "1",
            # A DAG runs because a person triggers it; `reconcile` alone has a schedule, for what is deployed.
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.settings.project / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{LOOPBACK}:{port}/execution/",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.passwords),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
            # A new pattern file is a DAG within half a minute, a changed one too.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
            "AIRFLOW__DAG_PROCESSOR__PRINT_STATS_INTERVAL": "0",  # a table of all files, twice a minute, for ever
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            # The scheduler notices a task's end within this time. A task that resumes before that, by a timer or a
            # person's answer, would be taken for ended.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            # A killed task is detected within a minute; Airflow's default of five suits tasks that take hours.
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "10",
            **self._database(),
        }

    def _database(self) -> dict[str, str]:
        if not self.on_postgres:
            return {}
        return {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres.url(self.settings, "psycopg2"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": postgres.url(self.settings, "asyncpg"),
        }

    def is_ready(self, since: float) -> bool:
        health = answer(self.settings)
        if health is None:
            return False
        if self.part == "api-server":
            return bool(health["metadatabase"]["status"] == "healthy")
        mine = health[self.part.replace("-", "_")]
        beat = mine[f"latest_{self.part.replace('-', '_')}_heartbeat"]
        # A heartbeat of an earlier life counts as healthy for half a minute.
        return mine["status"] == "healthy" and datetime.fromisoformat(beat).timestamp() > since

    def _airflow(self) -> list[str]:
        return [str(python(self.settings, "airflow")), "-m", "airflow"]


def url(settings: Settings) -> str:
    return f"http://{LOOPBACK}:{settings.port('airflow')}"


def answer(settings: Settings) -> dict[str, Any] | None:
    """The health of all four processes, from the api-server; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"{url(settings)}/api/v2/monitor/health", timeout=5) as response:
            return dict(json.load(response))
    except (OSError, ValueError):
        return None
