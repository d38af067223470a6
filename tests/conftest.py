"""One real stack for all tests of a worker that use it, apart from any other stack."""

import ctypes
import fcntl
import gc
import json
import logging
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from millrace import stack as stacks
from millrace.machine import archives
from millrace.machine.processes import wait_until
from millrace.settings import PROJECT, Settings
from millrace.stack.services import NEEDED
from millrace.target import Target
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown

pytest_plugins = ["tests.measuring"]

PORT_BASE, PORTS_PER_WORKER = 26000, 1000
WORKERS_END_WITHIN_S = 20
ARCHIVED = "flink-spark"
"""Each server of the default stack works for it, and a driver."""
PROCESSORS, NEXT_AMONG = 2, 6
# Servers and drivers live for minutes here: optimising their code takes a third of their processor time and never pays.
# Nobody looks at the counters that a JVM writes twenty times a second.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:-UsePerfData"
TIMER_SLACK_NS, PR_SET_TIMERSLACK = 50_000_000, 29
"""How late the kernel may wake a thread that sleeps: servers without work count every hundredth of a second."""

GARBAGE = (100_000, 20, 100)
"""How many new objects there are, and how many collections of one age, before the next one."""

# Property tests try the same examples every time; `make fuzz` looks for new ones. The clock decides nothing: on a busy
# machine a slow example is no counterexample. What a test costs decides how many times max_examples it tries.
UNTIMED = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("same", UNTIMED, derandomize=True, max_examples=100)
hypothesis.settings.register_profile("few", UNTIMED, derandomize=True, max_examples=20)
hypothesis.settings.register_profile("fuzz", UNTIMED, database=None, max_examples=1_000)
hypothesis.settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-stack",
        action="store_true",
        help="leave the tests' stack running at the end; the next session with this option adopts it with its data",
    )
    parser.addoption("--cheap-s", type=float, help="leave out each test that took longer in the last record of all")
    parser.addoption("--away-s", type=int, default=100, help="for how long the drill of lost stores takes them away")
    parser.addoption("--endless-s", type=int, default=7_200, help="for how long the endless drill sends traffic")
    parser.addoption("--rounds", type=int, default=1, help="how many invented uses the drill of invented rules tries")
    parser.addoption(
        "--write-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


def settings_for_tests(name: str, port_base: int) -> Settings:
    """A stack of the tests' own. Its folder has a space and a letter beyond ASCII: every test shows that they work."""
    folder = _folder_of_stacks() / f"{name} {port_base}"
    home = Settings.read(os.environ).home
    measured(folder)
    return Settings(project=PROJECT, home=home, state=folder, port_base=port_base)


def _folder_of_stacks() -> Path:
    return Path(tempfile.gettempdir()) / f"millrace tests Ω {os.getuid()}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """After Ctrl-C, stop what the workers had started: they ended before they could."""
    is_worker = hasattr(session.config, "workerinput")
    if is_worker or exitstatus != pytest.ExitCode.INTERRUPTED or session.config.getoption("--keep-stack"):
        return
    least = int(os.environ.get("MILLRACE_TEST_PORT_BASE", PORT_BASE))
    workers = session.config.getoption("numprocesses", None) or 1
    for folder in _folder_of_stacks().glob("*"):
        name, _, port_base = folder.name.rpartition(" ")
        is_ours = port_base.isdigit() and least <= int(port_base) < least + workers * PORTS_PER_WORKER
        if is_ours and not wait_until(lambda folder=folder: _is_free(folder), WORKERS_END_WITHIN_S):
            print(f"{folder} belongs to another session, or its worker still runs; it is left as it is")
        elif is_ours:
            stacks.down(settings_for_tests(name, int(port_base)), report=print)


def _is_free(folder: Path) -> bool:
    """Whether no session holds the stack in this folder; only the default stack has such a lock."""
    if not (lock := folder / "session").exists():
        return True
    with lock.open("r+") as session:
        try:
            fcntl.flock(session, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def measured(folder: Path) -> None:
    """Count what runs with this folder in its environment as this run's."""
    from tests import measuring  # here: pytest rewrites a plugin's assertions only if it imports it first

    measuring.FOLDERS.add(str(folder))


def pytest_configure(config: pytest.Config) -> None:
    # Clients complain of every refused connection while a server starts; hundreds of lines for each failed test.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # A shell makes what it starts in the background ignore Ctrl-C, and so would every command that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED_JVM)
    # Of this process and all that it starts; but what a drill measures, users would measure, too.
    if not config.getoption("markexpr").startswith("drill"):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS)
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


@pytest.fixture(scope="session", autouse=True)
def temporary_files_are_measured(tmp_path_factory: pytest.TempPathFactory) -> None:
    measured(tmp_path_factory.getbasetemp())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Modules without servers come first; of both kinds those that the last record lacks, then its dearest."""
    last = _last_record()
    if (cheap_s := config.getoption("--cheap-s")) is not None:
        taken_s = {name: each["seconds"] - each["fixtures_s"] for name, each in last["tests"].items()}
        may_be_left_out = (each for each in items if each.get_closest_marker("source") is None)
        dear = [each for each in may_be_left_out if taken_s.get(each.nodeid, 0) > cheap_s]
        config.hook.pytest_deselected(items=dear)
        left_out = set(dear)
        items[:] = [each for each in items if each not in left_out]
    ranks = {suite: rank for rank, suite in enumerate(_in_turns(last["suites"]))}

    def turn(item: pytest.Item) -> tuple[bool, int, str]:
        needs_servers = item.get_closest_marker("stack") is not None
        return needs_servers, ranks.get(_module(item), -1), _module(item)

    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """What there is by now stays until the end: looking for garbage in it costs quick tests a tenth of their time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def _in_turns(suites: dict[str, dict[str, float]]) -> Iterator[str]:
    """The dearest first, but one that waits where the processors are busy: busy ones hold up each other's servers."""
    left = sorted(suites, key=lambda suite: -suites[suite]["seconds"])
    busy = {suite: suites[suite]["cpu_s"] / max(suites[suite]["seconds"], 1) for suite in left}
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ends, runs = [0.0] * workers, [""] * workers
    while left:
        worker = ends.index(min(ends))
        beside = sum(busy.get(suite, 0) for other, suite in enumerate(runs) if other != worker)
        has_room = beside + busy[left[0]] <= PROCESSORS
        runs[worker] = left[0] if has_room else min(left[:NEXT_AMONG], key=busy.__getitem__)
        ends[worker] += suites[runs[worker]]["seconds"]
        left.remove(runs[worker])
        yield runs[worker]


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _last_record() -> dict[str, Any]:
    """The figures of the run of all tests that the documents cite."""
    try:
        figures: dict[str, Any] = json.loads((PROJECT / "docs/records/tests.json").read_text())["figures"]
    except FileNotFoundError:
        return {"suites": {}, "tests": {}}
    return figures


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Names last what did not run, with the number of its tests."""
    yield
    skipped = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    for reason, tests in skipped.items():
        terminalreporter.write_line(f"{tests} {'test' if tests == 1 else 'tests'} did not run: {reason}", yellow=True)


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """A verb that a test calls in its own process leaves the process's umask to the next test as it was."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def archive_classes(settings: Settings) -> None:
    """Make the class archives that a new home, or a new build of the kernel, has not: once, while other workers wait.

    Beside their tests a server would stand still until others take it for dead.
    """
    with (settings.home / "archives-of-tests").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if archives.missing(settings):
            target = Target.read(settings, {})
            provision(target, ARCHIVED)
            deploy(target, ARCHIVED, report=print)
            teardown(target, ARCHIVED, data=True)


@pytest.fixture(scope="session")
def test_port_base(worker_id: str) -> int:
    """MILLRACE_TEST_PORT_BASE, or 26000: each worker uses eight hundred of the thousand ports from there."""
    number = int(worker_id.removeprefix("gw")) if worker_id.startswith("gw") else 0
    return int(os.environ.get("MILLRACE_TEST_PORT_BASE", PORT_BASE)) + PORTS_PER_WORKER * number


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest, test_port_base: int) -> Iterator[Settings]:
    """The default stack without the page; tests leave it as they found it: running, with topics of their own."""
    settings = settings_for_tests("stack", test_port_base)
    keep = request.config.getoption("--keep-stack")
    settings.state.mkdir(parents=True, exist_ok=True)
    with (settings.state / "session").open("w") as session:
        try:
            fcntl.flock(session, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail(f"another session tests on ports from {test_port_base}; set MILLRACE_TEST_PORT_BASE to another")
        if not keep:
            stacks.down(settings, purge=True)  # what a session that was killed left
        stacks.up(settings, NEEDED, report=print)
        archive_classes(settings)
        yield settings
        if not keep:
            stacks.down(settings, report=print)
