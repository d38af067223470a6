"""The one reader of Kafka, and what it counts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from millrace.dashboard import reader as readers
from millrace.dashboard import surroundings as around
from millrace.dashboard.reader import Reader
from millrace.dashboard.surroundings import Surroundings
from millrace.machine.processes import wait_until
from millrace.patterns import Variant, load
from millrace.settings import Settings
from millrace.stores.topics import Publisher, ends, publish
from millrace.target import Target
from millrace.verbs import provision, teardown
from tests.patterns import own_patterns
from tests.player import publish_and_abort

pytestmark = pytest.mark.stack

NAME = "counted"
WITHIN_S = 90
BUSY_S = 4


@pytest.fixture
def target(stack: Settings) -> Target:
    return Target.read(stack)


@pytest.fixture
def variant(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Variant]:
    """It has its topics, and a message that nothing can read in two of them."""
    with own_patterns(tmp_path_factory.mktemp("patterns"), {NAME: {"of": "flink", "stages": {"persist": None}}}):
        provision.provision(target, NAME)
        found = load(NAME)
        write(target, found.topic("transactions"), b"")
        write(target, found.topic("enriched"), b"")
        yield found
        teardown.teardown(target, NAME, data=True)


@pytest.fixture
def published() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def reader(target: Target, variant: Variant, published: list[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Reader and surroundings, running."""
    monkeypatch.setattr(around, "LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(around.model, "read_all", lambda: ([variant], []))
    running = Reader(target.bootstrap, lambda name, data: published.append((name, json.loads(data))))
    looking = Surroundings(target, running, running._publish, lambda: None)
    running.start()
    looking.start()
    yield running
    looking.end()
    running.end()


def write(target: Target, topic: str, *messages: Any) -> None:
    values = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in messages)
    publish(target.bootstrap, [(topic, b"k", value) for value in values])


def totals(reader: Reader) -> dict[str, int]:
    found: dict[str, int] = reader.ask(
        lambda: dict(reader.boards[NAME].totals) if NAME in reader.boards else {}
    ).result(5)
    return found


def test_it_counts_what_was_there_and_what_comes(reader: Reader, target: Target, variant: Variant) -> None:
    judged, enriched = variant.topic("transactions"), variant.topic("enriched")
    assert wait_until(lambda: totals(reader).get("transactions") == 1, WITHIN_S)
    write(target, judged, *({"number": number} for number in range(500)))
    write(target, enriched, {"transaction_id": "t1", "customer": "anna", "latitude": 1, "longitude": 1})
    assert wait_until(lambda: totals(reader)["transactions"] == 501 and totals(reader)["accepted"] == 2, WITHIN_S)


def test_it_publishes_what_has_changed(
    reader: Reader, target: Target, variant: Variant, published: list[tuple[str, dict[str, Any]]]
) -> None:
    def ticks() -> list[dict[str, Any]]:
        return [data for name, data in published if name == "tick"]

    assert wait_until(lambda: any(NAME in tick["boards"] for tick in ticks()), WITHIN_S)
    assert wait_until(lambda: ticks()[-1]["around"].get("kafka", {}).get("state") == "up", WITHIN_S)
    assert [found["name"] for found in next(data for name, data in published if name == "patterns")] == [NAME]
    judged = variant.topic("transactions")
    write(target, judged, *range(9))

    def lag() -> int | None:
        found: int | None = ticks()[-1]["around"]["patterns"][NAME]["lag"]
        return found

    assert lag() is None, "the pattern has no job"
    with closing(Consumer({"bootstrap.servers": target.bootstrap, "group.id": NAME})) as job:
        job.commit(offsets=[TopicPartition(judged, 0, 0), TopicPartition(judged, 1, 0)], asynchronous=False)
    assert wait_until(lambda: lag() == 10, WITHIN_S)


def test_old_and_deleted_messages_are_counted_unread(
    target: Target, variant: Variant, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "EVENTS_AT_FIRST", 10)
    for kind in ("alerts", "dead-letters"):
        monkeypatch.setitem(readers.READ_AT_FIRST, kind, 10)
    for kind in ("enriched", "alerts", "dead-letters"):
        write(target, variant.topic(kind), *({"unreadable": number} for number in range(100)))
    alerts = variant.topic("alerts")
    half = [
        TopicPartition(alerts, number, end // 2) for number, end in ends(target.bootstrap, {"t": alerts})["t"].items()
    ]
    admin = AdminClient({"bootstrap.servers": target.bootstrap})  # kept: without it no answer arrives
    for deleted in admin.delete_records(half).values():
        deleted.result(WITHIN_S)
    reader: Reader = request.getfixturevalue("reader")
    assert wait_until(lambda: totals(reader).get("accepted") == 101, WITHIN_S)
    assert wait_until(lambda: reader.ask(lambda: reader.boards[NAME].unreadable).result(5) == 30, WITHIN_S)
    shown = reader.ask(lambda: reader.boards[NAME].full(0)["totals"]).result(5)
    assert (shown["alerts"], shown["refused"], shown["dead-letters"]) == (90, 90, 100)


def test_what_was_taken_back_leaves_no_message_to_read(reader: Reader, target: Target, variant: Variant) -> None:
    topic = variant.topic("enriched")
    publish_and_abort(target.bootstrap, [(topic, b"k", b"{}") for _ in range(20)])
    place = (topic, next(number for number, end in ends(target.bootstrap, {"t": topic})["t"].items() if end > 20))
    assert wait_until(lambda: reader.ask(lambda: reader._ends.get(place, 0)).result(5) > 20, WITHIN_S)

    def behind() -> int:
        reader.tick()  # it counts what is not read yet; the last one may be from before the end was known
        return reader.boards[NAME].behind

    assert wait_until(lambda: reader.ask(behind).result(5) == 0, WITHIN_S)
    assert totals(reader)["accepted"] == 1


def test_topics_that_were_made_anew_begin_a_new_board(reader: Reader, target: Target, variant: Variant) -> None:
    assert wait_until(lambda: totals(reader).get("transactions") == 1, WITHIN_S)
    before = reader.ask(lambda: reader.boards[NAME]).result(5)
    teardown.teardown(target, NAME, data=True)
    provision.provision(target, NAME)
    write(target, variant.topic("transactions"), *range(7))  # more than there was
    assert wait_until(lambda: totals(reader).get("transactions") == 7, WITHIN_S)
    assert reader.ask(lambda: reader.boards[NAME]).result(5) is not before


def test_a_busy_topic_keeps_its_board_and_misses_nothing(
    reader: Reader, target: Target, variant: Variant, published: list[tuple[str, dict[str, Any]]]
) -> None:
    """Between the request for the end of a partition and its answer's arrival, more of it is read."""
    assert wait_until(lambda: totals(reader).get("transactions") == 1, WITHIN_S)
    before, writer, sent = reader.ask(lambda: reader.boards[NAME]).result(5), Publisher(target.bootstrap), 1
    until = time.monotonic() + BUSY_S
    while time.monotonic() < until:
        sent += writer.publish((variant.topic("transactions"), b"%d" % number, b"{}") for number in range(50))
    assert wait_until(lambda: totals(reader)["transactions"] == sent, WITHIN_S), (totals(reader), sent)
    assert reader.ask(lambda: reader.boards[NAME]).result(5) is before
    shown = [data["boards"][NAME]["totals"] for name, data in published if name == "tick" and NAME in data["boards"]]
    counted = [each.get("transactions", 0) for each in shown]
    assert counted == sorted(counted), "a count fell: the board began again"
