"""Storing, reading and compacting Parquet: whatever comes twice, dies or meets, each event is there once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from millrace.machine import environments
from millrace.settings import PROJECT, Settings
from millrace.stack import addresses
from millrace.target import Target
from millrace.verbs.parquet import Files, files_of
from pipelines.fraud import FRAUD

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]

DOCUMENT = PROJECT / "docs" / "reading-the-data.md"


@pytest.fixture(scope="module")
def place(stack: Settings) -> str:
    return f"/millrace/data/drill-{time.time_ns() // 1_000_000}"


@pytest.fixture(scope="module")
def said(stack: Settings, place: str) -> dict[str, Any]:
    uri = addresses(stack)["HDFS_URI"]
    done = run("tests/spark/jobs/files_drill.py", f"{uri}{place}", f"{uri}{place}-checkpoint")
    return json.loads(done.stdout.splitlines()[-1])


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    python = str(environments.python(Settings.read(os.environ), "spark"))
    variables = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(PROJECT), **environment}
    variables["JDK_JAVA_OPTIONS"] = os.environ["JDK_JAVA_OPTIONS"]
    done = subprocess.run([python, *command], cwd=PROJECT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_a_batch_that_is_written_again_changes_nothing(said: dict[str, Any]) -> None:
    assert said["a batch again"] == [10, 10]


def test_a_batch_that_was_killed_while_its_files_were_moved_is_moved_on(said: dict[str, Any]) -> None:
    assert said["a batch that was killed while it was moved"] == [20, 20]


def test_a_query_that_was_killed_before_it_committed_needs_no_restart(said: dict[str, Any]) -> None:
    assert said["a query that was killed before it committed"] == [15, 15]


def test_repetitions_that_are_no_longer_in_the_state_are_found_among_the_stored_rows(said: dict[str, Any]) -> None:
    assert said["repetitions older than the state"] == [25, 25]


def test_compaction_makes_few_files_of_many_and_loses_nothing(said: dict[str, Any]) -> None:
    assert said["before compaction"] == [65, 65]
    assert said["files before"] > 10
    assert said["files after"] <= 4
    assert said["after compaction"] == said["to a plain reader"]


def test_a_reader_during_compaction_sees_every_event_once(said: dict[str, Any]) -> None:
    rows = [tuple(each) for each in said["during compaction"]]
    assert all(total == different for total, different in rows)
    assert min(rows)[0] >= said["before compaction"][0]


def test_a_compaction_that_was_killed_is_finished_by_the_next(said: dict[str, Any]) -> None:
    assert said["when compaction was killed before it was finished"] == said["after compaction"]
    assert said["finished by the next"] == said["after compaction"]


def test_compaction_keeps_a_column_that_only_some_files_have(said: dict[str, Any]) -> None:
    assert Counter(said["places"]) == {"Ulm": 5, None: 5}


def test_a_verdict_counts_no_row_twice_where_a_compaction_was_killed(stack: Settings, place: str, said: Any) -> None:
    read = files_of(Target.read(stack, {}).hdfs, f"{place}-generations", FRAUD.enriched, Files())
    assert [len(read.read[path].rows) for path in read.counted] == [len(said["places"])]
    assert read.wrong == ()


def test_the_reading_that_the_document_shows_works(stack: Settings, place: str, said: dict[str, Any]) -> None:
    block = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    shown = run("-c", block[1].replace("/millrace/data/flink-spark", place), HDFS_URI=addresses(stack)["HDFS_URI"])
    purchases = [int(line.split("|")[3]) for line in shown.stdout.splitlines() if re.match(r"\|\d{4}-", line)]
    assert sum(purchases) == said["after compaction"][0]
