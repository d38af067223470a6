"""Gives suites that need servers to a few workers, and the others to the rest, which use what is left of the cores."""

from __future__ import annotations

import os
from functools import cache

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from millrace.settings import PROJECT

STACKS_MOST = 3
"""So many stacks fit two cores: with one more all of them wait for each other."""
NICE = 5
"""Of the workers without a stack: servers have deadlines."""


def is_without_stack(worker: str) -> bool:
    """Whether a worker, by its id, has no stack of its own."""
    return worker.startswith("gw") and int(worker.removeprefix("gw")) >= STACKS_MOST


class Scheduling(LoadFileScheduling):
    """Suites in their order, each to a worker that fits; those with a stack take the others once none is left."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if (suite := self._first(is_without_stack(node.gateway.id))) is not None:
            self.workqueue.move_to_end(suite, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if is_without_stack(node.gateway.id) and self._first(True) is None and not node.shutting_down:
            node.shutdown()
        super()._reschedule(node)

    def _first(self, without_servers: bool) -> str | None:
        """The first suite that waits and needs no server, or that needs one."""
        return next((suite for suite in self.workqueue if needs_servers(suite) != without_servers), None)


@cache
def needs_servers(suite: str) -> bool:
    return "pytest.mark.stack" in (PROJECT / suite).read_text(encoding="utf-8")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    if is_without_stack(os.environ.get("PYTEST_XDIST_WORKER", "")):
        os.nice(NICE)
