"""Storm topologies: one for each pattern, in a worker that the supervisor starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import psutil

from millrace import kernel
from millrace.engines.storm import ENGINE
from millrace.engines.storm.libraries import compiled_against
from millrace.engines.storm.nimbus import RECOVERS_WITHIN_S, Cluster, Nimbus, Topology
from millrace.engines.storm.servers import home
from millrace.engines.storm.tuning import IDLE_MS, SETTINGS, settings_of
from millrace.job import EngineError, Job, Running, State, is_crash_loop
from millrace.machine import processes
from millrace.patterns import EnginePlan, kafka_job
from millrace.patterns.loss import InFlight, Loss, problem_of
from millrace.servers.hbase import zookeeper_says
from millrace.servers.server import java
from millrace.settings import Settings
from millrace.whole_files import write_whole

if TYPE_CHECKING:
    from millrace.target import Target

MAIN, WORKER = "millrace.storm.Submit", "org.apache.storm.daemon.worker.Worker"
NAME = re.compile(r"([a-z0-9-]+)-generation-(\d+)")
SUBMIT_WITHIN_S, STOP_WITHIN_S, KILL_WITHIN_S = 480, 60, 10
STALLED_AFTER_S = 60
"""A job writes its progress every second; a worker that dies is back within seconds."""
STARTED_WITHIN_S = 180
IN_FLIGHT = "in-flight.jsonl"
"""In the folder of a pattern: what its workers had in flight when they ended, a line each; Ahead.java writes it."""
SUBMITTER_HEAP_MB = 128
SLOTS_OF_JOB = int(SETTINGS["topology.workers"])
ZOOKEEPER = "STORM_ZOOKEEPER"
"""Of a target, which need not have it: then only Nimbus is checked."""


def connect(target: Target) -> Storm:
    """The cluster of a target's stack."""
    zookeeper = target.host_and_port(ZOOKEEPER) if ZOOKEEPER in target.addresses else None
    return Storm(target.settings, Nimbus(*target.host_and_port("STORM_NIMBUS")), zookeeper)


def job_of(progress: Mapping[str, Any], is_alive: bool, now_s: float) -> Job:
    """The state of the job of an active topology, from its progress; `is_alive`: whether its worker lives."""
    written_s = progress["written_ms"] / 1000
    starts_s = [each / 1000 for each in progress["starts_ms"]]
    lost = tuple(Loss(**each) for each in progress["lost"])
    figures = {"lag": progress["lag"], "pid": progress["pid"]}
    silent_s, problem = now_s - written_s, ""
    state: State = "running" if is_alive and progress["state"] == "running" else "starting"
    if lost:
        state = "failed"
    elif progress["state"] == "finished":
        state = "stopped"
    elif is_crash_loop(starts_s[1:], written_s if progress["commits"] > 1 else 0, now_s):
        state, problem = "crash-looping", f"its worker was started {len(starts_s)} times"
    elif silent_s > STALLED_AFTER_S:
        state, problem = "stalled", f"the worker of pid {progress['pid']} has made no progress for {silent_s:.0f} s"
    made, restarts = progress["commits"], len(starts_s) - 1
    return Job(state, made, restarts=restarts, problem=problem, lost=lost, figures=figures)


def in_flight(file: Path) -> tuple[InFlight, ...]:
    """What a pattern's workers had in flight when they ended."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    return tuple(map(_in_flight_of, filter(None, lines)))


def _in_flight_of(line: str) -> InFlight:
    """What a line names; of one that was cut, a place that no topic has: the verdict is unknown then."""
    try:
        return InFlight(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return InFlight(line, -1, 0, 0, 0)


@dataclass(frozen=True)
class Storm:
    """A cluster by its Nimbus, and by one server of its ZooKeeper."""

    settings: Settings
    nimbus: Nimbus
    zookeeper: tuple[str, int] | None = None

    restarts_stalled: ClassVar[bool] = True

    def job(self, plan: EnginePlan) -> Job:
        """The state of the job, from Nimbus and its progress file."""
        return replace(self._job(plan), in_flight=in_flight(self._folder(plan) / IN_FLIGHT))

    def refusal(self, plan: EnginePlan) -> str:
        """ZooKeeper without which Nimbus takes no topology, or the slots that are short; the pattern's own are free."""
        if self.zookeeper is not None:
            host, port = self.zookeeper
            if not zookeeper_says(port, "srvr", host):
                return (
                    f"ZooKeeper of Storm at {host}:{port} does not answer; "
                    "run `millrace up storm`, or see `millrace logs storm-zookeeper`"
                )
        found = self._cluster()
        # A supervisor's own count of used slots is some seconds old.
        taken = sum(
            each.workers for each in found.topologies if (of := _plan_of(each)) is None or of[0] != plan.pattern
        )
        free = max(0, found.slots - taken)
        if free >= SLOTS_OF_JOB:
            return ""
        return (
            f"{free} of {found.slots} worker slots of Storm at {self.nimbus.host}:{self.nimbus.port} are free, and "
            f"the job needs {SLOTS_OF_JOB}; stop the job of another pattern, or run `millrace up storm` if there is "
            "no supervisor"
        )

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Submit the topology; it continues from the topic of its state and the committed offsets."""
        if (own := self._topology(plan)) and own.is_active and not self.job(plan).is_sick:
            return
        for each in self._cluster().topologies:
            if (of := _plan_of(each)) and of[0] == plan.pattern:
                self._end(each)
        if why := self.refusal(plan):
            raise EngineError(f"{plan.pattern}: {why}")
        folder = self._folder(plan)
        folder.mkdir(parents=True, exist_ok=True)
        self._file(plan, "progress").unlink(missing_ok=True)
        settings = settings_of(plan.pattern, plan.delivery)
        declared = kafka_job.declaration(plan, folder, _name(plan), IDLE_MS, settings)
        write_whole(self._file(plan, "job"), json.dumps(declared))
        self._submit(plan)

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        """Nothing to trigger: a job commits all the time."""
        return True

    def stop(self, plan: EnginePlan) -> str | None:
        """Kill the topology, and wait until its worker has ended."""
        if (topology := self._topology(plan)) is not None:
            self._end(topology)
        return None

    def finish(self, plan: EnginePlan) -> bool:
        """Whether the job of a finite plan has judged all; its topology is killed then."""
        if self._progress(plan).get("state") != "finished":
            return False
        self.stop(plan)
        return True

    def rehearse(self, running: EnginePlan, rehearsal: EnginePlan) -> None:
        """Nothing to try: memory is kept by each measure's signature."""

    def discard(self, plan: EnginePlan) -> None:
        """Stop the job; its state is that of all generations and stays."""
        self.stop(plan)

    def discard_earlier(self, plan: EnginePlan, kept: Collection[str]) -> None:
        """Nothing to delete: all generations share their state."""

    def watermark_ms(self, plan: EnginePlan) -> int | None:
        """None: it has no windows."""
        return None

    def end_stalled(self, plan: EnginePlan) -> None:
        """Kill the worker; the supervisor starts it again."""
        if (topology := self._topology(plan)) is not None:
            for worker in _workers(topology.id):
                with suppress(psutil.NoSuchProcess):
                    worker.kill()

    def running(self) -> list[Running]:
        """Every topology of a pattern that Nimbus has and that was not killed."""
        found = []
        for topology in self._cluster().topologies:
            if topology.is_active and (own := _plan_of(topology)):
                pattern, generation = own
                plan_id = EnginePlan(pattern, generation, ENGINE.name, "", "", {}, "").job_id
                found.append(Running(plan_id, f"{pattern} (generation {generation})", topology.id))
        return found

    def latest_state(self, plan: EnginePlan) -> str | None:
        """None: a job finds its state by the pattern's name."""
        return None

    def local_state(self, plan: EnginePlan) -> Path:
        """The folder of its files; the supervisor removes what a worker remembered."""
        return self._folder(plan)

    def _cluster(self) -> Cluster:
        return self.nimbus.cluster(RECOVERS_WITHIN_S)

    def _job(self, plan: EnginePlan) -> Job:
        topology = self._topology(plan)
        progress = self._progress(plan)
        if topology is None:
            return Job("stopped" if progress.get("state") == "finished" else "absent")
        if not topology.is_active:
            return Job("stopped")
        if not progress:
            since_s = time.time() - self._file(plan, "job").stat().st_mtime
            if since_s < STARTED_WITHIN_S:
                return Job("starting")
            return Job(
                "stalled",
                problem=f"its worker has not begun within {since_s:.0f} s; see `millrace logs storm-supervisor`",
            )
        found = job_of(progress, psutil.pid_exists(progress["pid"]), time.time())
        return found if not found.lost else replace(found, problem=problem_of(plan.pattern, found.lost))

    def _topology(self, plan: EnginePlan) -> Topology | None:
        own = [each for each in self._cluster().topologies if each.name == _name(plan)]
        return next((each for each in own if each.is_active), own[0] if own else None)

    def _end(self, topology: Topology) -> None:
        """Kill a topology; a worker that does not end by itself is killed."""
        self.nimbus.kill(topology.name)
        is_gone = processes.wait_until(lambda: not list(_workers(topology.id)), KILL_WITHIN_S)
        if not is_gone:
            for worker in _workers(topology.id):
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
        if not processes.wait_until(lambda: self._is_gone(topology), STOP_WITHIN_S, every_s=0.2):
            raise EngineError(
                f"{topology.name}: Storm has not ended it within {STOP_WITHIN_S} s; see `millrace logs storm-nimbus`"
            )

    def _is_gone(self, topology: Topology) -> bool:
        return all(each.id != topology.id for each in self._cluster().topologies) and not list(_workers(topology.id))

    def _submit(self, plan: EnginePlan) -> None:
        jar = kernel.ensure(self.settings, ENGINE.name)
        class_path = os.pathsep.join(map(str, [*compiled_against(self.settings), jar, home(self.settings) / "conf"]))
        flags = (
            f"-Dstorm.home={home(self.settings)}",
            "-Dstorm.conf.file=storm.yaml",
            # Its own storm.yaml names the Nimbus of this stack, and is absent where there is none.
            f"-Dstorm.options=nimbus.seeds={quote(json.dumps([self.nimbus.host]))},nimbus.thrift.port={self.nimbus.port}",
            f"-Dstorm.jar={jar}",
            "-Dstorm.dependency.jars=",
            "-Dstorm.dependency.artifacts={}",
            f"-Dlog4j.configurationFile={(home(self.settings) / 'log4j2' / 'submit.xml').as_uri()}",
        )
        command = [*java(SUBMITTER_HEAP_MB, flags=flags), "-cp", class_path, MAIN, str(self._file(plan, "job"))]
        log = self.settings.state / "logs" / f"submit-{plan.pattern}-storm.out"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    env=processes.environment({}),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=SUBMIT_WITHIN_S,
                )
            except subprocess.TimeoutExpired:
                raise EngineError(
                    f"{plan.pattern}: Storm took no topology within {SUBMIT_WITHIN_S} s; see {log}"
                ) from None
        if done.returncode:
            why = next(
                (line for line in processes.tail(log, 50) if "Exception" in line or "Error" in line), "no reason given"
            )
            raise EngineError(f"{plan.pattern}: Storm did not take the topology: {why.strip()[:300]}; see {log}")

    def _progress(self, plan: EnginePlan) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._file(plan, "progress").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # a power loss may have cut it short; the worker writes it anew
            return {}
        return found if found.get("job") == _name(plan) else {}

    def _folder(self, plan: EnginePlan) -> Path:
        return self.settings.state / "data" / ENGINE.name / "jobs" / plan.pattern

    def _file(self, plan: EnginePlan, what: str) -> Path:
        return self._folder(plan) / f"{what}.json"


def _name(plan: EnginePlan) -> str:
    return f"{plan.pattern}-generation-{plan.generation}"


def _plan_of(topology: Topology) -> tuple[str, int] | None:
    """The pattern and the generation of a topology; None if it is somebody else's."""
    found = NAME.fullmatch(topology.name)
    return (found[1], int(found[2])) if found else None


def _workers(topology_id: str) -> Iterator[psutil.Process]:
    """The processes of a topology on this machine: the worker, and the one that writes its log."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if WORKER in words and topology_id in words:
                yield process
