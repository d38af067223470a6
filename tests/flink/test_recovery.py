"""A Flink job that is stopped, changed or killed continues from its state, and loses nothing."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from millrace import oracle
from millrace import stack as stacks
from millrace.job import EngineError
from millrace.patterns import EnginePlan, load
from millrace.settings import Settings
from millrace.target import Target
from millrace.testing import token
from pipelines.fraud import FRAUD
from tests.player import Outcome, Player, Sent, own_plan, own_topics

VARIANT = load("flink")
HOUR_MS = 3_600_000
CUSTOMERS = ("anna", "berta", "carla")
SHOPS = [f"shop-{n}" for n in range(6)]
ROUNDS, APART_S = 60, 0.1

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture
def plan(target: Target) -> Iterator[EnginePlan]:
    """Two rules, often checkpointed."""
    rules = ("above-previous-max", "away-from-phone")
    often = {"execution.checkpointing.interval": "1 s"}
    plan = own_plan(target, VARIANT, "recovery", events=rules, options=often)
    with own_topics(target, plan, VARIANT):
        yield plan


@pytest.fixture
def player(plan: EnginePlan) -> Player:
    player = Player(plan)
    customers = [("customers", {"customer": name, "segment": "private"}) for name in CUSTOMERS]
    shops = [("merchants", {"merchant": name, "category": "food", "place": "Ulm"}) for name in SHOPS]
    player.references([*customers, *shops])
    return player


@pytest.fixture
def now_ms() -> int:
    return int(time.time() * 1000) - 3 * HOUR_MS


def pays(identity: str, customer: str, cents: int, at_ms: int, shop: int = 0, latitude: float = 48.0) -> Sent:
    event: dict[str, Any] = {
        "transaction_id": identity,
        "customer": customer,
        "card": token(customer),
        "merchant": SHOPS[shop],
        "amount_cents": cents,
        "latitude": latitude,
        "longitude": 10.0,
        "at_ms": at_ms,
    }
    return "transactions", customer.encode(), json.dumps(event).encode()


def phone(customer: str, at_ms: int, latitude: float = 48.0) -> Sent:
    event = {"customer": customer, "latitude": latitude, "longitude": 10.0, "at_ms": at_ms}
    return "device-locations", customer.encode(), json.dumps(event).encode()


def test_a_job_that_is_replaced_by_one_with_other_rules_keeps_its_state(
    target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    flink, early_ms = target.engine("flink"), now_ms - HOUR_MS
    flink.start(plan, None)
    player.play([phone("anna", now_ms)], early_ms)
    player.play([pays("a1", "anna", 500, now_ms, shop=0)], early_ms)

    # A new rule with a measure of its own, and the old ones in another order. Nobody reads while events go on coming.
    more = replace(plan, generation=2, events=("spree", "away-from-phone", "above-previous-max"))
    state = flink.stop(plan)
    assert state
    away = [
        pays("a1", "anna", 500, now_ms, shop=0),
        pays("a2", "anna", 400, now_ms + 9_000, shop=1),
        pays("a3", "anna", 501, now_ms + 18_000, shop=2, latitude=49.0),
        pays("a4", "anna", 1, now_ms + 19_000, shop=3),
        pays("a5", "anna", 1, now_ms + 20_000, shop=4),
        pays("a6", "anna", 1, now_ms + 21_000, shop=5),
    ]
    flink.start(more, state)
    player.play(away, early_ms)

    # Fewer rules and no windows: what they remembered is given up on purpose, the rest goes on.
    fewer = replace(plan, generation=3, events=("above-previous-max",), windows=(), summaries=())
    # Planned without the gateway: its operators have the same ids.
    state = flink.stop(more)
    replace(flink, gateway=None).start(fewer, state)
    player.play([pays("a7", "anna", 502, now_ms + 22_000), pays("a8", "anna", 502, now_ms + 23_000)], early_ms)

    # All rules again: the session of the second generation is gone with its windows, the customer's memory is not.
    again = replace(more, generation=4)
    state = flink.stop(fewer)
    flink.start(again, state)
    player.play([pays("a9", "anna", 503, now_ms + 24_000)], early_ms)
    player.close(now_ms + HOUR_MS)

    found = player.outcome()
    assert {event["transaction_id"]: event["flags"] for event in found.enriched} == {
        "a1": [],
        "a2": [],
        "a3": ["away-from-phone", "above-previous-max"],
        "a4": [],
        "a5": [],
        "a6": ["spree"],
        "a7": ["above-previous-max"],
        "a8": [],
        "a9": ["above-previous-max"],
    }
    assert [(letter["reason"], letter["stage"]) for letter in found.dead_letters] == [("duplicate", "events")]
    assert Counter((alert["rule"], alert["event_ids"][0]) for alert in found.alerts) == Counter(
        [
            ("away-from-phone", "a3"),
            ("above-previous-max", "a3"),
            ("spree", "a6"),
            ("above-previous-max", "a7"),
            ("above-previous-max", "a9"),
        ]
    )
    before = {
        alert["event_ids"][0]: alert["operands"]["before_highest_cents"]
        for alert in found.alerts
        if alert["rule"] == "above-previous-max"
    }
    assert before == {"a3": "500", "a7": "501", "a9": "502"}


def test_a_session_that_is_open_when_the_job_stops_is_completed_by_the_next_one(
    target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    flink, early_ms = target.engine("flink"), now_ms - HOUR_MS
    flink.start(plan, None)
    player.play([pays("b1", "berta", 5, now_ms), pays("b2", "berta", 5, now_ms + 10_000)], early_ms)
    more = replace(plan, generation=2, events=(*plan.events, "spree"))
    flink.start(more, flink.stop(plan))
    # The first event that the next one reads is behind the windows, before any watermark shows it.
    behind = pays("b0", "berta", 5, now_ms - 60_000)
    on_time = [pays("b3", "berta", 5, now_ms + 20_000), pays("b4", "berta", 5, now_ms + 30_001)]
    player.play([behind, *on_time], early_ms)
    player.close(now_ms + HOUR_MS)
    found = player.outcome()
    assert [(alert["rule"], alert["event_ids"]) for alert in found.alerts] == [("burst", ["b1", "b2", "b3"])]
    assert [letter["reason"] for letter in found.dead_letters] == ["late"]
    assert [(row["purchases"], row["total_cents"]) for row in found.windows if row["purchases"]] == minutes(now_ms)


def test_a_trial_that_would_drop_the_state_of_a_rule_is_refused(target: Target, plan: EnginePlan) -> None:
    """By its versions it has all rules and summaries, and its job lacks one: as if an operator's id had changed."""
    flink = target.engine("flink")
    flink.start(plan, None)
    wait_for_checkpoints(target, plan, 1)
    trial = replace(
        plan,
        pattern=f"{plan.pattern}-rehearsal",
        checkpoints=plan.checkpoints.replace(plan.pattern, f"{plan.pattern}-rehearsal"),
        summaries=(),
    )
    with pytest.raises(EngineError, match="operator is not available in the new program"):
        flink.rehearse(plan, trial)
    flink.rehearse(plan, replace(trial, generation=2, versions={}))
    # One rule has changed, and the summary that its job lacks has not.
    others = {name: version for name, version in plan.versions.items() if name != "away-from-phone"}
    with pytest.raises(EngineError, match="of spend-per-minute would be dropped, though only away-from-phone"):
        flink.rehearse(plan, replace(trial, generation=3, versions=others))
    flink.rehearse(plan, replace(trial, generation=4, versions=others, summaries=plan.summaries))
    assert flink.job(plan).is_up


def minutes(now_ms: int) -> list[tuple[int, int]]:
    """Four purchases of 5 cents, by the minute."""
    counts: dict[int, int] = {}
    for after_ms in (0, 10_000, 20_000, 30_001):
        minute = (now_ms + after_ms) // 60_000
        counts[minute] = counts.get(minute, 0) + 1
    return [(count, 5 * count) for _, count in sorted(counts.items())]


@pytest.mark.drill
def test_nothing_is_lost_or_found_otherwise_when_the_taskmanager_is_killed(
    stack: Settings, target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    flink, early_ms = target.engine("flink"), now_ms - HOUR_MS
    flink.start(plan, None)
    rounds = rounds_of_purchases(now_ms)
    one_by_one(player, rounds[: ROUNDS // 2])
    player.play([], early_ms)
    wait_for_checkpoints(target, plan, flink.job(plan).checkpoints + 1)
    one_by_one(player, rounds[ROUNDS // 2 : ROUNDS * 3 // 4])  # in flight, behind the last checkpoint or not yet read
    stacks.kill(stack, ["flink-taskmanager"])
    one_by_one(player, rounds[ROUNDS * 3 // 4 :])
    stacks.up(stack, ["flink"])
    player.play([], early_ms)
    player.close(now_ms + HOUR_MS)
    wait_for_restart(target, plan)
    check_nothing_is_lost(plan, player.outcome())


Round = tuple[list[Sent], list[Sent]]


def rounds_of_purchases(now_ms: int) -> list[Round]:
    """Each amount is larger than ever, and 20 s lie between: an alert for each but the first, and no burst.

    Before they pay, all phones have moved on.
    """
    return [
        (
            [phone(who, now_ms + 20_000 * n, latitude=48 + n / 1000) for who in CUSTOMERS],
            [pays(f"{who}-{n:03d}", who, 100 + n, now_ms + 20_000 * n) for who in CUSTOMERS],
        )
        for n in range(ROUNDS)
    ]


def check_nothing_is_lost(plan: EnginePlan, found: Outcome) -> None:
    """What came of the rounds is what the oracle finds, in windows too; some of it twice."""
    events = check_no_event_is_lost(plan, found)
    per_minute = {(row["window_start_ms"], row["merchant_category"]): row["purchases"] for row in found.windows}
    late = sum(letter["reason"] == "late" for letter in found.dead_letters)
    assert sum(per_minute.values()) + late == events


def check_no_event_is_lost(plan: EnginePlan, found: Outcome) -> int:
    """What came of the rounds' events is what the oracle finds; some of it twice. Returns how many were accepted."""
    references = {
        "customers": {who: {"segment": "private"} for who in CUSTOMERS},
        "merchants": {shop: {"category": "food", "place": "Ulm"} for shop in SHOPS},
    }
    arrived = sorted(found.raw, key=lambda record: (record.ingest_ms, record.topic, record.offset))
    judged = list(oracle.judge(FRAUD, [FRAUD.rule(name) for name in plan.events], arrived, references))
    meant = {
        each.record.offset: (each.event["transaction_id"], each.event["phone_latitude"], each.event["flags"])
        for each in judged
        if each.event and each.record.topic == FRAUD.judged.name
    }
    for event in found.enriched:  # some of them twice
        told = event["transaction_id"], event["phone_latitude"], event["flags"]
        assert told == meant[event["source_offset"]]
    assert {event["source_offset"] for event in found.enriched} == meant.keys()
    assert {latitude for _, latitude, _ in meant.values()} == {48 + n / 1000 for n in range(ROUNDS)}
    assert {alert["alert_id"] for alert in found.alerts} == {f.alert_id for each in judged for f in each.findings}
    # What is read again after a crash is judged with the memory of that moment: it is no duplicate.
    assert not [letter for letter in found.dead_letters if letter["reason"] != "late"]
    return len(meant)


def one_by_one(player: Player, rounds: list[Round]) -> None:
    """Each part is in Kafka well before the next one is sent: what two topics get within one fetch has no order."""
    for part in chain.from_iterable(rounds):
        player.send(part)
        time.sleep(APART_S)


def wait_for_checkpoints(target: Target, plan: EnginePlan, count: int) -> None:
    deadline = time.monotonic() + 180
    while target.engine("flink").job(plan).checkpoints < count:
        assert time.monotonic() < deadline, f"{plan.pattern} completed no checkpoint within 180 s"
        time.sleep(0.1)


def wait_for_restart(target: Target, plan: EnginePlan) -> None:
    """Flink shows a metric some seconds after it has changed."""
    deadline = time.monotonic() + 180
    while target.engine("flink").job(plan).restarts == 0:
        assert time.monotonic() < deadline, f"{plan.pattern} was not restarted"
        time.sleep(0.5)
