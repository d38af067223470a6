"""Sends a load in an open loop: each message at the moment it is due, independent of the one before.

A sender that waits for answers slows down with what it measures and hides the delays it should show. This one never
waits: every event carries the time at which it was due, and the run records how far the sender fell behind. All
messages are encoded before the first is sent.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer

from millrace.errors import InfraError
from millrace.patterns.plan import HOP
from millrace.stores.topics import ACKNOWLEDGED_WITHIN_S, PRODUCER, listed, unacknowledged
from millrace.traffic import CLOSING, Label, Message
from millrace.traffic.planned import KEYS, REFERENCES_MS, Content, partition_of
from millrace.traffic.runs import Run
from millrace.traffic.tape import MARGIN, Batch, Produced, Tape
from millrace.verify.latency import QUANTILES

Report = Callable[[str], None]

HOP_PER_S = 50
STARTS_AFTER_S = 0.5
REPORT_EVERY_S = 5.0
TRIED = 1_000
"""How many messages show how long all of them take to encode."""
KEYS_TRIED_MOST = 1_000
"""For each partition of the closing."""

OPEN_LOOP = {
    "linger.ms": 0,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 131_072,
    "delivery.report.only.error": True,
}


class TrafficError(InfraError):
    """Traffic that was not sent; names the place and the remedy."""


@dataclass(frozen=True)
class Load:
    """What to send: reference data first, then messages ordered by the time at which they are due."""

    name: str
    about: Mapping[str, Any]
    """Recorded with the run: enough to make the same load again."""
    judged: str
    """The kind of event whose partitions the closing must reach."""
    events: int
    """About how many messages there are."""
    references: Callable[[Sequence[str]], Iterable[Message]]
    """Takes the keys of the closing."""
    messages: Callable[[int, Sequence[str]], Iterator[Message]]
    """Takes the start, and the keys of the closing; the same start gives the same messages."""
    closing_key: Callable[[int], str] | None = None
    """A key for the closing, by a number; None: nothing follows the traffic."""


def send(
    bootstrap: str,
    topics: Mapping[str, str],
    load: Load,
    *,
    hop_per_s: int = HOP_PER_S,
    folder: Path | None = None,
    begins: Callable[[], None] = lambda: None,
    report: Report = lambda line: None,
) -> Run:
    """Send a load to a pattern's topics (kind of event -> topic); return when the brokers have acknowledged all of it.

    A large load is first encoded to a file in `folder`. `begins` is called before the first event is sent. Ctrl-C ends
    the sending early, and the run is then marked as incomplete.
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
    partitions = _partitions(producer, bootstrap, topics, load.judged)
    keys = closing_keys(load.closing_key, partitions) if load.closing_key else []
    references = list(load.references(keys))
    _produce(producer, [(topics[each.topic], each.value, each.key) for each in references])
    _flush(producer, failures, bootstrap)
    about = {**load.about, KEYS: keys, REFERENCES_MS: int(time.time() * 1000)}
    report(f"{len(references)} reference events sent; the traffic is being encoded")
    hops = hop_per_s if HOP in topics else 0
    with Tape(folder) as tape:
        start_ms, content = _encode(tape, load, references, keys, topics, hops, report)
        begins()
        report("traffic begins")
        pace = _Pace(start_ms, tape.counted, tape.until_ms, report)
        try:
            pace.keep(producer, tape.batches(), failures)
        except KeyboardInterrupt:
            report("interrupted: waiting for the messages in flight")
        _flush(producer, failures, bootstrap)
        kinds = {topic: kind for kind, topic in topics.items()}
        by_topic = {kinds[topic]: count for topic, count in tape.by_topic(pace.batches).items()}
        run = pace.run(about, by_topic, tape.digest, is_complete=pace.batches == tape.length)
        return replace(run, content=content.hex)


def closing_keys(key_of: Callable[[int], str], partitions: int) -> list[str]:
    """Keys such that each partition has one, as Kafka's own partitioner spreads keys."""
    found: dict[int, str] = {}
    for number in range(KEYS_TRIED_MOST * partitions):
        key = key_of(number)
        found.setdefault(partition_of(key.encode(), partitions), key)
        if len(found) == partitions:
            return [found[partition] for partition in range(partitions)]
    raise TrafficError(
        f"the first {KEYS_TRIED_MOST * partitions} keys of the closing reach only {len(found)} of {partitions} "
        "partitions; let the use's closing_key give another key for each number"
    )


def _encode(
    tape: Tape,
    load: Load,
    references: Sequence[Message],
    keys: Sequence[str],
    topics: Mapping[str, str],
    hop_per_s: int,
    report: Report,
) -> tuple[int, Content]:
    """Encode the whole load; return its start, which is chosen before as its messages contain it, and its content."""
    takes_s = _estimate_s(load, keys)
    while True:
        began = time.monotonic()
        start_ms = int((time.time() + STARTS_AFTER_S + takes_s) * 1000)
        content = Content()
        deque(content.of(references), maxlen=0)
        messages: Iterable[Message] = content.of(load.messages(start_ms, keys))
        tape.record(_with_hops(messages, start_ms, hop_per_s) if hop_per_s else messages, topics, (CLOSING, HOP))
        took_s = time.monotonic() - began
        if took_s < takes_s + STARTS_AFTER_S:
            return start_ms, content
        report(f"encoding took {took_s:.0f} s instead of {takes_s:.0f} s, and starts again")
        takes_s = 2 * took_s


def _estimate_s(load: Load, keys: Sequence[str]) -> float:
    """How long the whole load takes to encode, from its first messages."""
    began = time.monotonic()
    messages = iter(load.messages(int(time.time() * 1000), keys))
    next(messages, None)
    first_s = time.monotonic() - began
    tried = sum(1 for _ in islice(messages, TRIED))
    each_s = (time.monotonic() - began - first_s) / max(tried, 1)
    return MARGIN * (first_s + load.events * each_s)


class _Pace:
    """Keeps to the due times, and counts."""

    def __init__(self, start_ms: int, counted: int, until_ms: int, report: Report) -> None:
        self.start_ms, self.until_ms, self.report = start_ms, until_ms, report
        self.left = counted
        # The wall clock is read once: a change of the clock does not change the pace.
        self.zero = time.monotonic() + start_ms / 1000 - time.time()
        self.behind = Behind()
        self.sent = self.batches = 0
        self.last = self.reported_at = self.zero

    def keep(self, producer: Producer, batches: Iterable[Batch], failures: Sequence[KafkaError]) -> None:
        """Send each batch when it is due."""
        for due_ms, counted, batch in batches:
            due = self.zero + due_ms / 1000
            if (early_s := due - time.monotonic()) > 0:
                time.sleep(early_s)
            _produce(producer, batch)
            self.batches += 1
            now = time.monotonic()
            if counted:
                self.last = now
                self.sent += counted
                self.behind.add((now - due) * 1000, counted)
            if now > self.reported_at + REPORT_EVERY_S:
                self.reported_at = now
                self.report(self._progress(now, now - due))
            if failures:
                return

    def run(self, about: Mapping[str, Any], by_topic: Mapping[str, int], digest: str, *, is_complete: bool) -> Run:
        seconds = max(self.last - self.zero, 0.001)
        return Run(
            about=about,
            start_ms=self.start_ms,
            sent=self.sent,
            by_topic=by_topic,
            seconds=round(seconds, 3),
            rate_per_s=round(self.sent / seconds, 1),
            behind_ms=self.behind.record(),
            is_complete=is_complete,
            digest=digest,
            until_ms=self.start_ms + self.until_ms,
        )

    def _progress(self, now: float, behind_s: float) -> str:
        seconds = now - self.zero
        if self.sent == self.left:
            left_s = max(0, self.until_ms / 1000 - seconds)
            return f"all sent; small events follow for {left_s:.0f} s, to close the last windows"
        return f"{self.sent} sent in {seconds:.0f} s, {self.sent / seconds:.0f}/s, {behind_s * 1000:.1f} ms behind"


class Behind:
    """How long after their due times messages left, counted by tenths of a millisecond."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, behind_ms: float, messages: int) -> None:
        self._counts[round(behind_ms * 10)] += messages

    def record(self) -> dict[str, float | int | str | None]:
        """Quantiles, as those of a latency."""
        ascending, count = sorted(self._counts), self._counts.total()

        def quantile(q: float) -> float | None:
            before = 0
            for tenths in ascending:
                before += self._counts[tenths]
                if before >= round(q * count, 9):
                    return tenths / 10
            return None

        worst = ascending[-1] / 10 if ascending else None
        shown = {f"{name}_ms": quantile(q) for name, q in QUANTILES.items()}
        return {"name": "behind the plan", "count": count, **shown, "max_ms": worst}


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


def _produce(producer: Producer, messages: Sequence[Produced]) -> None:
    sent = 0
    while sent < len(messages):
        try:
            for each in messages[sent:]:
                producer.produce(*each)
                sent += 1
        except BufferError:
            producer.poll(0.05)
    producer.poll(0)


def _flush(producer: Producer, failures: Sequence[KafkaError], bootstrap: str) -> None:
    left = producer.flush(ACKNOWLEDGED_WITHIN_S)
    if left or failures:
        why = unacknowledged(bootstrap, failures)
        raise TrafficError(f"{left + len(failures)} messages were not acknowledged: {why}")


def _partitions(producer: Producer, bootstrap: str, topics: Mapping[str, str], judged: str) -> int:
    there = listed(producer, bootstrap)
    if missing := sorted(topic for topic in topics.values() if topic not in there):
        raise TrafficError(f"no topic {missing[0]} at {bootstrap}; provision the pattern first")
    return len(there[topics[judged]].partitions)
