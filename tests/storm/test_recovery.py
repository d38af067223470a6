"""A topology of Storm that is stopped, changed or killed continues from its state, and loses nothing unnamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from millrace.machine import processes
from millrace.patterns import EnginePlan, load
from millrace.patterns.model import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from pipelines.fraud import FRAUD
from tests.flink.test_recovery import HOUR_MS, ROUNDS, check_no_event_is_lost, one_by_one, pays, rounds_of_purchases
from tests.player import Player, ensure_topics, own_plan, own_topics

VARIANT = load("storm-spark")
BACK_WITHIN_S, NAMED_WITHIN_S = 300, 120

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture(params=[AT_LEAST_ONCE, EXACTLY_ONCE])
def plan(request: pytest.FixtureRequest, target: Target) -> Iterator[EnginePlan]:
    """Two rules."""
    rules = ("above-previous-max", "away-from-phone")
    plan = own_plan(target, VARIANT, "recovery", events=rules, delivery=request.param)
    with own_topics(target, plan, VARIANT):
        yield plan


def check_nothing_listens_beyond_loopback(settings: Settings) -> None:
    recorded = {name: one for name, one in processes.records(settings.run).items() if name.startswith("storm-")}
    # A worker belongs to the supervisor, and listens nowhere.
    assert {name: processes.listening(record) for name, record in recorded.items()} == {
        "storm-zookeeper": [("127.0.0.1", settings.port("storm-zookeeper"))],
        "storm-nimbus": [("127.0.0.1", settings.port("storm"))],
        "storm-supervisor": [("127.0.0.1", settings.port("storm-supervisor"))],
    }


@pytest.mark.drill
def test_nothing_is_lost_or_found_otherwise_when_the_worker_is_killed(
    target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    storm, early_ms = target.engine(plan.engine), now_ms - HOUR_MS
    storm.start(plan, None)
    rounds = rounds_of_purchases(now_ms)
    one_by_one(player, rounds[: ROUNDS // 2])
    player.play([], early_ms)
    one_by_one(player, rounds[ROUNDS // 2 : ROUNDS * 3 // 4])  # in flight, committed or not
    storm.end_stalled(plan)
    one_by_one(player, rounds[ROUNDS * 3 // 4 :])
    player.play([], early_ms)
    assert storm.job(plan).restarts == 1
    found = player.outcome()
    check_no_event_is_lost(plan, found)
    if plan.delivery == EXACTLY_ONCE:
        assert len({event["source_offset"] for event in found.enriched}) == len(found.enriched)
        assert len({alert["alert_id"] for alert in found.alerts}) == len(found.alerts)


@pytest.mark.parametrize("plan", [AT_LEAST_ONCE], indirect=True)
def test_a_job_that_is_replaced_by_one_with_other_rules_keeps_what_it_knew(
    with_storm: Settings, target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    storm, early_ms = target.engine(plan.engine), now_ms - HOUR_MS
    storm.start(plan, None)
    assert [each.job_id for each in storm.running() if each.job_id == plan.job_id] == [plan.job_id]
    player.play([pays("b1", "berta", 5, now_ms), pays("b2", "berta", 5, now_ms + 10_000)], early_ms)
    check_nothing_listens_beyond_loopback(with_storm)
    more = replace(plan, generation=2, events=("spree", "away-from-phone", "above-previous-max"))
    storm.stop(plan)
    assert plan.job_id not in {each.job_id for each in storm.running()}
    storm.start(more, None)
    player.play([pays("b3", "berta", 6, now_ms + 20_000), pays("b4", "berta", 5, now_ms + 30_001)], early_ms)
    found = player.outcome()
    assert [(alert["rule"], *alert["event_ids"]) for alert in found.alerts] == [("above-previous-max", "b3")]
    assert {event["transaction_id"] for event in found.enriched} == {"b1", "b2", "b3", "b4"}


@pytest.mark.drill
@pytest.mark.parametrize("plan", [AT_LEAST_ONCE], indirect=True)
def test_a_topic_that_is_created_anew_under_a_running_job_fails_it_by_name(
    target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    storm, judged = target.engine(plan.engine), plan.topics[FRAUD.judged.name]
    storm.start(plan, None)
    player.play([pays("before", "berta", 5, now_ms)], now_ms - HOUR_MS)
    topics.remove(plan.bootstrap, [judged])
    ensure_topics(plan, VARIANT)
    # At once more than the job has read: its next offset is there again.
    player.send(pays(f"anew-{n}", "berta", 5, now_ms + n) for n in range(50))
    assert processes.wait_until(lambda: storm.job(plan).state == "failed", NAMED_WITHIN_S), storm.job(plan)
    assert [(loss.topic, loss.is_new_topic) for loss in storm.job(plan).lost] == [(judged, True)]


@pytest.mark.parametrize("plan", [AT_LEAST_ONCE, pytest.param(AT_MOST_ONCE, marks=pytest.mark.drill)], indirect=True)
def test_a_finite_job_judges_all_that_lies_there_and_ends(
    target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    storm, finite = target.engine(plan.engine), replace(plan, finite=True)
    player.send([pays(f"b{n}", "berta", 5 + n, now_ms + 1000 * n) for n in range(50)])
    storm.start(finite, None)
    assert processes.wait_until(lambda: storm.finish(finite), BACK_WITHIN_S)
    assert storm.finish(finite)
    assert storm.job(finite).state == "stopped"
    assert finite.job_id not in {each.job_id for each in storm.running()}
    assert [event["transaction_id"] for event in player.outcome().enriched] == [f"b{n}" for n in range(50)]
