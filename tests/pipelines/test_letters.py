"""The mark of a dead letter that is sent again names the new message."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.patterns import load
from millrace.rules import DEAD_LETTERS
from millrace.settings import Settings
from millrace.stores.topics import TopicError
from millrace.target import Target
from millrace.verbs import letters
from millrace.verbs.letters import Letter
from millrace.verify.marks import Mark, digest_of, mark


def test_each_message_that_is_sent_again_is_marked_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    variant, target = load("flink"), Target(settings, {"KAFKA_BOOTSTRAP": "nowhere"})
    topic = variant.topic("transactions")
    originals = [Record("transactions", 1, n, n, b"k%d" % n, b'{"n":%d}' % n) for n in range(3)]
    found = [Letter("json", topic, 1, each.offset, each.ingest_ms, "events", None) for each in originals]
    published: list[tuple[str, bytes | None, bytes]] = []

    def publish(_: Any, messages: Iterable[Any], places: dict[int, tuple[int, int]] | None = None) -> int:
        for number, message in enumerate(written := list(messages)):
            if places is not None:
                places[number] = (number % 2, 70 + number)
            published.append(message)
        return len(written)

    monkeypatch.setattr(letters.topics.Publisher, "publish", publish)
    monkeypatch.setattr(letters, "read", lambda *_: found)
    monkeypatch.setattr(letters, "_originals", lambda *_: {(topic, 1, each.offset): each for each in originals})
    monkeypatch.setattr(letters, "_is_masked", lambda *_: False)
    corrected = b'{"customer":"c"}'
    assert letters.replay(target, variant, found, {(topic, 1, 2): corrected}).sent == 3
    sent, marked = published[:3], [json.loads(value) for _, _, value in published[3:]]
    assert sent == [(topic, b"k0", b'{"n":0}'), (topic, b"k1", b'{"n":1}'), (topic, b"c", corrected)]
    assert {each for each, _, _ in published[3:]} == {variant.topic(DEAD_LETTERS)}
    assert [(each["reason"], each["topic"], each["partition"], each["offset"]) for each in marked] == [
        ("replayed", topic, 1, n) for n in range(3)
    ]
    assert [mark(each["value_base64"]) for each in marked] == [
        Mark(n % 2, 70 + n, digest_of(key, value)) for n, (_, key, value) in enumerate(sent)
    ]


def test_those_that_arrived_are_marked_though_others_did_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    variant, target = load("flink"), Target(settings, {"KAFKA_BOOTSTRAP": "nowhere"})
    topic = variant.topic("transactions")
    originals = {(topic, 0, n): Record("transactions", 0, n, n, b"k", b"{}") for n in range(2)}
    found = [Letter(reason, *place, 5, "events", None) for place in originals for reason in ("json", "range:x")]
    published: list[tuple[str, bytes | None, bytes]] = []

    def publish(_: Any, messages: Iterable[Any], places: dict[int, tuple[int, int]] | None = None) -> int:
        published.extend(messages)
        if places is None:
            return len(published)
        places[1] = 0, 70
        raise TopicError("1 of 2 messages were not acknowledged")

    monkeypatch.setattr(letters.topics.Publisher, "publish", publish)
    monkeypatch.setattr(letters, "read", lambda *_: found)
    monkeypatch.setattr(letters, "_originals", lambda *_: originals)
    monkeypatch.setattr(letters, "_is_masked", lambda *_: False)
    with pytest.raises(TopicError, match="1 of 2"):
        letters.replay(target, variant, found, {})
    assert [each for each, _, _ in published] == [topic, topic, variant.topic(DEAD_LETTERS)], "each message once"
    marked = json.loads(published[2][2])
    assert (marked["offset"], mark(marked["value_base64"])) == (1, Mark(0, 70, digest_of(b"k", b"{}")))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"partition":[],"offset":0,"digest":""}', b'{"offset":1}'])
def test_what_is_no_mark_is_none(content: bytes) -> None:
    assert mark(base64.b64encode(content).decode()) is None
    assert mark("§") is None
