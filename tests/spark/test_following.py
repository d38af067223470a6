"""Spark's windows behind the per-event stage of another engine, which the test plays: it writes, commits, is silent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from millrace.machine.processes import wait_until
from millrace.patterns import EnginePlan, load
from millrace.rules import ALERTS
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from pipelines.fraud import FRAUD
from tests.player import ensure_topics, own_plan
from tests.spark.test_event_time import STARTED_WITHIN_S, TAKEN_WITHIN_S, Driven, _bursts, _hour

VARIANT = load("flink-spark")
JUDGED = 3
SILENT_S = 30
"""Ten seconds without traffic, the burst's ten, and five in which another could come late; and five more."""

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture
def plan(stack: Settings) -> Iterator[EnginePlan]:
    target = Target.read(stack, {})
    plan = own_plan(target, VARIANT, "following", engine="spark", persist=(), stores=None)
    ensure_topics(plan, VARIANT)
    yield plan
    target.engine("spark").stop(plan)


def test_the_last_window_closes_in_silence_once_all_that_was_judged_is_committed(
    stack: Settings, plan: EnginePlan
) -> None:
    target = Target.read(stack, {})
    spark, judged = target.engine("spark"), plan.topics[FRAUD.judged.name]
    topics.publish(plan.bootstrap, ((judged, b"c", b"judged by another") for _ in range(JUDGED)))
    spark.start(plan, None)
    assert wait_until(lambda: spark.job(plan).state == "running", STARTED_WITHIN_S), spark.job(plan)
    began_ms = int(time.time() * 1000) - 60_000
    burst = list(_hour(plan, "last", began_ms))[:2]
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        with closing(Tail(plan.bootstrap, {FRAUD.enriched.name: plan.topics[FRAUD.enriched.name]})) as enriched:
            driven = Driven(target, plan, None, enriched)
            topics.publish(plan.bootstrap, burst)
            for query in driven.queries:
                assert wait_until(lambda q=query: driven.has_taken(q, len(burst)), TAKEN_WITHIN_S), query
        commit(plan, judged, JUDGED - 1)
        early: list[list[str]] = []
        assert not wait_until(lambda: early.extend(_bursts(tail)) or early, SILENT_S), "the last one is being judged"
        commit(plan, judged, JUDGED)
        assert wait_until(lambda: ["last-0", "last-1"] in _bursts(tail), SILENT_S), spark.job(plan)


def commit(plan: EnginePlan, topic: str, offset: int) -> None:
    """Commit an offset as the job of another engine does."""
    with closing(KafkaConsumer(bootstrap_servers=plan.bootstrap, group_id=plan.pattern)) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(offset, "", -1)})
