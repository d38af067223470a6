"""Spark's windows behind the per-event stage of another engine, which the test plays: it writes, commits, is silent."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from millrace.machine import processes
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import EnginePlan, load
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import BACKLOG_HEADER
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from pipelines.fraud import FRAUD
from tests.player import ensure_topics, own_plan
from tests.spark.test_event_time import HOUR_MS, STARTED_WITHIN_S, TAKEN_WITHIN_S, TOLD_WITHIN_S, Driven, _bursts, _hour

VARIANT = load("flink-spark")
JUDGED = 3
SILENT_S = 30
"""Ten seconds without traffic, the burst's ten, five in which another could come late, and five more: what was judged
would be told by then."""

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
        told = wait_until(lambda: ["last-0", "last-1"] in _bursts(tail), TOLD_WITHIN_S)
        log = processes.records(stack.run)[f"job-{plan.pattern}-spark"].log
        assert told, "\n".join([str(spark.job(plan)), *processes.tail(log, 40)])


def test_a_task_that_is_ahead_in_a_backlog_makes_no_event_of_another_late(stack: Settings, plan: EnginePlan) -> None:
    target = Target.read(stack, {})
    spark, judged = target.engine("spark"), plan.topics[FRAUD.judged.name]
    spark.start(plan, None)
    assert wait_until(lambda: spark.job(plan).state == "running", STARTED_WITHIN_S), spark.job(plan)
    began_ms = int(time.time() * 1000) - 3 * HOUR_MS
    kinds = {kind: plan.topics[kind] for kind in (ALERTS.name, DEAD_LETTERS.name, FRAUD.enriched.name)}
    with closing(Tail(plan.bootstrap, kinds)) as tail:
        driven = Driven(target, plan, None, tail)
        for read, task in enumerate(("ahead", "behind"), start=1):
            publish_backlog(plan.bootstrap, _hour(plan, task, began_ms))
            for query in driven.queries:
                assert wait_until(lambda q=query, end=3 * read: driven.has_taken(q, end), TAKEN_WITHIN_S), query
        newest_ms = began_ms + HOUR_MS
        commit(plan, judged, 0, {"checkpoint": 1, "newest_ms": newest_ms, "through_ms": newest_ms})
        found: list[Record] = []

        def of(kind: str) -> list[dict[str, Any]]:
            found.extend(tail.new())
            return [json.loads(each.value or b"") for each in found if each.topic == kind]

        assert wait_until(lambda: len(of(ALERTS.name) + of(DEAD_LETTERS.name)) >= 2, TAKEN_WITHIN_S), spark.job(plan)
        assert of(DEAD_LETTERS.name) == []
        assert sorted(alert["event_ids"] for alert in of(ALERTS.name)) == [
            ["ahead-0", "ahead-1"],
            ["behind-0", "behind-1"],
        ]


def publish_backlog(bootstrap: str, messages: Iterable[tuple[str, bytes, bytes]]) -> None:
    """Enriched events as a job writes them that has not caught up."""
    producer = Producer({**topics.PRODUCER, "bootstrap.servers": bootstrap})
    for topic, key, value in messages:
        producer.produce(topic, value, key, headers=[(BACKLOG_HEADER, b"\x01")])
    assert producer.flush(30) == 0


def commit(plan: EnginePlan, topic: str, offset: int, note: Mapping[str, int] | None = None) -> None:
    """Commit an offset as the job of another engine does."""
    with closing(KafkaConsumer(bootstrap_servers=plan.bootstrap, group_id=plan.pattern)) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(offset, json.dumps(note) if note else "", -1)})
