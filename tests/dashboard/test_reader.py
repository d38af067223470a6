"""The one reader of Kafka, against the broker that its client brings for tests."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from millrace import deployments
from millrace.dashboard import reader as readers
from millrace.dashboard import surroundings as around
from millrace.dashboard.board import Board
from millrace.dashboard.reader import Reader, Span
from millrace.dashboard.surroundings import Surroundings
from millrace.machine.processes import wait_until
from millrace.patterns import PatternError, Variant, load, topics
from millrace.settings import Settings
from millrace.target import Target

WITHIN_S = 30


class Broker:
    """A broker in this process: librdkafka's own."""

    def __init__(self) -> None:
        self._client = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        (broker,) = self._client.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def write(self, topic: str, *messages: Any) -> None:
        for message in messages:
            self._client.produce(topic, message if isinstance(message, bytes) else json.dumps(message).encode())
        assert self._client.flush(10) == 0

    def end(self) -> None:
        self._client = Producer({})


@pytest.fixture
def variant() -> Variant:
    return load("flink")


@pytest.fixture
def broker(variant: Variant) -> Broker:
    """With the topics of the pattern, each with one message that nothing can read."""
    started = Broker()
    for topic in topics(variant).values():
        started.write(topic, b"")
    return started


@pytest.fixture
def target(broker: Broker, tmp_path: Path) -> Target:
    settings = replace(Settings.read(os.environ), state=tmp_path)
    return Target(settings, {"KAFKA_BOOTSTRAP": broker.address})


@pytest.fixture
def published() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def renewed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def reader(
    target: Target,
    variant: Variant,
    published: list[Any],
    renewed: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Reader]:
    """Reader and surroundings, running."""
    monkeypatch.setattr(around, "LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(around, "readable", lambda: [variant])
    running = Reader(target.bootstrap, lambda name, data: published.append((name, json.loads(data))))
    looking = Surroundings(target, running, running._publish, renewed.set)
    running.start()
    looking.start()
    yield running
    looking.end()
    running.end()


def totals(reader: Reader, name: str = "flink") -> dict[str, int]:
    found: dict[str, int] = reader.ask(
        lambda: dict(reader.boards[name].totals) if name in reader.boards else {}
    ).result(5)
    return found


def test_it_counts_what_was_there_and_what_comes(reader: Reader, broker: Broker, variant: Variant) -> None:
    judged, enriched = variant.topic("transactions"), variant.topic("enriched")
    assert wait_until(lambda: totals(reader).get("transactions") == 1, WITHIN_S)
    broker.write(judged, *({"number": number} for number in range(500)))
    broker.write(enriched, {"transaction_id": "t1", "customer": "anna", "latitude": 1, "longitude": 1})
    assert wait_until(lambda: totals(reader)["transactions"] == 501 and totals(reader)["accepted"] == 2, WITHIN_S)


def test_it_publishes_what_has_changed(reader: Reader, published: list[tuple[str, dict[str, Any]]]) -> None:
    def ticks() -> list[dict[str, Any]]:
        return [data for name, data in published if name == "tick"]

    assert wait_until(lambda: any("flink" in tick["boards"] for tick in ticks()), WITHIN_S)
    assert wait_until(lambda: ticks()[-1]["around"].get("kafka", {}).get("state") == "up", WITHIN_S)
    assert [found["name"] for found in next(data for name, data in published if name == "patterns")] == ["flink"]


def test_old_messages_are_counted_unread(
    broker: Broker, variant: Variant, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "EVENTS_AT_FIRST", 10)
    broker.write(variant.topic("enriched"), *({"unreadable": number} for number in range(100)))
    reader: Reader = request.getfixturevalue("reader")
    assert wait_until(lambda: totals(reader).get("accepted") == 101, WITHIN_S)
    assert reader.ask(lambda: reader.boards["flink"].unreadable).result(5) == 10


def test_a_pattern_is_deployed_or_not(reader: Reader, target: Target) -> None:
    def is_deployed() -> bool:
        return bool(reader.around.get("patterns", {}).get("flink", {}).get("is_deployed"))

    assert wait_until(lambda: "flink" in reader.boards, WITHIN_S)
    assert not is_deployed()
    deployments.want(target, "flink", "")
    assert wait_until(is_deployed, WITHIN_S)


def test_a_broker_that_is_gone_is_reported_and_the_figures_stay(
    reader: Reader, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(around, "ANSWERS_WITHIN_S", 1)
    assert wait_until(lambda: totals(reader).get("transactions") == 1, WITHIN_S)
    broker.end()
    assert wait_until(lambda: reader.around["kafka"]["state"] == "down", WITHIN_S)
    assert totals(reader)["transactions"] == 1
    assert reader.around["patterns"]["flink"]["is_provisioned"]


def test_topics_that_were_made_anew_begin_a_new_board(reader: Reader, variant: Variant) -> None:
    assert wait_until(lambda: totals(reader).get("transactions") == 1, WITHIN_S)
    before, kinds, places = reader.ask(lambda: (reader.boards["flink"], reader._kinds, list(reader._next))).result(5)
    emptied = {place: Span(0, 0) for place in places}
    fresh = {"flink": Board(variant, before.view)}
    reader.ask(lambda: reader.follow(fresh, kinds, emptied)).result(5)
    assert reader.boards["flink"] is not before
    assert wait_until(lambda: totals(reader).get("transactions") == 1, WITHIN_S)


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
