"""What a savepoint's failure means, by the words of Flink's REST interface."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from millrace.engines.flink.engine import Flink
from millrace.job import EngineError

PLACE = "hdfs://namenode:8020/checkpoints/p/flink/savepoints/savepoint-6e8410-3a86ce0f22b7"
FAILED_WHILE_STOPPING = (
    "java.util.concurrent.CompletionException: org.apache.flink.runtime.scheduler.stopwithsavepoint."
    f"StopWithSavepointStoppingException: A savepoint has been created at: {PLACE}, but the corresponding job "
    "6e84106570afeb66571daeabbe86ad43 failed during stopping. The savepoint is consistent."
)
PLAN: Any = SimpleNamespace(pattern="p", job_id="6e84106570afeb66571daeabbe86ad43", checkpoints="hdfs:///checkpoints")


@pytest.fixture
def flink(monkeypatch: pytest.MonkeyPatch) -> Flink:
    """A cluster whose savepoints end as the test decides."""
    monkeypatch.setattr(Flink, "_request", lambda *_, **__: SimpleNamespace(status_code=202))
    monkeypatch.setattr(Flink, "_read", lambda *_: {"request-id": "r"})
    monkeypatch.setattr(Flink, "_wait_gone", lambda *_: None)
    return Flink.__new__(Flink)


def ends_with(monkeypatch: pytest.MonkeyPatch, **operation: Any) -> None:
    monkeypatch.setattr(Flink, "_get", lambda *_: {"status": {"id": "COMPLETED"}, "operation": operation})


def test_a_job_that_failed_after_its_savepoint_was_complete_has_one(
    flink: Flink, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with(monkeypatch, **{"failure-cause": {"stack-trace": f"{FAILED_WHILE_STOPPING}\n\tat java.base"}})
    assert flink.stop(PLAN) == PLACE


def test_any_other_failure_is_named(flink: Flink, monkeypatch: pytest.MonkeyPatch) -> None:
    ends_with(monkeypatch, **{"failure-cause": {"stack-trace": "java.io.IOException: no space"}})
    with pytest.raises(EngineError, match=r"the savepoint failed, the job keeps running: .*no space"):
        flink.stop(PLAN)


def test_a_drained_job_has_to_end_well(flink: Flink, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its last windows wrote may not be committed."""
    ends_with(monkeypatch, **{"failure-cause": {"stack-trace": FAILED_WHILE_STOPPING}})
    with pytest.raises(EngineError, match="failed during stopping"):
        flink._savepoint(PLAN, "stop", "folder", drain=True)
