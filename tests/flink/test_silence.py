"""Tasks that fell silent lose nothing when events come again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from millrace.oracle import summary_rows
from millrace.patterns import EnginePlan, load
from millrace.rules.outputs import LATE
from millrace.target import Target
from pipelines.fraud import FRAUD
from tests.flink.test_arrivals import CUSTOMERS, MINUTE_MS, everybody_is_known
from tests.flink.test_recovery import pays, wait_for_checkpoints
from tests.player import Sent, own_plan, own_topics

VARIANT = load("flink")
BUSY = CUSTOMERS[0]
EVENTS, EVERY = 3_000, 40

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(600)]


@pytest.fixture
def plan(target: Target) -> Iterator[EnginePlan]:
    options = {"table.exec.source.idle-timeout": "200 ms", "execution.checkpointing.interval": "1 s"}
    plan = own_plan(target, VARIANT, "silence", parallelism=2, options=options)
    with own_topics(target, plan, VARIANT):
        yield plan


def burst(start_ms: int) -> Iterator[Sent]:
    """A hundred minutes at once: one customer keeps a task busy, while the other task is at their end already."""
    for number in range(EVENTS):
        who = BUSY if number % EVERY else CUSTOMERS[1 + number // EVERY % (len(CUSTOMERS) - 1)]
        yield pays(f"{number}", who, 100, start_ms + number * 100 * MINUTE_MS // EVENTS)


def test_each_event_of_a_burst_after_a_silence_is_counted_or_late(target: Target, plan: EnginePlan) -> None:
    start_ms = int(time.time() * 1000) - 200 * MINUTE_MS
    player = everybody_is_known(plan)
    target.engine("flink").start(plan, None)
    wait_for_checkpoints(target, plan, 2)
    player.play(list(burst(start_ms)), start_ms)
    player.close(start_ms + 101 * MINUTE_MS)
    wait_for_checkpoints(target, plan, target.engine("flink").job(plan).checkpoints + 2)
    found = player.outcome()
    late = {letter["offset"] for letter in found.dead_letters if letter["reason"] == LATE}
    assert len(found.enriched) == EVENTS
    meant = summary_rows(FRAUD.summaries[0], [e for e in found.enriched if e["source_offset"] not in late])
    counted = Counter({row["window_start_ms"]: row["purchases"] for row in found.windows})
    assert counted == Counter({key[0]: row["purchases"] for key, row in meant.items()}), f"{len(late)} are late"
