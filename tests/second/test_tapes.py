"""Two readings of one declaration agree on every tape and every scenario that the project has."""

from __future__ import annotations

import json
import random
import runpy
from collections.abc import Sequence

import pytest

from millrace.oracle import Record
from millrace.rules import UseCase
from millrace.settings import PROJECT
from millrace.testing import Scenario, scenarios
from millrace.traffic import plan_for
from pipelines.flood import FLOOD
from pipelines.flood.traffic import TRAFFIC as FLOODS
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC as FRAUDS
from tests.pipelines import pretend
from tests.second.both import differences, first
from tests.together import SCENARIOS, placed
from tests.uses import tape as probe

START_MS = 1_790_000_000_123
PROBE: UseCase = runpy.run_path(str(PROJECT / "tests/uses/probe/rules.py"))["PROBE"]


def agree(use: UseCase, tape: Sequence[Record]) -> None:
    """Check that both oracles make the same of a tape, and that it sets off every rule."""
    assert differences(use, use.rules, tape) == []
    alerts = first(use, use.rules, tape).alerts.values()
    assert {alert["rule"] for alert in alerts} == {rule.name for rule in use.rules}


def test_they_agree_on_the_traffic_of_fraud() -> None:
    plan = plan_for(FRAUDS, 800, 20, seed=3, customers=100, frauds=0.1, edges=0.1, races=0.02)
    topics = pretend.topics(pretend.messages(plan))
    order = {kind.name: number for number, kind in enumerate((*FRAUD.references, *FRAUD.raw))}
    agree(FRAUD, sorted((r for own in topics.values() for r in own), key=lambda r: (r.ingest_ms, order[r.topic])))


def test_they_agree_on_the_traffic_of_flood() -> None:
    plan = plan_for(FLOODS, 3_000, 500, seed=5, attacks=0.2)
    sent = list(FLOODS.messages(plan, {}, START_MS))
    agree(FLOOD, [Record("requests", 0, n, START_MS + m.due_ms + 3, m.key, m.value) for n, m in enumerate(sent)])


def test_they_agree_on_every_window_and_measure() -> None:
    messages = enumerate(probe.messages(random.Random(5), 8))
    times = ((n, START_MS + n * 1000 // probe.PER_S, key, value) for n, (key, value) in messages)
    agree(PROBE, [Record("readings", 0, n, now_ms, key, value(now_ms)) for n, now_ms, key, value in times])


def test_they_agree_on_the_scenarios_of_fraud() -> None:
    tape: list[Record] = []
    for scenario, start_ms in placed(SCENARIOS, START_MS):
        for topic, event in scenario.references():
            key = event[topic.removesuffix("s")].encode()
            tape.append(Record(topic, 0, len(tape), start_ms, key, json.dumps(event).encode()))
        for each in scenario.messages(start_ms):
            tape.append(Record(each.topic, 0, len(tape), each.arrives_ms, each.key, each.value))
    agree(FRAUD, tape)


@pytest.mark.parametrize("scenario", scenarios("flood"), ids=str)
def test_they_agree_on_the_edges_of_flood(scenario: Scenario) -> None:
    ingest_ms = max(each.at_ms for each in scenario.arrivals)
    tape = [Record("requests", 0, n, ingest_ms, b"", each.value) for n, each in enumerate(scenario.arrivals)]
    assert differences(FLOOD, FLOOD.rules, tape) == []
