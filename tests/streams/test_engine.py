"""What the engine shows of a process, alive or dead, by its record and its progress file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.engines.streams.engine import INSTANCE, PLAN, Streams, job_of
from millrace.engines.streams.job import MAIN, MEMBER, declaration
from millrace.job import Job
from millrace.job_processes import combined
from millrace.machine import processes
from millrace.machine.processes import ProcessRecord
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss
from millrace.settings import PROJECT, Settings

RUNNING = EnginePlan("p", 1, "streams", "fraud", "127.0.0.1:1", {}, "file:///nowhere", delivery="exactly-once")
NOW_S = 1_790_000_000.0
TOPICS = {each: f"p.{each}" for each in ("transactions", "device-locations", "customers", "merchants")}
RECORD = ProcessRecord("job-p-streams", 1, 1, "boot", NOW_S - 20, Path("x.out"), ())
LOST = Loss("p.transactions", 0, 5, 9, 20, "id", "id")


def progress(state: str, silent_s: float = 1, **changes: Any) -> dict[str, Any]:
    return {"state": state, "written_ms": (NOW_S - silent_s) * 1000, "commits": 3, "lag": 7, "lost": [], **changes}


@pytest.mark.parametrize(
    ("written", "state"),
    [
        ({}, "starting"),
        (progress("starting"), "starting"),
        (progress("running"), "running"),
        (progress("running", silent_s=31), "stalled"),
    ],
)
def test_a_living_process_is_what_its_progress_shows(written: Mapping[str, Any], state: str) -> None:
    assert job_of(written, RECORD, NOW_S).state == state


def test_a_process_that_writes_nothing_for_long_after_its_start_is_stalled() -> None:
    job = job_of({}, replace(RECORD, since=NOW_S - 121), NOW_S)
    assert (job.state, job.problem) == ("stalled", "pid 1 runs, and has made no progress for 121 s")


@pytest.fixture
def streams(tmp_path: Path) -> Streams:
    """With a process that has ended."""
    settings = Settings(project=PROJECT, home=tmp_path, state=tmp_path, port_base=26000)
    log = tmp_path / "logs" / "job-p-streams.out"
    words = ["sh", "-c", "echo last words", f"{PLAN}{RUNNING.to_json()}"]
    record = processes.start("job-p-streams", words, {}, log, settings.run)
    assert processes.wait_until(lambda: not processes.alive(record), 10)
    return Streams(settings)


def write(streams: Streams, **changes: Any) -> None:
    path = streams.settings.state / "patterns" / "p-streams-progress.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(progress(**changes)), encoding="utf-8")


def test_a_process_that_died_is_failed_with_its_last_words(streams: Streams) -> None:
    job = streams.job(RUNNING)
    assert (job.state, job.problem) == ("failed", "the process has ended; the last lines of its log: last words")


def test_a_process_that_was_stopped_is_stopped(streams: Streams) -> None:
    write(streams, state="stopped", problem=None)
    assert streams.job(RUNNING).state == "stopped"


def test_a_process_that_lost_messages_names_them_and_the_remedy(streams: Streams) -> None:
    write(streams, state="failed", problem="an error of Kafka's", lost=[LOST.plain()])
    job = streams.job(RUNNING)
    assert job.lost == (LOST,)
    assert job.problem.endswith("`millrace deploy p --accept-loss` continues without them")


def test_the_process_of_another_generation_does_not_count_for_this_one(streams: Streams) -> None:
    assert streams.job(replace(RUNNING, generation=2)).state == "absent"


def test_the_guarantee_is_a_part_of_the_plan_and_older_plans_have_none() -> None:
    assert EnginePlan.from_json(RUNNING.to_json()) == RUNNING
    older = replace(RUNNING, delivery="at-least-once-with-ids")
    assert "delivery" not in json.loads(older.to_json())
    assert EnginePlan.from_json(older.to_json()) == older
    assert not older.is_same_as(RUNNING)


@pytest.mark.parametrize(
    ("states", "state", "missing"),
    [
        (("running", "running"), "running", 0),
        (("running", "starting"), "starting", 0),
        (("running", "stalled"), "stalled", 0),
        (("failed", "running"), "degraded", 1),
        (("failed", "stalled"), "stalled", 1),  # its end comes first
        (("absent", "running"), "degraded", 1),
        (("failed", "stopped"), "failed", 0),
        (("stopped", "stopped"), "stopped", 0),
    ],
)
def test_a_job_of_two_processes_is_as_the_worse_of_them(states: tuple[Any, Any], state: str, missing: int) -> None:
    job = combined([Job(each, checkpoints=n, problem=each) for n, each in enumerate(states, 1)])
    assert (job.state, job.missing, job.is_whole) == (state, missing, not missing and job.is_up)
    assert job.checkpoints == 1
    assert job.problem == f"instance 1 of 2: {states[0]}; instance 2 of 2: {states[1]}"


def test_each_process_has_a_member_and_a_folder_of_its_own_and_one_thread(tmp_path: Path) -> None:
    plan = replace(RUNNING, parallelism=2, topics=TOPICS)
    one, two = (declaration(plan, tmp_path / str(number), number, 2) for number in (1, 2))
    assert one["settings"][MEMBER] + "-2" == two["settings"][MEMBER]
    assert (one["threads"], two["instances"], one["folder"]) == (1, 2, str(tmp_path / "1"))
    assert declaration(plan, tmp_path)["threads"] == 2, "one process has all tasks"


class TwoInstances:
    """Processes that do nothing, with the commands of a job of two."""

    def __init__(self, folder: Path) -> None:
        self.streams = Streams(Settings(project=PROJECT, home=folder, state=folder, port_base=26000))
        self.plan = replace(RUNNING, parallelism=2)

    def begin(self, number: int) -> processes.ProcessRecord:
        job = self.streams.file(self.plan, "job", number=number)
        sleep = [sys.executable, "-c", "import time; time.sleep(1000)"]
        words = [*sleep, f"{INSTANCE}{number}", f"{PLAN}{self.plan.to_json()}", MAIN, str(job)]
        name, settings = self.streams.name(self.plan, number), self.streams.settings
        progress_of = self.streams.file(self.plan, "progress", number=number)
        progress_of.write_text(json.dumps(progress("running") | {"written_ms": time.time() * 1000}))
        return processes.start(name, words, {}, settings.state / "logs" / f"{name}.out", settings.run)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoInstances]:
    two = TwoInstances(tmp_path)
    yield two
    two.streams.stop(two.plan)


def test_a_job_with_a_dead_process_names_it_and_is_listed_once(two: TwoInstances) -> None:
    records = [two.begin(1), two.begin(2)]
    assert two.streams.job(two.plan).state == "running"
    (job,) = two.streams.running()
    assert (job.job_id, job.where) == (two.plan.job_id, f"pid {records[0].pid}, {records[1].pid}")
    processes.kill(records[1])
    found = two.streams.job(two.plan)
    assert (found.state, found.missing) == ("degraded", 1)
    assert found.problem.startswith("instance 2 of 2: the process has ended")


def test_a_process_that_runs_twice_makes_its_job_run_twice(two: TwoInstances) -> None:
    for number in (1, 2, 2):
        two.begin(number)
    assert [each.job_id for each in two.streams.running()] == [two.plan.job_id] * 2


def test_a_stop_stops_all_processes_of_a_job(two: TwoInstances) -> None:
    records = [two.begin(1), two.begin(2)]
    two.streams.stop(two.plan)
    assert not any(map(processes.alive, records))
    assert (two.streams.job(two.plan).state, two.streams.running()) == ("absent", [])


def test_a_job_of_fewer_processes_leaves_no_state_of_the_others(
    two: TwoInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = two.streams.local_state(two.plan)
    for number in (1, 2, 3):
        (folder / str(number) / "rocksdb").mkdir(parents=True)
    monkeypatch.setattr(Streams, "_start", lambda *_: None)
    two.begin(2)
    alone = replace(two.plan, parallelism=1)
    two.streams.start(alone, None)
    assert sorted(each.name for each in folder.iterdir()) == ["1", "2"], "one still runs"
    two.streams.stop(two.plan)
    two.streams.start(alone, None)
    assert [each.name for each in folder.iterdir()] == ["1"]


def test_only_a_process_without_progress_is_ended(two: TwoInstances) -> None:
    records = [two.begin(1), two.begin(2)]
    two.streams.file(two.plan, "progress", number=2).write_text(json.dumps(progress("running", silent_s=60)))
    assert two.streams.job(two.plan).state == "stalled"
    two.streams.end_stalled(two.plan)
    assert list(map(processes.alive, records)) == [True, False]
