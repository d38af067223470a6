"""The state that a Flink job continues from: by its line of generations, not by the time of the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from millrace.engines.flink.engine import Flink
from millrace.patterns import EnginePlan, Stores, engine_plans, load
from millrace.settings import Settings
from millrace.stores.files import File, Hdfs

STORE = "hdfs://store"
PLAN = engine_plans(load("flink"), 4, "kafka:9092", f"{STORE}/c", Stores("", "", 0, ""))[0]
FOLDER = "/c/flink/flink"


class Files:
    """A file system that lists what it was given, each file a moment after the one before."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths

    def files(self, folder: str) -> list[File]:
        assert folder == FOLDER
        return [File(path, 1, modified_ms) for modified_ms, path in enumerate(self._paths)]


def latest(plan: EnginePlan, *paths: str) -> str | None:
    unused: Any = None
    flink = Flink(Settings.read({}), "", cast(Hdfs, Files(*paths)), Path(), Path(), unused)
    found = flink.latest_state(plan)
    return None if found is None else found.removeprefix(STORE)


def checkpoint(generation: int, number: int, file: str = "_metadata") -> str:
    return f"{FOLDER}/{replace(PLAN, generation=generation).job_id}/chk-{number}/{file}"


def savepoint(generation: int) -> str:
    return f"{FOLDER}/savepoints/savepoint-{replace(PLAN, generation=generation).job_id[:6]}-0a1b2c/_metadata"


def folder(path: str) -> str:
    return path.removesuffix("/_metadata")


def test_the_last_generation_with_state_counts_whatever_was_written_last() -> None:
    """A copied or touched folder of an earlier generation is no later state."""
    assert latest(PLAN, checkpoint(3, 9), checkpoint(2, 7), savepoint(2)) == folder(checkpoint(3, 9))


def test_of_one_generation_the_last_written_state_counts() -> None:
    assert latest(PLAN, checkpoint(3, 9), savepoint(3)) == folder(savepoint(3))
    assert latest(PLAN, savepoint(3), checkpoint(3, 10)) == folder(checkpoint(3, 10))
    assert latest(PLAN, savepoint(3), checkpoint(3, 11, "part")) == folder(savepoint(3)), "it was not completed"


def test_state_that_was_given_up_stays_given_up() -> None:
    fresh = replace(PLAN, since=4)
    assert latest(fresh, checkpoint(3, 9), savepoint(2)) is None
    assert latest(fresh, checkpoint(4, 1), savepoint(3)) == folder(checkpoint(4, 1))
    assert latest(replace(fresh, generation=5), checkpoint(3, 9), savepoint(4)) == folder(savepoint(4))


def test_a_generation_that_no_record_has_is_the_latest() -> None:
    """The state folder of the deployment was lost, or another machine deployed it."""
    assert latest(PLAN, checkpoint(9, 1), checkpoint(4, 1)) == folder(checkpoint(9, 1))
