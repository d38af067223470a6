"""Nobody types anything: what is killed under traffic comes back by itself, and the verdict is ok."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest

from millrace import deployments, records
from millrace import stack as stacks
from millrace.cli.watch import watch as command
from millrace.engines.flink.engine import Flink
from millrace.engines.spark.engine import Spark
from millrace.errors import InfraError
from millrace.job import Job
from millrace.machine import processes
from millrace.patterns import EnginePlan, load
from millrace.patterns.plan import WINDOWS_TOPIC
from millrace.rules import ALERTS
from millrace.servers.server import Server
from millrace.settings import PROJECT, Settings
from millrace.stack import WATCH
from millrace.stack.services import DEFAULT, NEEDED, PROFILES, services
from millrace.stack.startup import stop_all
from millrace.stores.changes import Change
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs import watch
from millrace.verbs.deploy import await_healthy, deploy
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import validate
from millrace.verbs.watch import attempts, faults, loop
from millrace.verbs.watch.attempts import BACK_OFF_S, RESTARTS_MOST, SPAN_S, Attempts
from millrace.verbs.watch.faults import Fault, faults_of
from millrace.verbs.watch.journal import Journal
from millrace.verbs.watch.loop import PROBE_EVERY_S, Watch
from millrace.verify.closing import closing_ms
from pipelines.fraud import FRAUD
from tests.patterns import SETTLED_AFTER_S, Sender, problems

PATTERN = "flink-spark"
SENDS_S = 60.0
"""The traffic of each kill: the slowest job comes back and closes a window in less."""
BACK_WITHIN_S = 180
FLINK_JOB, SPARK_JOB = "job of Flink", "job of Spark"
STREAM = ("flink-taskmanager", "flink-jobmanager", "kafka-1", SPARK_JOB)
STORES = ("namenode", "datanode-1", "datanode-2", "hbase-master", "hbase-thrift")
OTHERS = (*STORES, "flink-gateway", "dashboard", FLINK_JOB)
SUBJECTS = (*STREAM, *OTHERS)
HBASE, HDFS = ("hbase-thrift", "hbase-master"), ("datanode-1", "datanode-2", "namenode")
GAPS_S = {"per-event": 10.0, "windows": 30.0}
"""The longest time without an alert while stores are away. A burst alerts once its chain is over for 10 s."""
LOSES_JOBS = ("flink-jobmanager", FLINK_JOB, SPARK_JOB)
HANGING = ("flink-jobmanager", "kafka-1", "namenode", "hbase-thrift")


def test_every_server_of_the_default_stack_is_killed_in_the_drill() -> None:
    assert {*SUBJECTS} - {FLINK_JOB, SPARK_JOB} == stacks.servers_of(Settings.read({}), DEFAULT)


def test_readme_and_help_name_the_time_after_which_a_server_that_hangs_is_killed() -> None:
    known = services(Settings.read({}), PROFILES)
    times = {f"{server.within_s:.0f} s" for service in known.values() for server in service.servers}
    for text in ((PROJECT / "README.md").read_text("utf-8"), command.__doc__ or ""):
        sentence = re.search(r"A server that hangs is killed[^.]*", " ".join(text.split()))
        assert sentence
        assert set(re.findall(r"\d+ s\b", sentence[0])) == times


def test_the_longest_time_without_an_alert_includes_that_before_the_first_and_after_the_last() -> None:
    assert longest_gap_s([9_000, 2_500, 99_000], 1_000, 11_000) == 6.5
    assert longest_gap_s([9_000, 99_000], 1_000, 11_000) == 8
    assert longest_gap_s([2_500], 1_000, 11_000) == 8.5
    assert longest_gap_s([], 1_000, 11_000) == 10


def test_restarts_come_later_and_later_and_end() -> None:
    made, now, waits = Attempts(), 0.0, []
    while (wait_s := made.wait_s(now)) is not None:
        waits.append(wait_s)
        made.count(now := now + wait_s)
    assert waits == list(BACK_OFF_S[:RESTARTS_MOST])
    assert made.wait_s(now + SPAN_S + 1) == 0, "what failed long ago is forgotten"


def test_a_restart_that_another_command_prevents_is_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` may hold the stack for minutes: nothing is given up meanwhile."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)
    watching, server = Watch(settings, dict), stacks.servers(settings)["kafka-1"]
    monkeypatch.setattr(stacks, "restart_dead", lambda *_: False)
    for _ in range(2 * RESTARTS_MOST):
        watching._once_due(server.name, lambda: watching._restart(server))
    assert watching.journal.read() == []
    assert not stacks.given_up_file(settings, server.name).exists()


def test_a_server_that_was_away_for_long_has_its_time_to_start(tmp_path: Path) -> None:
    """That its predecessor was last ready ten minutes ago says nothing of it."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)
    watching, server = Watch(settings, dict), stacks.servers(settings)["kafka-1"]

    def started() -> processes.ProcessRecord:
        return processes.start(server.name, ["sleep", "60"], os.environ, tmp_path / "log", settings.run)

    def look(now_s: float) -> None:
        watching._end_what_hangs({server.name: server}, processes.records(settings.run), now_s)

    first = started()
    look(0)
    processes.stop(first, within_s=5)
    second = started()
    look(600)
    look(600 + server.within_s)
    assert processes.alive(second)
    assert watching.journal.read() == []
    look(601 + server.within_s)
    assert processes.wait_until(lambda: not processes.alive(second), 60)
    assert [each["event"] for each in watching.journal.read()] == ["unready"]


JOB_MANAGER, TASK_MANAGER = "flink-jobmanager", "flink-taskmanager"


@dataclass
class Pair:
    """A server that needs another one; both are processes that only wait, and answer as a test decides."""

    watching: Watch
    servers: Mapping[str, Server]
    answers: dict[str, Callable[[], bool]]
    within_s: float

    def start(self, name: str) -> None:
        settings = self.watching.settings
        processes.start(name, ["sleep", "600"], os.environ, settings.state / f"{name}.log", settings.run)

    def ended(self, now_s: float) -> list[str]:
        """Which servers the watcher has ended until this moment."""
        recorded = processes.records(self.watching.settings.run)
        alive = {name: server for name, server in self.servers.items() if processes.alive(recorded[name])}
        self.watching._end_what_hangs(alive, recorded, now_s)
        return [each["subject"] for each in self.watching.journal.read()]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A TaskManager is ready if its JobManager lists it."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)
    servers = {name: stacks.servers(settings)[name] for name in (JOB_MANAGER, TASK_MANAGER)}
    answers: dict[str, Callable[[], bool]] = dict.fromkeys(servers, lambda: False)
    for server in servers.values():
        monkeypatch.setattr(type(server), "is_ready", lambda self, _: answers[self.name]())
    (within_s,) = {server.within_s for server in servers.values()}
    pair = Pair(Watch(settings, dict), servers, answers, within_s)
    for name in servers:
        pair.start(name)
    yield pair
    for record in processes.records(settings.run).values():
        processes.kill(record)


def test_a_server_that_needs_one_that_hangs_is_ended_only_if_it_hangs_itself(pair: Pair) -> None:
    assert pair.ended(0) == []
    assert pair.ended(pair.within_s + 1) == [JOB_MANAGER]
    assert pair.ended(2 * pair.within_s + 2) == [JOB_MANAGER], "it is dead now"
    pair.start(JOB_MANAGER)
    pair.answers[JOB_MANAGER] = lambda: True
    assert pair.ended(2 * pair.within_s + 3) == [JOB_MANAGER]
    assert pair.ended(3 * pair.within_s + 4) == [JOB_MANAGER, TASK_MANAGER]


def test_a_server_that_hangs_is_ended_though_one_that_it_needs_is_away_at_times(pair: Pair) -> None:
    def fails() -> bool:
        raise ValueError

    pair.answers[JOB_MANAGER] = lambda: True
    assert pair.ended(0) == []
    assert pair.ended(pair.within_s - 1) == []
    pair.answers[JOB_MANAGER] = fails
    assert pair.ended(pair.within_s + 4) == [], "of that, 5 s without the one that it needs"
    pair.answers[JOB_MANAGER] = lambda: True
    assert pair.ended(pair.within_s + 5) == []
    assert pair.ended(pair.within_s + 6) == [TASK_MANAGER]


def test_a_job_that_cannot_start_while_a_server_is_dead_is_not_given_up(tmp_path: Path) -> None:
    """A store may be away for ten minutes, and a job is started again when it is back."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)

    def refuse() -> None:
        raise InfraError("no HDFS")

    watching = Watch(settings, lambda: {PATTERN: Fault("gone", repair=refuse)})
    watching._away = {"namenode"}
    for _ in range(2 * RESTARTS_MOST):
        watching._look("jobs", watching._repair_jobs)
    assert [each["event"] for each in watching.journal.read()] == ["gone", "unknown"]
    watching._away = set()
    watching._look("jobs", watching._repair_jobs)
    assert [each["event"] for each in watching.journal.read()] == ["gone", "unknown", "failed"]


def test_a_job_that_needs_no_absent_server_is_given_up(tmp_path: Path) -> None:
    """A stack may run without the servers of another engine."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)

    def refuse() -> None:
        raise InfraError("it does not start")

    watching = Watch(settings, lambda: {PATTERN: Fault("gone", repair=refuse, needs=frozenset({"kafka-1"}))})
    watching._away = {"flink-jobmanager"}
    watching._look("jobs", watching._repair_jobs)
    assert [each["event"] for each in watching.journal.read()] == ["gone", "failed"]


def test_what_fails_again_and_again_is_given_up_until_its_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, tried = Settings.read({"MILLRACE_STATE": str(tmp_path)}), list[str]()
    settings.run.mkdir(parents=True)
    monkeypatch.setattr(attempts, "BACK_OFF_S", (0.0,) * len(BACK_OFF_S))

    def refuse() -> None:
        tried.append(PATTERN)
        raise InfraError("it does not start")

    watching = Watch(settings, lambda: {PATTERN: Fault("gone", repair=refuse)})
    for _ in range(2 * RESTARTS_MOST):
        watching._look("jobs", watching._repair_jobs)
    assert len(tried) == RESTARTS_MOST
    assert [each["event"] for each in watching.journal.read()] == ["gone", *["failed"] * RESTARTS_MOST, "given-up"]
    stacks.given_up_file(settings, PATTERN).unlink()  # as `up` and `deploy` do
    watching._look("jobs", watching._repair_jobs)
    assert len(tried) == RESTARTS_MOST + 1


def test_a_full_disk_does_not_end_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)
    watching, path_open = Watch(settings, dict), Path.open
    watching.journal.write("kafka-1", "restarted")
    with watching.journal.path.open("a", encoding="utf-8") as opened:
        opened.write('{"at": "2026-')  # what fitted on the disk

    def full(path: Path, *words: str, **named: str) -> IO[str]:
        if path == watching.journal.path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return path_open(path, *words, **named)

    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        watching._look("jobs", fail)
    for event in ("unready", "restarted"):  # the first ends the half line, and is lost with it
        watching.journal.write("kafka-1", event)
    assert [each["event"] for each in watching.journal.read()] == ["restarted", "restarted"]


def test_a_job_on_other_servers_is_not_restarted_on_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One folder may hold the plans of a pattern that was deployed to servers from MILLRACE_TARGET."""
    target, planned = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {}), list[str]()

    def look(bootstrap: str) -> None:
        plan = EnginePlan(PATTERN, 1, "spark", "fraud", bootstrap, {}, "file:///nowhere")
        monkeypatch.setattr("millrace.deployments.jobs", lambda *_: {"spark": (plan, Job("absent"))})
        assert faults_of(target) == {}

    monkeypatch.setattr(faults, "names", lambda: [PATTERN])
    monkeypatch.setattr("millrace.deployments.is_wanted", lambda *_: True)
    monkeypatch.setattr("millrace.verbs.watch.faults.deploy", lambda *_, **__: planned.append(PATTERN) or [])
    look("elsewhere:9092,elsewhere:9093")
    assert planned == []
    look(f"{target.bootstrap},127.0.0.1:1")  # one more broker
    assert planned == [PATTERN]


@pytest.fixture
def gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Two deployed patterns, the job of each of which is gone."""
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})
    plan = EnginePlan(PATTERN, 1, "spark", "fraud", target.bootstrap, {}, "file:///nowhere")
    start = Change("job", PATTERN, "start")
    monkeypatch.setattr(faults, "names", lambda: ["first", "second"])
    monkeypatch.setattr("millrace.deployments.is_wanted", lambda *_: True)
    monkeypatch.setattr("millrace.deployments.jobs", lambda *_: {"spark": (plan, Job("absent"))})
    monkeypatch.setattr("millrace.verbs.watch.faults.deploy", lambda *_, **__: [start])
    return target


def test_an_engine_that_does_not_answer_leaves_only_its_own_patterns_unrepaired(
    gone: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = deployments.jobs

    def asked(target: Target, name: str) -> dict[str, tuple[EnginePlan, Job]]:
        if name == "first":
            raise InfraError("no answer")
        return jobs(target, name)

    monkeypatch.setattr("millrace.deployments.jobs", asked)
    found = faults_of(gone)
    assert (found["first"].event, found["first"].detail, found["first"].repair) == ("unknown", "no answer", None)
    assert (found["second"].event, found["second"].repair is not None) == ("gone", True)


def test_what_is_unknown_of_a_job_is_journaled_once_and_ends_no_crash_loop(tmp_path: Path) -> None:
    settings, found = Settings.read({"MILLRACE_STATE": str(tmp_path)}), dict[str, Fault]()
    settings.run.mkdir(parents=True)
    watching = Watch(settings, lambda: found)
    crashing, unknown = Fault("crash-looping", "by zero"), Fault("unknown", "no answer")
    for fault in (crashing, unknown, unknown, crashing, None):
        found = {PATTERN: fault} if fault else {}
        watching._look("jobs", watching._repair_jobs)
    assert [each["event"] for each in watching.journal.read()] == ["crash-looping", "unknown", "crash-loop-ended"]


def test_a_pattern_that_a_verb_holds_delays_no_other(gone: Target) -> None:
    """A deploy may hold it for minutes, one that is stopped by Ctrl-Z for hours."""
    assert faults_of(gone).keys() == {"first", "second"}
    with deployments.alone(gone, "first"):
        assert faults_of(gone).keys() == {"second"}


def test_a_server_that_does_not_start_delays_no_other_and_is_given_up_in_a_stack_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that were never started, and that it does not need, are no reason to try it for ever."""
    settings, tried = Settings.read({"MILLRACE_STATE": str(tmp_path)}), list[str]()
    monkeypatch.setattr(attempts, "BACK_OFF_S", (0.0,) * len(BACK_OFF_S))
    for name in ("kafka-1", "namenode"):
        ended = processes.start(name, ["sleep", "60"], os.environ, tmp_path / f"{name}.log", settings.run)
        processes.kill(ended)

    def refuse(_: Settings, server: Server) -> bool:
        tried.append(server.name)
        if server.name == "kafka-1":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise InfraError("it does not start")

    monkeypatch.setattr(stacks, "restart_dead", refuse)
    watching = Watch(settings, dict)
    for _ in range(RESTARTS_MOST + 1):
        watching._look("servers", watching._watch_servers)
    assert tried == ["kafka-1", "namenode"] * RESTARTS_MOST
    assert all(stacks.given_up_file(settings, name).exists() for name in ("kafka-1", "namenode"))


def test_a_server_waits_without_an_attempt_for_one_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)
    monkeypatch.setattr(attempts, "BACK_OFF_S", (0.0,) * len(BACK_OFF_S))
    watching = Watch(settings, dict)
    watching._away = {"namenode"}

    def refuse() -> bool:
        raise InfraError("it does not start")

    others = [("one", refuse, frozenset({"namenode"})), ("other", refuse, frozenset({"kafka-1"}))]
    for _ in range(RESTARTS_MOST + 1):
        watching._look("servers", lambda: watching._each_due(others))
    assert not stacks.given_up_file(settings, "one").exists()
    assert stacks.given_up_file(settings, "other").exists()


def test_a_stalled_job_is_ended_before_it_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, done = Settings.read({"MILLRACE_STATE": str(tmp_path)}), list[str]()
    plan = EnginePlan(PATTERN, 1, "spark", "fraud", Target.read(settings, {}).bootstrap, {}, "file:///nowhere")
    job = Job("stalled", problem="no progress")
    monkeypatch.setattr(faults, "names", lambda: [PATTERN])
    for module in ("millrace.deployments", "millrace.verbs.reconcile"):
        monkeypatch.setattr(f"{module}.is_wanted", lambda *_: True)
        monkeypatch.setattr(f"{module}.jobs", lambda *_: {"spark": (plan, job)})
    monkeypatch.setattr(Spark, "end_stalled", lambda *_: done.append("ended"))
    monkeypatch.setattr("millrace.verbs.watch.faults.deploy", lambda *_, **__: done.append("started"))
    (fault,) = faults_of(Target.read(settings, {})).values()
    assert fault.repair is not None
    fault.repair()
    assert (fault.event, done) == ("stalled", ["ended", "started"])


def test_a_crash_loop_and_a_stall_are_journaled_once_and_left_to_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink restarts a failing job without end, and one without checkpoints still works: a restart would lose time."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    settings.run.mkdir(parents=True)
    plan = EnginePlan(PATTERN, 1, "flink", "fraud", Target.read(settings, {}).bootstrap, {}, "file:///nowhere")
    job = Job("crash-looping", problem="java.lang.ArithmeticException: / by zero")
    monkeypatch.setattr(faults, "names", lambda: [PATTERN])
    monkeypatch.setattr("millrace.deployments.is_wanted", lambda *_: True)
    monkeypatch.setattr("millrace.deployments.jobs", lambda *_: {"flink": (plan, job)})
    monkeypatch.setattr("millrace.verbs.watch.faults.deploy", lambda *_, **__: pytest.fail("it was restarted"))
    watching = Watch(settings, lambda: faults_of(Target.read(settings, {})))
    for _ in range(2 * RESTARTS_MOST):
        watching._look("jobs", watching._repair_jobs)
    job = Job("stalled", problem="no checkpoint was completed for 300 s")
    for _ in range(2):
        watching._look("jobs", watching._repair_jobs)
    job = Job("running")
    for _ in range(2):
        watching._look("jobs", watching._repair_jobs)
    assert [(each["subject"], each["event"], each.get("detail")) for each in watching.journal.read()] == [
        (PATTERN, "crash-looping", "java.lang.ArithmeticException: / by zero"),
        (PATTERN, "crash-loop-ended", None),
        (PATTERN, "stalled", "no checkpoint was completed for 300 s"),
        (PATTERN, "stall-ended", None),
    ]
    assert not stacks.given_up_file(settings, PATTERN).exists()


def test_the_end_of_a_driver_makes_it_look_at_jobs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    driver = processes.start("job-p-spark", ["sleep", "1000"], {}, tmp_path / "driver.out", settings.run)
    watching = Watch(settings, dict)
    monkeypatch.setattr(loop, "LOOK_EVERY_S", 0.1)
    watching._await_death()
    assert not watching._jobs_due.is_set()
    monkeypatch.setattr(loop, "LOOK_EVERY_S", 60.0)
    threading.Timer(0.1, lambda: os.kill(driver.pid, signal.SIGKILL)).start()
    watching._await_death()
    assert watching._jobs_due.is_set()


@dataclass(frozen=True)
class Watched:
    """A stack with a watcher, and a pattern that is deployed on it."""

    target: Target

    def outputs_after(self, kind: str, ended_ms: float, again_ms: float) -> Callable[[], float | None]:
        """When the first output of a kind came, after a moment, that rests on what arrived after another one."""
        tail = Tail(self.target.bootstrap, {kind: load(PATTERN).topic(kind)})
        own = "ingest_ms" if kind == "enriched" else "emit_ms"

        def first() -> float | None:
            came = [r.ingest_ms for r in tail.new() if json.loads(r.value or b"{}").get(own, 0) > ended_ms]
            return min((at for at in came if at > again_ms), default=None)

        return first

    def alerted_ms(self, kind: str, since_ms: float) -> list[float]:
        """When alerts of per-event rules, or of those on windows, came to Kafka after a moment."""
        variant = load(PATTERN)
        rules = {each.name for each in (variant.event_rules if kind == "per-event" else variant.window_rules)}
        with closing(Tail(self.target.bootstrap, {"alerts": variant.topic(ALERTS)})) as tail:
            came = [(each.ingest_ms, json.loads(each.value or b"{}")) for each in tail.new()]
        return [at_ms for at_ms, alert in came if at_ms > since_ms and alert.get("rule") in rules]

    def started_again_ms(self, since_ms: float) -> float:
        """When the watcher last started jobs of the pattern; without a JobManager tasks work on for a while."""
        entries = [each for each in Journal.of(self.target.settings).read() if each["event"] == "restarted"]
        moments = [
            datetime.fromisoformat(each["at"]).timestamp() * 1000 for each in entries if each["subject"] == PATTERN
        ]
        return max((at for at in moments if at > since_ms), default=0)


@pytest.fixture(scope="module")
def watched(stack: Settings) -> Iterator[Watched]:
    target = Target.read(stack, {})
    teardown(target, PATTERN, data=True)
    provision(target, PATTERN)
    deploy(target, PATTERN, report=print)
    stacks.up(stack, DEFAULT)
    watch.ensure(stack)
    yield Watched(target)
    stop_all(stack, {WATCH: processes.records(stack.run)[WATCH]}, (), lambda *_: None)
    stacks.up(stack, NEEDED)
    teardown(target, PATTERN, data=True)


def end(target: Target, subject: str) -> None:
    """End a server or a job as an accident does."""
    plans = deployments.deployed(target, PATTERN)
    if subject == FLINK_JOB:
        flink = target.engine("flink")
        assert isinstance(flink, Flink)
        flink._cancel(plans["flink"])
    elif subject == SPARK_JOB:
        record = processes.read(target.settings.run / f"job-{PATTERN}-spark.json")
        assert record is not None
        processes.kill(record)
    else:
        stacks.kill(target.settings, [subject])


def is_well(target: Target, subject: str) -> bool:
    states = {each.name: each.state for each in stacks.status(target.settings)}
    if subject in states:
        return states[subject] == "running"
    return all(job.is_up for _, job in deployments.jobs(target, PATTERN).values())


@pytest.mark.stack
@pytest.mark.drill
@pytest.mark.timeout(3600)
def test_what_is_killed_under_traffic_comes_back_without_a_command(watched: Watched) -> None:
    target = watched.target
    back_s: dict[str, float] = {}
    verdicts: dict[str, str] = {}
    for subject in SUBJECTS:
        name = f"killed {subject}".replace(" ", "-")
        sender = Sender(target, PATTERN, name, seconds=SENDS_S, closing_ms=closing_ms(FRAUD))
        back_s[subject] = seconds_until_back(watched, subject)
        sender.end()
        await_healthy(target, PATTERN)
        verdict = validate(target, PATTERN, settled_after_s=SETTLED_AFTER_S, report=print).verdict
        assert not problems(verdict), subject
        verdicts[subject] = verdict.status
    assert not [each for each in Journal.of(target.settings).read() if each["event"] == "given-up"]
    # Where lab/records.py looks for it, not in the folder of the tests' stack.
    figures = {
        "verdict": "ok" if {*verdicts.values()} == {"ok"} else "unknown",
        "verdicts": verdicts,
        "seconds": back_s,
    }
    records.append(Settings.read(os.environ), "watch", figures)


def seconds_until_back(watched: Watched, subject: str) -> float:
    """From the end of a server or a job to the first output, of what was started again, of what came after.

    Events come out without most servers: of those, until the server is ready as well.
    """
    target = watched.target
    kind = WINDOWS_TOPIC if subject == SPARK_JOB else "enriched"
    await_healthy(target, PATTERN)
    end(target, subject)
    again_ms = ended_ms = time.time() * 1000  # what came out while it was being ended is not its return
    if subject in LOSES_JOBS:
        assert processes.wait_until(lambda: watched.started_again_ms(ended_ms) > 0, BACK_WITHIN_S), subject
        again_ms = watched.started_again_ms(ended_ms)
    assert processes.wait_until(lambda: is_well(target, subject), BACK_WITHIN_S), subject
    ready_ms = time.time() * 1000 if subject in OTHERS else 0
    first, found = watched.outputs_after(kind, ended_ms, again_ms), list[float]()

    def has_come() -> bool:
        if (came_ms := first()) is not None:
            found.append(came_ms)
        return bool(found)

    assert processes.wait_until(has_come, BACK_WITHIN_S), f"nothing came out after {subject} was killed"
    return round((max(found[0], ready_ms) - ended_ms) / 1000, 1)


@pytest.mark.stack
@pytest.mark.drill
def test_what_is_left_dead_on_purpose_stays_dead_until_up(watched: Watched) -> None:
    settings = watched.target.settings
    stacks.kill(settings, ["flink-gateway"], stay_dead=True)
    stacks.kill(settings, ["hbase-thrift"])
    assert processes.wait_until(lambda: is_well(watched.target, "hbase-thrift"), BACK_WITHIN_S)
    assert not is_well(watched.target, "flink-gateway")
    stacks.up(settings, NEEDED)
    assert is_well(watched.target, "flink-gateway")


@pytest.mark.stack
@pytest.mark.drill
def test_a_driver_that_hangs_is_stalled_and_restarted(watched: Watched) -> None:
    target = watched.target
    await_healthy(target, PATTERN)
    record = processes.read(target.settings.run / f"job-{PATTERN}-spark.json")
    assert record is not None
    os.kill(record.pid, signal.SIGSTOP)
    assert processes.wait_until(lambda: "stalled" in states(target), 60), states(target)
    assert processes.wait_until(lambda: not processes.alive(record), BACK_WITHIN_S)
    assert processes.wait_until(lambda: set(states(target)) == {"running"}, BACK_WITHIN_S), states(target)
    events = [each["event"] for each in Journal.of(target.settings).read() if each["subject"] == PATTERN]
    assert events[-2:] == ["stalled", "restarted"]


@pytest.mark.stack
@pytest.mark.drill
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("server", HANGING)
def test_a_server_that_hangs_is_killed_and_restarted_and_no_other(watched: Watched, server: str) -> None:
    """Its process lives and its port is open, but it does not answer."""
    target, settings = watched.target, watched.target.settings
    await_healthy(target, PATTERN)
    Sender(target, PATTERN, f"before-{server}-hung", seconds=10, closing_ms=closing_ms(FRAUD)).end()
    record, journaled = processes.records(settings.run)[server], len(Journal.of(settings).read())
    within_s = stacks.servers(settings)[server].within_s
    os.kill(record.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert processes.wait_until(lambda: not processes.alive(record), within_s + BACK_WITHIN_S)
    assert time.monotonic() - began > within_s - PROBE_EVERY_S
    for subject in (server, FLINK_JOB):
        assert processes.wait_until(lambda subject=subject: is_well(target, subject), BACK_WITHIN_S), subject
    await_healthy(target, PATTERN)
    Sender(target, PATTERN, f"after-{server}-hung", seconds=10, closing_ms=closing_ms(FRAUD)).end()
    assert not problems(validate(target, PATTERN, settled_after_s=SETTLED_AFTER_S, report=print).verdict)
    entries = Journal.of(settings).read()[journaled:]
    print(json.dumps(entries, indent=1))
    assert [each["subject"] for each in entries if each["event"] == "unready"] == [server]
    assert "restarted" in {each["event"] for each in entries if each["subject"] == server}
    assert "given-up" not in {each["event"] for each in entries}


def states(target: Target) -> list[str]:
    return [job.state for _, job in deployments.jobs(target, PATTERN).values()]


@pytest.mark.stack
@pytest.mark.drill
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("record", "stores", "going_on", "alerting"),
    [
        ("hbase-away", HBASE, ("enriched", WINDOWS_TOPIC), ("per-event", "windows")),
        # HDFS holds the checkpoints, too: Spark's windows are late by as long as it is away, and complete.
        ("stores-away", HBASE + HDFS, ("enriched",), ("per-event",)),
    ],
)
def test_stores_that_are_away_stop_no_alert_and_lose_nothing(
    watched: Watched,
    request: pytest.FixtureRequest,
    record: str,
    stores: Sequence[str],
    going_on: Sequence[str],
    alerting: Sequence[str],
) -> None:
    target, settings = watched.target, watched.target.settings
    away_s = request.config.getoption("--away-s")
    driver = processes.read(settings.run / f"job-{PATTERN}-spark.json")
    began_ms = time.time() * 1000
    sender = Sender(target, PATTERN, f"{record}-{away_s}", seconds=away_s + 120, closing_ms=closing_ms(FRAUD))
    for kind in alerting:
        assert processes.wait_until(lambda kind=kind: watched.alerted_ms(kind, began_ms), BACK_WITHIN_S), kind
    stacks.kill(settings, stores, stay_dead=True)
    ended, ended_ms = time.monotonic(), time.time() * 1000
    assert processes.wait_until(lambda: "degraded" in states(target), BACK_WITHIN_S), states(target)
    assert processes.wait_until(lambda: time.monotonic() > ended + away_s, away_s + 10)
    for kind in going_on:
        came = watched.outputs_after(kind, (time.time() - 20) * 1000, 0)
        assert processes.wait_until(lambda came=came: came() is not None, 90), f"{kind} waits for a store"
    back_ms = time.time() * 1000
    stacks.up(settings, NEEDED)
    gaps_s = {kind: longest_gap_s(watched.alerted_ms(kind, ended_ms), ended_ms, back_ms) for kind in alerting}
    assert all(gap_s <= GAPS_S[kind] for kind, gap_s in gaps_s.items()), gaps_s
    sender.end(away_s + 300)
    assert processes.read(settings.run / f"job-{PATTERN}-spark.json") == driver, "the driver ended"
    assert processes.wait_until(lambda: set(states(target)) == {"running"}, BACK_WITHIN_S), states(target)
    verdict = validate(target, PATTERN, report=print).verdict
    assert not problems(verdict)
    figures = {"verdict": verdict.status, "seconds": away_s, "longest_gap_s": gaps_s}
    records.append(Settings.read(os.environ), record, figures)


def longest_gap_s(at_ms: Sequence[float], since_ms: float, until_ms: float) -> float:
    """The longest time from one moment to the next, and from the first and to the last that are given."""
    moments = [since_ms, *(at for at in sorted(at_ms) if since_ms < at < until_ms), until_ms]
    return round(max(later - earlier for earlier, later in pairwise(moments)) / 1000, 1)
