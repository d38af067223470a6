"""What the engine shows of a topology, by the progress file that its worker writes."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.engines.storm.engine import job_of
from millrace.patterns.loss import Loss

NOW_S = 1_790_000_000.0
LOST = Loss("p.transactions", 0, 5, 9, 20, "id", "id")


def progress(state: str, silent_s: float = 1, starts_s: tuple[float, ...] = (600,), **changes: Any) -> dict[str, Any]:
    starts_ms = [(NOW_S - each) * 1000 for each in starts_s]
    written = {"state": state, "written_ms": (NOW_S - silent_s) * 1000, "starts_ms": starts_ms, "pid": 7}
    return written | {"commits": 3, "lag": 7, "lost": []} | changes


@pytest.mark.parametrize(
    ("written", "is_alive", "state"),
    [
        (progress("starting", commits=0), True, "starting"),
        (progress("running"), True, "running"),
        (progress("running", silent_s=5), False, "starting"),  # the supervisor starts another worker
        (progress("running", silent_s=61), True, "stalled"),
        (progress("finished"), True, "stopped"),
        (progress("failed", lost=[LOST.plain()]), True, "failed"),
        (progress("starting", starts_s=(200, 90, 60, 30, 1), commits=0), True, "crash-looping"),
        (progress("running", starts_s=(200, 90, 60, 30, 10)), True, "running"),  # it has committed since
    ],
)
def test_a_topology_is_what_its_progress_shows(written: dict[str, Any], is_alive: bool, state: str) -> None:
    assert job_of(written, is_alive, NOW_S).state == state


def test_each_worker_after_the_first_is_a_restart() -> None:
    assert job_of(progress("running", starts_s=(200, 90, 60)), True, NOW_S).restarts == 2
