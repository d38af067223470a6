"""What the engine shows of a process, alive or dead, by its record and its progress file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.engines.streams.engine import PLAN, Streams, job_of
from millrace.machine import processes
from millrace.machine.processes import ProcessRecord
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss
from millrace.settings import PROJECT, Settings

RUNNING = EnginePlan("p", 1, "streams", "fraud", "127.0.0.1:1", {}, "file:///nowhere", delivery="exactly-once")
NOW_S = 1_790_000_000.0
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
