"""What Spark's windows do while the stage before them is in the middle of a batch, and in silence after a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.processes import wait_until
from infra.settings import Settings
from infra.stores import topics
from infra.stores.topics import Tail
from infra.target import Target
from pipelines.fraud import FRAUD
from pipelines.oracle import Record
from pipelines.patterns import EnginePlan, load
from pipelines.rules import ALERTS
from tests.player import CLOSER, Player, ensure_topics, own_plan
from tests.scenarios import card_token

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

STARTED_WITHIN_S, TAKEN_WITHIN_S, TOLD_WITHIN_S = 300, 120, 240


@dataclass(frozen=True)
class Driven:
    """A driver with Spark's own per-event stage and the windows behind it."""

    target: Target
    plan: EnginePlan
    player: Player
    enriched: Tail
    seen: list[Record] = field(default_factory=list)

    def enriched_until(self) -> int:
        """The end of the intermediate topic."""
        self.seen.extend(self.enriched.new())
        return len(self.seen)

    def committed(self) -> list[str]:
        """Of the last committed batch of the bursts' query: how far it has read its sources, a line for each."""
        (rule,) = self.plan.window_rules
        root = f"{urlsplit(self.plan.checkpoints).path}/window-{rule.name}-{rule.version}"
        done = [
            int(Path(file.path).name) for file in self.target.hdfs.files(f"{root}/commits") if file.path[-1].isdigit()
        ]
        return self.target.hdfs.read(f"{root}/offsets/{max(done)}").decode().splitlines()[2:] if done else []

    def has_taken(self, end: int) -> bool:
        """Whether the bursts' query is done with the intermediate topic up to there."""
        topic = self.plan.topics[FRAUD.enriched.name]
        read = [json.loads(line)[topic]["0"] for line in self.committed() if topic in line]
        return bool(read) and read[0] >= end


@pytest.fixture(scope="module")
def driven(stack: Settings) -> Iterator[Driven]:
    target, variant = Target.read(stack, {}), load("spark")
    plan = own_plan(target, variant, "event-time", persist=(), stores=None)
    ensure_topics(plan, variant)
    player, spark = Player(plan), target.engine("spark")
    player.references([])
    spark.start(plan, None)
    try:
        assert wait_until(lambda: spark.job(plan).state == "running", STARTED_WITHIN_S), spark.job(plan)
        with closing(Tail(plan.bootstrap, {FRAUD.enriched.name: plan.topics[FRAUD.enriched.name]})) as enriched:
            yield Driven(target, plan, player, enriched)
    finally:
        spark.stop(plan)


def test_the_second_half_of_a_batch_is_not_late_for_the_first(driven: Driven) -> None:
    """A batch of the per-event stage comes key by key: here it lasts a minute, and is seen when half of it is there."""
    began_ms = int(time.time() * 1000) - 3_600_000
    driven.player.play([], began_ms - 60_000)
    for customer in ("first", "second"):
        topics.publish(driven.plan.bootstrap, _minute(driven.plan, customer, began_ms))
        end = driven.enriched_until()
        assert wait_until(lambda end=end: driven.has_taken(end), TAKEN_WITHIN_S), driven.committed()
    driven.player.close(began_ms + 60_000)
    outcome = driven.player.outcome()
    assert [letter for letter in outcome.dead_letters if letter["reason"] == "late"] == []
    bursts = [alert["transaction_ids"] for alert in outcome.alerts if alert["rule"] == "burst"]
    assert sorted(bursts) == [["first-0", "first-1"], ["second-0", "second-1"]]


def test_the_clock_is_read_before_the_events_that_it_speaks_of(driven: Driven) -> None:
    """Spark asks a query's sources in the order of its offset log, and half a batch is safe in this order only."""
    clock, events = driven.committed()
    assert clock.isdecimal()
    assert driven.plan.topics[FRAUD.enriched.name] in events


def test_a_window_is_closed_in_silence_after_a_restart(driven: Driven) -> None:
    plan, spark = driven.plan, driven.target.engine("spark")
    now_ms, last = int(time.time() * 1000), ["last-1", "last-2"]
    driven.player.send(
        driven.player.pays(CLOSER, name, now_ms + at_ms) for name, at_ms in zip(last, (0, 1_000), strict=True)
    )
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        assert wait_until(lambda: driven.enriched_until() > 0 and _has(driven.seen, last), TAKEN_WITHIN_S)
        end = driven.enriched_until()
        assert wait_until(lambda: driven.has_taken(end), TAKEN_WITHIN_S), driven.committed()
        spark.stop(plan)
        assert last not in _bursts(tail), "the window was closed too early for this test"
        spark.start(plan, None)
        assert wait_until(lambda: last in _bursts(tail), TOLD_WITHIN_S), spark.job(plan)


def _has(records: list[Record], ids: list[str]) -> bool:
    return set(ids) <= {json.loads(record.value or b"{}")["transaction_id"] for record in records}


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
