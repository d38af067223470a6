"""The loop of the watcher: servers in one thread, jobs in another."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from millrace import stack
from millrace.errors import InfraError
from millrace.machine import processes
from millrace.machine.processes import ProcessRecord
from millrace.rules.expressions import DeclarationError
from millrace.servers.server import Server
from millrace.settings import Settings
from millrace.stack import WATCH
from millrace.verbs.watch.attempts import RESTARTS_MOST, SPAN_S, Attempts
from millrace.verbs.watch.faults import Fault
from millrace.verbs.watch.journal import Journal

LOOK_EVERY_S = 1.0
JOBS_EVERY_S = 2.0
PROBE_EVERY_S = 5.0
ENDED = {"crash-looping": "crash-loop-ended", "stalled": "stall-ended"}


class Watch:
    """Looks at servers and jobs until it is stopped; restarts, journals, gives up."""

    def __init__(self, settings: Settings, faults: Callable[[], Mapping[str, Fault]]) -> None:
        self.settings = settings
        self.journal = Journal.of(settings)
        self._faults = faults
        self._attempts: dict[str, Attempts] = {}
        self._given_up: set[str] = set()
        self._problems: dict[str, str] = {}
        """What was last journaled of a subject, until it is well again."""
        self._sick: set[tuple[str, str]] = set()
        self._ready_at: dict[ProcessRecord, float] = {}
        """When each process was last ready, or was first seen: a new one of the same server has its time to start."""
        self._held_up_s: dict[ProcessRecord, float] = {}
        """For how long of the time since then a server that it needs was not ready."""
        self._probed_at = self._judged_at = 0.0
        self._stopped = threading.Event()
        self._jobs_due = threading.Event()
        self._away: set[str] = set()
        """Servers that were dead or not started at the last look."""

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
        self._away = dead | (stack.servers_of(self.settings) - recorded.keys())
        now = time.monotonic()
        if now >= self._probed_at + PROBE_EVERY_S:
            self._probed_at = now
            self._end_what_hangs({name: servers[name] for name in servers.keys() - dead}, recorded, now)
        due = [
            server
            for name, server in sorted(servers.items())
            if name in dead and dead.isdisjoint(server.needs) and not stack.left_dead_file(self.settings, name).exists()
        ]
        self._each_due((each.name, partial(self._restart, each), frozenset(each.needs)) for each in due)

    def _restart(self, server: Server) -> bool:
        if not stack.restart_dead(self.settings, server):
            return False
        self.journal.write(server.name, "restarted")
        return True

    def _end_what_hangs(self, servers: Mapping[str, Server], recorded: Mapping[str, ProcessRecord], now: float) -> None:
        """End a server that has not been ready for as long as a start may take; it is restarted as a dead one.

        One that needs a dead server waits for it. One that needs a server that is not ready gets that time once more
        at most: it may hang itself, or be the reason.
        """
        with ThreadPoolExecutor(max_workers=max(1, len(servers))) as pool:
            probed = pool.map(lambda server: _is_ready(server, recorded[server.name]), servers.values())
            ready = {name for name, is_ready in zip(servers, probed, strict=True) if is_ready}
            for name, server in servers.items():
                process, needs = recorded[name], recorded.keys() & set(server.needs)
                if name in ready or process not in self._ready_at:
                    self._ready_at[process], self._held_up_s[process] = now, 0.0
                elif not needs <= servers.keys():
                    self._ready_at[process] += now - self._judged_at
                elif not needs <= ready:
                    self._held_up_s[process] += now - self._judged_at
                waits_s = server.within_s + min(self._held_up_s[process], server.within_s)
                if now > self._ready_at[process] + waits_s:
                    self.journal.write(server.name, "unready", f"no answer for {waits_s:.0f} s; killed")
                    processes.kill(process)
        alive, self._judged_at = {recorded[name] for name in servers}, now
        self._ready_at = {process: at for process, at in self._ready_at.items() if process in alive}
        self._held_up_s = {process: for_s for process, for_s in self._held_up_s.items() if process in alive}

    def _watch_jobs(self) -> None:
        while not self._stopped.is_set():
            self._jobs_due.wait(JOBS_EVERY_S)
            self._jobs_due.clear()
            self._look("jobs", self._repair_jobs)

    def _repair_jobs(self) -> None:
        found = self._faults()
        self._report({(name, fault.event): fault.detail for name, fault in found.items() if not fault.repair})
        self._each_due(
            (name, partial(self._repair, name, fault, fault.repair), fault.needs)
            for name, fault in found.items()
            if fault.repair
        )

    def _report(self, sick: Mapping[tuple[str, str], str]) -> None:
        """Journal each crash loop and stall that is left to the engine, once when it begins and once when it ends.

        Of a pattern whose engine does not answer, neither has ended.
        """
        unknown = {name for name, event in sick if event == "unknown"}
        lasting = {each for each in self._sick if each[0] in unknown}
        for name, event in sorted(self._sick - sick.keys() - lasting):
            if event in ENDED:
                self.journal.write(name, ENDED[event])
        for name, event in sorted(sick.keys() - self._sick):
            self.journal.write(name, event, sick[name, event])
        self._sick = set(sick) | lasting

    def _repair(self, name: str, fault: Fault, repair: Callable[[], None]) -> bool:
        if self._problems.get(name) != fault.event:
            self.journal.write(name, fault.event)
        self._problems[name] = fault.event
        repair()
        self._problems[name] = ""
        self.journal.write(name, "restarted")
        return fault.is_failure

    def _look(self, at: str, look: Callable[[], None]) -> None:
        """Look once; a new error is journaled, and none ends the watch."""
        problem = ""
        try:
            look()
        except Exception as error:
            known = isinstance(error, InfraError | DeclarationError)
            problem = str(error) if known else f"{type(error).__name__}: {error}"
        if problem and problem != self._problems.get(at):
            self.journal.write(at, "unknown", problem)
        self._problems[at] = problem

    def _each_due(self, due: Iterable[tuple[str, Callable[[], bool], frozenset[str] | None]]) -> None:
        """Restart each of the subjects that is due; an error of one keeps none of the others waiting."""
        errors = []
        for subject, act, needs in due:
            try:
                self._once_due(subject, act, needs)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _once_due(self, subject: str, act: Callable[[], bool], needs: frozenset[str] | None = None) -> None:
        """Restart a subject unless it is given up or not due yet; one that another command prevents does not count.

        Nor does one that fails while a server is away that the subject needs, or, without `needs`, any server.
        """
        now = time.monotonic()
        given_up = stack.given_up_file(self.settings, subject)
        if given_up.exists():
            return
        if subject in self._given_up:  # `up` or `deploy` removed the file: another chance
            self._given_up.discard(subject)
            self._attempts.pop(subject, None)
        attempts = self._attempts.setdefault(subject, Attempts())
        wait_s = attempts.wait_s(now)
        if wait_s is None:
            given_up.touch()
            self._given_up.add(subject)
            self.journal.write(subject, "given-up", f"{RESTARTS_MOST} restarts within {SPAN_S:.0f} s")
            return
        if wait_s > 0:
            return
        try:
            if act():
                attempts.count(now)
        except (InfraError, DeclarationError, OSError) as error:
            away = self._away if needs is None else self._away & needs
            if away - {subject}:
                raise
            attempts.count(now)
            self.journal.write(subject, "failed", str(error))

    def _await_death(self) -> None:
        """Return as soon as a recorded process ends, or after LOOK_EVERY_S."""
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


def _is_ready(server: Server, process: ProcessRecord) -> bool:
    """Whether a server is ready; a probe that fails in an odd way holds up the judging of no other server."""
    try:
        return server.is_ready(process.since)
    except Exception:
        return False
