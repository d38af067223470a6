"""A process that stood still takes what came meanwhile in the order of its arrival, across topics."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import pairwise

import pytest

from millrace import registry
from millrace.machine import processes
from millrace.patterns import EnginePlan, load
from millrace.settings import Settings
from millrace.target import Target
from tests.flink.test_recovery import HOUR_MS, pays, phone
from tests.player import Player, own_plan, own_topics

VARIANT = load("streams")
WHO = "anna"
MANY = 3_000
"""More than a task holds of one topic."""
TURNS, PURCHASES_OF_EACH = 10, 450
"""With one move of the phone in each."""

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(600)]


@pytest.fixture
def plan(target: Target) -> Iterator[EnginePlan]:
    plan = own_plan(target, VARIANT, "order", events=("away-from-phone",))
    with own_topics(target, plan, VARIANT):
        yield plan


def test_no_purchase_is_judged_by_where_the_phone_was_later(
    stack: Settings, target: Target, plan: EnginePlan, player: Player, now_ms: int
) -> None:
    target.engine(plan.engine).start(plan, None)
    player.play([phone(WHO, now_ms, 1.0)], now_ms - HOUR_MS)
    process = processes.records(stack.run)[f"job-{plan.pattern}-streams"]
    processes.send(process, signal.SIGSTOP)  # as a busy machine would
    player.send(pays(f"many-{n}", WHO, 100, now_ms) for n in range(MANY))
    processes.send(process, signal.SIGCONT)
    for turn in range(TURNS):
        for n in range(PURCHASES_OF_EACH):
            player.send([pays(f"{turn}-{n}", WHO, 100, now_ms)])
        player.send([phone(WHO, now_ms, 2.0 + turn)])
    player.settle()
    found = player.outcome()
    moves = [record.ingest_ms for record in found.raw if record.topic == "device-locations"]
    seen = {1.0 + n: at for n, at in enumerate(pairwise([*moves, float("inf")]))}
    skew_ms = registry.manifest(plan.engine).skew_ms
    wrong = [
        f"{event['transaction_id']} of {event['ingest_ms']}: {event['phone_latitude']}"
        for event in found.enriched
        for since, until in [seen[event["phone_latitude"]]]
        if not since - skew_ms <= event["ingest_ms"] <= until + skew_ms
    ]
    assert wrong == [], f"{len(wrong)} purchases; the phone moved at {moves}"
    assert len(found.enriched) == MANY + TURNS * PURCHASES_OF_EACH
