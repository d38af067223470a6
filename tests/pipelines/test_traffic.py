"""Generated traffic has true labels: the oracle finds in each message what its label names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace import oracle
from millrace.oracle import Judged, Record
from millrace.traffic import Message, TrafficPlan, plan_for
from millrace.traffic.planned import partition_of
from millrace.traffic.tokens import secrets_under
from millrace.verbs.sending import closing_keys
from pipelines.fraud import FRAUD
from pipelines.fraud.invented_cards import invented_cards_in
from pipelines.fraud.rules import burst
from pipelines.fraud.traffic import DISORDER_MS, TRAFFIC
from pipelines.fraud.traffic.poison import NUMBER

START_MS = 1_790_000_000_000
REFERENCES = {kind.name: kind for kind in FRAUD.references}
SECRETS = secrets_under(FRAUD, b"k" * 32)
# Two and a half minutes, so that every story has room.
PLAN = plan_for(TRAFFIC, 3_000, 20, seed=11, frauds=0.1, edges=0.1, late=0.01, races=0.01)

PLANS = st.builds(
    partial(plan_for, TRAFFIC),
    events=st.integers(1, 400),
    rate_per_s=st.sampled_from([10, 33.3, 200, 5_000]),
    seed=st.integers(0, 10_000),
    customers=st.sampled_from([0, 1, 2, 30]),
    frauds=st.sampled_from([0, 0.02, 0.3]),
    edges=st.sampled_from([0, 0.3]),
    poison=st.sampled_from([0, 0.05]),
    duplicates=st.sampled_from([0, 0.3]),
    races=st.sampled_from([0, 0.1]),
    late=st.sampled_from([0, 0.1]),
)

a_few = settings(max_examples=settings.default.max_examples // 2)  # each judges up to 400 messages


def judged(plan: TrafficPlan) -> Iterator[tuple[Message, Judged]]:
    """Each message with the oracle's outcome, had it arrived when it was due."""
    known: dict[str, dict[str, Any]] = {reference.name: {} for reference in FRAUD.references}
    for message in TRAFFIC.references(plan):
        kind = REFERENCES[message.topic]
        event = oracle.accept(kind, message.value, START_MS)
        if isinstance(event, oracle.Refusal):
            assert event.reason == message.label.refusal
        else:
            known[message.topic][event[kind.key]] = event
    messages = list(TRAFFIC.messages(plan, SECRETS, START_MS))
    tape = [record(message, number) for number, message in enumerate(messages)]
    return zip(messages, oracle.judge(FRAUD, FRAUD.rules, tape, known), strict=True)


def record(message: Message, number: int) -> Record:
    """The message as it arrives the moment it is due."""
    return Record(message.topic, 0, number, START_MS + message.due_ms, message.key, message.value)


def assert_labels_tell_the_truth(plan: TrafficPlan) -> Counter[str]:
    results = list(judged(plan))
    purchases = [each.event for _, each in results if each.event and each.record.topic == "transactions"]
    in_burst = {identity for f in oracle.window_findings(burst, purchases) for identity in f.event_ids}
    kinds: Counter[str] = Counter()
    for message, each in results:
        kinds[message.label.kind] += 1
        assert each.reason == message.label.refusal, message
        if message.topic == "transactions" and each.event and message.label.kind != "race":
            found = {finding.rule for finding in each.findings}
            found |= {burst.name} if each.event["transaction_id"] in in_burst else set()
            assert found == set(message.label.alerts), message
    return kinds


def test_every_kind_of_episode_occurs_and_every_label_is_true() -> None:
    kinds = assert_labels_tell_the_truth(PLAN)
    told = {kind for kind in kinds if not kind.startswith("poison")}
    assert told == {
        *("everyday", "phone", "burst", "above", "away", "spree", "duplicate", "race", "late", "trip", "no phone"),
        *(f"2 purchases {ms} ms apart" for ms in (9_999, 10_000, 10_001)),
        *("3 purchases 10000 ms apart", "two cards", "the same amount again", "one cent more"),
        *("985 m from the phone", "1015 m from the phone"),
        *("phone seen 15 minutes before", "phone seen 15 minutes and 1 ms before"),
    }


def test_the_usual_mixture_is_mostly_harmless() -> None:
    plan = plan_for(TRAFFIC, events=5_000, rate_per_s=100)
    kinds = assert_labels_tell_the_truth(plan)
    harmless = kinds["everyday"] + kinds["phone"]
    assert 0.8 < harmless / plan.events < 0.97
    assert 0.002 < sum(n for kind, n in kinds.items() if kind.startswith("poison")) / plan.events < 0.02


@a_few
@given(PLANS)
def test_labels_are_true_whatever_the_plan(plan: TrafficPlan) -> None:
    assert_labels_tell_the_truth(plan)


@a_few
@given(PLANS)
def test_a_plan_gives_its_number_of_messages_each_at_its_time(plan: TrafficPlan) -> None:
    messages = list(TRAFFIC.messages(plan, SECRETS, START_MS))
    assert [message.due_ms for message in messages] == [plan.due_ms(n) for n in range(plan.events)]


@a_few
@example(plan=plan_for(TRAFFIC, 364, 10, seed=366, poison=0.05, duplicates=0, frauds=0.3, edges=0, races=0, late=0))
@given(PLANS)
def test_purchases_are_out_of_order_within_the_stated_bound(plan: TrafficPlan) -> None:
    newest_ms = 0
    for message, each in judged(plan):
        if message.topic == "transactions" and each.event and message.label.kind != "late":
            assert each.event["at_ms"] >= newest_ms - DISORDER_MS
            newest_ms = max(newest_ms, each.event["at_ms"])


def test_the_same_plan_gives_the_same_bytes_and_another_seed_others() -> None:
    def sent(seed: int) -> list[bytes | None]:
        return [
            m.value
            for m in TRAFFIC.messages(plan_for(TRAFFIC, events=300, rate_per_s=50, seed=seed), SECRETS, START_MS)
        ]

    assert sent(1) == sent(1)
    assert sent(1) != sent(2)


def test_ids_of_runs_with_different_names_never_meet() -> None:
    def ids(name: str) -> set[str]:
        values = (
            m.value
            for m in TRAFFIC.messages(plan_for(TRAFFIC, 500, 50, name=name), SECRETS, START_MS)
            if m.label.refusal is None
        )
        events = [json.loads(value or b"") for value in values]
        return {event[field] for event in events for field in ("customer", "transaction_id", "card") if field in event}

    assert not ids("monday") & ids("tuesday")


def test_every_event_has_its_intended_send_time() -> None:
    for message in TRAFFIC.messages(plan_for(TRAFFIC, events=500, rate_per_s=50, poison=0), SECRETS, START_MS):
        assert json.loads(message.value or b"")["sent_ms"] == START_MS + message.due_ms


def test_no_card_number_leaves_but_the_one_that_must_be_refused() -> None:
    messages = [
        *TRAFFIC.references(PLAN),
        *TRAFFIC.messages(PLAN, SECRETS, START_MS),
        *TRAFFIC.closing(PLAN, SECRETS, START_MS, ["a"], 5_000),
    ]
    good = b"\n".join((m.key or b"") + b" " + (m.value or b"") for m in messages if m.label.refusal is None)
    assert invented_cards_in(good) == set()
    assert invented_cards_in(b"\n".join(m.key or b"" for m in messages)) == set()
    plan = plan_for(TRAFFIC, events=3_000, rate_per_s=20, poison=0.3)
    bad = [
        m.value or b""
        for m in (*TRAFFIC.references(plan), *TRAFFIC.messages(plan, SECRETS, START_MS))
        if m.label.refusal
    ]
    assert invented_cards_in(b"\n".join(bad)) == {NUMBER}


def test_the_closing_has_an_event_every_second_in_each_partition_and_no_alert() -> None:
    plan = plan_for(TRAFFIC, events=100, rate_per_s=50)
    keys = closing_keys(lambda number: TRAFFIC.closing_key(plan, number), 3)
    messages = list(TRAFFIC.closing(plan, SECRETS, START_MS, keys, 40_000))
    assert [message.due_ms for message in messages] == [2_000 + 1_000 * (n // 3 + 1) for n in range(120)]
    assert [partition_of(message.key or b"", 3) for message in messages] == [0, 1, 2] * 40
    known: dict[str, dict[str, Any]] = {reference.name: {} for reference in FRAUD.references}
    for each in TRAFFIC.references(plan, keys):
        oracle.refer(REFERENCES[each.topic], known[each.topic], record(each, 0))
    tape = [record(message, number) for number, message in enumerate(messages)]
    results = list(oracle.judge(FRAUD, FRAUD.rules, tape, known))
    assert not [each for each in results if each.reason or each.findings]
    assert oracle.window_findings(burst, [each.event for each in results if each.event]) == []


@pytest.mark.parametrize("wrong", [{"events": 0}, {"rate_per_s": 5}, {"poison": 0.9}, {"frauds": -1}, {"fraud": 0.1}])
def test_a_plan_that_cannot_be_kept_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"traffic needs|must be from 0|has no 'fraud'; did you mean 'frauds'"):
        plan_for(TRAFFIC, **({"events": 10, "rate_per_s": 10} | wrong))
