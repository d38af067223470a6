"""The topics in which Kafka Streams keeps its state belong to the pattern, and keep their partitions."""

from __future__ import annotations

import pytest

from millrace.patterns import engine_plans, load
from millrace.patterns.plan import Stores, state_topics
from millrace.stores import topics
from millrace.stores.topics import Topic, TopicError
from millrace.verbs.declare import declared
from millrace.verbs.provision import wanted_topics
from tests.conftest import settings_for_tests

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


def test_more_partitions_than_the_state_has_are_refused_with_the_remedy() -> None:
    wanted = Topic("streams-memory-changelog", 4, {}, is_state=True)
    with pytest.raises(
        TopicError, match=r"holds the state of 2 partition\(s\).* over 4; keep the number in the pattern"
    ):
        topics._change(wanted, topics._Existing(2, {}))
    assert topics._change(Topic("streams.alerts", 4), topics._Existing(2, {})).action == "change"
