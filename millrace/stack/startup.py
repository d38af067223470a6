"""Starts and stops many servers at once, in the order of their dependencies."""

import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from millrace.errors import InfraError
from millrace.machine import archives, environments, processes
from millrace.machine.processes import ProcessRecord
from millrace.servers.server import Server
from millrace.settings import Settings

# HBase flushes its rows and Kafka hands over its partitions before they end.
STOP_WITHIN_S = 40

Report = Callable[[str, str], None]
"""Takes the name of a server or of another subject, and what happened to it."""


class Startup:
    """Starts servers, each in a thread of its own that first waits for what its server needs."""

    def __init__(self, settings: Settings, servers: Mapping[str, Server], report: Report) -> None:
        self.settings = settings
        self.servers = servers
        self.report = report
        self.recorded = processes.records(settings.run)
        self.begun: dict[str, ProcessRecord] = {}  # by this call, so ended if it is interrupted
        self.halt = threading.Event()
        self.is_up = {name: threading.Event() for name in servers}

    def run(self) -> None:
        """Return when all are ready; raise the error of the first that fails."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.servers))) as pool:
            started: list[Future[None]] = []
            try:
                for server in self.servers.values():
                    started.append(pool.submit(self._bring_up, server))
                wait(started, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                self.report("up", "interrupted; stopping the servers that it has started")
                self.halt.set()
                pool.shutdown()  # also what was submitted at the moment of the interruption
                stop_all(self.settings, self.begun, self.servers, self.report)
                raise
            finally:
                self.halt.set()
        raise_failures(started)

    def _bring_up(self, server: Server) -> None:
        for need in server.needs:
            if not self._until(self.is_up[need].is_set):
                return
        began = time.monotonic()
        record = self.recorded.get(server.name)
        adopted = record is not None and processes.alive(record)
        if record is None or not adopted:
            record = self.start(server)
            if record is None:
                return
        elif record.fingerprint != fingerprint(server):
            self.report(
                server.name,
                f"runs with an older configuration; `millrace restart {server.name}` applies the current one",
            )
        if self._until(lambda: self._is_ready(server, record, is_new=not adopted), server, is_new=not adopted):
            self.is_up[server.name].set()
            took = "runs already" if adopted else f"ready in {time.monotonic() - began:.1f} s"
            self.report(server.name, f"{took} at {server.address}" if server.address else took)
            if server.hint:
                self.report(server.name, server.hint)

    def start(self, server: Server) -> ProcessRecord | None:
        """Start one server without waiting until it is ready; None when the start is called off."""
        write_files(server)
        environments.link(self.settings)
        if not self._prepare(server):
            return None
        self.report(server.name, "starting")
        server.folder.mkdir(parents=True, exist_ok=True)
        if server.log != server.output and server.log.exists():
            server.log.replace(server.log.with_name(server.log.name + ".1"))
        self.begun[server.name] = processes.start(
            server.name,
            archives.archived(self.settings, server.command()),
            self.settings.environment() | server.environment(),
            server.output,
            self.settings.run,
            needs=server.needs,
            fingerprint=fingerprint(server),
            folder=server.folder,
        )
        return self.begun[server.name]

    def _prepare(self, server: Server) -> bool:
        preparation = server.preparation()
        if preparation is None:
            return True
        if preparation.mark.exists():
            return True
        if preparation.is_whole:
            self.report(server.name, f"uses the storage in {preparation.folder}, whose mark is missing")
            preparation.mark.touch()
            return True
        self.report(server.name, "preparing its storage")
        if (aside := put_aside(preparation.folder)) is not None:
            self.report(
                server.name, f"moved the content of {preparation.folder} to {aside}; remove it when you do not need it"
            )
        preparation.folder.mkdir(parents=True)
        name = f"{server.name}-preparation"
        output = server.output.with_name(f"{name}.out")
        for command in preparation.commands:
            code = processes.run(
                name,
                command,
                self.settings.environment() | server.environment(),
                output,
                self.settings.run,
                is_called_off=self.halt.is_set,
            )
            if code is None:
                return False
            if code != 0:
                raise InfraError(f"{server.name}: preparing its storage failed\n{quoted(output)}")
        preparation.mark.touch()
        return True

    def _is_ready(self, server: Server, record: ProcessRecord, *, is_new: bool) -> bool:
        if not processes.alive(record):
            when = "while it started" if is_new else "while its answer was awaited; `millrace up` starts it again"
            raise InfraError(f"{server.name} died {when}\n{quoted(server.log, server.output)}")
        return server.is_ready(record.since)

    def _until(self, is_true: Callable[[], bool], server: Server | None = None, *, is_new: bool = True) -> bool:
        """Wait until the condition is true; False when the start is called off; an error after the server's time."""
        deadline = time.monotonic() + server.within_s if server else float("inf")
        while not is_true():
            if self.halt.wait(0.1):
                return False
            if server and time.monotonic() > deadline:
                remedy = "" if is_new else f"; `millrace restart {server.name}` ends it and starts it again"
                raise InfraError(
                    f"{server.name} runs but was not ready within {server.within_s:.0f} s{remedy}\n"
                    f"{quoted(server.log, server.output)}"
                )
        return True


def stop_all(
    settings: Settings, recorded: Mapping[str, ProcessRecord], servers: Collection[str], report: Report
) -> None:
    """Stop processes, each after those that need it; processes that are not servers are jobs, and stop first."""
    gone = {name: threading.Event() for name in recorded}

    def stop(record: ProcessRecord) -> None:
        is_server = record.name in servers
        for other in recorded.values():
            if record.name in other.needs or (is_server and other.name not in servers):
                gone[other.name].wait()
        try:
            was_alive = processes.alive(record)
            has_obeyed = processes.stop(record, STOP_WITHIN_S)
            processes.forget(record, settings.run)
            if was_alive:
                report(record.name, "stopped" if has_obeyed else f"killed: it did not stop within {STOP_WITHIN_S} s")
        finally:
            gone[record.name].set()

    with ThreadPoolExecutor(max_workers=max(1, len(recorded))) as pool:
        stopped = [pool.submit(stop, record) for record in recorded.values()]
    raise_failures(stopped)


def raise_failures(done: Iterable[Future[None]]) -> None:
    """Raise the errors of the threads; those with a remedy as one."""
    errors = [error for one in done if (error := one.exception())]
    for error in errors:
        if not isinstance(error, InfraError):
            raise error
    if errors:
        raise InfraError("\n".join(str(error) for error in errors))


def write_files(server: Server) -> None:
    """Write a server's configuration, and link the files that it reads."""
    for name, text in server.files().items():
        path = server.conf / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    links = server.links()
    for name, target in links.items():
        path = server.conf / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink() or path.readlink() != target:
            path.unlink(missing_ok=True)
            path.symlink_to(target)
    # A jar of an earlier version would stay on the class path beside the new one.
    for folder in {(server.conf / name).parent for name in links}:
        for other in folder.iterdir():
            if other.is_symlink() and str(other.relative_to(server.conf)) not in links:
                other.unlink()


def put_aside(folder: Path) -> Path | None:
    """Move a folder that is not empty aside, never remove it: its content may be needed."""
    if not folder.exists() or not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    aside = folder.with_name(f"{folder.name}.aside-{time.strftime('%Y%m%dT%H%M%S')}")
    while aside.exists():
        aside = aside.with_name(f"{aside.name}-again")
    folder.rename(aside)
    return aside


def fingerprint(server: Server) -> str:
    """Identifies a server's configuration: files, links, command."""
    links = {name: str(target) for name, target in server.links().items()}
    content = json.dumps([server.files(), links, server.command()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def quoted(*logs: Path, lines: int = 15) -> str:
    """The ends of logs, as part of a message."""
    parts = [
        f"  {log}:\n" + "".join(f"    {line}\n" for line in tail)
        for log in logs
        if (tail := processes.tail(log, lines))
    ]
    return "".join(parts).rstrip() or f"  {logs[0]} is empty"
