"""What the page shows that no topic holds, and what ends none of it; Kafka is away throughout."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import deployments
from millrace.dashboard import figures
from millrace.dashboard import surroundings as around
from millrace.dashboard.reader import Reader
from millrace.dashboard.surroundings import Surroundings
from millrace.machine.processes import wait_until
from millrace.patterns import PatternError, load
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs import canaries
from millrace.verbs.canaries import Answer, State

WITHIN_S = 90
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(replace(Settings.read(os.environ), state=tmp_path), {"KAFKA_BOOTSTRAP": NOWHERE})


@pytest.fixture
def renewed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def published() -> list[tuple[str, Any]]:
    return []


@pytest.fixture
def reader(
    target: Target, renewed: threading.Event, published: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    """Reader and surroundings, running."""
    monkeypatch.setattr(around, "LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(around, "readable", lambda: [load("flink")])
    monkeypatch.setattr(topics, "CONNECTS_WITHIN_S", 0.1)
    running = Reader(target.bootstrap, lambda name, data: published.append((name, json.loads(data))))
    looking = Surroundings(target, running, running._publish, renewed.set)
    running.start()
    looking.start()
    yield running
    looking.end()
    running.end()


def test_a_broker_that_is_away_is_named_and_patterns_are_shown(
    reader: Reader, published: list[tuple[str, Any]]
) -> None:
    assert wait_until(lambda: reader.around.get("kafka", {}).get("state") == "down", WITHIN_S)
    assert NOWHERE in reader.around["kafka"]["problem"]
    assert not reader.around["patterns"]["flink"]["is_provisioned"]
    assert [found["name"] for found in next(data for name, data in published if name == "patterns")] == ["flink"]


def test_a_pattern_is_deployed_or_not(reader: Reader, target: Target) -> None:
    def is_deployed() -> bool | None:
        found: bool | None = reader.around.get("patterns", {}).get("flink", {}).get("is_deployed")
        return found

    assert wait_until(lambda: is_deployed() is False, WITHIN_S)
    deployments.want(target, "flink", "")
    assert wait_until(lambda: is_deployed() is True, WITHIN_S)


def test_what_canaries_show_is_there_until_they_are_no_longer_sent(reader: Reader, target: Target) -> None:
    def shown() -> Any:
        return reader.around.get("patterns", {}).get("flink", {}).get("canaries", "not looked")

    assert wait_until(lambda: shown() is None, WITHIN_S)
    now_ms = time.time_ns() // 1_000_000
    answers = {rule.name: {"canary:0": Answer(now_ms, now_ms, 40)} for rule in load("flink").use.rules}
    known = State(60, now_ms - 600_000, ("canary:0",), now_ms, "", answers)
    canaries._write(target.settings, "flink", known)
    assert wait_until(lambda: shown() and shown()["status"] == "alive", WITHIN_S)
    text = figures.text({}, reader.around).decode()
    assert 'millrace_canary_latency_seconds{pattern="flink",rule="burst"} 0.04' in text
    canaries._write(target.settings, "flink", replace(known, answers={}))
    assert wait_until(lambda: shown()["status"] == "silent", WITHIN_S)
    assert 'millrace_canary_silence_seconds{pattern="flink",rule="burst"} 6' in figures.text({}, reader.around).decode()
    canaries.stopped(target.settings, "flink")
    assert wait_until(lambda: shown() is None, WITHIN_S)


def test_the_age_of_a_checkpoint_is_that_of_the_last_one(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Surroundings(target, Reader(NOWHERE, lambda name, data: None), lambda name, data: None, lambda: None)
    seen = []
    for now_ms, checkpoints in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 0), (6, 1)):
        monkeypatch.setattr(around, "_now_ms", lambda now_ms=now_ms: now_ms)
        seen.append(looking._checkpointed_ms("flink", "flink", checkpoints))
    assert seen == [None, 2, 2, 4, None, 6]


@pytest.mark.parametrize("problem", [PatternError("half.yaml: broken"), KeyError("half.yaml: broken")])
def test_what_cannot_be_read_is_shown_and_ends_nothing(
    reader: Reader, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise problem

    assert wait_until(lambda: reader.around.get("problem") == "", WITHIN_S)
    with monkeypatch.context() as patched:
        patched.setattr(around, "_files", broken)
        assert wait_until(lambda: "half.yaml: broken" in reader.around["problem"], WITHIN_S)
    assert wait_until(lambda: reader.around["problem"] == "", WITHIN_S)


def test_changed_code_is_taken_once_it_can_be_imported(
    reader: Reader, renewed: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wait_until(lambda: reader.around.get("problem") == "", WITHIN_S)
    answers = iter(["The page shows the rules as they were: rules.py, line 7: SyntaxError", ""])
    monkeypatch.setattr(around, "_import_problem", lambda: next(answers))
    monkeypatch.setattr(around, "_code", lambda: {Path("rules.py"): 1})
    assert wait_until(lambda: "line 7" in reader.around["problem"], WITHIN_S)
    assert not renewed.is_set()
    monkeypatch.setattr(around, "_code", lambda: {Path("rules.py"): 2})
    assert wait_until(renewed.is_set, WITHIN_S)


def test_the_uses_of_this_project_can_be_imported() -> None:
    assert around._import_problem() == ""


def test_a_report_is_linked_though_it_is_written_after_its_record(target: Target, reader: Reader) -> None:
    record = target.settings.state / "records" / "20260101T000000.0-verdict-flink.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"at": "2026-01-01T00:00:00+00:00", "figures": {"status": "failed"}}))

    def linked() -> str | None:
        verdict = reader.ask(lambda: reader.around.get("patterns", {}).get("flink", {}).get("verdict")).result(5)
        return None if verdict is None else str(verdict["page"])

    assert wait_until(lambda: linked() == "", WITHIN_S)
    record.with_suffix(".html").touch()
    assert wait_until(lambda: linked() == record.with_suffix(".html").name, WITHIN_S)
