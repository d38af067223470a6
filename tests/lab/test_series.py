"""`python -m lab.series`, with a small program in the place of `make test`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from millrace import records
from millrace.settings import PROJECT, Settings

OF_ONE_COMMIT = "from millrace import records; records.commit = lambda project: 'abc'"
LONG = """
import time
try:
    print("servers run", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("servers are down", flush=True)
    raise SystemExit(2)
"""


def series(state: Path, tests: str, *words: str) -> "subprocess.Popen[str]":
    program = f"import sys; from lab import series; {OF_ONE_COMMIT}; series.TESTS = [sys.executable, '-c', {tests!r}]"
    program += f"; sys.exit(series.main({list(words)}))"
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=PROJECT,
        env=os.environ | {"MILLRACE_STATE": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_stops_the_run_and_the_busy_core_and_is_one_line(tmp_path: Path) -> None:
    with series(tmp_path, LONG, "--runs", "2", "--busy", "1") as running:
        assert running.stdout
        assert [next(running.stdout) for _ in range(2)] == ["run 1 of 2, beside a busy core\n", "servers run\n"]
        started = psutil.Process(running.pid).children(recursive=True)
        assert len(started) == 2
        running.send_signal(signal.SIGINT)
        printed, errors = running.communicate(timeout=30)
    assert (running.returncode, printed) == (130, "servers are down\n")
    assert errors == "run 1 of 2 was interrupted; nothing is left running\n"
    assert [each for each in started if each.is_running()] == []


def test_a_red_run_is_the_last(tmp_path: Path) -> None:
    with series(tmp_path, "raise SystemExit(2)", "--runs", "2") as running:
        printed, errors = running.communicate(timeout=30)
    assert (running.returncode, printed) == (1, "run 1 of 2\n")
    assert errors == "run 1 of 2 is red; the test's output above has the cause\n"


def test_a_series_that_was_interrupted_is_resumed_and_one_of_another_commit_or_with_a_red_run_is_not(
    tmp_path: Path,
) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    run = {"seconds": 1.5, "outcomes": {"passed": 3}}
    green = (
        f"import os; from millrace.settings import Settings; {OF_ONE_COMMIT}; "
        f"records.append(Settings.read(os.environ), 'tests', {run})"
    )
    red = "raise SystemExit(2)"

    def ran(tests: str, *words: str) -> str:
        with series(tmp_path, tests, *words) as running:
            return running.communicate(timeout=60)[0]

    assert ran(green, "--runs", "2").startswith("run 1 of 2\nrun 2 of 2\nrecorded in ")
    assert ran(green, "--runs", "3", "--busy", "3", "--resume").startswith(
        "run 3 of 3, beside a busy core\nrecorded in "
    )
    kept = records.read(settings, "tests-five")[-1]["figures"]["runs"]
    assert [each["busy"] for each in kept] == [False, False, True]
    assert kept[0] == run | {name: kept[0][name] for name in ("commit", "load_average", "busy")}
    assert ran(red, "--runs", "3", "--busy", "2", "--resume") == "run 2 of 3, beside a busy core\n"
    assert ran(green, "--runs", "3", "--busy", "3").startswith("run 1 of 3\n")
    assert ran(red, "--runs", "4", "--busy", "3", "--resume") == "run 4 of 4\n"
    assert ran(green, "--runs", "2", "--resume").startswith("run 1 of 2\nrun 2 of 2\n")
    for path in (tmp_path / "records").glob("*-tests-in-a-row.json"):
        path.write_text(
            json.dumps(json.loads(path.read_text()) | {"figures": run | {"green": True, "commit": "other"}})
        )
    assert ran(red, "--runs", "4", "--resume") == "run 1 of 4\n"
