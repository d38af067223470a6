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
from millrace.patterns import load
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

pytestmark = [pytest.mark.stack, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def behind(stack: Settings) -> Iterator[Driven]:
    """A driver with the windows of a pattern whose per-event stage is elsewhere."""
    target = Target.read(stack, {})
    plan = own_plan(target, VARIANT, "following", engine="spark", persist=(), stores=None)
    ensure_topics(plan, VARIANT)
    spark = target.engine("spark")
    spark.start(plan, None)
    try:
        assert wait_until(lambda: spark.job(plan).state == "running", STARTED_WITHIN_S), spark.job(plan)
        with closing(Tail(plan.bootstrap, {FRAUD.enriched.name: plan.topics[FRAUD.enriched.name]})) as enriched:
            yield Driven(target, plan, None, enriched)
    finally:
        spark.stop(plan)


def test_a_task_that_is_ahead_in_a_backlog_makes_no_event_of_another_late(behind: Driven) -> None:
    plan = behind.plan
    began_ms = int(time.time() * 1000) - 3 * HOUR_MS
    with closing(Tail(plan.bootstrap, {kind: plan.topics[kind] for kind in (ALERTS.name, DEAD_LETTERS.name)})) as tail:
        for task in ("ahead", "behind"):
            publish_backlog(plan.bootstrap, _hour(plan, task, began_ms))
            await_taken(behind)
        newest_ms = began_ms + HOUR_MS
        commit(behind, 0, {"newest_ms": newest_ms, "through_ms": newest_ms})
        found: list[Record] = []

        def of(kind: str) -> list[dict[str, Any]]:
            found.extend(tail.new())
            return [json.loads(each.value or b"") for each in found if each.topic == kind]

        told = wait_until(lambda: len(of(ALERTS.name) + of(DEAD_LETTERS.name)) >= 2, TAKEN_WITHIN_S)
        assert told, behind.target.engine("spark").job(plan)
        assert of(DEAD_LETTERS.name) == []
        assert sorted(alert["event_ids"] for alert in of(ALERTS.name)) == [
            ["ahead-0", "ahead-1"],
            ["behind-0", "behind-1"],
        ]


def test_the_last_window_closes_in_silence_once_all_that_was_judged_is_committed(
    stack: Settings, behind: Driven
) -> None:
    plan, judged = behind.plan, behind.plan.topics[FRAUD.judged.name]
    topics.publish(plan.bootstrap, ((judged, b"c", b"judged by another") for _ in range(JUDGED)))
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        _bursts(tail)
        topics.publish(plan.bootstrap, list(_hour(plan, "last", int(time.time() * 1000) - 60_000))[:2])
        await_taken(behind)
        commit(behind, JUDGED - 1)
        early: list[list[str]] = []
        assert not wait_until(lambda: early.extend(_bursts(tail)) or early, SILENT_S), "the last one is being judged"
        commit(behind, JUDGED)
        told = wait_until(lambda: ["last-0", "last-1"] in _bursts(tail), TOLD_WITHIN_S)
        log = processes.records(stack.run)[f"job-{plan.pattern}-spark"].log
        assert told, "\n".join([str(behind.target.engine("spark").job(plan)), *processes.tail(log, 40)])


def await_taken(behind: Driven) -> None:
    """Wait until every query with a clock has read the intermediate topic to its end."""
    end = behind.enriched_until()
    for query in behind.queries:
        assert wait_until(lambda q=query: behind.has_taken(q, end), TAKEN_WITHIN_S), query


def publish_backlog(bootstrap: str, messages: Iterable[tuple[str, bytes, bytes]]) -> None:
    """Enriched events as a job writes them that has not caught up."""
    producer = Producer({**topics.PRODUCER, "bootstrap.servers": bootstrap})
    for topic, key, value in messages:
        producer.produce(topic, value, key, headers=[(BACKLOG_HEADER, b"\x01")])
    assert producer.flush(30) == 0


def commit(behind: Driven, offset: int, note: Mapping[str, int] | None = None) -> None:
    """Commit an offset of the judged topic as the job of another engine does."""
    plan = behind.plan
    with closing(KafkaConsumer(bootstrap_servers=plan.bootstrap, group_id=plan.pattern)) as consumer:
        place = TopicPartition(plan.topics[FRAUD.judged.name], 0)
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(offset, json.dumps(note) if note else "", -1)})
