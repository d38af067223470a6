"""Run all tests several times in a row, some of the times beside a process that keeps one core busy.

`python -m lab.series --runs 5 --busy 2 4` ends at the first run that is red; the record is of runs that are all green.
Ctrl-C ends the run, which stops its servers first; `--resume` counts the green runs of this commit before it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import takewhile
from typing import Any

from millrace import records
from millrace.settings import PROJECT, Settings

TESTS = ["make", "test"]
RUN = "tests-in-a-row"
"""The kind of the record that each run leaves, green or red."""
SPIN = [sys.executable, "-c", "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"]
"""It ends with its parent, however that ends."""


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    settings = Settings.read(os.environ)
    runs = green_runs(settings, given.busy)[: given.runs] if given.resume else []
    for number in range(len(runs) + 1, given.runs + 1):
        is_busy = number in given.busy
        print(f"run {number} of {given.runs}{', beside a busy core' if is_busy else ''}", flush=True)
        try:
            with busy_core() if is_busy else nullcontext():
                code = ended(TESTS)
        except KeyboardInterrupt:
            records.append(settings, RUN, {"green": False})  # a test may have failed before
            print(f"run {number} of {given.runs} was interrupted; nothing is left running", file=sys.stderr)
            return 130
        if code:
            records.append(settings, RUN, {"green": False})
            print(f"run {number} of {given.runs} is red; the test's output above has the cause", file=sys.stderr)
            return 1
        record = records.read(settings, "tests")[-1]
        of_run = {name: record["figures"][name] for name in ("seconds", "outcomes")}
        runs.append({**of_run, "commit": record["commit"], "load_average": record["load_average"], "busy": is_busy})
        records.append(settings, RUN, {"green": True, **runs[-1]})
    print(f"recorded in {records.append(settings, 'tests-five', {'runs': runs})}")
    return 0


def green_runs(settings: Settings, busy: Collection[int]) -> list[dict[str, Any]]:
    """The latest runs in a row that were green at this commit, oldest first; none of a tree with changes."""
    now = records.commit(settings.project)
    latest = (each["figures"] for each in reversed(records.read(settings, RUN)))
    green = takewhile(lambda run: run["green"] and run["commit"] == now and "+" not in (now or "+"), latest)
    in_a_row = [{name: value for name, value in run.items() if name != "green"} for run in green][::-1]
    return [run for _, run in takewhile(lambda each: each[1]["busy"] == (each[0] in busy), enumerate(in_a_row, 1))]


def ended(command: Sequence[str]) -> int:
    """Run a command to its end; it gets each Ctrl-C from here, and stops what it started.

    Not as an exception: one that is raised while the command starts would leave it running.
    """
    started: list[subprocess.Popen[bytes]] = []
    interrupts: list[int] = []
    too_early: list[int] = []

    def interrupt(number: int, _: object) -> None:
        interrupts.append(number)
        if not started:
            too_early.append(number)
        for running in started:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, number)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with subprocess.Popen(command, cwd=PROJECT, start_new_session=True) as running:
            started.append(running)
            if too_early:
                interrupt(too_early[0], None)
            running.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
    return running.returncode


@contextmanager
def busy_core() -> Iterator[None]:
    with subprocess.Popen(SPIN, start_new_session=True) as spinning:
        try:
            yield
        finally:
            spinning.kill()


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="how often (5)")
    parser.add_argument("--busy", type=int, nargs="*", default=[], help="the runs that share the processor, from 1")
    parser.add_argument("--resume", action="store_true", help="count the latest green runs of this commit")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
