"""Measures the run itself: seconds, processor time, waiting and JVM starts of each test, fixture and suite.

A sampler in each worker adds up the processor time of all processes that belong to the worker: its descendants, and the
servers whose environment names one of its stacks. A process that lives for less than a sample may be missed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from millrace import records
from millrace.settings import Settings

SAMPLE_S = 1.0
FRESH_S = 0.1
"""A reading is not taken anew within so long: what thousands of short tests use is counted with the next one."""
LOOKS_MOST = 10
"""At a process that belongs to others."""
DEAREST = 10
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROPERTY = "measured"

FOLDERS: set[str] = set()
"""The state folders of this worker's stacks; tests/conftest.py adds each."""


@dataclass
class Reading:
    """What the worker's processes have used since the sampler started."""

    seconds: float = 0
    cpu_s: float = 0
    waiting_s: float = 0
    """While no processor worked for the worker."""
    jvms: int = 0

    def minus(self, before: Reading) -> dict[str, float]:
        spent = {name: round(value - getattr(before, name), 2) for name, value in asdict(self).items()}
        return spent | {"waiting_s": max(0, spent["waiting_s"])}


class Sampler:
    """Adds up the processor time of the worker's processes."""

    def __init__(self) -> None:
        self._root = os.getpid()
        self._began = self._last = time.monotonic()
        self._ticks: dict[tuple[int, int], int] = {}
        self._ours: dict[tuple[int, int], bool] = {}
        self._looks: dict[tuple[int, int], int] = defaultdict(int)
        self._java: set[tuple[int, int]] = set()
        self._total = Reading()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="measuring").start()

    def stop(self) -> None:
        self._stopped.set()

    def read(self) -> Reading:
        with self._lock:
            if time.monotonic() > self._last + FRESH_S:
                self._sample()
            self._total.seconds = time.monotonic() - self._began
            return replace(self._total)

    def _run(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            with self._lock:
                self._sample()

    def _sample(self) -> None:
        before, parents = sum(self._ticks.values()), {}
        found: dict[int, tuple[int, bytes, int, int]] = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal() and (facts := _facts(entry.name)):
                found[int(entry.name)] = facts
                parents[int(entry.name)] = facts[0]
        for pid, (_, name, started, ticks) in found.items():
            process = pid, started
            # What became another program by exec is looked at again while it is not known as ours.
            if not self._ours.get(process) and self._looks[process] < LOOKS_MOST:
                self._looks[process] += 1
                self._ours[process] = self._is_ours(pid, parents)
            if self._ours[process]:
                self._ticks[process] = ticks
                if name == b"java":
                    self._java.add(process)
        now = time.monotonic()
        cpu_s = (sum(self._ticks.values()) - before) / TICKS_PER_S
        self._total.waiting_s += max(0.0, now - self._last - cpu_s)
        self._total.cpu_s += cpu_s
        self._total.jvms = len(self._java)
        self._last = now

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        above = pid
        while above > 1:
            if above == self._root:
                return True
            above = parents.get(above, 0)
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return any(folder.encode() in environment for folder in FOLDERS)


def _facts(pid: str) -> tuple[int, bytes, int, int] | None:
    """Parent, name, start and ticks of a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:  # of each process, every second
            text = stat.read()
    except OSError:
        return None
    head, _, tail = text.rpartition(b") ")
    fields = tail.split(b" ", 20)
    return int(fields[1]), head.partition(b" (")[2], int(fields[19]), int(fields[11]) + int(fields[12])


@dataclass(eq=False)
class Measuring:
    """The hooks of a process that runs tests: each report carries the figures of its test."""

    sampler: Sampler = field(default_factory=Sampler)
    fixtures: list[dict[str, Any]] = field(default_factory=list)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.fixtures.clear()
        self.before = self.sampler.read()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before = self.sampler.read() if fixturedef.scope != "function" else None
        try:
            return (yield)
        finally:
            if before is not None:
                name = f"{fixturedef.baseid}::{fixturedef.argname}"
                self.fixtures.append({"name": name, **self.sampler.read().minus(before)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        if call.when == "teardown":
            spent = self.sampler.read().minus(self.before)
            report.user_properties.append((PROPERTY, {**spent, "fixtures": list(self.fixtures)}))
        return report

    def pytest_sessionfinish(self) -> None:
        self.sampler.stop()


class Summing:
    """The hooks of the process that sums up: the record, and the dearest at the end of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = time.monotonic()
        self._tests: dict[str, dict[str, Any]] = {}
        self._fixtures: list[dict[str, Any]] = []
        self._outcomes: dict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped or report.when == "call":
            self._outcomes[report.outcome] += 1
        if report.when == "teardown":
            for name, figures in report.user_properties:
                if name == PROPERTY:
                    fixtures = figures.pop("fixtures")
                    self._fixtures += fixtures
                    spent = sum(each["seconds"] for each in fixtures)
                    node = report.nodeid.partition("@")[0]
                    self._tests[node] = {**figures, "fixtures_s": round(spent, 2), "worker": _worker(report)}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        if not self._tests:
            return
        figures = self._figures(exitstatus)
        path = records.append(Settings.read(os.environ), "tests", figures)
        terminalreporter.section(f"the {DEAREST} dearest")
        for each in figures["dearest"]:
            terminalreporter.line(
                f"{each['seconds']:7.1f} s  {each['cpu_s']:7.1f} s of processor  {each['jvms']:3d} JVMs  {each['name']}"
            )
        for suite in list(figures["suites"].items())[:DEAREST]:
            terminalreporter.line("{:7.1f} s  {:7.1f} s waiting  {}".format(*_of_suite(*suite)))
        terminalreporter.line(f"{figures['seconds']:.0f} s in all, recorded in {path}")

    def _figures(self, exitstatus: int) -> dict[str, Any]:
        by_suite: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
        for node, figures in self._tests.items():
            by_suite[node.partition("::")[0]].append((node, figures))
        suites = {
            suite: {
                "tests": len(own),
                **{
                    key: round(sum(each[key] for _, each in own), 2)
                    for key in ("seconds", "cpu_s", "waiting_s", "jvms")
                },
                "slowest": max(own, key=lambda each: each[1]["seconds"])[0],
            }
            for suite, own in by_suite.items()
        }
        tests = [
            {"name": name, **{**each, "seconds": round(each["seconds"] - each["fixtures_s"], 2)}}
            for name, each in self._tests.items()
        ]
        fixtures = [{**each, "name": f"fixture {each['name']}"} for each in self._fixtures]
        return {
            "arguments": [str(word) for word in self._config.invocation_params.args],
            "workers": int(self._config.getoption("numprocesses", 0) or 1),
            "exit": int(exitstatus),
            "outcomes": dict(self._outcomes),
            "seconds": round(time.monotonic() - self._began, 1),
            "suites": dict(sorted(suites.items(), key=lambda each: -each[1]["seconds"])),
            "dearest": sorted([*tests, *fixtures], key=lambda each: -each["seconds"])[:DEAREST],
            "fixtures": sorted(self._fixtures, key=lambda each: -each["seconds"]),
            "tests": self._tests,
        }


def _worker(report: pytest.TestReport) -> str:
    return str(getattr(report, "worker_id", "only"))


def _of_suite(name: str, figures: dict[str, Any]) -> tuple[float, float, str]:
    return figures["seconds"], figures["waiting_s"], f"{name} ({figures['tests']} tests)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", action="store_true", help="record what each test, fixture and suite takes")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--measure"):
        return
    is_worker = hasattr(config, "workerinput")
    if is_worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Measuring(), "measuring")
    if not is_worker:
        config.pluginmanager.register(Summing(config), "summing")
