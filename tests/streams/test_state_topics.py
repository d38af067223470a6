"""The topics in which Kafka Streams keeps its state belong to the pattern, and keep their partitions."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaProducer

from millrace import deployments, registry
from millrace.job import EngineError
from millrace.patterns import engine_plans, load
from millrace.patterns.plan import Stores, state_topics
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.topics import Topic, TopicError
from millrace.target import Target
from millrace.verbs import provision as provisioning
from millrace.verbs.declare import declared
from millrace.verbs.deploy import refuse_moved
from millrace.verbs.provision import provision, wanted_topics
from tests.conftest import settings_for_tests
from tests.player import ensure_topics, own_plan

NOWHERE = Stores("", "", 0, "")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("streams-spark", {"streams-spark-memory-changelog"}),
        ("streams", {"streams-memory-changelog", "streams-windows-changelog", "streams-dealt"}),
        ("flink-spark", set()),
    ],
)
def test_a_pattern_provisions_the_state_topics_of_its_stages(pattern: str, names: set[str]) -> None:
    variant = load(pattern)
    plans = engine_plans(variant, 1, "", "", NOWHERE)
    assert {name for plan in plans for name in state_topics(plan)} == names
    assert {topic.name for topic in wanted_topics(variant) if topic.is_state} == names


def test_only_the_job_reads_and_writes_its_state() -> None:
    found = declared(settings_for_tests("unused", 26000))["patterns"]["streams"]["topics"]["streams-dealt"]
    assert (found["readers"], found["writers"]) == (["streams-streams"], ["streams-streams"])


@pytest.mark.stack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("pattern", ["streams", "storm"])
def test_what_is_remembered_of_a_key_may_be_larger_than_kafka_takes_by_default(stack: Settings, pattern: str) -> None:
    plan = own_plan(Target.read(stack, {}), load(pattern), "large")
    ensure_topics(plan, load(pattern))
    (memory,) = (name for name in state_topics(plan) if "-memory" in name)
    settings = registry.manifest(plan.engine).module("tuning").SETTINGS
    with closing(
        KafkaProducer(
            bootstrap_servers=plan.bootstrap, max_request_size=int(settings["producer.max.request.size"]), retries=0
        )
    ) as producer:
        assert producer.send(memory, key=b"key", value=bytes(8 << 20)).get(60).offset == 0


def test_more_partitions_than_the_state_has_are_refused_with_the_remedy() -> None:
    wanted = Topic("streams-memory-changelog", 4, {}, is_state=True)
    with pytest.raises(
        TopicError, match=r"holds the state of 2 partition\(s\).* over 4; keep the number in the pattern"
    ):
        topics._change(wanted, topics._Existing(2, {}))
    assert topics._change(Topic("streams.alerts", 4), topics._Existing(2, {})).action == "change"


@pytest.mark.parametrize("pattern", ["flink", "spark", "storm-spark"])
def test_more_partitions_are_refused_while_a_job_reads_by_key_and_added_after_its_teardown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pattern: str
) -> None:
    there = {topic.name: topics._Existing(1, topic.configs) for topic in wanted_topics(load(pattern))}
    there = {name: each for name, each in there.items() if name.startswith(f"{pattern}.")}  # no topic of state
    monkeypatch.setattr(topics, "admin", lambda _: nullcontext())
    monkeypatch.setattr(topics, "_described", lambda *_: there)
    monkeypatch.setattr(provisioning, "_ensure_contracts", lambda *_, **__: [])
    monkeypatch.setattr(provisioning, "_ensure_stores", lambda *_, **__: [])
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})
    deployments.want(target, pattern, "")
    with pytest.raises(
        TopicError, match=r"has 1 partition\(s\), and deployed jobs read or write it by key: with 2 .*; stop"
    ):
        provision(target, pattern, plan=True)
    deployments.unwant(target, pattern)
    changes = {change.name: change.detail for change in provision(target, pattern, plan=True)}
    assert changes[f"{pattern}.transactions"] == "partitions: 1 -> 2"


def test_a_job_of_more_partitions_does_not_replace_one_that_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (plan,) = engine_plans(load("spark"), 1, "", "", NOWHERE)
    with pytest.raises(EngineError, match=r"spark: refused, spark/spark generation 1 keeps running: .*2 -> 4.*; stop"):
        refuse_moved([plan], [replace(plan, partitions=4)])
    refuse_moved([], [replace(plan, partitions=4)])
