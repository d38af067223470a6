"""The mark of a dead letter that is sent again names the new message."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from millrace.cli.app import run
from millrace.errors import InfraError
from millrace.oracle import Record
from millrace.patterns import load
from millrace.rules import DEAD_LETTERS
from millrace.settings import Settings
from millrace.stores.topics import TopicError
from millrace.target import Target
from millrace.verbs import letters
from millrace.verbs.letters import Letter, Replayed
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


class Rejected:
    """Four messages that a pattern rejected: the first two are in their topic, the second has a card number."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.target = Target(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {"KAFKA_BOOTSTRAP": "nowhere"})
        self.variant = load("flink")
        self.topic = self.variant.topic("transactions")
        self.letters = [Letter("json", self.topic, 1, n, n, "events", None) for n in range(4)]
        originals = {(self.topic, 1, n): Record("transactions", 1, n, n, b"k%d" % n, b"{}") for n in range(2)}
        self.sent: list[bytes | None] = []

        def publish(_: Any, messages: Iterable[Any], places: dict[int, tuple[int, int]] | None = None) -> int:
            for number, (topic, key, _value) in enumerate(messages):
                if places is not None:
                    places[number] = (0, 70 + number)
                if topic == self.topic:
                    self.sent.append(key)
            return len(self.sent)

        monkeypatch.setattr(letters.topics.Publisher, "publish", publish)
        monkeypatch.setattr(letters, "read", lambda *_: self.letters)
        monkeypatch.setattr(letters, "_originals", lambda *_: originals)
        monkeypatch.setattr(letters, "_is_masked", lambda kind, letter, original: letter.offset == 1)


@pytest.fixture
def rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rejected:
    return Rejected(tmp_path, monkeypatch)


def test_messages_that_their_topic_has_deleted_are_counted_and_hold_back_no_other(rejected: Rejected) -> None:
    found = letters.replay(rejected.target, rejected.variant, rejected.letters, {})
    assert (found, rejected.sent) == (Replayed(sent=1, masked=1, lost=2), [b"k0"])
    corrected = {(rejected.topic, 1, 3): b'{"customer":"c"}'}
    found = letters.replay(rejected.target, rejected.variant, rejected.letters, corrected)
    assert (found, rejected.sent) == (Replayed(sent=2, masked=1, lost=1), [b"k0", b"k0", b"c"])


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        (slice(2, 4), "2 of the messages are no longer in their topic (first: {} partition 1 offset 2); give"),
        (slice(1, 2), "1 of the messages hold a card number or a forbidden field (first: {} partition 1 offset 1), "),
        (slice(1, 4), "partition 1 offset 2); 1 of the messages hold a card number or a forbidden field (first: {} "),
    ],
)
def test_where_none_is_left_to_send_the_reasons_are_named_with_the_remedy(
    rejected: Rejected, chosen: slice, complaint: str
) -> None:
    with pytest.raises(InfraError) as refused:
        letters.replay(rejected.target, rejected.variant, rejected.letters[chosen], {})
    assert complaint.format(rejected.topic).removeprefix("") in str(refused.value)
    assert str(refused.value).endswith("; give corrected values with --with FILE")
    assert rejected.sent == []


def test_nothing_to_send_again_is_no_error(rejected: Rejected) -> None:
    assert letters.replay(rejected.target, rejected.variant, [], {}) == Replayed(sent=0, masked=0, lost=0)


def test_the_verb_prints_how_many_messages_their_topic_has_deleted(
    rejected: Rejected, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Target, "read", lambda *_: rejected.target)
    assert run(["dead-letters", "replay", "flink"]) == 0
    assert "2 are no longer in their topic and were not sent; give their values by --with" in capsys.readouterr().out
    assert run(["dead-letters", "replay", "flink", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["replayed"], answer["masked"], answer["lost"]) == (1, 1, 2)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"partition":[],"offset":0,"digest":""}', b'{"offset":1}'])
def test_what_is_no_mark_is_none(content: bytes) -> None:
    assert mark(base64.b64encode(content).decode()) is None
    assert mark("§") is None
