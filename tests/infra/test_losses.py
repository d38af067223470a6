"""Data that was deleted before it was read: the job fails by name, and continues where the loss is accepted."""

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
from millrace.verbs.validate import validate
from millrace.verify.closing import closing_ms
from pipelines.fraud import FRAUD
from tests.beside import beside, extra_services
from tests.patterns import Sender, own_patterns

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

ONE_JOB, TWO_JOBS, PROCESS, TOPOLOGY = "lossy", "lossy-apart", "lossy-process", "lossy-topology"
REAL_TIME = "lossy-real-time"
QUERIES_BEHIND = 2
"""Of Spark, where another engine judges the events: both read what it has judged."""
STARTED_WITHIN_S = 300
"""A job that is deployed, with its first output, on a machine that does something else too."""


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target.read(stack, {})
    without_stores = {"stages": {"persist": None}}
    of = {
        ONE_JOB: "flink",
        TWO_JOBS: "flink-spark",
        PROCESS: "streams",
        TOPOLOGY: "storm",
        REAL_TIME: "flood-spark-realtime",
    }
    said = {name: {"of": other, **without_stores} for name, other in of.items()}
    with own_patterns(tmp_path_factory.mktemp("patterns"), said):
        yield target
        for name in said:
            teardown(target, name, data=True)


@pytest.fixture
def name(request: pytest.FixtureRequest, stack: Settings, target: Target) -> Iterator[str]:
    """A pattern, while all servers that it needs run."""
    name: str = request.param
    extra = extra_services(load(name))
    with beside(stack, extra):
        yield name
        if extra:
            teardown(target, name, data=True)  # while its engine runs


def topic(name: str, kind: str) -> str:
    return topics_of(load(name))[kind]


def read_by(name: str) -> dict[str, str]:
    """What the first query of each engine reads: its kind."""
    variant = load(name)
    stages, use = variant.pattern.stages, variant.use
    behind = {stages.windows.engine: use.enriched.name} if stages.windows else {}
    return {**behind, stages.events.engine: use.judged.name}


def closes_ms(name: str) -> int:
    """How long harmless events continue behind traffic, so that the windows of Spark close."""
    return closing_ms(load(name).use) if "spark" in load(name).engines else 0


def records(target: Target, name: str, kind: str) -> int:
    with closing(topics.Tail(target.bootstrap, {kind: topic(name, kind)})) as tail:
        return sum(1 for _ in tail.new())


def delete_all(target: Target, name: str, kind: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=target.bootstrap)) as admin:
        places = [TopicPartition(topic(name, kind), number) for number in range(load(name).pattern.partitions)]
        admin.delete_records(dict.fromkeys(places, -1))


def lost(target: Target, name: str) -> dict[str, set[tuple[str, bool]]]:
    """The topics that the failed jobs name, by engine, and whether they were created anew."""
    found = {engine: job for engine, (_, job) in deployments.jobs(target, name).items() if job.state == "failed"}
    assert all(job.problem.endswith(f"`millrace deploy {name} --accept-loss` continues without them")
               for job in found.values())  # fmt: skip
    return {engine: {(loss.topic, loss.is_new_topic) for loss in job.lost} for engine, job in found.items()}


@pytest.mark.parametrize(
    "name",
    [ONE_JOB, PROCESS, *(pytest.param(each, marks=pytest.mark.drill) for each in (TWO_JOBS, TOPOLOGY, REAL_TIME))],
    indirect=True,
)
def test_what_was_deleted_unread_stops_each_engine_until_it_is_accepted_and_the_verdict_names_it(
    target: Target, name: str
) -> None:
    kinds, use = read_by(name), load(name).use
    provision(target, name)
    deploy(target, name, report=print)
    Sender(target, name, "before", seconds=3, closing_ms=closes_ms(name)).end()
    # Flink writes a window when it closes, which may be a minute later; Spark while it grows.
    last = WINDOWS_TOPIC if "spark" in kinds else use.enriched.name
    assert processes.wait_until(lambda: records(target, name, last) > 0, STARTED_WITHIN_S), "the last stage has read"
    teardown(target, name)
    for kind in kinds.values():
        topics.publish(target.bootstrap, [(topic(name, kind), str(n).encode(), b"{") for n in range(20)])
        delete_all(target, name, kind)

    with pytest.raises(LostError, match=topic(name, use.judged.name)):
        deploy(target, name, report=print)
    meant = {engine: {(topic(name, kind), False)} for engine, kind in kinds.items()}
    assert processes.wait_until(lambda: lost(target, name) == meant, STARTED_WITHIN_S), deployments.jobs(target, name)
    changes, _ = reconcile(target, report=print)
    assert {change.action for change in changes} == {"keep"}, "no restart brings the messages back"

    deploy(target, name, accept_loss=True, report=print)
    assert lost(target, name) == {}
    judged = records(target, name, use.enriched.name)
    Sender(target, name, "after", seconds=3, closing_ms=closes_ms(name)).end()
    assert processes.wait_until(lambda: records(target, name, use.enriched.name) > judged, STARTED_WITHIN_S), (
        "it continues"
    )
    found = validate(target, name, within_s=20, settled_after_s=3, report=print)
    assert found.verdict.status == "unknown"
    check = found.verdict.check("loss")
    queries = [1 if kind == use.judged.name else QUERIES_BEHIND for kind in kinds.values()]
    assert check.figures["gaps"] == 2 * sum(queries), "in two partitions, for each query"
    assert int(check.figures["messages at least"] or 0) >= 20 * len(kinds)
    kept = json.loads(found.record.read_text())["figures"]["checks"]
    assert all(
        topic(name, kind) in json.dumps(kept) and topic(name, kind) in found.page.read_text() for kind in kinds.values()
    )
    assert set(deployments.losses(target, name)) == set(kinds)


@pytest.mark.drill
def test_a_topic_that_is_created_anew_under_a_driver_stops_it_until_that_is_accepted(target: Target) -> None:
    provision(target, TWO_JOBS)
    deploy(target, TWO_JOBS, accept_loss=True, report=print)
    windows = records(target, TWO_JOBS, WINDOWS_TOPIC)
    topics.remove(target.bootstrap, [topic(TWO_JOBS, FRAUD.enriched.name)])
    provision(target, TWO_JOBS)
    meant = {"spark": {(topic(TWO_JOBS, FRAUD.enriched.name), True)}}
    assert processes.wait_until(lambda: lost(target, TWO_JOBS) == meant, STARTED_WITHIN_S), deployments.jobs(
        target, TWO_JOBS
    )

    deploy(target, TWO_JOBS, accept_loss=True, report=print)
    Sender(target, TWO_JOBS, "anew", seconds=3, closing_ms=closing_ms(FRAUD)).end()
    assert processes.wait_until(lambda: records(target, TWO_JOBS, WINDOWS_TOPIC) > windows, STARTED_WITHIN_S), (
        "the windows continue"
    )
    assert deployments.losses(target, TWO_JOBS)["spark"][-1].is_new_topic
