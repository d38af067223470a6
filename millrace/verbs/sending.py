"""Sends a load in an open loop: each message at the moment it is due, independent of the one before.

A sender that waits for answers slows down with what it measures and hides the delays it should show. This one never
waits: every event carries the time at which it was due, and the run records how far the sender fell behind.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

from confluent_kafka import KafkaError, Producer
from kafka.partitioner.default import murmur2

from millrace.errors import InfraError
from millrace.patterns.plan import HOP
from millrace.stores.topics import PRODUCER, listed
from millrace.verify.latency import Latency, latency
from pipelines.fraud.traffic import CLOSING, Label, Message

Report = Callable[[str], None]

HOP_PER_S = 50
STARTS_AFTER_S = 0.5
FLUSH_WITHIN_S = 60
REPORT_EVERY_S = 5.0

OPEN_LOOP = {"linger.ms": 0, "queue.buffering.max.messages": 500_000, "delivery.report.only.error": True}


class TrafficError(InfraError):
    """Traffic that was not sent; names the place and the remedy."""


@dataclass(frozen=True)
class Load:
    """What to send: reference data first, then messages ordered by the time at which they are due."""

    name: str
    about: Mapping[str, Any]
    """Recorded with the run: enough to make the same load again."""
    references: Callable[[Sequence[str]], Iterable[Message]]
    """Takes the names of the closing's customers."""
    messages: Callable[[int, Sequence[str]], Iterator[Message]]
    """Takes the start, and the names of the closing's customers."""


@dataclass(frozen=True)
class Run:
    """What was sent, when, and how punctually."""

    about: Mapping[str, Any]
    start_ms: int
    sent: int
    """Without the closing and the bare hops, which by_topic counts too."""
    by_topic: Mapping[str, int]
    seconds: float
    rate_per_s: float
    behind_ms: Mapping[str, float | int | str | None]
    """How long after its due time each message left: quantiles."""
    is_complete: bool
    digest: str = ""
    """Identifies the messages that were sent."""


class Digest:
    """Identifies traffic by its topics, keys and due times, whatever the card key."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, message: Message) -> None:
        self._sha256.update(b"%d %s %s\n" % (message.due_ms, message.topic.encode(), message.key or b""))

    @property
    def hex(self) -> str:
        return self._sha256.hexdigest()


def send(
    bootstrap: str,
    topics: Mapping[str, str],
    load: Load,
    *,
    hop_per_s: int = HOP_PER_S,
    report: Report = lambda line: None,
) -> Run:
    """Send a load to a pattern's topics (kind of event -> topic); return when the brokers have acknowledged all of it.

    Ctrl-C ends it early, and the run is then marked as incomplete.
    """
    failures: list[KafkaError] = []
    producer = Producer(
        {
            **PRODUCER,
            **OPEN_LOOP,
            "bootstrap.servers": bootstrap,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    partitions = _partitions(producer, bootstrap, topics)
    names = closing_names(load.name, partitions)
    count = _send_references(producer, topics, load.references(names))
    _flush(producer, failures, bootstrap)
    report(f"{count} reference events sent; traffic begins")
    start_ms = int((time.time() + STARTS_AFTER_S) * 1000)
    messages: Iterable[Message] = load.messages(start_ms, names)
    if hop_per_s and HOP in topics:
        messages = _with_hops(messages, start_ms, hop_per_s)
    pace = _Pace(start_ms, report)
    is_complete = True
    try:
        for message in messages:
            pace.wait(message)
            _produce(producer, topics[message.topic], message)
            pace.sent(message)
            if failures:
                break
    except KeyboardInterrupt:
        is_complete = False
        report("interrupted: waiting for the messages in flight")
    _flush(producer, failures, bootstrap)
    return pace.run(load.about, is_complete)


def closing_names(name: str, partitions: int) -> list[str]:
    """Customers such that each partition has one, as Kafka's own partitioner spreads keys."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        customer = f"{name}-closing-{number}"
        found.setdefault(partition_of(customer.encode(), partitions), customer)
        number += 1
    return [found[partition] for partition in range(partitions)]


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as every client with the default partitioner of Java chooses it."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


class _Pace:
    """Keeps to the due times, and counts."""

    def __init__(self, start_ms: int, report: Report) -> None:
        self.start_ms, self.report = start_ms, report
        # The wall clock is read once: a change of the clock does not change the pace.
        self.zero = time.monotonic() + start_ms / 1000 - time.time()
        self.behind_ms: list[float] = []
        self.digest = Digest()
        self.by_topic: Counter[str] = Counter()
        self.reported_at = self.zero
        self.last = self.zero

    def wait(self, message: Message) -> None:
        early_s = self.zero + message.due_ms / 1000 - time.monotonic()
        if early_s > 0:
            time.sleep(early_s)

    def sent(self, message: Message) -> None:
        now = time.monotonic()
        self.by_topic[message.topic] += 1
        if message.label.kind in (CLOSING, HOP):
            if message.label.kind == CLOSING and now > self.reported_at + REPORT_EVERY_S:
                self.reported_at = now
                self.report("all sent; small purchases continue until the last windows are complete")
            return
        self.last = now
        self.digest.add(message)
        self.behind_ms.append((now - self.zero) * 1000 - message.due_ms)
        if now > self.reported_at + REPORT_EVERY_S:
            self.reported_at = now
            sent, seconds = len(self.behind_ms), now - self.zero
            self.report(f"{sent} sent in {seconds:.0f} s, {sent / seconds:.0f}/s, {self.behind_ms[-1]:.1f} ms behind")

    def run(self, about: Mapping[str, Any], is_complete: bool) -> Run:
        seconds = max(self.last - self.zero, 0.001)
        behind: Latency = latency("behind the plan", self.behind_ms)
        sent = len(self.behind_ms)
        return Run(
            about=about,
            start_ms=self.start_ms,
            sent=sent,
            by_topic=dict(self.by_topic),
            seconds=round(seconds, 3),
            rate_per_s=round(sent / seconds, 1),
            behind_ms=behind.record(),
            is_complete=is_complete,
            digest=self.digest.hex,
        )


def _with_hops(messages: Iterable[Message], start_ms: int, per_s: int) -> Iterator[Message]:
    """Mix in small messages that only cross Kafka, until one second after the last message is due."""
    ends_ms = [0]

    def timed() -> Iterator[Message]:
        for message in messages:
            ends_ms[0] = message.due_ms
            yield message

    def hops() -> Iterator[Message]:
        due_ms = 0.0
        while due_ms <= ends_ms[0] + 1000:
            value = json.dumps({"sent_ms": start_ms + int(due_ms)}).encode()
            yield Message(int(due_ms), HOP, None, value, Label(HOP))
            due_ms += 1000 / per_s

    yield from merge(timed(), hops(), key=lambda message: message.due_ms)


def _send_references(producer: Producer, topics: Mapping[str, str], messages: Iterable[Message]) -> int:
    count = 0
    for message in messages:
        _produce(producer, topics[message.topic], message)
        count += 1
    return count


def _produce(producer: Producer, topic: str, message: Message) -> None:
    while True:
        try:
            producer.produce(topic, message.value, message.key)
            break
        except BufferError:
            producer.poll(0.05)
    producer.poll(0)


def _flush(producer: Producer, failures: Sequence[KafkaError], bootstrap: str) -> None:
    left = producer.flush(FLUSH_WITHIN_S)
    if left or failures:
        why = failures[0].str() if failures else f"no answer within {FLUSH_WITHIN_S} s"
        raise TrafficError(
            f"{left + len(failures)} messages were not acknowledged by Kafka at {bootstrap}: {why}; "
            "see `millrace status`"
        )


def _partitions(producer: Producer, bootstrap: str, topics: Mapping[str, str]) -> int:
    there = listed(producer, bootstrap)
    if missing := sorted(topic for topic in topics.values() if topic not in there):
        raise TrafficError(f"no topic {missing[0]} at {bootstrap}; provision the pattern first")
    return len(there[topics["transactions"]].partitions)
