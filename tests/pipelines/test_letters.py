"""The mark of a dead letter that is sent again names the new message."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.patterns import load
from millrace.rules import DEAD_LETTERS
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import letters
from millrace.verbs.letters import Letter
from millrace.verify.marks import Mark, digest_of, mark


def test_each_message_that_is_sent_again_is_marked_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    variant, target = load("flink"), Target(Settings.read({}), {"KAFKA_BOOTSTRAP": "nowhere"})
    topic = variant.topic("transactions")
    originals = [Record("transactions", 1, n, n, b"k%d" % n, b'{"n":%d}' % n) for n in range(3)]
    found = [Letter("json", topic, 1, each.offset, each.ingest_ms, "events", None) for each in originals]
    published: list[tuple[str, bytes | None, bytes]] = []

    def publish(bootstrap: str, messages: Iterable[Any], places: dict[int, tuple[int, int]] | None = None) -> int:
        for number, message in enumerate(written := list(messages)):
            if places is not None:
                places[number] = (number % 2, 70 + number)
            published.append(message)
        return len(written)

    monkeypatch.setattr(letters.topics, "publish", publish)
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


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"partition":[],"offset":0,"digest":""}', b'{"offset":1}'])
def test_what_is_no_mark_is_none(content: bytes) -> None:
    assert mark(base64.b64encode(content).decode()) is None
    assert mark("§") is None
