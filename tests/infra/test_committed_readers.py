"""No reader of a topic sees what a transaction took back.

What engines read is judged by `test_what_a_transaction_took_back_is_in_no_output` of the conformance suite.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from millrace import stack as stacks
from millrace.dashboard.reader import Reader, Span
from millrace.engines.spark.event_time.ends import TopicEnds
from millrace.machine.processes import wait_until
from millrace.rules import ALERTS
from millrace.settings import PROJECT, Settings
from millrace.stores.topics import PRODUCER, Tail, ends, publish
from millrace.verbs.listening import listening
from tests.player import publish_and_abort

READ_WITHIN_S = 300

MADE = re.compile(r'\bConsumer\(\s*\{|\bKafkaConsumer\(|\bnew KafkaConsumer<>\(|readStream\.format\("kafka"\)')
COMMITTED = re.compile(r'isolation[._]level(?:": |", |=)"read_committed"')
NOT_BESIDE = {
    "millrace/stores/topics.py": 4,  # these read offsets only
    "millrace/engines/storm/java/millrace/storm/Clients.java": 1,
    "millrace/engines/storm/tuning.py": -1,
    "millrace/engines/streams/java/millrace/streams/Clients.java": 1,  # of each kind that Kafka Streams has
    "millrace/engines/streams/tuning.py": -1,
}
"""Readers without the setting in the same file, and settings without a reader."""


def test_each_reader_has_the_setting() -> None:
    sources = {path: path.read_text() for path in (PROJECT / "millrace").rglob("*") if path.suffix in (".py", ".java")}
    found = {
        str(path.relative_to(PROJECT)): len(MADE.findall(text)) - len(COMMITTED.findall(text))
        for path, text in sources.items()
    }
    assert {path: number for path, number in found.items() if number} == NOT_BESIDE
    streams = sources[PROJECT / "millrace/engines/streams/tuning.py"]
    assert '"consumer.isolation.level"' in streams, "of main consumers only: a restored state could hold it"


@pytest.fixture(scope="module")
def bootstrap(stack: Settings) -> str:
    return stacks.addresses(stack)["KAFKA_BOOTSTRAP"]


@pytest.fixture
def topic(bootstrap: str) -> Iterator[str]:
    name = f"committed-{uuid.uuid4().hex[:8]}.alerts"
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
        yield name
        admin.delete_topics([name])


def message(topic: str, name: str) -> tuple[str, bytes, bytes]:
    return topic, b"k", json.dumps({"alert_id": name}).encode()


def names(records: Sequence[Any]) -> list[str]:
    return [json.loads(each.value)["alert_id"] for each in records]


Seen = Callable[[], list[str]]


@contextmanager
def reading_what_is_new(bootstrap: str, topic: str, _: Path) -> Iterator[Seen]:
    found: list[Any] = []
    with closing(Tail(bootstrap, {"alerts": topic})) as tail:

        def seen() -> list[str]:
            found.extend(tail.new())
            return names(found)

        yield seen


@contextmanager
def following(bootstrap: str, topic: str, _: Path) -> Iterator[Seen]:
    found: list[Any] = []
    is_over = threading.Event()

    def follow() -> None:
        with closing(Tail(bootstrap, {"alerts": topic})) as tail:
            for each in tail.follow():
                found.extend([each] if each else [])
                if is_over.is_set():
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield lambda: names(found)
    finally:
        is_over.set()
        thread.join(READ_WITHIN_S)


@contextmanager
def listening_beside_the_traffic(bootstrap: str, topic: str, folder: Path) -> Iterator[Seen]:
    file = folder / "arrivals.jsonl"
    with listening(bootstrap, {ALERTS.name: topic}, file):
        yield lambda: [json.loads(line)["alert_id"] for line in file.read_text().splitlines()] if file.exists() else []


@contextmanager
def showing_a_live_page(bootstrap: str, topic: str, _: Path) -> Iterator[Seen]:
    found: list[Any] = []
    board: Any = SimpleNamespace(take=found.append, skip=lambda *_: None, tick=lambda _: {})
    reader = Reader(bootstrap, lambda *_: None)
    reader.start()
    try:
        there = {(topic, 0): Span("id", 0, 0)}
        reader.ask(lambda: reader.follow({"p": board}, {topic: ("p", "alerts")}, there)).result(READ_WITHIN_S)
        yield lambda: names(found)
    finally:
        reader.end()


@pytest.mark.stack
@pytest.mark.parametrize(
    "read",
    [reading_what_is_new, following, listening_beside_the_traffic, showing_a_live_page],
    ids=lambda f: f.__name__,
)
def test_a_reader_sees_what_is_committed_and_not_what_was_taken_back(
    bootstrap: str, topic: str, tmp_path: Path, read: Callable[[str, str, Path], AbstractContextManager[Seen]]
) -> None:
    with read(bootstrap, topic, tmp_path) as seen:
        # Some begin at the end of the topic: until they have begun, they see nothing.
        assert wait_until(lambda: publish(bootstrap, [message(topic, "begins")]) and seen(), READ_WITHIN_S)
        publish_and_abort(bootstrap, [message(topic, "taken back")])
        publish(bootstrap, [message(topic, "kept")])
        assert wait_until(lambda: "kept" in seen(), READ_WITHIN_S)
        assert {*seen()} == {"begins", "kept"}


@pytest.mark.stack
def test_the_end_of_a_topic_is_before_a_transaction_that_is_open(bootstrap: str, topic: str) -> None:
    plan: Any = SimpleNamespace(bootstrap=bootstrap, pattern=topic, topics={"t": topic})
    plan.use = SimpleNamespace(judged=SimpleNamespace(name="t"))
    publish(bootstrap, [message(topic, "kept")])
    producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    with closing(TopicEnds(plan)) as of_windows:

        def found() -> tuple[int, int]:
            return ends(bootstrap, {"t": topic})["t"][0], of_windows.of([topic])[topic][0]

        producer.begin_transaction()
        producer.produce(topic, b"{}")
        assert producer.flush(30) == 0
        assert found() == (1, 1)
        producer.commit_transaction(30)
        assert wait_until(lambda: found() == (3, 3), READ_WITHIN_S), "the message and the marker behind it"
