"""What is known of a job from what is left of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import deployments, stack
from millrace.engines.flink.engine import CONSEQUENCE, Flink, lost_of, state_of
from millrace.engines.flink.servers import configuration
from millrace.engines.spark.engine import Spark, job_of
from millrace.job import RESTARTS_KEPT
from millrace.machine import processes
from millrace.machine.processes import ProcessRecord
from millrace.patterns import EnginePlan
from millrace.patterns.loss import Loss, problem_of
from millrace.settings import Settings
from millrace.stores.files import Hdfs
from millrace.target import Target

PLAN = EnginePlan("p", 1, "spark", "fraud", "127.0.0.1:1", {}, "file:///nowhere")


@pytest.fixture
def dead_driver(tmp_path: Path) -> Spark:
    """Of generation 1; its record is still there."""
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    command = [sys.executable, "-c", "print('no memory')", "--plan", PLAN.to_json()]
    name, run = "job-p-spark", settings.state / "run"
    record = processes.start(name, command, {}, settings.state / "logs" / f"{name}.out", run)
    assert processes.wait_until(lambda: not processes.alive(record), 60)
    return Spark(settings, "local[1]")


def test_a_driver_that_died_is_failed_with_its_last_words(dead_driver: Spark) -> None:
    job = dead_driver.job(PLAN)
    assert job.state == "failed"
    assert "no memory" in job.problem


def test_the_driver_of_another_generation_does_not_count_for_this_one(dead_driver: Spark) -> None:
    assert dead_driver.job(replace(PLAN, generation=2)).state == "absent"


NOW_S = 1_000_000.0
NOW_MS = int(NOW_S * 1000)
RECORD = ProcessRecord("job-p-spark", 1, 1, "boot", NOW_S - 20, Path("x.out"), ())


OFTEN_AGO_S = tuple(range(10, 330, 40))
"""Eight times, each of them an outage of its own."""


def query(
    batches: int = 3, failures: int = 0, failed_ago_s: Sequence[float] = (), well_ago_s: float = 900
) -> dict[str, Any]:
    failed = {"failed_ms": [NOW_MS - int(ago * 1000) for ago in failed_ago_s], "well_ms": NOW_MS - well_ago_s * 1000}
    problem = "no route" if failures or failed_ago_s else None
    return {"batches": batches, "restarts": failures, "failures": failures, "problem": problem} | failed


def progress(silent_s: float = 1, **queries: dict[str, Any]) -> dict[str, Any]:
    return {"state": "running", "written_ms": NOW_MS - int(silent_s * 1000), "queries": queries}


@pytest.mark.parametrize(
    ("written", "state"),
    [
        ({}, "starting"),
        (progress(), "starting"),
        (progress(silent_s=100), "starting"),  # its JVM is being started
        (progress(silent_s=200), "stalled"),
        (progress(burst=query(batches=0)), "starting"),
        (progress(burst=query()), "running"),
        (progress(silent_s=29, burst=query()), "running"),
        (progress(silent_s=31, burst=query()), "stalled"),
        (progress(burst=query(), tables=query(0, failures=7)), "degraded"),
        (progress(burst=query(0, 2, [40, 10])), "degraded"),
        (progress(burst=query(0, 3, [40, 20, 10])), "crash-looping"),
        (progress(burst=query(0, 3, [20, 15, 10])), "degraded"),  # for some seconds only
        (progress(burst=query(0, 3, [400, 20, 10])), "degraded"),  # not within five minutes
        (progress(burst=query(3, 0, OFTEN_AGO_S, well_ago_s=0)), "crash-looping"),  # it works now
        (progress(burst=query(0, 1, OFTEN_AGO_S, well_ago_s=15)), "crash-looping"),
        (progress(burst=query(3, 0, OFTEN_AGO_S[1:], well_ago_s=0)), "running"),
        (progress(burst=query(3, 0, [ago + 120 for ago in OFTEN_AGO_S], well_ago_s=0)), "running"),  # it has recovered
        (progress(burst=query(), tables=query(0, failures=20)), "degraded"),  # its store has been away for long
    ],
)
def test_a_living_driver_is_what_its_progress_shows(written: dict[str, Any], state: str) -> None:
    assert job_of(written, RECORD, NOW_S).state == state


def test_what_a_driver_waits_for_is_its_problem() -> None:
    found = job_of(progress(burst=query(), tables=query(0, failures=7)), RECORD, NOW_S)
    assert (found.problem, found.is_up, found.is_sick) == ("tables: no route", True, True)
    silent = job_of(progress(silent_s=45, burst=query()), RECORD, NOW_S)
    assert silent.problem == "pid 1 runs, and has made no progress for 45 s"


def test_the_windows_of_a_driver_have_reached_the_time_of_the_slowest_query() -> None:
    def at(watermark: str | None) -> dict[str, Any]:
        return query() | {"watermark": watermark}

    written = progress(a=at("2026-11-26T02:03:05.500Z"), b=at("2026-11-26T02:03:04.000Z"), tables=at(None))
    assert job_of(written, RECORD, NOW_S).figures["watermark_ms"] == 1_795_658_584_000
    none_yet = progress(a=at("1970-01-01T00:00:00.000Z"))
    assert job_of(none_yet, RECORD, NOW_S).figures["watermark_ms"] is None


def flink_job(word: str, for_s: float) -> dict[str, Any]:
    return {"state": word, "now": NOW_MS, "timestamps": {word: NOW_MS - int(for_s * 1000)}}


def completed(ago_s: float) -> dict[str, Any]:
    return {"latest": {"completed": {"latest_ack_timestamp": NOW_MS - int(ago_s * 1000)}}}


def failed(*ago_s: float) -> list[dict[str, Any]]:
    return [{"timestamp": NOW_MS - int(ago * 1000), "stacktrace": "E: no\n\tat x"} for ago in ago_s]


@pytest.mark.parametrize(
    ("job", "checkpoints", "failures", "state"),
    [
        (flink_job("RUNNING", 5), {}, [], "running"),
        (flink_job("RUNNING", 59), {}, [], "running"),
        (flink_job("RUNNING", 61), {}, [], "stalled"),
        (flink_job("RUNNING", 900), completed(59), [], "running"),
        (flink_job("RUNNING", 900), completed(61), [], "stalled"),
        (flink_job("RESTARTING", 5), completed(9), failed(5), "starting"),
        (flink_job("RESTARTING", 61), completed(80), failed(61), "crash-looping"),
        (flink_job("RUNNING", 1), completed(90), failed(1, 20, 40), "crash-looping"),
        (flink_job("RESTARTING", 1), completed(90), failed(1, 20, 40), "crash-looping"),
        (flink_job("RUNNING", 1), completed(90), failed(1, 2, 3, 4, 5), "running"),  # a TaskManager was killed
        (flink_job("RUNNING", 1), completed(0), failed(1, 20, 40), "running"),  # it has recovered
        (flink_job("RUNNING", 1), completed(900), failed(1, 20, 400), "running"),
        (flink_job("RUNNING", 9), completed(2), failed(*range(10, 310, 20)), "crash-looping"),
        (flink_job("RESTARTING", 1), completed(2), failed(*range(1, 301, 20)), "crash-looping"),
        (flink_job("RUNNING", 9), completed(2), failed(*range(10, 90, 2)), "running"),  # three outages
        (flink_job("FAILING", 1), completed(900), failed(1), "starting"),
        (flink_job("FAILED", 1), completed(900), failed(1), "failed"),
        (flink_job("CANCELED", 1), completed(900), failed(1), "stopped"),
    ],
)
def test_a_flink_job_is_what_its_failures_and_checkpoints_show(
    job: dict[str, Any], checkpoints: dict[str, Any], failures: list[dict[str, Any]], state: str
) -> None:
    found, problem = state_of(job, checkpoints, failures, interval_ms=10_000)
    assert found == state
    assert bool(problem) == (
        state in ("stalled", "crash-looping", "failed") or job["state"] in ("RESTARTING", "FAILING")
    )


@pytest.mark.parametrize(
    ("tasks", "state", "problem"),
    [
        (("RUNNING", "RUNNING"), "running", ""),
        (("FINISHED", "RUNNING"), "running", ""),
        (("INITIALIZING", "RUNNING"), "starting", ""),
        (("SCHEDULED", "CREATED"), "starting", "its tasks wait for a TaskManager"),
    ],
)
def test_a_flink_job_runs_only_when_its_tasks_do(tasks: tuple[str, ...], state: str, problem: str) -> None:
    job = flink_job("RUNNING", 5) | {"vertices": [{"status": each} for each in tasks]}
    assert state_of(job, completed(5), [], interval_ms=10_000) == (state, problem)


@pytest.mark.parametrize(("checkpoints", "at_ms"), [(completed(61), NOW_MS - 61_000), ({}, None)])
def test_a_flink_job_has_the_time_of_its_last_checkpoint(
    checkpoints: dict[str, Any], at_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = f"/jobs/{PLAN.job_id}"
    answers = {at: flink_job("RUNNING", 5), f"{at}/checkpoints": checkpoints}
    monkeypatch.setattr(Flink, "_get", lambda self, path: answers.get(path))
    flink = Flink(Settings.read({}), "http://nowhere", Hdfs("http://nowhere", "nobody"), Path(), Path(), Path)
    assert flink.job(PLAN).checkpointed_ms == at_ms


def test_flink_keeps_and_shows_the_failures_that_show_a_crash_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []
    monkeypatch.setattr(Flink, "_get", lambda self, path: paths.append(path))
    Flink(Settings.read({}), "http://nowhere", Hdfs("http://nowhere", "nobody"), Path(), Path(), Path)._failures("j")
    assert paths == [f"/jobs/j/exceptions?maxExceptions={RESTARTS_KEPT}"]
    assert configuration(Settings.read({}))["web.exception-history-size"] == RESTARTS_KEPT


def test_a_flink_job_that_completes_checkpoints_between_its_failures_names_the_cause() -> None:
    ended = f"{CONSEQUENCE}: The TaskExecutor is shutting down."
    both = zip(failed(*range(10, 330, 40)), failed(*range(11, 331, 40)), strict=True)
    failures = [each for last, first in both for each in (last | {"stacktrace": ended}, first)]
    assert state_of(flink_job("RUNNING", 9), completed(2), failures, 10_000) == ("crash-looping", "E: no")


def test_a_flink_job_names_the_cause_at_the_root_of_its_failure() -> None:
    trace = "IOException: one or more\n\tat x\nCaused by: RuntimeException: no\n\tat y\nCaused by: TooLarge: 101 bytes"
    ended = "org.apache.flink.util.FlinkExpectedException: The TaskExecutor is shutting down.\n\tat x"
    latest, before = failed(1, 20)
    failures = [latest | {"stacktrace": ended}, before | {"stacktrace": trace}]
    job = flink_job("RESTARTING", 1)
    assert state_of(job, completed(90), failures, 10_000)[1] == "IOException: one or more; cause: TooLarge: 101 bytes"
    assert state_of(job, completed(10), failures, 10_000)[1] == ended.splitlines()[0], "the other one is over"


def test_a_flink_job_names_what_it_lost_whatever_wraps_its_error() -> None:
    gap = Loss("p.transactions", 1, 2, 5, 10, "id", "was")
    fields = {name: value for name, value in gap.plain().items() if name != "reader"}
    stacktrace = (
        f"JobException: suppressed\nCaused by: LostMessagesException: gone\nlost: [{json.dumps(fields)}]\n\tat x"
    )
    assert lost_of({"stacktrace": stacktrace}) == (gap,)
    assert lost_of(failed(1)[0]) == ()


def test_a_driver_that_ended_names_what_it_lost(dead_driver: Spark) -> None:
    gap = Loss("p.enriched", 1, 2, 5, 10, "id", "was", "files")
    path = dead_driver.file(PLAN, "progress")
    path.write_text(json.dumps({"state": "failed", "problem": "gone", "lost": [gap.plain()]}), encoding="utf-8")
    job = dead_driver.job(PLAN)
    assert (job.state, job.problem, job.lost) == ("failed", problem_of("p", (gap,)), (gap,))


def test_a_job_that_the_watcher_has_given_up_names_the_remedy(
    dead_driver: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target.read(dead_driver.settings, {})
    deployments.write_json(deployments.deployed_file(target, "flink-spark"), {"spark": json.loads(PLAN.to_json())})
    assert deployments.jobs(target, "flink-spark")["spark"][1].state == "failed"
    stack.given_up_file(dead_driver.settings, "flink-spark").touch()
    _, job = deployments.jobs(target, "flink-spark")["spark"]
    assert (job.state, job.is_up, job.is_sick) == ("given-up", False, True)
    assert job.problem.endswith("fix the cause, then `millrace deploy flink-spark`")
