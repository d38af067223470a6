"""A Flink job whose messages were deleted before it read them fails by name, and continues where that is accepted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient, TopicPartition

from millrace.job import Job
from millrace.machine import processes
from millrace.patterns import EnginePlan, load
from millrace.stores import topics
from millrace.target import Target
from pipelines.fraud import FRAUD
from tests.flink.test_recovery import CUSTOMERS, SHOPS, pays
from tests.player import Player, ensure_topics, own_plan, own_topics, publish_and_abort

VARIANT = load("flink")
NAMED_WITHIN_S = 300

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture
def plan(target: Target) -> Iterator[EnginePlan]:
    often = {"execution.checkpointing.interval": "1 s"}
    plan = own_plan(target, VARIANT, "losses", events=("above-previous-max",), options=often)
    with own_topics(target, plan, VARIANT):
        yield plan


@pytest.fixture
def player(plan: EnginePlan) -> Player:
    player = Player(plan)
    customers = [("customers", {"customer": name, "segment": "private"}) for name in CUSTOMERS]
    player.references([*customers, ("merchants", {"merchant": SHOPS[0], "category": "food", "place": "Ulm"})])
    return player


def delete_before(plan: EnginePlan, before: Mapping[str, int]) -> None:
    """Delete what has a smaller offset, as retention does."""
    with closing(KafkaAdminClient(bootstrap_servers=plan.bootstrap)) as admin:
        admin.delete_records({TopicPartition(plan.topics[kind], 0): offset for kind, offset in before.items()})


def create_anew(plan: EnginePlan, kind: str) -> None:
    topics.remove(plan.bootstrap, [plan.topics[kind]])
    ensure_topics(plan, VARIANT)


def end_of(plan: EnginePlan, kind: str) -> int:
    with closing(topics.Tail(plan.bootstrap, {kind: plan.topics[kind]})) as tail:
        return sum(1 for _ in tail.new())


def ended(target: Target, plan: EnginePlan) -> Job:
    flink, found = target.engine("flink"), Job("absent")

    def is_decided() -> bool:
        nonlocal found
        found = flink.job(plan)
        # Its checkpoints are asked for after its state.
        return found.state == "failed" or (found.state == "running" and found.checkpoints > 0)

    assert processes.wait_until(is_decided, NAMED_WITHIN_S), found
    return found


def begin(target: Target, plan: EnginePlan, player: Player) -> int:
    """Start the job and let it judge one purchase; its time."""
    now_ms = int(time.time() * 1000)
    target.engine("flink").start(plan, None)
    player.play([pays("before", CUSTOMERS[0], 100, now_ms)], now_ms)
    return now_ms


def next_job(target: Target, plan: EnginePlan, state: str | None, **changed: object) -> Job:
    """The next generation, as soon as it has failed or works."""
    following = replace(plan, generation=plan.generation + 1, **changed)
    target.engine("flink").start(following, state)
    return ended(target, following)


def buys(player: Player, count: int, name: str, at_ms: int) -> None:
    player.send(pays(f"{name}-{n}", CUSTOMERS[0], 100, at_ms + n) for n in range(count))


def judged(player: Player) -> set[str]:
    """What came out, but for the player's own events: deleted ones cannot be read."""
    found = {event["transaction_id"] for event in player.outcome().enriched}
    return {name for name in found if not name.startswith("probe-")}


def test_messages_deleted_while_a_job_was_stopped_fail_it_by_name_until_they_are_given_up(
    target: Target, plan: EnginePlan, player: Player
) -> None:
    now_ms = begin(target, plan, player)
    state = target.engine("flink").stop(plan)
    wanted = end_of(plan, FRAUD.judged.name)
    buys(player, 7, "lost", now_ms)
    delete_before(plan, {FRAUD.judged.name: wanted + 5})
    failed = next_job(target, plan, state)
    assert failed.state == "failed"
    topic = plan.topics[FRAUD.judged.name]
    assert [(loss.topic, loss.partition, loss.wanted, loss.first, loss.end) for loss in failed.lost] == [
        (topic, 0, wanted, wanted + 5, wanted + 7)
    ]
    assert f"{topic}[0]: offset {wanted} was to be read next" in failed.problem
    assert failed.problem.endswith(f"`millrace deploy {plan.pattern} --accept-loss` continues without them")

    assert next_job(target, replace(plan, generation=2), state, accepted=failed.lost).state == "running"
    player.play([pays("after", CUSTOMERS[0], 100, now_ms + 100)], now_ms)
    assert judged(player) == {"before", "lost-5", "lost-6", "after"}


@pytest.mark.drill
def test_a_topic_that_was_created_anew_is_another_though_it_has_the_offset(
    target: Target, plan: EnginePlan, player: Player
) -> None:
    now_ms = begin(target, plan, player)
    state = target.engine("flink").stop(plan)
    wanted = end_of(plan, FRAUD.judged.name)
    create_anew(plan, FRAUD.judged.name)
    buys(player, wanted + 5, "anew", now_ms)
    failed = next_job(target, plan, state)
    assert failed.state == "failed"
    (loss,) = failed.lost
    assert (loss.topic, loss.wanted, loss.first) == (plan.topics[FRAUD.judged.name], wanted, 0)
    assert loss.is_new_topic
    assert "the topic was deleted and created anew" in failed.problem

    assert next_job(target, replace(plan, generation=2), state, accepted=failed.lost).state == "running"
    player.settle()
    assert judged(player) == {"before", *(f"anew-{n}" for n in range(wanted + 5))}


def test_a_topic_that_is_created_anew_under_a_running_job_fails_it_by_name(
    target: Target, plan: EnginePlan, player: Player
) -> None:
    flink, now_ms = target.engine("flink"), begin(target, plan, player)
    assert ended(target, plan).state == "running"
    create_anew(plan, FRAUD.judged.name)
    buys(player, 50, "anew", now_ms)
    assert processes.wait_until(lambda: flink.job(plan).state == "failed", NAMED_WITHIN_S), flink.job(plan)
    lost = flink.job(plan).lost
    assert [(loss.topic, loss.is_new_topic) for loss in lost] == [(plan.topics[FRAUD.judged.name], True)]
    assert next_job(target, plan, flink.latest_state(plan), accepted=lost).state == "running"


def test_what_was_taken_back_is_no_loss_when_it_is_deleted(target: Target, plan: EnginePlan, player: Player) -> None:
    flink = target.engine("flink")
    begin(target, plan, player)
    end = end_of(plan, FRAUD.judged.name)
    publish_and_abort(plan.bootstrap, [(plan.topics[FRAUD.judged.name], b"anna", b"{}") for _ in range(3)])
    before = flink.job(plan).checkpoints
    assert processes.wait_until(lambda: flink.job(plan).checkpoints > before + 2, NAMED_WITHIN_S)
    state = flink.stop(plan)
    delete_before(plan, {FRAUD.judged.name: end + 4})  # the marker is a message, too
    assert next_job(target, plan, state).state == "running"
