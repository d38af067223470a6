"""A raw message under another key than its body has, or in another partition, is named by the verdict."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from millrace.oracle import Record
from millrace.traffic import plan_for
from millrace.verify import judge
from millrace.verify.evidence import place
from millrace.verify.ledger.chain import Entry, entry_of, verdict_of
from millrace.verify.ledger.step import Limits
from millrace.verify.verdict import Figure
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import PARTITIONS, QUESTION, RAW, START_MS, messages, ran, topics
from tests.pipelines.segmented import Ledger
from tests.pipelines.test_segments import live

PLAN = plan_for(TRAFFIC, 200, 20, seed=3, name="p", customers=30, frauds=0.1, edges=0.1)
CARD = b"4111111111111111"
Raw = Mapping[str, Sequence[Record]]


@pytest.fixture(scope="module")
def raw() -> dict[str, list[Record]]:
    return topics(messages(PLAN))


def under(raw: Raw, kind: str, key: bytes | None, of: Collection[str] = ()) -> tuple[Raw, Record]:
    """The topics with one valid message, of one of these keys, under another key; and that message."""
    own = [n for n, each in enumerate(raw[kind]) if _key(each) == (each.key or b"").decode()]
    at = next(n for n in own[10:] if not of or _key(raw[kind][n]) in of)
    other = [*raw[kind]]
    other[at] = replace(other[at], key=key)
    return {**raw, kind: other}, other[at]


def _subject(alert: Record) -> str:
    return str(json.loads(alert.value or b"")["subject"])


def _key(record: Record) -> str | None:
    try:
        found = json.loads(record.value or b"")
        return str(found.get("customer", found.get("merchant")))
    except (ValueError, AttributeError):
        return None


def test_messages_under_their_own_keys_are_not_named(raw: Raw) -> None:
    verdict = judge(QUESTION, ran(PLAN, raw))
    assert [note for note in verdict.notes if "another key in Kafka" in note] == []


@pytest.mark.parametrize(
    ("kind", "column", "key", "shown"),
    [
        ("transactions", "customer", b"somebody", "the key b'somebody'"),
        ("transactions", "customer", None, "no key"),
        ("transactions", "customer", CARD, "the key b'****************'"),
        ("device-locations", "customer", b"somebody", "the key b'somebody'"),
        ("customers", "customer", b"somebody", "the key b'somebody'"),
    ],
    ids=["another", "none", "a card number", "of another stream", "of reference data"],
)
def test_a_message_under_another_key_is_named_with_its_place(
    raw: Raw, kind: str, column: str, key: bytes | None, shown: str
) -> None:
    other, record = under(raw, kind, key)
    verdict = judge(QUESTION, ran(PLAN, other))
    (note,) = [note for note in verdict.notes if "another key in Kafka" in note]
    assert note.startswith(
        f"{kind}: 1 message(s) with another key in Kafka than their '{column}': "
        f"{kind}[{record.partition}]@{record.offset} has {shown}, not '{_key(record)}'; "
    )
    assert CARD.decode() not in note


def elsewhere(raw: Raw, kind: str) -> tuple[Raw, Record]:
    """The topics with the last valid message in the other partition; and that message."""
    own = [*raw[kind]]
    at = max(n for n, each in enumerate(own) if _key(each) == (each.key or b"").decode())
    partition = 1 - own[at].partition
    offset = 1 + max(each.offset for each in own if each.partition == partition)
    own[at] = replace(own[at], partition=partition, offset=offset)
    return {**raw, kind: own}, own[at]


@pytest.mark.parametrize("kind", RAW)
def test_a_message_in_another_partition_than_its_keys_is_named_with_its_place(raw: Raw, kind: str) -> None:
    """Of an outside sender with another partitioner: no record of a run shows where it belongs."""
    other, record = elsewhere(raw, kind)
    verdict = judge(QUESTION, replace(ran(PLAN, other), partitions=dict.fromkeys(RAW, PARTITIONS)))
    (note,) = [note for note in verdict.notes if "another partition" in note]
    where = f"{kind}[{record.partition}]@{record.offset} has the key '{_key(record)}', of partition"
    assert note.startswith(
        f"{kind}: 1 message(s) in another partition than Kafka's default partitioner gives their key: "
    )
    assert f"{where} {1 - record.partition}; " in note
    kept = judge(QUESTION, replace(ran(PLAN, raw), partitions=dict.fromkeys(RAW, PARTITIONS)))
    assert [note for note in kept.notes if "another partition" in note] == []


def test_segments_count_both_and_name_their_places(raw: Raw) -> None:
    def found(topics: Raw) -> tuple[dict[str, Figure], tuple[str, ...]]:
        ledger = Ledger(replace(QUESTION, stores=()), live(ran(PLAN, topics)), Limits(60_000, 15_000))
        entries: list[Entry] = []
        for segment in ledger.through(range(START_MS, START_MS + 60_000, 20_000)):
            entries.append(entry_of(segment, {}, {}, "", entries[-1] if entries else None, ""))
        own = [each.figures["conservation"] for each in entries]
        counted = {name: value for each in own for name, value in each.items() if "another" in name}
        return counted, verdict_of("pretended", entries).notes

    assert found(raw) == ({}, ())
    for (other, record), how in (
        (under(raw, "transactions", b"somebody"), "under another key"),
        (elsewhere(raw, "transactions"), "in another partition"),
    ):
        name, where = f"transactions: {how}", place(record)
        counted, (note,) = found(other)
        assert counted == {name: 1, f"{name}, the first": where}
        assert note.startswith(f"transactions: 1 message(s) {how}: {where}; ")


def test_beside_what_an_engine_lost_by_it_the_verdict_is_failed(raw: Raw) -> None:
    """As with state by partition: the message was judged without what its key remembers."""
    alerted = {_subject(each) for each in ran(PLAN, raw).outputs["alerts"] or ()}
    other, record = under(raw, "transactions", b"somebody", alerted)
    assert alerted
    good = ran(PLAN, other)
    mine = [each for each in good.outputs["alerts"] or () if _subject(each) == _key(record)]
    lost = {**good.outputs, "alerts": [each for each in good.outputs["alerts"] or () if each not in mine]}
    verdict = judge(QUESTION, replace(good, outputs=lost))
    assert verdict.status == "failed"
    assert any("another key in Kafka" in note for note in verdict.notes)


NUMBERS = ("9" * 5_000, "-" + "9" * 5_000, "1e400", "[" * 400 + "]" * 400)
"""What a field may hold that no type declares: the oracle reads it, and forgets it."""


@pytest.mark.parametrize("number", NUMBERS, ids=["large", "small", "infinite", "deep"])
@pytest.mark.parametrize("kind", ["device-locations", "customers"])
def test_a_valid_message_with_any_undeclared_value_is_judged(raw: Raw, kind: str, number: str) -> None:
    own = [*raw[kind]]
    at = next(n for n, each in enumerate(own) if _key(each) == (each.key or b"").decode())
    value = (own[at].value or b"").rstrip().removesuffix(b"}") + b', "undeclared": ' + number.encode() + b"}"
    own[at] = replace(own[at], value=value)
    verdict = judge(QUESTION, ran(PLAN, {**raw, kind: own}))
    assert [check.name for check in verdict.checks if check.status != "ok"] == []
    assert [note for note in verdict.notes if "another key in Kafka" in note] == []
