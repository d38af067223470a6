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

from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import EnginePlan, load
from millrace.rules import ALERTS
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.testing import token
from pipelines.fraud import FRAUD
from tests.player import CLOSER, Player, ensure_topics, own_plan

pytestmark = [pytest.mark.stack, pytest.mark.timeout(2400)]

HOUR_MS = 3_600_000
WATERMARK = "nextBatchWatermarkMs"
STARTED_WITHIN_S, TAKEN_WITHIN_S, TOLD_WITHIN_S = 600, 600, 600


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

    @property
    def queries(self) -> list[str]:
        """The checkpoints of the queries with a clock, bursts first."""
        rules = [f"window-{rule.name}-{rule.version}" for rule in self.plan.window_rules]
        return [*rules, *(f"numbers-{each.name}-{each.version}" for each in self.plan.window_summaries)]

    def committed(self, query: str) -> list[str]:
        """Of a query's last committed batch: how far it has read its sources, a line for each."""
        last = self._last_commit(query)
        return [] if last is None else self._file(query, "offsets", last).splitlines()[2:]

    def watermark_ms(self, query: str) -> int:
        """With what time a query's next batch counts."""
        last = self._last_commit(query)
        return 0 if last is None else json.loads(self._file(query, "commits", last).splitlines()[1])[WATERMARK]

    def _last_commit(self, query: str) -> int | None:
        files = self.target.hdfs.files(f"{self._folder(query)}/commits")
        return max((int(Path(file.path).name) for file in files if file.path[-1].isdigit()), default=None)

    def _file(self, query: str, kind: str, number: int) -> str:
        return self.target.hdfs.read(f"{self._folder(query)}/{kind}/{number}").decode()

    def _folder(self, query: str) -> str:
        return f"{urlsplit(self.plan.checkpoints).path}/{query}"

    def has_taken(self, query: str, end: int) -> bool:
        """Whether a query is done with the intermediate topic up to there."""
        topic = self.plan.topics[FRAUD.enriched.name]
        read = [json.loads(line)[topic]["0"] for line in self.committed(query) if topic in line]
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


def test_what_comes_last_of_a_batch_is_not_late_for_what_came_first(driven: Driven) -> None:
    """A batch of the per-event stage comes key by key: here it spans an hour, and is read in three parts."""
    began_ms = int(time.time() * 1000) // 60_000 * 60_000 - 2 * HOUR_MS
    driven.player.play([], began_ms - 60_000)
    customers = ("first", "second", "third")
    for customer in customers:
        topics.publish(driven.plan.bootstrap, _hour(driven.plan, customer, began_ms))
        end = driven.enriched_until()
        for query in driven.queries:
            assert wait_until(lambda q=query, end=end: driven.has_taken(q, end), TAKEN_WITHIN_S), query
    driven.player.close(began_ms + HOUR_MS)
    outcome = driven.player.outcome()
    assert [letter for letter in outcome.dead_letters if letter["reason"] == "late"] == []
    bursts = [alert["event_ids"] for alert in outcome.alerts if alert["rule"] == "burst"]
    assert sorted(bursts) == [[f"{customer}-0", f"{customer}-1"] for customer in customers]
    numbers = {row["window_start_ms"]: row["purchases"] for row in outcome.windows}  # the last of each is the right one
    assert numbers == {began_ms: 6, began_ms + HOUR_MS: 3}
    # Who is never told the time never forgets anything.
    for query in driven.queries:
        assert wait_until(lambda q=query: driven.watermark_ms(q) > began_ms, TAKEN_WITHIN_S), query


def test_the_clock_is_read_before_the_events_that_it_speaks_of(driven: Driven) -> None:
    """Spark polls a query's sources in the order of its offset log, and half a batch is safe in this order only."""
    for query in driven.queries:
        clock, events = driven.committed(query)
        assert clock.isdecimal(), query
        assert driven.plan.topics[FRAUD.enriched.name] in events, query


@pytest.mark.drill
def test_a_window_is_closed_in_silence_after_a_restart(driven: Driven) -> None:
    plan, spark = driven.plan, driven.target.engine("spark")
    # Ahead by less than what is believed: silence closes the window that much later, and the driver has time to stop.
    now_ms, last = int(time.time() * 1000) + 15_000, ["last-1", "last-2"]
    driven.player.send(
        driven.player.pays(CLOSER, name, now_ms + at_ms) for name, at_ms in zip(last, (0, 1_000), strict=True)
    )
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        assert wait_until(lambda: driven.enriched_until() > 0 and _has(driven.seen, last), TAKEN_WITHIN_S)
        end = driven.enriched_until()
        assert wait_until(lambda: driven.has_taken(driven.queries[0], end), TAKEN_WITHIN_S)
        spark.stop(plan)
        assert last not in _bursts(tail), "the window was closed too early for this test"
        spark.start(plan, None)
        assert wait_until(lambda: last in _bursts(tail), TOLD_WITHIN_S), spark.job(plan)


def _has(records: list[Record], ids: list[str]) -> bool:
    return set(ids) <= {json.loads(record.value or b"{}")["transaction_id"] for record in records}


def _hour(plan: EnginePlan, customer: str, began_ms: int) -> Iterator[tuple[str, bytes, bytes]]:
    """Enriched events of one customer, as the per-event stage would write them."""
    for number, at_ms in enumerate((began_ms, began_ms + 1_000, began_ms + HOUR_MS)):
        event = {"transaction_id": f"{customer}-{number}", "customer": customer, "card": token(customer)}
        event |= {"merchant_category": "food", "merchant_place": "Ulm"}
        event |= {"amount_cents": 1, "at_ms": at_ms, "ingest_ms": at_ms, "sent_ms": at_ms}
        event |= {"source_topic": FRAUD.judged.name, "source_partition": 0, "source_offset": -1}
        yield plan.topics[FRAUD.enriched.name], customer.encode(), json.dumps(event).encode()


def _bursts(tail: Tail) -> list[list[str]]:
    alerts = (json.loads(record.value or b"{}") for record in tail.new())
    return [alert["event_ids"] for alert in alerts if alert["rule"] == "burst"]
