"""Gives suites that compute, and wait for no other process, to workers that run while a core is idle.

With the same priority as the others, one more worker makes every server live longer, and costs more than it gains.
"""

from __future__ import annotations

import os
import re
from functools import cache

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from millrace.settings import PROJECT

STACKS_MOST = 3
"""So many stacks fit two cores: with one more all of them wait for each other."""
WAITS = re.compile(r"pytest\.mark\.(stack|builds)|\bsubprocess\b|\bprocesses\b|\bMillrace\b")
"""In a suite that starts processes: these have deadlines, which a worker that gives way to all cannot keep."""


def gives_way(worker: str) -> bool:
    """Whether a worker, by its id, has no stack of its own."""
    return worker.startswith("gw") and int(worker.removeprefix("gw")) >= STACKS_MOST


class Scheduling(LoadFileScheduling):
    """Suites in their order, each to a worker that fits; those with a stack compute, too, once nothing else is left."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if (suite := self._first(gives_way(node.gateway.id))) is not None:
            self.workqueue.move_to_end(suite, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if gives_way(node.gateway.id) and self._first(True) is None and not node.shutting_down:
            node.shutdown()
        super()._reschedule(node)

    def _first(self, computes: bool) -> str | None:
        """The first suite left that only computes, or that does not."""
        return next((suite for suite in self.workqueue if only_computes(suite) == computes), None)


@cache
def only_computes(suite: str) -> bool:
    return WAITS.search((PROJECT / suite).read_text(encoding="utf-8")) is None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    if gives_way(os.environ.get("PYTEST_XDIST_WORKER", "")):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
