"""Canaries set off their rules in every round, and are known by their marks in every output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from millrace import oracle
from millrace.oracle import Record
from millrace.rules import RuleError, UseCase
from millrace.testing import MIDNIGHT_MS, mute_canaries
from millrace.traffic import Canaries, Message, Secrets, plan_for
from millrace.traffic.planned import partition_of
from millrace.traffic.tokens import secrets_under
from millrace.verbs.sending import closing_keys
from pipelines.flood import FLOOD
from pipelines.fraud import FRAUD

USES = pytest.mark.parametrize("use", [FRAUD, FLOOD], ids=lambda use: use.name)


def declared(use: UseCase) -> Canaries:
    assert use.canaries is not None
    return use.canaries


def without(use: UseCase, topic: str) -> UseCase:
    """The use, with canaries that leave one topic out."""

    def messages(key: str, secrets: Secrets, start_ms: int, for_ms: int) -> Iterator[Message]:
        yield from (each for each in declared(use).messages(key, secrets, start_ms, for_ms) if each.topic != topic)

    return replace(use, canaries=replace(declared(use), messages=messages))


@USES
@pytest.mark.parametrize("every_s", [10, 15, 60])
def test_each_round_sets_off_each_rule_of_its_own(use: UseCase, every_s: int) -> None:
    assert set(declared(use).rules) == {rule.name for rule in use.rules}
    assert mute_canaries(use.name, every_s) == []


def test_a_rule_that_a_round_does_not_set_off_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    phoneless = without(FRAUD, "device-locations")
    monkeypatch.setattr("millrace.testing._declared", lambda name: phoneless)
    assert mute_canaries("fraud") == [
        f"round {number} of canary:{key} does not set off away-from-phone" for key in (0, 1) for number in (1, 2, 3)
    ]


@USES
def test_each_message_is_due_within_its_round_and_goes_to_the_partition_of_its_key(use: UseCase) -> None:
    secrets, mark = secrets_under(use, b"k" * 32), declared(use).marks[use.judged.key]
    for partitions in (1, 2, 5):
        keys = closing_keys(lambda number: f"{mark}{number}", partitions)
        for number, key in enumerate(keys):
            for every_s in (10, 60):
                sent = list(declared(use).messages(key, secrets, MIDNIGHT_MS + 1, every_s * 1000))
                assert all(0 <= each.due_ms < every_s * 1000 for each in sent)
                assert {partition_of(each.key or b"", partitions) for each in sent} == {number}


@USES
def test_generated_traffic_has_no_mark(use: UseCase) -> None:
    assert use.traffic is not None
    plan = plan_for(use.traffic, 2_000, 100, name="canary")
    sent = list(use.traffic.messages(plan, secrets_under(use, b"k" * 32), MIDNIGHT_MS))
    read = [oracle.accept(use.judged, each.value, MIDNIGHT_MS) for each in sent if each.topic == use.judged.name]
    accepted = [each for each in read if not isinstance(each, oracle.Refusal)]
    assert len(accepted) > 500
    assert not [each for each in accepted if use.is_canary(each)]


@USES
def test_no_row_of_a_summary_counts_canaries_beside_others(use: UseCase) -> None:
    assert use.counting_canaries == ()
    secrets, mark = secrets_under(use, b"k" * 32), declared(use).marks[use.judged.key]
    known: dict[str, dict[str, Any]] = {each.name: {} for each in use.references}
    for reference in declared(use).references(f"{mark}0"):
        kind = next(each for each in use.references if each.name == reference.topic)
        oracle.refer(kind, known[reference.topic], record(reference, 0))
    round_ = declared(use).messages(f"{mark}0", secrets, MIDNIGHT_MS, 60_000)
    events = [
        each.event for each in oracle.judge(use, use.rules, tape(round_), known) if each.record.topic == use.judged.name
    ]
    for summary in use.summaries:
        rows = oracle.summary_rows(summary, [each for each in events if each is not None])
        assert rows
        assert all(use.is_canary(dict(zip(summary.keys, keys, strict=True))) for _, *keys in rows)


def test_a_summary_without_a_mark_among_its_keys_counts_canaries_and_is_named() -> None:
    marks = {"customer": "canary:"}
    unmarked = replace(FRAUD, canaries=replace(declared(FRAUD), marks=marks))
    assert [each.name for each in unmarked.counting_canaries] == ["spend-per-minute"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"marks": {"merchant_category": "canary:"}}, "no mark in 'customer', the key of 'transactions'"),
        ({"marks": {"customer": "canary:", "town": "x"}}, "'enriched' has no such field"),
        ({"marks": {"customer": ""}}, "every value begins with it"),
        ({"rules": ("sprees",)}, "'sprees', which is no rule of the use"),
    ],
)
def test_canaries_that_do_not_fit_the_use_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RuleError, match=complaint):
        replace(FRAUD, canaries=replace(declared(FRAUD), **changes))


def test_a_message_says_when_it_was_meant_to_leave() -> None:
    for use in (FRAUD, FLOOD):
        mark = declared(use).marks[use.judged.key]
        for each in declared(use).messages(f"{mark}1", secrets_under(use, b"k" * 32), MIDNIGHT_MS, 60_000):
            assert json.loads(each.value or b"")["sent_ms"] == MIDNIGHT_MS + each.due_ms


def tape(messages: Iterable[Message]) -> Iterator[Record]:
    return (record(each, number) for number, each in enumerate(messages))


def record(each: Message, number: int) -> Record:
    return Record(each.topic, 0, number, MIDNIGHT_MS + each.due_ms, each.key, each.value)
