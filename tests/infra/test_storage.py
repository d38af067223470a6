"""Data outlives a full disk and a lost mark: nothing is started unrecorded, and nothing is deleted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millrace import stack as stacks
from millrace.errors import InfraError
from millrace.machine import processes
from millrace.servers.server import Preparation, Server
from millrace.settings import PROJECT, Settings
from millrace.stack.startup import Startup

FULL_DISK = """
import sys, pathlib
from millrace.machine import processes
from millrace.errors import InfraError
disk, log = map(pathlib.Path, sys.argv[1:])
(disk / "run").mkdir()
with (disk / "ballast").open("wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(4096))
    except OSError:
        pass
try:
    processes.start("one", ["sleep", "1000"], {}, log, disk / "run")
except InfraError as error:
    print(error)
"""


def sleepers(seconds: str) -> list[int]:
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if read(path).split(b"\0")[:2] == [b"sleep", seconds.encode()]
    ]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it has just ended


def test_a_server_whose_record_cannot_be_written_does_not_start(tmp_path: Path) -> None:
    """A folder that is not there refuses the record as a full disk does."""
    with pytest.raises(InfraError, match=r"record .*/run/gone/one.json could not be written .*; free some space"):
        processes.start("gone/one", ["sleep", "98765"], {}, tmp_path / "one.out", tmp_path / "run")
    assert sleepers("98765") == []


def test_a_server_that_cannot_be_started_again_stays_one_that_has_died(tmp_path: Path) -> None:
    """The watcher starts what has a record and is dead, once there is room for a new record."""
    first = processes.start("one", ["sleep", "1000"], {}, tmp_path / "one.out", tmp_path / "run")
    processes.kill(first)
    # A name that leads nowhere refuses the record as a full disk does.
    (tmp_path / "run" / "one.json.new").symlink_to(tmp_path / "gone" / "one")
    with pytest.raises(InfraError, match="could not be written"):
        processes.start("one", ["sleep", "98766"], {}, tmp_path / "one.out", tmp_path / "run")
    assert sleepers("98766") == []
    assert processes.records(tmp_path / "run") == {"one": first}


def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path) -> None:
    """The disk is a small one of its own, in a namespace of its own that ends with its process."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=64k tmpfs "{disk}" && exec "$@"'
    alone = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a disk of one's own")
    program = [sys.executable, "-c", FULL_DISK, str(disk), str(tmp_path / "one.out")]
    done = subprocess.run([*alone, *program], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert f"one was not started: its record {disk}/run/one.json could not be written (0 MB are free" in done.stdout


class Prepared(Server):
    """A server whose storage is a file that its preparation writes."""

    name = "prepared"

    def preparation(self) -> Preparation:
        write = f'echo format=1 > "{self.data}/FORMAT"; echo fresh > "{self.data}/content"'
        return Preparation(self.data, (("sh", "-c", write),), whole={"FORMAT": b"format="})


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(Settings(PROJECT, tmp_path / "home", tmp_path / "state", 20_000))


def prepare(server: Server) -> None:
    Startup(server.settings, {server.name: server}, lambda *_: None)._prepare(server)


def test_storage_that_is_whole_is_kept_though_its_mark_is_lost(prepared: Prepared) -> None:
    prepare(prepared)
    (prepared.data / "content").write_text("years of it")
    prepared.preparation().mark.unlink()
    prepare(prepared)
    assert (prepared.data / "content").read_text() == "years of it"
    assert prepared.preparation().mark.exists()


def test_storage_that_may_be_half_made_is_put_aside_and_not_removed(prepared: Prepared) -> None:
    for content in ("first", "second"):
        prepared.data.mkdir(parents=True, exist_ok=True)
        (prepared.data / "FORMAT").write_text("")
        (prepared.data / "content").write_text(content)
        prepare(prepared)
        prepared.preparation().mark.unlink()
        assert (prepared.data / "content").read_text() == "fresh\n"
    aside = prepared.data.parent.glob("prepared.aside-*")
    assert {(each / "content").read_text() for each in aside} == {"first", "second"}


def test_what_is_put_aside_goes_with_a_purge(prepared: Prepared) -> None:
    (prepared.data).mkdir(parents=True)
    (prepared.data / "content").write_text("first")
    prepare(prepared)
    stacks.down(prepared.settings, purge=True)
    assert not list(prepared.settings.state.rglob("content"))
