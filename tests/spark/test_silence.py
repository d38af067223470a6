"""A window that was open when the driver stopped is closed by the driver that comes after it, though nobody buys."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

from infra.processes import wait_until
from infra.settings import Settings
from infra.stores.topics import Tail
from infra.target import Target
from pipelines.patterns import EnginePlan, load
from pipelines.rules import ALERTS, OUT_OF_ORDER_MS
from tests.player import CLOSER, Player, ensure_topics, own_plan

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

TAKEN_WITHIN_S, TOLD_WITHIN_S = 60, 120


def test_a_window_is_closed_in_silence_after_a_restart(stack: Settings) -> None:
    target, variant = Target.read(stack, {}), load("spark")
    plan = own_plan(target, variant, "silence", persist=(), stores=None)
    ensure_topics(plan, variant)
    player = Player(plan)
    player.references([])
    spark = target.engine("spark")
    now_ms = int(time.time() * 1000)
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        try:
            spark.start(plan, None)
            player.play([], now_ms - 60_000)
            player.send([player.pays(CLOSER, "last-1", now_ms), player.pays(CLOSER, "last-2", now_ms + 1_000)])
            assert wait_until(lambda: _clock_ms(target, plan) > now_ms, TAKEN_WITHIN_S), spark.job(plan)
            spark.stop(plan)
            assert list(_bursts(tail)) == [], "the window was closed too early for this test"
            spark.start(plan, None)
            found: list[list[str]] = []
            assert wait_until(lambda: bool(found.extend(_bursts(tail)) or found), TOLD_WITHIN_S), spark.job(plan)
            assert found == [["last-1", "last-2"]]
        finally:
            spark.stop(plan)


def _clock_ms(target: Target, plan: EnginePlan) -> float:
    """The newest event time of the batches that the window's query has committed."""
    queries: dict[str, Any] = target.engine("spark").job(plan).figures.get("queries", {})
    watermark = queries.get("window-burst", {}).get("watermark")
    return datetime.fromisoformat(watermark).timestamp() * 1000 + OUT_OF_ORDER_MS if watermark else 0


def _bursts(tail: Tail) -> Iterator[list[str]]:
    for record in tail.new():
        alert = json.loads(record.value or b"{}")
        if (alert["rule"], alert["customer"]) == ("burst", CLOSER):
            yield alert["transaction_ids"]
