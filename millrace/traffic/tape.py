"""A tape: messages encoded before the first is sent, so that while they are sent nothing is left to compute.

It lies in a file that has no name, in memory while it is small: a tape may be larger than memory.
"""

from __future__ import annotations

import hashlib
import marshal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from types import TracebackType

from millrace.rules.traffic import Message

IN_MEMORY_BYTES = 32 * 1024 * 1024
MARGIN = 1.5
"""How much longer than expected the encoding of a tape may take, before its traffic begins."""
BATCH_MOST, CHUNK_MESSAGES = 1_000, 2_000
_LENGTH_BYTES = 8

Produced = tuple[str, bytes | None, bytes | None]
"""Topic, value and key, as a producer takes them."""
Batch = tuple[int, int, list[Produced]]
"""When it is due, how many of its messages count as traffic, and the messages."""


class Digest:
    """Identifies traffic by its topics, keys and due times, whatever the secrets' keys."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, message: Message) -> None:
        self._sha256.update(b"%d %s %s\n" % (message.due_ms, message.topic.encode(), message.key or b""))

    @property
    def hex(self) -> str:
        return self._sha256.hexdigest()


class Tape:
    """Messages in the order of their sending, those due in one millisecond together."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES, dir=str(folder) if folder else None)  # noqa: SIM115 - `__exit__` closes it
        self._digest = Digest()
        self.length = self.counted = self.until_ms = 0
        """How many batches there are, how many messages that count as traffic, and when the last one is due."""

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def record(self, messages: Iterable[Message], topics: Mapping[str, str], beside: Iterable[str] = ()) -> None:
        """Encode messages for these topics, in place of earlier ones; of the kinds `beside`, none counts as traffic."""
        self._file.seek(0)
        self._file.truncate()
        self._digest = Digest()
        self.length = self.counted = self.until_ms = 0
        chunk, held = list[Batch](), 0
        for batch in self._batched(messages, topics, frozenset(beside)):
            chunk.append(batch)
            held += len(batch[2])
            self.length += 1
            self.counted += batch[1]
            self.until_ms = batch[0]
            if held >= CHUNK_MESSAGES:
                self._write(chunk)
                chunk, held = [], 0
        self._write(chunk)

    @property
    def digest(self) -> str:
        """Identifies the traffic on it."""
        return self._digest.hex

    def batches(self) -> Iterator[Batch]:
        """All batches in their order."""
        self._file.seek(0)
        while length := self._file.read(_LENGTH_BYTES):
            yield from marshal.loads(self._file.read(int.from_bytes(length, "big")))

    def by_topic(self, batches: int) -> Counter[str]:
        """How many messages of each topic are in the first batches."""
        return Counter(topic for _, _, batch in islice(self.batches(), batches) for topic, _, _ in batch)

    def _batched(self, messages: Iterable[Message], topics: Mapping[str, str], beside: Set[str]) -> Iterator[Batch]:
        due_ms, counted, batch = 0, 0, list[Produced]()
        for message in messages:
            if batch and (message.due_ms != due_ms or len(batch) == BATCH_MOST):
                yield due_ms, counted, batch
                counted, batch = 0, []
            due_ms = message.due_ms
            batch.append((topics[message.topic], message.value, message.key))
            if message.label.kind not in beside:
                counted += 1
                self._digest.add(message)
        if batch:
            yield due_ms, counted, batch

    def _write(self, chunk: list[Batch]) -> None:
        written = marshal.dumps(chunk)
        self._file.write(len(written).to_bytes(_LENGTH_BYTES, "big"))
        self._file.write(written)
