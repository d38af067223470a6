"""A small web server that answers "what differs?" to Terraform, in the one format that it reads without a provider.

Terraform reads another state's outputs over HTTP while it plans (`terraform_remote_state`). So what runs is published
as such a state, and a plain `terraform plan` sees what was killed or changed behind its back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from millrace.errors import InfraError
from millrace.machine import environments, processes
from millrace.settings import Settings

NAME = "observer"
ANSWER_WITHIN_S = 120
"""Asking waits for a verb that is at work on the same pattern."""


class Answers(BaseHTTPRequestHandler):
    """Answers each question by a new process: what it says comes from today's rules and patterns."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if not self._is_asked_on_this_machine():
            self._answer(403, b"")
        elif asked.path == "/observation":
            patterns = parse_qs(asked.query).get("pattern", [])
            self._answer(200, json.dumps(as_state(answer(patterns))).encode())
        else:
            self._answer(200 if asked.path == "/up" else 404, b"")

    def _is_asked_on_this_machine(self) -> bool:
        """Not by a web page from elsewhere, neither under a name of its own that leads here nor under ours."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        is_from_a_page = self.headers.get("Origin") or self.headers.get("Sec-Fetch-Site", "none") != "none"
        return host in ("127.0.0.1", "localhost") and not is_from_a_page

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(patterns: list[str]) -> str:
    """What `millrace observe --json` says; if it fails, the failure is the answer."""
    from millrace.patterns import PatternError, require_known  # here: every verb imports this module

    try:
        for name in patterns:
            require_known(name)
    except PatternError as error:
        return json.dumps({"problem": str(error)})
    command = [sys.executable, "-m", "millrace.cli", "observe", "--json", "--", *patterns]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        return json.dumps({"problem": f"`millrace observe` gave no answer within {ANSWER_WITHIN_S} s"})
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return json.dumps({"problem": said[-1]})
    return json.dumps({"problem": answer["error"]["message"]}) if "error" in answer else done.stdout


def as_state(observation: str) -> dict[str, object]:
    """The text as the one output of a Terraform state."""
    outputs = {"observation": {"value": observation, "type": "string"}}
    return {
        "version": 4,
        "terraform_version": "1.0.0",
        "serial": 1,
        "lineage": "millrace",
        "outputs": outputs,
        "resources": [],
    }


def ensure(settings: Settings) -> None:
    """Make it run, with the target that this process was given, and answer."""
    target = os.environ.get("MILLRACE_TARGET", "")
    record = processes.read(settings.run / f"{NAME}.json")
    if record is not None and processes.alive(record) and record.fingerprint == target:
        return
    stop(settings)
    given = {"MILLRACE_TARGET": target} if target else {}
    log = settings.state / "logs" / f"{NAME}.log"
    command = [sys.executable, "-m", "millrace.verbs.observer"]
    environment = environments.variables_of_python(settings) | given
    processes.start(NAME, command, environment, log, settings.run, fingerprint=target)
    if not processes.wait_until(lambda: _answers(settings), within_s=30):
        stop(settings)
        raise InfraError(f"the observer does not answer on port {settings.port(NAME)}; see {log}")


def stop(settings: Settings) -> bool:
    """End it; says whether it ran."""
    record = processes.read(settings.run / f"{NAME}.json")
    if record is None:
        return False
    did_run = processes.alive(record)
    processes.stop(record, within_s=5)
    processes.forget(record, settings.run)
    return did_run


def main() -> None:
    """Serve until stopped, to this machine only."""
    settings = Settings.read(os.environ)
    ThreadingHTTPServer(("127.0.0.1", settings.port(NAME)), Answers).serve_forever()


def _answers(settings: Settings) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{settings.port(NAME)}/up", timeout=1) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    main()
