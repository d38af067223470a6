"""The failures of a job that Flink keeps and shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace import stack as stacks
from millrace.engines.flink.engine import Flink
from millrace.engines.flink.tuning import FAILURES_KEPT
from millrace.machine import environments, processes
from millrace.settings import Settings
from millrace.target import Target

JOB = Path(__file__).parent / "failing_job.py"
FAILED_WITHIN_S = 180


@pytest.mark.stack
@pytest.mark.drill
def test_flink_shows_as_many_failures_as_a_crash_loop_has_though_checkpoints_are_completed_in_between(
    stack: Settings, target: Target
) -> None:
    flink = target.engine("flink")
    assert isinstance(flink, Flink)
    job_id = submitted(stack)
    try:
        assert processes.wait_until(lambda: len(flink._failures(job_id)) >= FAILURES_KEPT, FAILED_WITHIN_S)
        failures = flink._failures(job_id)
        completed = flink._get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"]
    finally:
        flink._request("PATCH", f"/jobs/{job_id}", params={"mode": "cancel"})
    assert len(failures) == FAILURES_KEPT
    assert all("/ by zero" in failure["stacktrace"] for failure in failures)
    assert completed > 0


def submitted(stack: Settings) -> str:
    done = subprocess.run(
        [environments.python(Settings.read(os.environ), "flink"), JOB, str(stack.port("flink"))],
        env=processes.environment(stacks.addresses(stack)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout.strip().splitlines()[-1]
