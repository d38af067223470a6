"""Ports for tests that start no stack."""

import socket
from collections.abc import Iterator

import pytest

from millrace.settings import PORTS_PER_STACK
from millrace.stack.ports import is_free


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
