"""Flink jobs over the REST interface of a session cluster."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

import requests

from millrace import kernel
from millrace.engines.flink import ENGINE
from millrace.engines.flink.tuning import CHECKPOINT_INTERVAL_MS, FAILURES_KEPT, IGNORE_UNCLAIMED
from millrace.job import OUTAGES_WITHIN_S, EngineError, Job, Running, State, UsedUpError, is_crash_loop
from millrace.machine import environments, processes
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss, problem_of
from millrace.rules import LIMITS
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.files import Hdfs

if TYPE_CHECKING:
    from millrace.target import Target

_STATES: Mapping[str, State] = {
    "INITIALIZING": "starting",
    "CREATED": "starting",
    "RESTARTING": "starting",
    "RECONCILING": "starting",
    "RUNNING": "running",
    "FAILING": "starting",  # Flink shows what it fails of only once it has failed
    "FAILED": "failed",
    "CANCELLING": "stopped",
    "CANCELED": "stopped",
    "SUSPENDED": "stopped",
    "FINISHED": "stopped",
}
ALL_WORKS, WAITING = {"RUNNING", "FINISHED"}, {"CREATED", "SCHEDULED"}
"""States of tasks."""
NAME = re.compile(r"[a-z0-9-]+ \(generation \d+\)")
"""How millrace/engines/flink/job.py names its jobs."""
LOST = re.compile(r"^lost: (\[.*\])$", re.MULTILINE)
CAUSE = "Caused by: "
"""Begins a line of a stack trace."""
CONSEQUENCE = "org.apache.flink.util.FlinkExpectedException"
"""Begins a failure that another one has caused: the end of a TaskManager, which a failing sink takes down with it."""
RESTARTING_MOST_S = 60
STALLED_AFTER_INTERVALS = 6
SUBMIT_WITHIN_S = 480
STOP_WITHIN_S = 120
# Flink fails a job that is stopping if a source's coordinator sends an event to a task that has just finished. The
# savepoint was complete before, and the job ends.
MADE = re.compile(r"A savepoint has been created at: (\S+), but the corresponding job \S+ failed during stopping")
# Flink restarts a job by itself, which counts as running before its tasks do.
TASKS_START = "Not all required tasks are currently running"
REHEARSE_WITHIN_S = 120
WINDOW, MEMORY = re.compile(r"\[\d+\]:(Global)?WindowAggregate\("), re.compile(r"\[\d+\]:ProcessTableFunction\(")
"""How a vertex that keeps state by key is described. It begins behind an exchange, so it has its operator's id."""
# A savepoint's folder has this prefix, and then so many digits of its job's id.
SAVEPOINT, SAVEPOINT_DIGITS = "savepoint-", 6


class _SavepointError(EngineError):
    """A job in no state to take a savepoint."""


def connect(target: Target) -> Flink:
    """The session cluster of a target."""
    settings, addresses = target.settings, target.addresses
    return Flink(
        settings=settings,
        rest=target.address("FLINK_REST_URL"),
        files=target.hdfs,
        logs=settings.state / "logs",
        home=Path(addresses.get("FLINK_HOME", settings.state / "conf" / "flink")),
        kernel=partial(kernel.ensure, settings, ENGINE.name),
        gateway=Path(addresses["FLINK_GATEWAY"]) if "FLINK_GATEWAY" in addresses else None,
        metrics=tuple(addresses.get("FLINK_PROMETHEUS", "").split()),
    )


@dataclass(frozen=True)
class Flink:
    """A session cluster by its REST address, and the file system that keeps its checkpoints."""

    settings: Settings
    rest: str
    files: Hdfs
    logs: Path
    home: Path
    """FLINK_HOME: the client plans a job with the jars that are in its lib/."""
    kernel: Callable[[], Path]
    """The kernel's jar as the sources are now."""
    gateway: Path | None = None
    """The socket of a warm client; without one each job is planned in a JVM that is started for it."""
    metrics: tuple[str, ...] = ()
    """Where Prometheus reads the figures of JobManager and TaskManager."""

    restarts_stalled: ClassVar[bool] = False

    def job(self, plan: EnginePlan) -> Job:
        """The state of the job with the plan's id, from the cluster."""
        answer = self._get(f"/jobs/{plan.job_id}")
        if answer is None:
            return Job("absent")
        if "state" not in answer:
            why = " ".join(str(each) for each in answer.get("errors", ["no reason given"])).splitlines()[0]
            raise EngineError(f"Flink at {self.rest} does not show its jobs: {why[:200]}; see `millrace logs flink`")
        checkpoints = self._get(f"/jobs/{plan.job_id}/checkpoints") or {}
        failures = self._failures(plan.job_id)
        state, problem = state_of(answer, checkpoints, failures, _interval_ms(plan))
        lost = next(filter(None, map(lost_of, failures)), ()) if state == "failed" else ()
        return Job(
            state=state,
            checkpoints=checkpoints.get("counts", {}).get("completed", 0),
            checkpointed_ms=_checkpointed_ms(checkpoints),
            restarts=self._metric(plan.job_id, "numRestarts"),
            web=f"{self.rest}/#/job/running/{plan.job_id}/overview",
            problem=problem_of(plan.pattern, lost) if lost else problem,
            lost=lost,
            figures={"vertices": len(answer.get("vertices", ())), "since_ms": answer.get("start-time")},
            metrics=self.metrics,
        )

    def watermark_ms(self, plan: EnginePlan) -> int | None:
        """That of the slowest task which has one."""
        vertices = (self._get(f"/jobs/{plan.job_id}") or {}).get("vertices", ())
        shown = [self._get(f"/jobs/{plan.job_id}/vertices/{vertex['id']}/watermarks") or () for vertex in vertices]
        found = [int(each["value"]) for tasks in shown for each in tasks]
        return min((each for each in found if each > 0), default=None)

    def refusal(self, plan: EnginePlan) -> str:
        """Why the cluster cannot run the code as it is now: it keeps the classes that it was started with.

        It has room: a job waits as `starting` until there are slots for it.
        """
        installed = self.home / "lib" / kernel.JAR
        if not installed.exists() or installed.resolve() == self.kernel().resolve():
            return ""
        return (
            "Flink was started with another build of the kernel than the one that is in the sources now; "
            "`millrace restart flink` and then `millrace reconcile`, which restarts the jobs that ran"
        )

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        """Submit the job under the plan's id; the cluster refuses a second one with it."""
        if why := self.refusal(plan):
            raise EngineError(why)
        log = self.logs / f"submit-{plan.pattern}-flink.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            str(environments.python(self.settings, ENGINE.name)),
            "-m",
            "millrace.engines.flink.job",
            "--plan",
            plan.to_json(),
            "--rest",
            self.rest,
        ]
        if state_from:
            command += ["--from", state_from]
        if self.gateway:
            command += ["--gateway", str(self.gateway)]
        flink = {"FLINK_HOME": str(self.home), "FLINK_CONF_DIR": str(self.home / "conf")}
        env = processes.environment(environments.variables_of_python(self.settings) | flink)
        with log.open("w") as output:
            try:
                done = subprocess.run(
                    command,
                    cwd=self.logs,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=SUBMIT_WITHIN_S,
                )
            except subprocess.TimeoutExpired:
                raise EngineError(
                    f"{plan.pattern}: Flink took longer than {SUBMIT_WITHIN_S} s to take the job; see {log}"
                ) from None
        if done.returncode != 0 and not self.job(plan).is_up:
            lines = [line for line in processes.tail(log, 300) if not line.lstrip().startswith(("at ", "... "))]
            tail = "\n".join(lines[-12:])
            is_used_up = any("has already been submitted" in line for line in lines)
            raise (UsedUpError if is_used_up else EngineError)(
                f"{plan.pattern}: the job was not submitted to {self.rest}; the end of {log}:\n{tail}"
            )

    def stop(self, plan: EnginePlan) -> str | None:
        """Stop the job with a savepoint and give its path; a job that cannot take one any more is cancelled."""
        try:
            state = self._savepoint(plan, "stop", f"{plan.checkpoints}/savepoints")
        except _SavepointError:
            self._cancel(plan)
            return None
        self._wait_gone(plan)
        return state

    def finish(self, plan: EnginePlan) -> bool:
        """Drain the job once it has judged all messages: Flink then moves time to its end, and all windows close."""
        job = self.job(plan)
        if job.state == "stopped":
            return True
        # Offsets that were committed before the first checkpoint are not this job's.
        if not job.checkpoints or topics.unread(
            plan.bootstrap, plan.pattern, [plan.topics[each.name] for each in plan.use.raw]
        ):
            return False
        self._savepoint(plan, "stop", f"{plan.checkpoints}/savepoints", drain=True)
        self._wait_gone(plan)
        return True

    def _savepoint(
        self, plan: EnginePlan, how: Literal["stop", "savepoints"], folder: str, *, drain: bool = False
    ) -> str:
        """Take a savepoint of the running job, of which `stop` is the last thing it does; gives its path."""
        options: dict[str, Any] = (
            {"targetDirectory": folder, "drain": drain} if how == "stop" else {"target-directory": folder}
        )

        def begin() -> str:
            answer = self._request("POST", f"/jobs/{plan.job_id}/{how}", json=options)
            if answer.status_code >= 300:
                raise _SavepointError(f"{plan.pattern}: no savepoint was begun: {answer.text[:200]}")
            return str(self._read(answer)["request-id"])

        trigger, deadline = begin(), time.monotonic() + STOP_WITHIN_S
        while time.monotonic() < deadline:
            status = self._get(f"/jobs/{plan.job_id}/savepoints/{trigger}") or {}
            if status.get("status", {}).get("id") == "COMPLETED":
                operation = status.get("operation", {})
                if "location" in operation:
                    return str(operation["location"])
                cause = " ".join(operation.get("failure-cause", {}).get("stack-trace", "").splitlines()[:3])
                if not drain and (made := MADE.search(cause)):
                    return made[1]
                if TASKS_START in cause:
                    time.sleep(1)
                    trigger = begin()
                    continue
                raise EngineError(f"{plan.pattern}: the savepoint failed, the job keeps running: {cause}")
            time.sleep(0.2)
        raise EngineError(
            f"{plan.pattern}: no savepoint within {STOP_WITHIN_S} s; the job keeps running; see {self.rest}"
        )

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        """Trigger a checkpoint ahead of the interval; False while tasks are starting, which could not take part."""
        found = self._get(f"/jobs/{plan.job_id}") or {}
        tasks = [vertex["tasks"]["RUNNING"] == vertex["parallelism"] for vertex in found.get("vertices", ())]
        if not tasks or not all(tasks):
            return False
        options = {"checkpointType": "CONFIGURED"}
        return self._request("POST", f"/jobs/{plan.job_id}/checkpoints", json=options).ok

    def latest_state(self, plan: EnginePlan) -> str | None:
        """The last completed savepoint or retained checkpoint of the last generation that has one."""
        generation = _writers(plan)
        complete = [file for file in self.files.files(_path(plan.checkpoints)) if file.path.endswith("/_metadata")]
        kept = [(generation(file.path.removesuffix("/_metadata")), file.modified_ms, file) for file in complete]
        kept = [each for each in kept if each[0] >= plan.since]
        if not kept:
            return None
        *_, newest = max(kept, key=lambda each: each[:2])
        store = plan.checkpoints.removesuffix(_path(plan.checkpoints))
        return f"{store}{newest.path.removesuffix('/_metadata')}"

    def local_state(self, plan: EnginePlan) -> Path | None:
        """None: a TaskManager removes its own."""
        return None

    def rehearse(self, running: EnginePlan, rehearsal: EnginePlan) -> None:
        """Give a copy of the running job's state to another job, and let that complete a checkpoint with it."""
        changed = changed_rules(running, rehearsal)
        if not changed:  # no state may be dropped
            rehearsal = replace(rehearsal, options={**rehearsal.options, IGNORE_UNCLAIMED: "false"})
        try:
            self.start(rehearsal, self._savepoint(running, "savepoints", f"{rehearsal.checkpoints}/savepoints"))
            last, is_asked_for = Job("absent"), False

            def is_decided() -> bool:
                nonlocal last, is_asked_for
                last = self.job(rehearsal)
                if last.state == "running" and not last.checkpoints:
                    is_asked_for = is_asked_for or self.request_checkpoint(rehearsal)
                return not last.is_up or (last.state == "running" and last.checkpoints > 0)

            processes.wait_until(is_decided, REHEARSE_WITHIN_S)
            if last.state != "running" or not last.checkpoints:
                raise EngineError(
                    f"its state cannot be restored: the trial was {last.state} after at most {REHEARSE_WITHIN_S} s "
                    f"({self._failure(rehearsal.job_id) or 'no error; are there task slots for a second job?'})"
                )
            if lost := dropped(running, self._vertices(running), self._vertices(rehearsal), changed):
                raise EngineError(
                    f"the state of {', '.join(lost)} would be dropped, though only {', '.join(sorted(changed))} changed"
                )
        finally:
            self.discard(rehearsal)
            self.files.remove(_path(rehearsal.checkpoints))

    def discard(self, plan: EnginePlan) -> None:
        """Cancel the job and delete its checkpoints."""
        if self.job(plan).is_up:
            self._cancel(plan)
        self.files.remove(f"{_path(plan.checkpoints)}/{plan.job_id}")

    def discard_earlier(self, plan: EnginePlan, kept: Collection[str]) -> None:
        """Delete the savepoints and retained checkpoints of earlier generations."""
        if self.job(plan).checkpointed_ms is None:
            return  # a restart still begins with the state that it was given
        generation, top = _writers(plan), _path(plan.checkpoints)
        places = [f"{top}/{place}" for place in self.files.outline(top)]
        earlier = [place for place in places if generation(place) < plan.generation]
        # Checkpoints of one job share files.
        for folder in {each if _is_savepoint(each) else each.rpartition("/")[0] for each in earlier}:
            if not any(f"{_path(each)}/".startswith(f"{folder}/") for each in kept):
                self.files.remove(folder)

    def end_stalled(self, plan: EnginePlan) -> None:
        """Nothing to end: a job without checkpoints still works, and Flink itself restarts one that fails."""

    def running(self) -> list[Running]:
        """The jobs of patterns that the cluster runs, recognised by their names; its other jobs are left alone."""
        jobs = (self._get("/jobs/overview") or {}).get("jobs", ())
        return [
            Running(job["jid"], job["name"], f"{self.rest}/#/job/running/{job['jid']}/overview")
            for job in jobs
            if _STATES.get(job["state"]) in ("starting", "running") and NAME.fullmatch(job["name"])
        ]

    def _cancel(self, plan: EnginePlan) -> None:
        self._request("PATCH", f"/jobs/{plan.job_id}", params={"mode": "cancel"})
        self._wait_gone(plan)

    def _wait_gone(self, plan: EnginePlan) -> None:
        if not processes.wait_until(lambda: not self.job(plan).is_up, STOP_WITHIN_S):
            raise EngineError(
                f"{plan.pattern}: the job is still there {STOP_WITHIN_S} s after it was stopped; see {self.rest}"
            )

    def _vertices(self, plan: EnginePlan) -> Mapping[str, str]:
        """What the job's vertices do, by id, which is that of the first operator in each."""
        found = (self._get(f"/jobs/{plan.job_id}") or {}).get("plan", {}).get("nodes", ())
        return {node["id"]: node["description"] for node in found}

    def _metric(self, job_id: str, name: str) -> int:
        answer = self._get(f"/jobs/{job_id}/metrics?get={name}")
        return int(answer[0]["value"]) if answer else 0

    def _failure(self, job_id: str) -> str:
        return _problem_of(self._failures(job_id), healthy_ms=0)

    def _failures(self, job_id: str) -> list[dict[str, Any]]:
        """What the job has failed of, newest first."""
        path = f"/jobs/{job_id}/exceptions?maxExceptions={FAILURES_KEPT}"  # the default is fewer
        found = (self._get(path) or {}).get("exceptionHistory", {}).get("entries", ())
        return sorted(found, key=lambda failure: -int(failure["timestamp"]))

    def _get(self, path: str) -> Any:
        answer = self._request("GET", path)
        return None if answer.status_code == 404 else self._read(answer)

    def _read(self, answer: requests.Response) -> Any:
        try:
            return answer.json()
        except json.JSONDecodeError:
            raise EngineError(
                f"Flink's REST address {self.rest} answered {answer.status_code} and no JSON; "
                "does `millrace env` name the JobManager?"
            ) from None

    def _request(self, method: str, path: str, **more: Any) -> requests.Response:
        try:
            answer = requests.request(method, f"{self.rest}{path}", timeout=30, **more)
        except requests.RequestException as error:
            raise EngineError(
                f"Flink does not answer at {self.rest} ({type(error).__name__}); see `millrace status`"
            ) from None
        if answer.status_code in (401, 403):
            raise EngineError(
                f"Flink at {self.rest} denies {method} {path} ({answer.status_code}); is a proxy before it that wants "
                "a login? FLINK_REST_URL must be an address that needs none"
            )
        return answer


def state_of(
    job: Mapping[str, Any],
    checkpoints: Mapping[str, Any],
    failures: Sequence[Mapping[str, Any]],
    interval_ms: int,
) -> tuple[State, str]:
    """The state of a job and what is wrong with it, from what Flink shows of it, its checkpoints and its failures."""
    state, word, now_ms = _STATES.get(job["state"], "starting"), job["state"], job.get("now", 0)
    healthy_ms = _checkpointed_ms(checkpoints) or 0
    problem = _problem_of(failures, healthy_ms)
    if state not in ("starting", "running"):
        return state, problem if state == "failed" else ""
    since_ms = job.get("timestamps", {}).get(word, now_ms)
    restarting_s = (now_ms - since_ms) / 1000 if word == "RESTARTING" else 0
    failed_s = [failure["timestamp"] / 1000 for failure in failures]
    if restarting_s > RESTARTING_MOST_S or is_crash_loop(failed_s, healthy_ms / 1000, now_ms / 1000):
        return "crash-looping", _problem_of(failures, min(healthy_ms, now_ms - OUTAGES_WITHIN_S * 1000))
    without_ms = now_ms - max(healthy_ms, since_ms)
    if word == "RUNNING" and without_ms > STALLED_AFTER_INTERVALS * interval_ms:
        failed = (checkpoints.get("latest") or {}).get("failed") or {}
        why = f": {failed['failure_message']}" if failed.get("failure_message") else ""
        return "stalled", f"no checkpoint was completed for {without_ms / 1000:.0f} s{why}"
    if word == "RUNNING" and (tasks := {vertex["status"] for vertex in job.get("vertices", ())} - ALL_WORKS):
        # Flink calls a job running that has no TaskManager.
        return "starting", "its tasks wait for a TaskManager" if tasks & WAITING else ""
    return state, problem if word in ("RESTARTING", "FAILING") else ""


def changed_rules(running: EnginePlan, wanted: EnginePlan) -> set[str]:
    """The rules and summaries, or the enrichment, that another plan lacks or has in another version."""
    return {name for name, own in running.versions.items() if name != LIMITS and wanted.versions.get(name) != own}


def dropped(running: EnginePlan, old: Mapping[str, str], new: Mapping[str, str], changed: Collection[str]) -> list[str]:
    """The unchanged rules and summaries whose windows are lost, and the memory if it is replaced.

    Vertices are descriptions by id. All per-event rules share a memory of a fixed id: a new one holds nothing of any.
    """
    lost = {each: text for each, text in old.items() if each not in new}
    found = []
    for text in filter(WINDOW.match, lost.values()):
        owners = [name for name in running.judges if f"'{name}' AS" in text]
        found += [name for name in owners if name not in changed] if owners else ["a window"]
    if any(map(MEMORY.match, lost.values())) and any(
        MEMORY.match(text) for each, text in new.items() if each not in old
    ):
        found.append("the memory of the per-event rules")
    return found


def lost_of(failure: Mapping[str, Any]) -> tuple[Loss, ...]:
    """The messages for whose loss a job failed: LostMessagesException.java writes them down."""
    found = LOST.search(str(failure["stacktrace"]))
    return tuple(Loss(**each) for each in json.loads(found[1])) if found else ()


def _checkpointed_ms(checkpoints: Mapping[str, Any]) -> int | None:
    """When the last checkpoint was completed."""
    completed = (checkpoints.get("latest") or {}).get("completed") or {}
    found: int | None = completed.get("latest_ack_timestamp")
    return found


def _interval_ms(plan: EnginePlan) -> int:
    """How often the job is to complete a checkpoint."""
    given = re.fullmatch(r"(\d+) *(ms|s|min)", str(plan.options.get("execution.checkpointing.interval")))
    return int(given[1]) * {"ms": 1, "s": 1000, "min": 60_000}[given[2]] if given else CHECKPOINT_INTERVAL_MS


def _problem_of(failures: Sequence[Mapping[str, Any]], healthy_ms: int) -> str:
    """The newest failure since the job was healthy that no other one has caused, else the newest of all."""
    own = (each for each in failures if each["timestamp"] > healthy_ms and not _is_consequence(each))
    newest = next(own, failures[0] if failures else None)
    return _described(newest) if newest else ""


def _is_consequence(failure: Mapping[str, Any]) -> bool:
    return str(failure["stacktrace"]).startswith(CONSEQUENCE)


def _described(failure: Mapping[str, Any]) -> str:
    """What has failed, and the cause at the root of it: Flink and Kafka's sink wrap it several times."""
    first, *others = str(failure["stacktrace"]).splitlines()
    causes = [line.removeprefix(CAUSE) for line in others if line.startswith(CAUSE)]
    return f"{first}; cause: {causes[-1]}" if causes else first


def _writers(plan: EnginePlan) -> Callable[[str], int]:
    """Gives the generation that wrote a state; one that is not on record is later than all that are."""
    generations = {replace(plan, generation=n).job_id: n for n in range(1, plan.generation + 1)}
    short = {job_id[:SAVEPOINT_DIGITS]: n for job_id, n in generations.items()}

    def generation(place: str) -> int:
        *_, folder, name = place.split("/")
        later = plan.generation + 1
        if _is_savepoint(place):
            return short.get(name.removeprefix(SAVEPOINT)[:SAVEPOINT_DIGITS], later)
        return generations.get(folder, later)

    return generation


def _is_savepoint(place: str) -> bool:
    return place.rpartition("/")[2].startswith(SAVEPOINT)


def _path(uri: str) -> str:
    """The path of a folder on its store."""
    return urlsplit(uri).path
