"""A tape holds messages as a producer takes them, in the order and batches in which they are due."""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path

import pytest

from millrace.traffic import Label, Message, tape
from millrace.traffic.tape import Digest, Tape

TOPICS = {"visits": "p.visits", "hop": "p.hop"}


def said(due_ms: int, topic: str = "visits", value: bytes | None = b"v") -> Message:
    return Message(due_ms, topic, b"k%d" % due_ms, value, Label(topic))


def test_what_is_due_together_is_one_batch(tmp_path: Path) -> None:
    with Tape(tmp_path) as recorded:
        recorded.record([said(1), said(1, value=None), said(1, "hop"), said(3)], TOPICS, ["hop"])
        assert list(recorded.batches()) == [
            (1, 2, [("p.visits", b"v", b"k1"), ("p.visits", None, b"k1"), ("p.hop", b"v", b"k1")]),
            (3, 1, [("p.visits", b"v", b"k3")]),
        ]
        assert (recorded.length, recorded.counted, recorded.until_ms) == (2, 3, 3)
        assert recorded.by_topic(1) == {"p.visits": 2, "p.hop": 1}


def test_a_second_recording_replaces_the_first(tmp_path: Path) -> None:
    with Tape(tmp_path) as recorded:
        recorded.record([said(n) for n in range(9)], TOPICS)
        recorded.record([said(5)], TOPICS)
        assert (list(recorded.batches()), recorded.length) == ([(5, 1, [("p.visits", b"v", b"k5")])], 1)
        expected = Digest()
        expected.add(said(5))
        assert recorded.digest == expected.hex


def test_a_tape_larger_than_memory_lies_in_a_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape, "IN_MEMORY_BYTES", 1_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    with Tape(tmp_path) as recorded:
        recorded.record((said(n // 3) for n in range(10_000)), TOPICS)
        assert list(tmp_path.iterdir()) == []
        messages = list(chain.from_iterable(batch for _, _, batch in recorded.batches()))
    assert messages == [("p.visits", b"v", b"k%d" % (n // 3)) for n in range(10_000)]


def test_no_batch_is_longer_than_memory_allows(tmp_path: Path) -> None:
    with Tape(tmp_path) as recorded:
        recorded.record((said(0) for _ in range(tape.BATCH_MOST * 2 + 1)), TOPICS)
        assert [len(batch) for _, _, batch in recorded.batches()] == [tape.BATCH_MOST, tape.BATCH_MOST, 1]
