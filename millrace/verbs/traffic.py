"""Sending traffic in an open loop: each message at the moment it is meant for, however the one before it fared.

A sender that waits for answers slows down together with what it measures, and hides the very delays it should show.
This one never waits: it says in every event when it meant to send it, and afterwards how far it fell behind its plan.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import merge
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer
from kafka.partitioner.default import murmur2

from millrace.errors import InfraError
from millrace.patterns.plan import HOP
from millrace.settings import Settings
from millrace.stores.topics import PRODUCER, listed
from millrace.verify import Bounds
from millrace.verify.latency import Latency, latency
from pipelines.fraud.rules import burst
from pipelines.fraud.tokens import Tokens, ensure_key
from pipelines.fraud.traffic import CLOSING, Label, Message, Plan, closing, references, traffic
from pipelines.fraud.traffic.replay import Replay
from pipelines.fraud.traffic.stage import PHONE_LEAD_MS

Report = Callable[[str], None]

HOP_PER_S = 50
CLOSING_MS = burst.window.gap_ms + Bounds().out_of_order_ms + Bounds().closing_ms + 3_000
"""So long small purchases go on after the traffic, or its last bursts would never be known to be complete."""
STARTS_AFTER_S = 0.5
FLUSH_WITHIN_S = 60
REPORT_EVERY_S = 5.0

OPEN_LOOP = {"linger.ms": 0, "queue.buffering.max.messages": 500_000, "delivery.report.only.error": True}


class TrafficError(InfraError):
    """Traffic that could not be sent; names the place and the remedy."""


@dataclass(frozen=True)
class Load:
    """Something to send: reference data first, then messages by the time they are due after the start."""

    name: str
    about: Mapping[str, Any]
    """What it is, for the record: enough to make the same again."""
    references: Callable[[Sequence[str]], Iterable[Message]]
    """Given the names of the closing's customers."""
    messages: Callable[[int, Sequence[str]], Iterator[Message]]
    """Given the start, and the names of the closing's customers."""


@dataclass(frozen=True)
class Run:
    """What was sent, when and how punctually; kept so that a verdict can know what the traffic was made to set off."""

    about: Mapping[str, Any]
    start_ms: int
    sent: int
    """Without the closing and the bare hops, which by_topic counts too."""
    by_topic: Mapping[str, int]
    seconds: float
    rate_per_s: float
    behind_ms: Mapping[str, float | int | str | None]
    """How long after its intended time each message left: quantiles."""
    is_complete: bool
    digest: str = ""
    """Of what was sent, to know it again."""

    @property
    def is_punctual(self) -> bool:
        """Whether everything was sent in time to mean what its labels say."""
        worst = self.behind_ms.get("max_ms")
        return self.is_complete and isinstance(worst, int | float) and worst < PHONE_LEAD_MS / 2

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Transaction id -> the rules that it was made to set off; nothing where that is not known."""
        if "plan" not in self.about:
            return {}
        digest, found = Digest(), {}
        # The key matters not: cards are no part of a label.
        for message in traffic(Plan(**self.about["plan"]), Tokens(b"labels"), self.start_ms):
            digest.take(message)
            if message.label.alerts and message.value:
                found[json.loads(message.value)["transaction_id"]] = message.label.alerts
        # Another version of the generator makes other traffic of the same plan.
        return found if digest.hex == self.digest else {}


class Digest:
    """Tells one traffic from another by its topics, keys and times, whatever the card key."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def take(self, message: Message) -> None:
        self._sha256.update(b"%d %s %s\n" % (message.due_ms, message.topic.encode(), message.key or b""))

    @property
    def hex(self) -> str:
        return self._sha256.hexdigest()


def invented(plan: Plan, tokens: Tokens, closing_ms: int = CLOSING_MS) -> Load:
    """Traffic made up after a plan."""

    def messages(start_ms: int, names: Sequence[str]) -> Iterator[Message]:
        yield from traffic(plan, tokens, start_ms)
        yield from closing(plan, tokens, start_ms, names, closing_ms)

    return Load(plan.name, {"plan": asdict(plan)}, lambda names: references(plan, names), messages)


def replayed(replay: Replay, source: Path, speed: float = 1.0) -> Load:
    """Traffic that was recorded in a file."""
    return Load(
        source.stem,
        {"file": source.name, "speed": speed},
        lambda names: replay.references,
        lambda start_ms, names: replay.messages(start_ms, speed),
    )


def send(
    bootstrap: str,
    topics: Mapping[str, str],
    load: Load,
    *,
    hop_per_s: int = HOP_PER_S,
    report: Report = lambda line: None,
) -> Run:
    """Sends a load to a pattern's topics (kind of event -> topic) and returns when the brokers have all of it.

    Interrupted, it stops where it is and says in the run that it is not complete.
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
        messages = _beside(messages, start_ms, hop_per_s)
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
        report("interrupted: waiting for what is on its way")
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


def card_tokens(settings: Settings) -> Tokens:
    """The tokens of this stack, under a key that is made when it is first needed."""
    return ensure_key(settings.state / "conf" / "card.key")


def keep(settings: Settings, pattern: str, run: Run) -> None:
    """Remembers a run of traffic for the pattern's verdict."""
    path = _runs(settings, pattern)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(asdict(run)) + "\n")


def runs(settings: Settings, pattern: str) -> list[Run]:
    """The runs of traffic that a pattern's topics hold, oldest first."""
    path = _runs(settings, pattern)
    try:
        return [Run(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise TrafficError(f"{path} is damaged ({error}); take the line out, or delete the file") from None


def forget(settings: Settings, pattern: str) -> None:
    """Forgets the runs of traffic, when the topics that hold them are removed."""
    _runs(settings, pattern).unlink(missing_ok=True)
    arrivals(settings, pattern).unlink(missing_ok=True)


def arrivals(settings: Settings, pattern: str) -> Path:
    """Where the listener beside the traffic writes what it heard."""
    return settings.state / "patterns" / f"{pattern}.heard.jsonl"


def labels(found: Iterable[Run]) -> dict[str, tuple[str, ...]] | None:
    """What all of this traffic was made to set off; None if none of it can tell."""
    made = [run.labels for run in found if run.is_punctual]
    return {identity: rules for each in made for identity, rules in each.items()} if any(made) else None


class _Pace:
    """Keeps to the intended times, and keeps count."""

    def __init__(self, start_ms: int, report: Report) -> None:
        self.start_ms, self.report = start_ms, report
        # The wall clock is read once: it may be set, and the pace must not jump with it.
        self.zero = time.monotonic() + start_ms / 1000 - time.time()
        self.behind_ms: list[float] = []
        self.digest = Digest()
        self.by_topic: Counter[str] = Counter()
        self.told_at = self.zero
        self.last = self.zero

    def wait(self, message: Message) -> None:
        early_s = self.zero + message.due_ms / 1000 - time.monotonic()
        if early_s > 0:
            time.sleep(early_s)

    def sent(self, message: Message) -> None:
        now = time.monotonic()
        self.by_topic[message.topic] += 1
        if message.label.kind in (CLOSING, HOP):
            if message.label.kind == CLOSING and now > self.told_at + REPORT_EVERY_S:
                self.told_at = now
                self.report("all sent; small purchases go on until the last windows are known to be complete")
            return
        self.last = now
        self.digest.take(message)
        self.behind_ms.append((now - self.zero) * 1000 - message.due_ms)
        if now > self.told_at + REPORT_EVERY_S:
            self.told_at = now
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


def _beside(messages: Iterable[Message], start_ms: int, per_s: int) -> Iterator[Message]:
    """The messages, and between them small ones that only cross Kafka, for as long as there are messages."""
    ends_ms = [0]

    def watched() -> Iterator[Message]:
        for message in messages:
            ends_ms[0] = message.due_ms
            yield message

    def hops() -> Iterator[Message]:
        due_ms = 0.0
        while due_ms <= ends_ms[0] + 1000:
            value = json.dumps({"sent_ms": start_ms + int(due_ms)}).encode()
            yield Message(int(due_ms), HOP, None, value, Label(HOP))
            due_ms += 1000 / per_s

    yield from merge(watched(), hops(), key=lambda message: message.due_ms)


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
            f"{left + len(failures)} messages were not taken by Kafka at {bootstrap}: {why}; see `millrace status`"
        )


def _partitions(producer: Producer, bootstrap: str, topics: Mapping[str, str]) -> int:
    there = listed(producer, bootstrap)
    if missing := sorted(topic for topic in topics.values() if topic not in there):
        raise TrafficError(f"no topic {missing[0]} at {bootstrap}; provision the pattern first")
    return len(there[topics["transactions"]].partitions)


def _runs(settings: Settings, pattern: str) -> Path:
    return settings.state / "patterns" / f"{pattern}.traffic.jsonl"
