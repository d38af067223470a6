"""The state of every server and of the watcher, probed now."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from millrace.machine import processes
from millrace.machine.processes import ProcessRecord
from millrace.servers.server import Server
from millrace.settings import Settings
from millrace.stack.form import profiles_of
from millrace.stack.marks import given_up, given_up_file
from millrace.stack.services import DEFAULT, servers_named, services

WATCH = "watch"
"""The process that restarts what dies: millrace/verbs/watch."""
PROBED_FOR_S = 2


@dataclass(frozen=True)
class ServerStatus:
    """One server."""

    name: str
    service: str
    state: str  # running | starting | unready (runs, does not answer) | dead | given-up (dead, not restarted) | stopped
    address: str
    web: str
    pid: int | None
    memory_bytes: int | None
    since: float | None  # seconds of the epoch: when it was started
    error: str  # the last error line of its log, if it died
    log: Path


@dataclass(frozen=True)
class WatchStatus:
    """The watcher."""

    state: str  # running | dead | stopped (nothing restarts what dies)
    pid: int | None
    given_up: list[str]
    """Servers and patterns that it no longer restarts."""

    @property
    def is_well(self) -> bool:
        return self.state != "dead" and not self.given_up


def status(settings: Settings, names: Collection[str] = DEFAULT) -> list[ServerStatus]:
    """Every server of these services, and every other that was started."""
    cap_logs(settings)
    recorded = processes.records(settings.run)
    shown = [
        (service.name, server)
        for service in services(settings, profiles_of(settings)).values()
        for server in service.servers
        if service.name in names or server.name in recorded
    ]
    with ThreadPoolExecutor(max_workers=len(shown)) as pool:
        return list(pool.map(lambda one: status_of(one[0], one[1], recorded.get(one[1].name)), shown))


def watch_status(settings: Settings) -> WatchStatus:
    """The state of the watcher, and the servers and patterns that it has given up."""
    record = processes.read(settings.run / f"{WATCH}.json")
    state = "stopped" if record is None else "running" if processes.alive(record) else "dead"
    return WatchStatus(state, record.pid if record and state == "running" else None, given_up(settings))


def status_of(service: str, server: Server, record: ProcessRecord | None) -> ServerStatus:
    """One server, probed now."""
    running = record if record and processes.alive(record) else None
    state = state_of(server, record, running)
    error = last_error(server) if state == "dead" else ""
    if state == "dead" and given_up_file(server.settings, server.name).exists():
        state, error = "given-up", f"{error}; fix the cause, then `millrace up`"
    return ServerStatus(
        name=server.name,
        service=service,
        state=state,
        address=server.address,
        web=server.web,
        pid=running.pid if running else None,
        memory_bytes=processes.memory_bytes(running) if running else None,
        since=record.since if record else None,
        error=error,
        log=server.log,
    )


def state_of(server: Server, record: ProcessRecord | None, running: ProcessRecord | None) -> str:
    """The state of a server with this record, if it has one, and this process, if it runs."""
    if record is None:
        return "stopped"
    if running is None:
        return "dead"
    # Probed for a moment: a busy server answers late, and one late answer means nothing.
    if processes.wait_until(lambda: server.is_ready(running.since), PROBED_FOR_S):
        return "running"
    return "starting" if time.time() - running.since < server.within_s else "unready"


def last_error(server: Server) -> str:
    """The last line of a server's logs with an error in it."""
    lines = [line for log in (server.log, server.output) for line in processes.tail(log, 200)]
    errors = [line for line in lines if any(word in line for word in ("ERROR", "FATAL", "Exception", "Error:"))]
    return errors[-1].strip() if errors else "no error in its log; it may have been killed"


def logs(settings: Settings, names: Sequence[str]) -> dict[str, list[Path]]:
    """The logs of the named servers or services, or of all that have one: the log file, then the output."""
    known = services(settings, profiles_of(settings))
    named = servers_named(known, names or [name for name, service in known.items() if service.servers])
    found = {server.name: list(dict.fromkeys((server.log, server.output))) for server in named}
    return found if names else {name: some for name, some in found.items() if any(log.exists() for log in some)}


def cap_logs(settings: Settings) -> None:
    """Cap the output of processes; they rotate their log files themselves."""
    for output in (settings.state / "logs").glob("*.out"):
        processes.cap(output)
