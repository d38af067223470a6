"""Airflow as a person's script sees it: its REST interface, over plain HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import InfraError
from millrace.machine.processes import wait_until
from millrace.servers import airflow
from millrace.settings import Settings

ENDED = ("success", "failed")
HEARTBEAT_WITHIN_S = 300
ANSWER_WITHIN_S = 120  # an api-server that has just started imports at its first questions


class Refused(InfraError):  # noqa: N818 - an answer, not a fault
    """An answer with an error status."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"Airflow answered {status}: {body}")
        self.status = status
        self.body = body


@dataclass
class AirflowRest:
    """One user of a stack's Airflow."""

    settings: Settings
    user: str = "admin"
    _token: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        return airflow.url(self.settings)

    def password(self) -> str:
        """The user's password, as `millrace up airflow` left it."""
        passwords = airflow.Airflow(self.settings).passwords
        return str(json.loads(passwords.read_text(encoding="utf-8"))[self.user])

    def trigger(self, dag: str, run_id: str, conf: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Trigger a run."""
        body = {"logical_date": None, "dag_run_id": run_id, "conf": dict(conf or {})}
        return dict(self.api("POST", f"/dags/{dag}/dagRuns", body))

    def run(self, dag: str, run_id: str) -> dict[str, Any]:
        return dict(self.api("GET", f"/dags/{dag}/dagRuns/{_quoted(run_id)}"))

    def tasks(self, dag: str, run_id: str) -> dict[str, dict[str, Any]]:
        """The run's tasks; a mapped one is named with its index."""
        found = self.api("GET", f"/dags/{dag}/dagRuns/{_quoted(run_id)}/taskInstances?limit=500")["task_instances"]
        return {
            task["task_id"] if task["map_index"] < 0 else f"{task['task_id']}[{task['map_index']}]": task
            for task in found
        }

    def xcom(self, dag: str, run_id: str, task: str, key: str = "return_value") -> Any:
        path = f"/dags/{dag}/dagRuns/{_quoted(run_id)}/taskInstances/{task}/xcomEntries/{key}?deserialize=true"
        return self.api("GET", path)["value"]

    def answer(self, dag: str, run_id: str, task: str, option: str) -> None:
        """Choose an option for a task that waits for a person."""
        # Airflow 3.3.2 fails a task that is answered at once: its scheduler takes the end of the process that asked for
        # the end of the process that continues. After two heartbeats it has seen the first end.
        for _ in range(2):
            self._await_heartbeat()
        path = f"/dags/{dag}/dagRuns/{_quoted(run_id)}/taskInstances/{task}/-1/hitlDetails"
        self.api("PATCH", path, {"chosen_options": [option], "params_input": {}})

    def await_end(self, dag: str, run_id: str, within_s: float) -> str:
        """The state in which the run ends; an Airflow that is down meanwhile is waited for."""
        state = "unknown"

        def has_ended() -> bool:
            nonlocal state
            try:
                state = str(self.run(dag, run_id)["state"])
            except (OSError, Refused):
                state = "unknown"
            return state in ENDED

        if not wait_until(has_ended, within_s, every_s=1):
            raise InfraError(f"run {run_id} of {dag} was {state} after {within_s:.0f} s; see {self.url}/dags/{dag}")
        return state

    def api(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.http(method, f"/api/v2{path}", body))

    def http(self, method: str, path: str, body: Any = None) -> bytes:
        """Any page of the server, logged in."""
        try:
            return self._http(method, path, body, self._token or self._log_in())
        except Refused as refused:
            if refused.status != 401:
                raise
            return self._http(method, path, body, self._log_in())

    def live(self) -> dict[str, Any]:
        """The first message of the live page's stream, which stays open meanwhile."""
        with self.opened("/millrace/live/live") as stream:
            first = next(line for line in stream if line.startswith(b"data: {"))
        return dict(json.loads(first.removeprefix(b"data: ")))

    def opened(self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """An answer that can be read while it comes."""
        logged_in = {"Authorization": f"Bearer {self._token or self._log_in()}"}
        return _opened(urllib.request.Request(self.url + path, body, logged_in | dict(headers or {})))

    def _await_heartbeat(self) -> None:
        seen = self._heartbeat()
        if not wait_until(lambda: self._heartbeat() != seen, HEARTBEAT_WITHIN_S):
            raise InfraError(f"the scheduler has had no heartbeat since {seen}; see `millrace status`")

    def _heartbeat(self) -> str:
        return str(self.api("GET", "/monitor/health")["scheduler"]["latest_scheduler_heartbeat"])

    def _log_in(self) -> str:
        answer = self._http("POST", "/auth/token", {"username": self.user, "password": self.password()}, "")
        self._token = str(json.loads(answer)["access_token"])
        return self._token

    def _http(self, method: str, path: str, body: Any, token: str) -> bytes:
        request = urllib.request.Request(
            f"{self.url}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            method=method,
        )
        with _opened(request) as answer:
            return bytes(answer.read())


def _opened(request: urllib.request.Request) -> Any:
    try:
        return urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S)
    except urllib.error.HTTPError as error:
        raise Refused(error.code, error.read().decode("utf-8", errors="replace")) from None


def _quoted(run_id: str) -> str:
    return urllib.parse.quote(run_id, safe="")
