"""`python -m lab.series`, with a small program in the place of `make test`."""

import signal
import subprocess
import sys

import psutil

from millrace.settings import PROJECT

LONG = """
import time
try:
    print("servers run", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("servers are down", flush=True)
    raise SystemExit(2)
"""


def series(tests: str, *words: str) -> "subprocess.Popen[str]":
    program = f"import sys; from lab import series; series.TESTS = [sys.executable, '-c', {tests!r}]"
    program += f"; sys.exit(series.main({list(words)}))"
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_stops_the_run_and_the_busy_core_and_is_one_line() -> None:
    with series(LONG, "--runs", "2", "--busy", "1") as running:
        assert running.stdout
        assert [next(running.stdout) for _ in range(2)] == ["run 1 of 2, beside a busy core\n", "servers run\n"]
        started = psutil.Process(running.pid).children(recursive=True)
        assert len(started) == 2
        running.send_signal(signal.SIGINT)
        printed, errors = running.communicate(timeout=30)
    assert (running.returncode, printed) == (130, "servers are down\n")
    assert errors == "run 1 of 2 was interrupted; nothing is left running\n"
    assert [each for each in started if each.is_running()] == []


def test_a_red_run_is_the_last() -> None:
    with series("raise SystemExit(2)", "--runs", "2") as running:
        printed, errors = running.communicate(timeout=30)
    assert (running.returncode, printed) == (1, "run 1 of 2\n")
    assert errors == "run 1 of 2 is red; the test's output above has the cause\n"
