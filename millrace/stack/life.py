"""Starts servers in the order of their needs, waits until each is ready, and stops them by pid."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from millrace import records
from millrace.errors import InfraError
from millrace.machine import environments, jars, prerequisites, processes
from millrace.machine.processes import ProcessRecord
from millrace.servers.server import Server
from millrace.settings import Settings
from millrace.stack.form import every_server, profiles_of, refuse_another_form, remember
from millrace.stack.lock import ensure_private, locked, only_one
from millrace.stack.marks import GIVEN_UP, STAY_DEAD, clear_marks, left_dead_file
from millrace.stack.ports import refuse_used_ports
from millrace.stack.services import DEFAULT, Service, servers_named, services, with_needs
from millrace.stack.startup import Report, Startup, stop_all
from millrace.stack.states import WATCH, cap_logs


def up(
    settings: Settings,
    names: Sequence[str] = (),
    profiles: Sequence[str] | None = None,
    report: Report = lambda *_: None,
    progress: jars.Progress | None = None,
) -> None:
    """Start what is missing or died of the named services, or of the default stack; adopt what runs.

    Without `profiles` the stack keeps the form it had.
    """
    began = time.monotonic()
    with only_one(settings, "up", report):
        cap_logs(settings)
        profiles = profiles_of(settings) if profiles is None else profiles
        known = services(settings, profiles)
        recorded = processes.records(settings.run)
        refuse_another_form(settings, known, recorded)
        wanted = with_needs(known, names or _by_default(known, recorded))
        servers = {server.name: server for service in wanted for server in service.servers}
        absent = [server for name, server in servers.items() if not _is_alive(recorded.get(name))]
        if absent:
            _bring(settings, wanted, report, progress)
            for old in (recorded[server.name] for server in absent if server.name in recorded):
                processes.stop(old, within_s=1)  # a killed server's children may hold its ports
            refuse_used_ports(settings, absent)
        remember(settings, profiles)
        for name in servers:
            clear_marks(settings, name)
        Startup(settings, servers, report).run()
        if absent:
            _record_the_start(settings, [service.name for service in wanted], absent, time.monotonic() - began)


def down(settings: Settings, purge: bool = False, report: Report = lambda *_: None) -> None:
    """Stop every recorded process, dependents first; with `purge` also remove what the stack wrote."""
    began = time.monotonic()
    with only_one(settings, "down", report):
        if watch := processes.read(settings.run / f"{WATCH}.json"):
            stop_all(settings, {WATCH: watch}, (), report)  # first: it would restart what is stopped
        recorded = processes.records(settings.run)
        figures = {"memory_bytes": _memory_of(recorded), "servers": sorted(recorded)}
        stop_all(settings, recorded, every_server(settings), report)
        # A verb that ran meanwhile may have started a job; without Kafka none starts.
        left = {name: one for name, one in processes.records(settings.run).items() if _is_alive(one)}
        stop_all(settings, left, every_server(settings), report)
        if recorded:
            records.append(settings, "down", figures | {"seconds": round(time.monotonic() - began, 1)})
        for mark in (*settings.run.glob(f"*{GIVEN_UP}"), *settings.run.glob(f"*{STAY_DEAD}")):
            if mark.name.removesuffix(GIVEN_UP) in recorded or mark.name.endswith(STAY_DEAD):
                mark.unlink(missing_ok=True)  # of servers; `deploy` removes those of patterns
        if purge:
            for path in purged(settings):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            report("data", "removed")


def purged(settings: Settings) -> list[Path]:
    """The files of a stack that `down` with `purge` removes."""
    folders = ("backfills", "canaries", "conf", "data", "ledger", "logs", "patterns", "python", "run")
    paths = (settings.state / name for name in (*folders, "stack.json", "watch.jsonl"))
    return [path for path in paths if path.exists()]


def restart(settings: Settings, names: Sequence[str], report: Report = lambda *_: None) -> None:
    """Stop the named servers or services and start them again with the current configuration."""
    known = services(settings, profiles_of(settings))
    named = {server.name for server in servers_named(known, names)}
    with only_one(settings, "restart", report):
        recorded = {name: one for name, one in processes.records(settings.run).items() if name in named}
        stop_all(settings, recorded, every_server(settings), report)
    touched = [service.name for service in known.values() if named & {server.name for server in service.servers}]
    up(settings, touched, report=report)


def kill(
    settings: Settings, names: Sequence[str], report: Report = lambda *_: None, *, stay_dead: bool = False
) -> None:
    """End the named servers as a crash would; with `stay_dead` the watcher leaves them to the next `up`."""
    recorded = processes.records(settings.run)
    for server in servers_named(services(settings, profiles_of(settings)), names):
        record = recorded.get(server.name)
        if record is None or not processes.alive(record):
            raise InfraError(f"{server.name} does not run; `millrace status` lists those that do")
        if stay_dead:
            left_dead_file(settings, server.name).touch()
        processes.kill(record)
        report(server.name, f"killed (pid {record.pid})")


def restart_dead(settings: Settings, server: Server) -> bool:
    """Start a dead server without waiting until it is ready; False while another command changes the stack."""
    ensure_private(settings.state)
    with (settings.state / "lock").open("a+") as lock:
        if not locked(lock.fileno()):
            return False
        record = processes.records(settings.run).get(server.name)
        if record is None or processes.alive(record):
            return False  # stopped or started since the caller looked
        processes.stop(record, within_s=1)  # its children may hold its ports
        return Startup(settings, {server.name: server}, lambda *_: None).start(server) is not None


def _by_default(known: Mapping[str, Service], recorded: Mapping[str, ProcessRecord]) -> list[str]:
    """The default stack, and every other service that was started before."""
    return [
        name
        for name, service in known.items()
        if name in DEFAULT or any(server.name in recorded for server in service.servers)
    ]


def _bring(settings: Settings, wanted: Sequence[Service], report: Report, progress: jars.Progress | None) -> None:
    """Install what the servers run on; what the machine lacks is reported before anything is downloaded."""
    prerequisites.require(settings, os.environ)
    sources: list[Service | Server] = [*wanted, *(server for service in wanted for server in service.servers)]
    for name in dict.fromkeys(name for source in sources for name in source.environments):
        environments.ensure(settings, name, partial(report, "set-up"))
    jars.ensure(settings, [name for source in sources for name in source.components], progress)
    for server in (server for service in wanted for server in service.servers):
        server.unpack()


def _memory_of(recorded: Mapping[str, ProcessRecord]) -> int:
    """The memory of all of them that run."""
    return sum(processes.memory_bytes(record) for record in recorded.values() if processes.alive(record))


def _record_the_start(settings: Settings, names: list[str], started: Sequence[Server], seconds: float) -> None:
    recorded = processes.records(settings.run)
    figures = {
        "services": names,
        "started": [server.name for server in started],
        "seconds": round(seconds, 1),
        "memory_bytes": _memory_of(recorded),
        "memory_bytes_by_server": {
            name: processes.memory_bytes(record) for name, record in recorded.items() if processes.alive(record)
        },
    }
    records.append(settings, "up", figures)


def _is_alive(record: ProcessRecord | None) -> bool:
    return record is not None and processes.alive(record)
