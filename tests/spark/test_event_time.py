"""What Spark's windows do while the stage before them is in the middle of a batch, and in silence after a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from infra.processes import wait_until
from infra.settings import Settings
from infra.stores import topics
from infra.stores.topics import Tail
from infra.target import Target
from pipelines.fraud import FRAUD
from pipelines.patterns import EnginePlan, load
from pipelines.rules import ALERTS, OUT_OF_ORDER_MS
from tests.player import CLOSER, Player, ensure_topics, own_plan
from tests.scenarios import card_token

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

TAKEN_WITHIN_S, TOLD_WITHIN_S = 60, 120


@dataclass(frozen=True)
class Driven:
    """A driver with Spark's own per-event stage and the windows behind it."""

    target: Target
    plan: EnginePlan
    player: Player

    def query(self) -> dict[str, Any]:
        """What the query of the bursts says of itself."""
        queries = self.target.engine("spark").job(self.plan).figures.get("queries", {})
        found: dict[str, Any] = queries.get("window-burst", {})
        return found

    def clock_ms(self) -> float:
        """The newest event time of the batches that it has committed."""
        watermark = self.query().get("watermark")
        return datetime.fromisoformat(watermark).timestamp() * 1000 + OUT_OF_ORDER_MS if watermark else 0


@pytest.fixture(scope="module")
def driven(stack: Settings) -> Iterator[Driven]:
    target, variant = Target.read(stack, {}), load("spark")
    plan = own_plan(target, variant, "event-time", persist=(), stores=None)
    ensure_topics(plan, variant)
    player = Player(plan)
    player.references([])
    target.engine("spark").start(plan, None)
    try:
        yield Driven(target, plan, player)
    finally:
        target.engine("spark").stop(plan)


def test_the_second_half_of_a_batch_is_not_late_for_the_first(driven: Driven) -> None:
    """A batch of the per-event stage comes key by key: here it lasts a minute, and is seen when half of it is there."""
    began_ms = int(time.time() * 1000) - 3_600_000
    driven.player.play([], began_ms - 60_000)
    for customer in ("first", "second"):
        before = driven.query()["batch_id"]
        topics.publish(driven.plan.bootstrap, _minute(driven.plan, customer, began_ms))
        assert wait_until(
            lambda before=before: driven.query()["batch_id"] > before and driven.query()["rows"] >= 3, TAKEN_WITHIN_S
        ), driven.query()
    driven.player.close(began_ms + 60_000)
    outcome = driven.player.outcome()
    assert [letter for letter in outcome.dead_letters if letter["reason"] == "late"] == []
    bursts = [alert["transaction_ids"] for alert in outcome.alerts if alert["rule"] == "burst"]
    assert sorted(bursts) == [["first-0", "first-1"], ["second-0", "second-1"]]


def test_a_window_is_closed_in_silence_after_a_restart(driven: Driven) -> None:
    plan, spark, player = driven.plan, driven.target.engine("spark"), Player(driven.plan)
    now_ms = int(time.time() * 1000)
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        player.play([], now_ms - 60_000)
        player.send([player.pays(CLOSER, "last-1", now_ms), player.pays(CLOSER, "last-2", now_ms + 1_000)])
        assert wait_until(lambda: driven.clock_ms() > now_ms, TAKEN_WITHIN_S), driven.query()
        spark.stop(plan)
        last = ["last-1", "last-2"]
        assert last not in _bursts(tail), "the window was closed too early for this test"
        spark.start(plan, None)
        assert wait_until(lambda: last in _bursts(tail), TOLD_WITHIN_S), driven.query()


def _minute(plan: EnginePlan, customer: str, began_ms: int) -> Iterator[tuple[str, bytes, bytes]]:
    """Enriched events of one customer, as the per-event stage would write them."""
    for number, at_ms in enumerate((began_ms, began_ms + 1_000, began_ms + 60_000)):
        event = {"transaction_id": f"{customer}-{number}", "customer": customer, "card": card_token(customer)}
        event |= {"amount_cents": 1, "at_ms": at_ms, "ingest_ms": at_ms, "sent_ms": at_ms}
        event |= {"source_topic": FRAUD.judged.name, "source_partition": 0, "source_offset": -1}
        yield plan.topics[FRAUD.enriched.name], customer.encode(), json.dumps(event).encode()


def _bursts(tail: Tail) -> list[list[str]]:
    alerts = (json.loads(record.value or b"{}") for record in tail.new())
    return [alert["transaction_ids"] for alert in alerts if alert["rule"] == "burst"]
