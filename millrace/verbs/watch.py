"""Keeps a stack running: restarts servers that die or hang, and jobs that were deployed and are gone or stalled.

`millrace up` starts it beside the servers, `millrace down` stops it first. Its journal has a JSON line for each event.
A subject that fails again and again is given up; `up` or `deploy` gives it another chance.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from millrace import deployments, stack
from millrace.errors import InfraError
from millrace.machine import environments, processes
from millrace.machine.processes import Record
from millrace.patterns import PatternError, names
from millrace.servers.server import Server
from millrace.settings import Settings
from millrace.stack import WATCH
from millrace.target import Target
from millrace.verbs.deploy import deploy
from millrace.verbs.reconcile import end_stalled, stalled

LOOK_EVERY_S = 1.0
JOBS_EVERY_S = 2.0
PROBE_EVERY_S = 5.0
BACK_OFF_S = (0.0, 1.0, 2.0, 5.0, 15.0, 30.0)
"""Before the first restart within the span, the second, and so on."""
RESTARTS_MOST, SPAN_S = 5, 600.0
STARTED_WITHIN_S = 30


@dataclass
class Attempts:
    """The restarts of one subject: how long the next one waits, and when there have been too many."""

    times: deque[float] = field(default_factory=deque)

    def wait_s(self, now: float) -> float | None:
        """For how long to wait before the next restart; None when the subject is to be given up."""
        while self.times and self.times[0] < now - SPAN_S:
            self.times.popleft()
        if len(self.times) >= RESTARTS_MOST:
            return None
        if not self.times:
            return 0.0
        return max(0.0, self.times[-1] + BACK_OFF_S[len(self.times)] - now)

    def count(self, now: float) -> None:
        self.times.append(now)


@dataclass(frozen=True)
class Journal:
    """What the watcher saw and did, oldest first."""

    path: Path

    def write(self, subject: str, event: str, detail: str = "") -> None:
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "subject": subject, "event": event}
        with self.path.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(line | ({"detail": detail} if detail else {})) + "\n")

    def read(self) -> list[dict[str, str]]:
        try:
            return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        except FileNotFoundError:
            return []


def journal(settings: Settings) -> Journal:
    """The journal of a stack's watcher."""
    return Journal(settings.state / "watch.jsonl")


class Watch:
    """The watcher's loop."""

    def __init__(self, settings: Settings, repairs: Callable[[], Mapping[str, Repair]]) -> None:
        self.settings = settings
        self.journal = journal(settings)
        self._repairs = repairs
        self._attempts: dict[str, Attempts] = {}
        self._given_up: set[str] = set()
        self._problems: dict[str, str] = {}
        self._ready_at: dict[str, float] = {}
        self._probed_at = 0.0
        self._stopped = threading.Event()
        self._jobs_due = threading.Event()
        self._away: set[str] = set()
        """Servers that were dead or not started when they were last looked at."""

    def stop(self) -> None:
        self._stopped.set()
        self._jobs_due.set()

    def run(self) -> None:
        """Watch until stopped: servers in this thread, jobs in another, so that neither waits for the other."""
        self.journal.write(WATCH, "started")
        jobs = threading.Thread(target=self._watch_jobs, name="jobs", daemon=True)
        jobs.start()
        while not self._stopped.is_set():
            self._look("servers", self._watch_servers)
            self._await_death()
        self.journal.write(WATCH, "stopped")

    def _watch_servers(self) -> None:
        recorded = processes.records(self.settings.run)
        servers = {name: server for name, server in stack.servers(self.settings).items() if name in recorded}
        dead = {name for name in servers if not processes.alive(recorded[name])}
        self._away = dead | (stack.default_servers(self.settings) - recorded.keys())
        now = time.monotonic()
        if now >= self._probed_at + PROBE_EVERY_S:
            self._probed_at = now
            self._end_what_hangs({name: servers[name] for name in servers.keys() - dead}, recorded, now)
        for name in sorted(dead):
            if stack.left_dead_file(self.settings, name).exists() or any(need in dead for need in servers[name].needs):
                continue
            self._once_due(name, partial(self._restart, servers[name]))

    def _restart(self, server: Server) -> bool:
        if not stack.restart_dead(self.settings, server):
            return False
        self._ready_at[server.name] = time.monotonic()
        self.journal.write(server.name, "restarted")
        return True

    def _end_what_hangs(self, servers: Mapping[str, Server], recorded: Mapping[str, Record], now: float) -> None:
        """End a server that has not been ready for as long as a start may take; it is restarted as a dead one."""
        with ThreadPoolExecutor(max_workers=max(1, len(servers))) as pool:
            asked = pool.map(lambda server: (server, server.is_ready(recorded[server.name].since)), servers.values())
            for server, is_ready in asked:
                if is_ready or server.name not in self._ready_at:
                    self._ready_at[server.name] = now
                elif now > self._ready_at[server.name] + server.within_s:
                    self.journal.write(server.name, "unready", f"no answer for {server.within_s:.0f} s; killed")
                    processes.kill(recorded[server.name])

    def _watch_jobs(self) -> None:
        while not self._stopped.is_set():
            self._jobs_due.wait(JOBS_EVERY_S)
            self._jobs_due.clear()
            self._look("jobs", self._repair_jobs)

    def _repair_jobs(self) -> None:
        for name, repair in self._repairs().items():
            self._once_due(name, partial(self._repair, name, repair))

    def _repair(self, name: str, repair: Repair) -> bool:
        if self._problems.get(name) != repair.event:
            self.journal.write(name, repair.event)
        self._problems[name] = repair.event
        repair.act()
        self._problems[name] = ""
        self.journal.write(name, "restarted")
        return True

    def _look(self, at: str, look: Callable[[], None]) -> None:
        """Look once; a fault is journaled when it is a new one, and does not end the watch."""
        problem = ""
        try:
            look()
        except Exception as error:
            known = isinstance(error, InfraError | PatternError)
            problem = str(error) if known else f"{type(error).__name__}: {error}"
        if problem and problem != self._problems.get(at):
            self.journal.write(at, "unknown", problem)
        self._problems[at] = problem

    def _once_due(self, subject: str, act: Callable[[], bool]) -> None:
        """Restart a subject unless it is given up or not due yet; what another command prevents is no attempt."""
        now = time.monotonic()
        given_up = stack.given_up_file(self.settings, subject)
        if given_up.exists():
            return
        if subject in self._given_up:  # a person took the file away: another chance
            self._given_up.discard(subject)
            self._attempts.pop(subject, None)
        attempts = self._attempts.setdefault(subject, Attempts())
        wait_s = attempts.wait_s(now)
        if wait_s is None:
            self._given_up.add(subject)
            given_up.touch()
            self.journal.write(subject, "given-up", f"{RESTARTS_MOST} restarts within {SPAN_S:.0f} s")
            return
        if wait_s > 0:
            return
        try:
            if act():
                attempts.count(now)
        except InfraError as error:
            if self._away - {subject}:
                raise  # it may need one of them: no attempt
            attempts.count(now)
            self.journal.write(subject, "failed", str(error))

    def _await_death(self) -> None:
        """Return as soon as a recorded process ends, or after a while."""
        poller, opened = select.poll(), list[int]()
        try:
            for record in processes.records(self.settings.run).values():
                with suppress(OSError):
                    if processes.alive(record):
                        opened.append(os.pidfd_open(record.pid))
                        poller.register(opened[-1], select.POLLIN)
            if poller.poll(LOOK_EVERY_S * 1000):
                self._jobs_due.set()  # it may be a driver
        finally:
            for each in opened:
                os.close(each)


@dataclass(frozen=True)
class Repair:
    """What is wrong with the jobs of a pattern, and what mends it."""

    event: Literal["gone", "stalled"]
    act: Callable[[], None]


def repairs(target: Target) -> dict[str, Repair]:
    """The patterns of which a deployed job is gone or makes no progress; it goes on from its newest state."""
    found = {}
    for name in names():
        if not deployments.is_wanted(target, name):
            continue
        jobs = deployments.jobs(target, name).values()
        if stalled(target, jobs):
            found[name] = Repair("stalled", partial(_restart_stalled, target, name))
        elif not all(job.is_up for _, job in jobs) and _is_missing(target, name):
            found[name] = Repair("gone", partial(_start_missing, target, name))
    return found


def _is_missing(target: Target, name: str) -> bool:
    """Called while no other verb works on the pattern: an upgrade stops a job, too."""
    return any(change.action == "start" for change in deploy(target, name, plan=True, only_missing=True))


def _restart_stalled(target: Target, name: str) -> None:
    end_stalled(target, name)
    _start_missing(target, name)


def _start_missing(target: Target, name: str) -> None:
    deploy(target, name, wait=False, only_missing=True)


def ensure(settings: Settings) -> None:
    """Make the watcher run."""
    with stack.only_one(settings, WATCH, lambda *_: None):  # or two at once would start two
        record = processes.read(settings.run / f"{WATCH}.json")
        if record is not None and processes.alive(record):
            return
        processes.cap(journal(settings).path)
        began = len(journal(settings).read())
        command = [sys.executable, "-m", "millrace.verbs.watch"]
        environment = environments.variables_of_python(settings)
        log = settings.state / "logs" / f"{WATCH}.out"
        record = processes.start(WATCH, command, environment, log, settings.run)
        try:
            if not processes.wait_until(lambda: len(journal(settings).read()) > began, STARTED_WITHIN_S):
                raise InfraError(f"the watcher did not start within {STARTED_WITHIN_S} s; see {log}")
        except BaseException:
            processes.stop(record, within_s=5)
            processes.forget(record, settings.run)
            raise


def run(settings: Settings) -> None:
    """Watch until SIGTERM or Ctrl-C."""
    target = Target.read(settings)
    watch = Watch(settings, lambda: repairs(target))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watch.stop())
    watch.run()


if __name__ == "__main__":
    run(Settings.read(os.environ))
