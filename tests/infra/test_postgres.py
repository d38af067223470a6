"""PostgreSQL from its jar, as it runs where Debian's is not installed."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import InfraError
from millrace.machine import jars, postgresql, processes
from millrace.servers.postgres import Postgres
from millrace.settings import PROJECT, Settings


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own; with a space and a letter beyond ASCII."""
    folder = Path(tempfile.mkdtemp(prefix="millrace Ω "))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def without_debians(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "DEBIAN", Path("/nowhere"))


def lives(server: Postgres, output: Path) -> bool:
    """Whether it can be prepared, becomes ready and stops."""
    server.unpack()
    preparation = server.preparation()
    preparation.folder.mkdir(parents=True)
    for command in preparation.commands:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert not server.is_ready(0)
    with output.open("w") as log:
        running = subprocess.Popen(server.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        return processes.wait_until(lambda: server.is_ready(0), 120)
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(30)


@pytest.mark.stack
@pytest.mark.usefixtures("without_debians")
@pytest.mark.parametrize("user", ["postgres", "nobody"])
def test_it_runs_from_the_jar(user: str, open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if user in {one.pw_name for one in pwd.getpwall()}:
        monkeypatch.setattr(postgresql, "owner", lambda: pwd.getpwnam(user))
    real = Settings.read(os.environ)
    jars.ensure(real, [postgresql.JAR])
    home = open_folder / "home"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / postgresql.JAR).symlink_to(jars.folder(real, postgresql.JAR).parent)
    home.chmod(0o700)  # as /root is: its owner enters, and root becomes another
    settings = Settings(PROJECT, home, open_folder / "state", 29000)
    assert lives(Postgres(settings), tmp_path / "out"), (tmp_path / "out").read_text()
    assert postgresql.unpacked(settings).is_relative_to(settings.state if os.getuid() == 0 else home)


@pytest.mark.stack
@pytest.mark.usefixtures("without_debians")
def test_it_is_unready_while_it_does_not_answer(open_folder: Path) -> None:
    settings = Settings(PROJECT, Settings.read(os.environ).home, open_folder, 29000)
    server = Postgres(settings)
    jars.ensure(settings, [postgresql.JAR])
    server.unpack()
    server.data.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(server.data / ".s.PGSQL.5432"))
        deaf.listen()
        assert not server.is_ready(0)


def test_a_folder_that_its_owner_cannot_enter_is_named(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    settings = Settings(PROJECT, open_folder, closed / "state", 29000)
    with pytest.raises(InfraError, match=f"cannot enter {closed}; point MILLRACE_STATE"):
        Postgres(settings).unpack()
    assert postgresql.closed_to_owner(open_folder) is None
