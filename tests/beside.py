"""Services beside those of the tests' stack: what only a few tests need starts and ends with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from millrace import registry
from millrace import stack as stacks
from millrace.machine import processes
from millrace.patterns import Variant
from millrace.settings import Settings
from millrace.stack.services import services


def extra_services(variant: Variant) -> list[str]:
    """The servers of a pattern's engines that the default stack lacks."""
    return [name for name in variant.engines if not registry.manifest(name).is_default]


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
