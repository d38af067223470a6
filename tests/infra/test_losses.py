"""Data that was deleted before it was read: each engine fails by name, and continues where the loss is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, TopicPartition

from millrace import deployments
from millrace.machine import processes
from millrace.patterns import load
from millrace.patterns import topics as topics_of
from millrace.patterns.plan import WINDOWS_TOPIC
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs.deploy import LostError, deploy
from millrace.verbs.provision import provision
from millrace.verbs.reconcile import reconcile
from millrace.verbs.teardown import teardown
from millrace.verbs.traffic import closing_ms
from millrace.verbs.validate import validate
from pipelines.fraud import FRAUD
from tests.patterns import Sender, own_patterns

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PATTERN = "lossy"
KINDS = {"flink": FRAUD.judged.name, "spark": FRAUD.enriched.name}
"""What each engine reads."""
STARTED_WITHIN_S = 240
"""A job that is deployed, with its first output, on a machine that does something else too."""


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target.read(stack, {})
    said = {PATTERN: {"of": "flink-spark", "stages": {"persist": None}}}
    with own_patterns(tmp_path_factory.mktemp("patterns"), said):
        yield target
        teardown(target, PATTERN, data=True)


def topic(kind: str) -> str:
    return topics_of(load(PATTERN))[kind]


def records(target: Target, kind: str) -> int:
    with closing(topics.Tail(target.bootstrap, {kind: topic(kind)})) as tail:
        return sum(1 for _ in tail.new())


def delete_all(target: Target, kind: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=target.bootstrap)) as admin:
        places = [TopicPartition(topic(kind), number) for number in range(load(PATTERN).pattern.partitions)]
        admin.delete_records(dict.fromkeys(places, -1))


def lost(target: Target) -> dict[str, set[tuple[str, bool]]]:
    """The topics that the failed jobs name, by engine, and whether they were created anew."""
    found = {engine: job for engine, (_, job) in deployments.jobs(target, PATTERN).items() if job.state == "failed"}
    assert all(job.problem.endswith(f"`millrace deploy {PATTERN} --accept-loss` continues without them")
               for job in found.values())  # fmt: skip
    return {engine: {(loss.topic, loss.is_new_topic) for loss in job.lost} for engine, job in found.items()}


def test_what_was_deleted_unread_stops_both_engines_until_it_is_accepted_and_the_verdict_names_it(
    target: Target,
) -> None:
    provision(target, PATTERN)
    deploy(target, PATTERN, report=print)
    Sender(target, PATTERN, "before", seconds=3, closing_ms=closing_ms(FRAUD)).end()
    assert processes.wait_until(lambda: records(target, WINDOWS_TOPIC) > 0, STARTED_WITHIN_S), (
        "Spark has read what Flink wrote"
    )
    teardown(target, PATTERN)
    for kind in KINDS.values():
        topics.publish(target.bootstrap, [(topic(kind), str(n).encode(), b"{") for n in range(20)])
        delete_all(target, kind)

    with pytest.raises(LostError, match=topic(KINDS["flink"])):
        deploy(target, PATTERN, report=print)
    meant = {engine: {(topic(kind), False)} for engine, kind in KINDS.items()}
    assert processes.wait_until(lambda: lost(target) == meant, 120), deployments.jobs(target, PATTERN)
    changes, _ = reconcile(target, report=print)
    assert {change.action for change in changes} == {"keep"}, "no restart brings the messages back"

    deploy(target, PATTERN, accept_loss=True, report=print)
    assert lost(target) == {}
    Sender(target, PATTERN, "after", seconds=3, closing_ms=closing_ms(FRAUD)).end()
    assert processes.wait_until(lambda: records(target, FRAUD.enriched.name) > 0, STARTED_WITHIN_S), "Flink continues"
    found = validate(target, PATTERN, within_s=20, settled_after_s=3, report=print)
    assert found.verdict.status == "unknown"
    check = found.verdict.check("loss")
    assert check.figures["gaps"] == 2 + 2 * 2, "in two partitions: Flink, and each of the driver's two queries"
    assert int(check.figures["messages at least"] or 0) >= 2 * 20
    kept = json.loads(found.record.read_text())["figures"]["checks"]
    assert all(topic(kind) in json.dumps(kept) and topic(kind) in found.page.read_text() for kind in KINDS.values())
    assert set(deployments.losses(target, PATTERN)) == set(KINDS)


@pytest.mark.drill
def test_a_topic_that_is_created_anew_under_a_driver_stops_it_until_that_is_accepted(target: Target) -> None:
    provision(target, PATTERN)
    deploy(target, PATTERN, accept_loss=True, report=print)
    windows = records(target, WINDOWS_TOPIC)
    topics.remove(target.bootstrap, [topic(KINDS["spark"])])
    provision(target, PATTERN)
    meant = {"spark": {(topic(KINDS["spark"]), True)}}
    assert processes.wait_until(lambda: lost(target) == meant, 120), deployments.jobs(target, PATTERN)

    deploy(target, PATTERN, accept_loss=True, report=print)
    Sender(target, PATTERN, "anew", seconds=3, closing_ms=closing_ms(FRAUD)).end()
    assert processes.wait_until(lambda: records(target, WINDOWS_TOPIC) > windows, 120), "the windows continue"
    assert deployments.losses(target, PATTERN)["spark"][-1].is_new_topic
