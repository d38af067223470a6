"""For tests that start no stack: the command in this process, and free ports."""

import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from millrace.cli import main
from millrace.settings import PORTS_PER_STACK
from millrace.stack.ports import is_free


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Millrace = Callable[..., Done]


@pytest.fixture
def millrace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Millrace:
    """The command, in this process: one of its own would take a second for each test."""

    def run(state: Path, *words: str) -> Done:
        monkeypatch.setenv("MILLRACE_STATE", str(state))
        monkeypatch.setenv("MILLRACE_PORT_BASE", "29000")
        monkeypatch.setattr(sys, "argv", ["millrace", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Done(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def free_port_base() -> Iterator[int]:
    """A base of which no port is in use. The last port is held, so that two sessions at once get different ones."""
    for base in range(30_000, 32_600, PORTS_PER_STACK):
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", base + PORTS_PER_STACK - 1))
        except OSError:
            held.close()
            continue
        with held:
            if all(is_free(port) for port in range(base, base + PORTS_PER_STACK - 1)):
                yield base
                return
    pytest.fail("no hundred ports between 30000 and 32600 are free")
