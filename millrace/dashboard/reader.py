"""The one reader of Kafka for all browsers: a thread that owns the boards of all patterns."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from millrace.dashboard.board import Board
from millrace.oracle import Record
from millrace.patterns.plan import HOP
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import DISPOSITIONS, VERDICTS_TOPIC, WINDOWS_TOPIC

TICK_EVERY_S = 0.5
BATCH = 2_000
READ_AT_FIRST = {
    ALERTS.name: 10_000,
    DEAD_LETTERS.name: 10_000,
    WINDOWS_TOPIC: 20_000,
    HOP: 500,
    DISPOSITIONS.name: 50_000,
    VERDICTS_TOPIC: 720,  # an hour of the shortest segments
}
EVENTS_AT_FIRST = 20_000
"""Of each partition; what is older is counted only."""
BUFFERED_KB = 8_192

T = TypeVar("T")
Place = tuple[str, int]


@dataclass(frozen=True)
class Span:
    """A partition as it was at one moment: its topic's id, its first offset, and the one behind its last message."""

    topic_id: str
    first: int
    end: int


class Reader(threading.Thread):
    """Reads the topics of all patterns, and publishes what has changed twice a second.

    Everything that touches a board runs in this thread: others call `ask`.
    """

    def __init__(self, bootstrap: str, publish: Callable[[str, str], None]) -> None:
        super().__init__(name="reader", daemon=True)
        self._publish = publish
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._kinds: dict[str, tuple[str, str]] = {}
        """Topic -> pattern and kind of message."""
        self._next: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        """As the last look found them."""
        self._topic_ids: dict[str, str] = {}
        self.boards: dict[str, Board] = {}
        self.around: dict[str, Any] = {}
        """What is not in Kafka, for the page: its state, and by pattern jobs, lag and verdict."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "millrace.dashboard",  # the client requires one; no offset is ever committed under it
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                # Otherwise it fetches again as soon as one message is there, up to a thousand times a second.
                "fetch.min.bytes": 65_536,
                "fetch.wait.max.ms": 250,
                "reconnect.backoff.max.ms": 1_000,
                "topic.metadata.refresh.interval.ms": 5_000,
                "queued.max.messages.kbytes": BUFFERED_KB,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        next_tick = time.monotonic()
        try:
            while not self._ended.is_set():
                self._read()
                self._answer()
                if time.monotonic() >= next_tick:
                    next_tick = time.monotonic() + TICK_EVERY_S
                    self._publish("tick", json.dumps(self.tick(), separators=(",", ":")))
        finally:
            self._consumer.close()

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        self.join(10)

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Run a function in the reader's thread, where it may read the boards."""
        answer: Future[T] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # the answer is no longer awaited
            try:
                answer.set_result(question())
            except Exception as error:
                answer.set_exception(error)

        self._asked.put(run)
        return answer

    def full(self) -> dict[str, Any]:
        """All that a browser needs to begin; in the reader's thread."""
        now_ms = _now_ms()
        return {
            "now_ms": now_ms,
            "around": self.around,
            "boards": {name: board.full(now_ms) for name, board in self.boards.items()},
        }

    def tick(self) -> dict[str, Any]:
        """What has changed; in the reader's thread."""
        self._count_behind()
        now_ms = _now_ms()
        return {
            "now_ms": now_ms,
            "around": self.around,
            "boards": {name: board.tick(now_ms) for name, board in self.boards.items()},
        }

    def follow(
        self, boards: Mapping[str, Board], kinds: Mapping[str, tuple[str, str]], there: Mapping[Place, Span]
    ) -> None:
        """Read these topics from now on; in the reader's thread.

        `kinds` maps a topic to its pattern and its kind of message. A pattern whose topics were made anew gets the
        given board; others keep theirs.
        """
        # Not by offsets: of a busy partition more has been read by now than it had when its end was asked for.
        ids = {place[0]: span.topic_id for place, span in there.items()}
        anew = {kinds[topic][0] for topic, own in ids.items() if self._topic_ids.get(topic, own) != own}
        gone = [place for place in self._next if place not in there or kinds[place[0]][0] in anew]
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in gone])
            for place in gone:
                del self._next[place]
        self._kinds, self._topic_ids = dict(kinds), ids
        self._ends = {place: span.end for place, span in there.items()}
        self.boards = {
            name: self.boards[name] if name in self.boards and name not in anew else board
            for name, board in boards.items()
        }
        new = [place for place in there if place not in self._next]
        for place in new:
            name, kind = kinds[place[0]]
            span = there[place]
            start = max(span.first, span.end - READ_AT_FIRST.get(kind, EVENTS_AT_FIRST))
            self._next[place] = start
            self.boards[name].skip(kind, start)
        if new:
            self._consumer.incremental_assign([TopicPartition(*place, self._next[place]) for place in new])

    def _read(self) -> None:
        for message in self._consumer.consume(BATCH, 0.1):
            topic, number, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            if (topic, number) not in self._next:
                continue
            if error := message.error():  # the client reconnects; Kafka's state is in `around`
                if error.code() == KafkaError._PARTITION_EOF:
                    # The last offsets may hold no message, or one that was taken back.
                    self._next[topic, number] = max(self._next[topic, number], offset)
                continue
            name, kind = self._kinds[topic]
            self._next[topic, number] = offset + 1
            self.boards[name].take(Record(kind, number, offset, message.timestamp()[1], message.key(), message.value()))

    def _count_behind(self) -> None:
        """Count for each board the messages up to the ends that are not read yet."""
        unread: Counter[str] = Counter()
        for place, end in self._ends.items():
            unread[self._kinds[place[0]][0]] += max(0, end - self._next[place])
        for name, board in self.boards.items():
            board.behind = unread[name]

    def _answer(self) -> None:
        for _ in range(self._asked.qsize()):
            self._asked.get_nowait()()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
