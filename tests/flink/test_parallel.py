"""Parallel tasks that find a backlog call no event late, on whichever engine the windows are."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from millrace.patterns import load
from millrace.settings import Settings
from millrace.target import Target
from tests.backlog import Backlog, backlog_of
from tests.beside import beside, extra_services

EVENTS, SPAN_MS = 1_000_000, 6 * 3_600_000
WITHIN_S = 3_000

pytestmark = [pytest.mark.stack, pytest.mark.timeout(3600)]


@pytest.fixture
def backlog(target: Target, stack: Settings, request: pytest.FixtureRequest) -> Iterator[Backlog]:
    with beside(stack, extra_services(load(request.param))):
        backlog = backlog_of(target, request.param)
        yield backlog
        backlog.stop()


@pytest.mark.drill
@pytest.mark.parametrize(
    "backlog",
    [
        *("flink", "spark", "flink-spark", "streams", "streams-spark", "storm-spark"),
        *("flood-flink", "flood-spark", "flood-spark-realtime", "flood-flink-spark", "flood-streams"),
    ],
    indirect=True,
)
def test_no_event_of_a_million_is_late(backlog: Backlog) -> None:
    """It is written before the jobs start; what comes out is compared with the oracle."""
    began = time.monotonic()
    backlog.send(EVENTS, SPAN_MS)
    sent = time.monotonic()
    backlog.start()
    found = backlog.outcome(WITHIN_S)
    print(f"{backlog.variant.name}: sent in {sent - began:.0f} s, out in {time.monotonic() - sent:.0f} s: {found}")
    assert len(found.late) == 0, found.late[:3]
    assert found.refused == []
    assert len(found.enriched) == backlog.sent
    assert sum(found.numbers.values()) >= EVENTS
    for rule, alerts in backlog.expected_alerts(found).items():
        assert found.alerts.get(rule, set()) == alerts, rule
