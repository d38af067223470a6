"""What the product could be built on instead is measured in its place, and on the same traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.choices import spark_at_pace
from lab.choices.spark_in_python import IN_PYTHON, memory
from millrace.machine import processes
from millrace.patterns import model

PATTERNS = Path(spark_at_pace.__file__).parent / "patterns"


def test_only_a_driver_that_is_started_meanwhile_has_its_memory_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(processes, "start", lambda name, command, env, *_, **__: started.append((command, env)))
    command = ["python", "-m", "millrace.engines.spark.job", "--plan", "{}"]
    with memory(IN_PYTHON):
        processes.start("it", command, {"PYTHONPATH": "own"}, Path("log"), Path("run"))
    processes.start("it", command, {"PYTHONPATH": "own"}, Path("log"), Path("run"))
    (inside, more), after = started
    assert inside == ["python", "-m", "lab.choices.spark.job", "--plan", "{}"]
    assert more["PYTHONPATH"].startswith("own:")
    assert after == (command, {"PYTHONPATH": "own"})


def batch(began: str, rows: int, took_ms: int) -> dict[str, Any]:
    return {"last_batch": f"2026-11-27T{began}.000Z", "rows": rows, "batch_ms": took_ms}


def test_batches_of_the_warm_up_and_those_without_rows_do_not_count() -> None:
    batches = {
        1: batch("10:00:00", 900, 9_000),  # of the warm-up
        2: batch("10:01:00", 1_000, 400),
        3: batch("10:01:01", 2_000, 600),
        4: batch("10:01:02", 0, 50),
    }
    found = spark_at_pace.summary(batches, {"start_ms": 1_795_773_660_000})
    assert (found["count"], found["p50_ms"], found["max_ms"]) == (2, 400, 600)
    assert (found["rows"], found["rows_per_s"]) == (3_000, 3_000)
    assert spark_at_pace.summary({}, {"start_ms": 0})["rows_per_s"] == 0


def test_the_pattern_has_nothing_beside_the_per_event_stage_of_spark() -> None:
    variant = model.read(PATTERNS / f"{spark_at_pace.PATTERN}.yaml")
    assert list(variant.engines) == ["spark"]
    assert not variant.window_rules
    assert not list(variant.stores)
