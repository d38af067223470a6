"""Made-up requests are what their labels are: the rules, written by hand, find just what each was made for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace import oracle
from millrace.traffic import Label, Message, TrafficPlan
from pipelines.flood.events import DISORDER_MS, HOUR_MS, requests
from pipelines.flood.groups import group_of
from pipelines.flood.traffic import TRAFFIC
from pipelines.flood.traffic.attacks import ATTACKS
from pipelines.flood.traffic.poison import POISON
from tests.flood import by_hand
from tests.flood.by_hand import KEYS, SIZE_MS, Alert

START_MS = 1_790_000_000_123
PLAN = TrafficPlan(events=40_000, rate_per_s=500, seed=3, shares={"attacks": 0.1, "late": 0.01, "again": 0.05})

SEVERAL = st.builds(
    TrafficPlan,
    events=st.integers(1, 2_500),
    rate_per_s=st.sampled_from([10, 33.3, 200, 5_000]),
    seed=st.sampled_from([1, 3]),
    shares=st.fixed_dictionaries(
        {
            "attacks": st.sampled_from([0, 0.02, 0.2]),
            "poison": st.sampled_from([0, 0.3]),
            "late": st.sampled_from([0, 0.1]),
            "refused": st.sampled_from([0, 0.05]),
            "again": st.sampled_from([0, 0.3]),
        }
    ),
    sizes=st.fixed_dictionaries({"groups": st.sampled_from([1, 2, 12])}),
)
a_few = settings(max_examples=settings.default.max_examples // 10)


def good(messages: Iterable[Message]) -> Iterator[tuple[Message, dict[str, Any]]]:
    """The messages that are meant to be accepted, read without a check."""
    return ((message, json.loads(message.value or b"")) for message in messages if message.label.refusal is None)


def assert_labels_are_true(messages: list[Message]) -> None:
    found = by_hand.alerts(event for _, event in good(messages)).keys()
    labelled = {
        Alert(rule, event[KEYS[rule]], window_ms(event)) for m, event in good(messages) for rule in m.label.alerts
    }
    assert labelled == found
    for message, event in good(messages):
        rules = {rule for rule, key in KEYS.items() if (rule, event[key], window_ms(event)) in found}
        assert message.label.kind == "late" or rules == set(message.label.alerts), message


def window_ms(event: dict[str, Any]) -> int:
    return int(event["at_ms"] - event["at_ms"] % SIZE_MS)


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(TRAFFIC.messages(PLAN, {}, START_MS))


def test_labels_are_true(messages: list[Message]) -> None:
    assert_labels_are_true(messages)


def test_a_plan_attacks_alike_whenever_its_traffic_begins_as_long_after_the_begin_of_a_window() -> None:
    plan = replace(PLAN, events=5_000)

    def attacks(start_ms: int) -> list[tuple[float, Label]]:
        return [(each.due_ms, each.label) for each in TRAFFIC.messages(plan, {}, start_ms) if each.label.episode]

    assert attacks(START_MS) == attacks(START_MS + 100_000 * SIZE_MS)
    assert attacks(START_MS) != attacks(START_MS + SIZE_MS // 2)


def test_the_declared_rules_find_the_same(messages: list[Message]) -> None:
    some = messages[5_000:9_000]
    found = by_hand.declared_alerts((message.value for message in some), START_MS)
    assert {alert.rule for alert in found} == set(KEYS)
    assert found == by_hand.alerts(event for _, event in good(some))


def test_every_attack_takes_place_alone_and_among_others(messages: list[Message]) -> None:
    expected = {f"{attack.name}, {place}" for attack in ATTACKS for place in ("alone", "among others")}
    assert expected - {message.label.kind for message in messages} == set()


def test_an_attack_among_others_is_never_alone_even_where_groups_are_nearly_empty() -> None:
    plan = TrafficPlan(events=12_000, rate_per_s=500, shares={"attacks": 0.2}, sizes={"groups": 1_000})
    assert_labels_are_true(list(TRAFFIC.messages(plan, {}, START_MS)))


def test_the_group_is_silent_where_the_attack_is_among_others(messages: list[Message]) -> None:
    rules: dict[str, set[str]] = {}
    for message in messages:
        rules.setdefault(message.label.kind, set()).update(message.label.alerts)
    assert rules["300 refused, among others"] == {"flood-ip"}
    assert rules["300 refused, alone"] == {"flood-ip", "flood-group"}
    assert rules["from 50 ips, alone"] == {"flood-group"}
    assert rules["from 50 ips, among others"] == rules["everyday"] == rules["slow, alone"] == set()


def test_every_poison_is_refused_for_its_reason() -> None:
    value = next(m.value for m in TRAFFIC.messages(PLAN, {}, START_MS) if m.label.kind == "everyday")
    for poison in POISON:
        event = oracle.accept(requests, poison.spoil(value or b""), START_MS)
        assert getattr(event, "reason", None) == poison.reason, poison.name
    assert len({poison.name for poison in POISON}) == len(POISON)


def assert_the_library_agrees(messages: Iterable[Message]) -> None:
    for message in messages:
        event = oracle.accept(requests, message.value, START_MS + message.due_ms)
        assert getattr(event, "reason", None) == message.label.refusal, message


def test_good_requests_are_accepted_and_garbage_is_refused_for_its_reason() -> None:
    plan = TrafficPlan(events=2_000, rate_per_s=200, shares={"attacks": 0.1, "late": 0.05, "poison": 0.1})
    assert_the_library_agrees(TRAFFIC.messages(plan, {}, START_MS))


@a_few
@given(SEVERAL)
def test_labels_are_true_whatever_the_plan(plan: TrafficPlan) -> None:
    assert_labels_are_true(list(TRAFFIC.messages(plan, {}, START_MS)))


def test_requests_are_out_of_order_within_the_stated_bound_unless_they_are_late(messages: list[Message]) -> None:
    newest_ms = 0
    for message, event in good(messages):
        if message.label.kind == "late":
            assert by_hand.is_late(event, newest_ms)
        else:
            assert newest_ms - DISORDER_MS < event["at_ms"] <= START_MS + message.due_ms + 25
            newest_ms = max(newest_ms, event["at_ms"])


@pytest.mark.parametrize("rate_per_s", [10, 45, 140])
def test_requests_are_hardly_out_of_order_at_any_rate(rate_per_s: float) -> None:
    plan = TrafficPlan(6_000, rate_per_s, shares={"attacks": 0.2, "late": 0, "again": 0.3})
    newest_ms = 0
    for _, event in good(TRAFFIC.messages(plan, {}, START_MS)):
        assert newest_ms - DISORDER_MS < event["at_ms"]
        newest_ms = max(newest_ms, event["at_ms"])


def test_the_older_of_two_ips_comes_last(messages: list[Message]) -> None:
    arrived: dict[int, list[dict[str, Any]]] = {}
    for message, event in good(messages):
        if message.label.kind == "from two ips, the older request last, alone":
            arrived.setdefault(message.label.episode, []).append(event)
    assert arrived
    for events in arrived.values():
        assert events[-1]["ip"] != max(events, key=lambda event: event["at_ms"])["ip"]


def test_groups_follow_from_ips_and_are_the_keys(messages: list[Message]) -> None:
    for message, event in good(messages[:2_000]):
        assert message.key == event["group_id"].encode() == str(group_of(event["ip"], 12)).encode()


def test_the_group_is_that_of_kafkas_own_hash() -> None:
    # org.apache.kafka.common.utils.UtilsTest: murmur2("foobar") is -790332482, of which Kafka drops the sign.
    assert group_of("foobar", 10_000) == (-790332482 & 0x7FFFFFFF) % 10_000


def test_a_plan_gives_its_number_of_messages_each_at_its_time() -> None:
    plan = TrafficPlan(events=2_000, rate_per_s=33.3)
    assert [m.due_ms for m in TRAFFIC.messages(plan, {}, START_MS)] == [plan.due_ms(n) for n in range(2_000)]


def test_every_request_has_its_intended_send_time(messages: list[Message]) -> None:
    assert all(event["sent_ms"] == START_MS + message.due_ms for message, event in good(messages))


def test_the_same_plan_gives_the_same_bytes_and_another_seed_others() -> None:
    def sent(seed: int) -> list[Message]:
        return list(islice(TRAFFIC.messages(TrafficPlan(events=5_000, rate_per_s=50, seed=seed), {}, START_MS), 500))

    assert sent(1) == sent(1)
    assert sent(1) != sent(2)


def test_a_plan_of_any_length_begins_at_once() -> None:
    assert len(list(islice(TRAFFIC.messages(TrafficPlan(events=10**12, rate_per_s=100), {}, START_MS), 10))) == 10


def test_statuses_have_their_real_shares() -> None:
    plan = TrafficPlan(events=20_000, rate_per_s=500, shares={"attacks": 0, "poison": 0})
    codes = Counter(event["code"] for _, event in good(TRAFFIC.messages(plan, {}, START_MS)))
    assert 0.84 < codes[200] / 20_000 < 0.9
    assert all(0.02 < codes[code] / 20_000 < 0.07 for code in (301, 304, 404))
    assert 0 < codes[401] + codes[403] < 200


def test_of_all_everyday_requests_together_no_more_are_refused_in_a_window_than_a_rule_tolerates() -> None:
    plan = TrafficPlan(events=15_000, rate_per_s=2_000, shares={"refused": 0.05})
    made = good(TRAFFIC.messages(plan, {}, START_MS))
    everyday = [event for message, event in made if message.label.kind == "everyday"]
    refused = Counter(event["at_ms"] // SIZE_MS for event in everyday if event["code"] in (401, 403))
    assert max(refused.values()) == 30


def test_few_ips_send_most_requests() -> None:
    ips = Counter(
        json.loads(m.value or b"")["ip"]
        for m in TRAFFIC.messages(TrafficPlan(20_000, 500, shares={"poison": 0}), {}, START_MS)
    )
    assert len(ips) > 1_500
    assert sum(n for _, n in ips.most_common(40)) > 0.4 * 20_000


def test_the_closing_keeps_every_group_going_and_sets_off_nothing() -> None:
    plan = TrafficPlan(events=100, rate_per_s=50)
    keys = [TRAFFIC.closing_key(plan, number) for number in (0, 3, 17)]
    messages = list(TRAFFIC.closing(plan, {}, START_MS, keys, 20_000))
    assert [message.due_ms for message in messages] == [2_000 + 1_000 * (n // 3 + 1) for n in range(60)]
    assert [message.key for message in messages[:3]] == [b"0", b"3", b"17"]
    assert {event["code"] for _, event in good(messages)} == {200}
    assert_the_library_agrees(messages)


def test_late_requests_are_an_hour_late() -> None:
    plan = TrafficPlan(events=2_000, rate_per_s=500, shares={"late": 0.1})
    late = [(m, e) for m, e in good(TRAFFIC.messages(plan, {}, START_MS)) if m.label.kind == "late"]
    assert late
    assert all(event["at_ms"] == START_MS + message.due_ms - HOUR_MS for message, event in late)
