"""A small web server that offers `millrace observe` to Terraform, in the one format that it reads without a provider.

Terraform reads another state's outputs over HTTP while it plans (`terraform_remote_state`). The observation is
published as such a state, so a plain `terraform plan` shows what died or changed outside Terraform.
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
"""An observation waits for a verb that works on the same pattern."""


class Answers(BaseHTTPRequestHandler):
    """Answers each request by a new process, so that it reads the rules and patterns of today."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not self._is_from_this_machine():
            self._answer(403, b"")
        elif url.path == "/observation":
            wanted = parse_qs(url.query)
            observation = answer(wanted.get("pattern", []), wanted.get("service", []))
            self._answer(200, json.dumps(as_state(observation)).encode())
        else:
            self._answer(200 if url.path == "/up" else 404, b"")

    def _is_from_this_machine(self) -> bool:
        """Whether a local program sent the request: no web page, not even one whose host name leads here."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        is_from_a_page = self.headers.get("Origin") or self.headers.get("Sec-Fetch-Site", "none") != "none"
        return host in ("127.0.0.1", "localhost") and not is_from_a_page

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(patterns: list[str], services: list[str]) -> str:
    """The output of `millrace observe --json`, or its failure."""
    from millrace.patterns import PatternError, require_known  # here: every verb imports this module

    try:
        for name in patterns:
            require_known(name)
    except PatternError as error:
        return json.dumps({"problem": str(error)})
    chosen = [f"--service={name}" for name in services]
    command = [sys.executable, "-m", "millrace.cli", "observe", "--json", *chosen, "--", *patterns]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        return json.dumps({"problem": f"`millrace observe` did not finish within {ANSWER_WITHIN_S} s"})
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return json.dumps({"problem": lines[-1]})
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
    """Start it with the target and ports of this process, unless it runs so, and wait until it answers."""
    target = os.environ.get("MILLRACE_TARGET", "")
    fingerprint = f"{settings.port(NAME)} {target}"  # Terraform reads the port there
    record = processes.read(settings.run / f"{NAME}.json")
    if record is not None and processes.alive(record) and record.fingerprint == fingerprint:
        return
    stop(settings)
    given = {"MILLRACE_TARGET": target} if target else {}
    log = settings.state / "logs" / f"{NAME}.log"
    command = [sys.executable, "-m", "millrace.verbs.observation_server"]
    environment = environments.variables_of_python(settings) | given
    processes.start(NAME, command, environment, log, settings.run, fingerprint=fingerprint)
    if not processes.wait_until(lambda: _answers(settings), within_s=30):
        stop(settings)
        raise InfraError(f"the observer does not answer on port {settings.port(NAME)}; see {log}")


def stop(settings: Settings) -> bool:
    """Stop it; return whether it ran."""
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
