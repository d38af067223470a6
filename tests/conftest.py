"""One real stack for all tests of a session that ask for it, apart from anybody's own stack."""

import fcntl
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import stack as stacks
from infra.settings import PROJECT, Settings

PORT_BASE = 27000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-stack",
        action="store_true",
        help="leave the tests' stack running at the end; the next session with this option adopts it with its data",
    )
    parser.addoption(
        "--write-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


def settings_for_tests(name: str, port_base: int) -> Settings:
    """A stack of the tests' own. Its folder has a space and a letter beyond ASCII: every test shows that they work."""
    folder = Path(tempfile.gettempdir()) / f"millrace tests Ω {os.getuid()}" / f"{name} {port_base}"
    home = Settings.read(os.environ).home
    return Settings(project=PROJECT, home=home, state=folder, port_base=port_base)


def pytest_configure(config: pytest.Config) -> None:
    # Clients complain of every refused connection while a server starts; hundreds of lines for each failed test.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # A shell makes what it starts in the background ignore Ctrl-C, and so would every command that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


@pytest.fixture(scope="session")
def test_port_base() -> int:
    """MILLRACE_TEST_PORT_BASE, or 27000: the tests use the five hundred ports from there."""
    return int(os.environ.get("MILLRACE_TEST_PORT_BASE", PORT_BASE))


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest, test_port_base: int) -> Iterator[Settings]:
    """The default stack, running; tests leave it as they found it: running, with their own topics, files and tables."""
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
        stacks.up(settings, report=print)
        yield settings
        if not keep:
            stacks.down(settings, report=print)
