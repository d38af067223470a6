"""The state that a Flink job continues from, and what is deleted: by its line of generations, not by times of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from millrace.engines.flink.engine import Flink
from millrace.engines.flink.submission import remote
from millrace.job import Job
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

    def outline(self, folder: str) -> set[str]:
        assert folder == FOLDER
        return {"/".join(path.removeprefix(f"{FOLDER}/").split("/")[:2]) for path in self._paths}

    def remove(self, folder: str) -> None:
        self._paths = tuple(path for path in self._paths if not path.startswith(f"{folder}/"))


def latest(plan: EnginePlan, *paths: str) -> str | None:
    unused: Any = None
    flink = Flink(Settings.read({}), "", cast(Hdfs, Files(*paths)), Path(), Path(), unused)
    found = flink.latest_state(plan)
    return None if found is None else found.removeprefix(STORE)


def checkpoint(generation: int, number: int, file: str = "_metadata") -> str:
    return f"{FOLDER}/{replace(PLAN, generation=generation).job_id}/chk-{number}/{file}"


def savepoint(generation: int) -> str:
    return f"{FOLDER}/savepoints/savepoint-{replace(PLAN, generation=generation).job_id[:6]}-0a1b2c/_metadata"


def left(
    monkeypatch: pytest.MonkeyPatch, *paths: str, kept: tuple[str, ...] = (), checkpointed_ms: int | None
) -> list[str]:
    """What is left once the earlier generations' state was deleted, if it was."""
    unused: Any = None
    monkeypatch.setattr(Flink, "job", lambda *_: Job("running", checkpoints=1, checkpointed_ms=checkpointed_ms))
    files = Files(*paths)
    Flink(Settings.read({}), "", cast(Hdfs, files), Path(), Path(), unused).discard_earlier(PLAN, kept)
    return [file.path for file in files.files(FOLDER)]


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


OWN = (checkpoint(4, 1), checkpoint(4, 1, "part"), savepoint(4))
EARLIER = (savepoint(3), checkpoint(2, 7), checkpoint(2, 7).replace("chk-7/_metadata", "shared/part"), savepoint(1))


def test_the_state_of_earlier_generations_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    others = (checkpoint(9, 1), savepoint(9), f"{FOLDER}/notes")
    assert left(monkeypatch, *EARLIER, *OWN, *others, checkpointed_ms=1) == [*OWN, *others]


def test_a_job_without_a_checkpoint_of_its_own_needs_the_state_that_it_began_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy of its state for a trial counts among its checkpoints, and is gone with the trial."""
    assert left(monkeypatch, *EARLIER, *OWN, checkpointed_ms=None) == [*EARLIER, *OWN]


def test_a_state_that_is_kept_stays_with_all_that_it_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = (f"{STORE}{folder(checkpoint(2, 7))}", f"{STORE}{folder(savepoint(1))}")
    assert left(monkeypatch, *EARLIER, *OWN, kept=kept, checkpointed_ms=1) == [*EARLIER[1:], *OWN]


def test_no_checkpoint_needs_a_file_of_the_state_that_its_job_began_with() -> None:
    mode = "execution.state-recovery.claim-mode"
    claiming = replace(PLAN, options={mode: "CLAIM"})
    assert remote(claiming, "http://localhost:1", savepoint(3))[mode] == "NO_CLAIM"
