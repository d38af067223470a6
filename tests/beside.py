"""Services beside those of the tests' stack: what only a few tests need starts and ends with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from millrace import stack as stacks
from millrace.machine import processes
from millrace.settings import Settings
from millrace.stack.services import services


@contextmanager
def beside(stack: Settings, names: Collection[str]) -> Iterator[None]:
    """Start these services, and stop them at the end."""
    stacks.up(stack, ["kafka", *names], report=print)
    try:
        yield
    finally:
        known = services(stack)
        for server in reversed([server for name in names for server in known[name].servers]):
            if record := processes.records(stack.run).get(server.name):
                processes.stop(record, within_s=10)
                processes.forget(record, stack.run)
