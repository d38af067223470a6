"""A driver that is killed and started again in the other mode continues from what the mode before it has committed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from millrace.machine import processes
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import load
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from pipelines.flood import FLOOD
from tests.backlog import messages_of
from tests.player import own_plan, own_topics
from tests.spark.test_event_time import Driven

VARIANT = load("flood-spark-realtime")
MODES = (False, True, True, False)
"""Whether in real time: after small batches, after a kill of its own, and small batches after it."""
REQUESTS = 500
JUDGED_WITHIN_S, COMMITTED_WITHIN_S, ALERTED_WITHIN_S = 180, 60, 180

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(1200)]


def test_each_mode_continues_from_the_commits_of_the_other_though_the_driver_is_killed(stack: Settings) -> None:
    target, spark = Target.read(stack, {}), Target.read(stack, {}).engine("spark")
    plan = own_plan(target, VARIANT, "modes", persist=(), stores=None)
    judged, found = plan.topics[FLOOD.judged.name], list[Record]()
    kinds = {kind: plan.topics[kind] for kind in (FLOOD.enriched.name, ALERTS.name, DEAD_LETTERS.name)}
    with own_topics(target, plan, VARIANT), closing(Tail(plan.bootstrap, kinds)) as tail:
        driven = Driven(target, plan, None, tail)

        def of(kind: str) -> list[dict[str, Any]]:
            found.extend(tail.new())
            return [json.loads(record.value or b"{}") for record in found if record.topic == kind]

        def judged_offsets() -> Counter[int]:
            return Counter(event["source_offset"] for event in of(FLOOD.enriched.name))

        def is_committed(end: int) -> bool:
            sources = (json.loads(line) for line in driven.committed("events"))
            return any(source[judged]["0"] == end for source in sources)

        for number, is_real_time in enumerate(MODES):
            topics.publish(plan.bootstrap, ((judged, *each) for each in _requests(int(time.time() * 1000))))
            if number:
                processes.kill(processes.records(stack.run)[f"job-{plan.pattern}-spark"])
            spark.start(own := replace(plan, real_time=is_real_time), None)
            end = (number + 1) * REQUESTS
            assert wait_until(lambda end=end: len(judged_offsets()) == end, JUDGED_WITHIN_S), (number, spark.job(own))
            assert wait_until(lambda end=end: is_committed(end), COMMITTED_WITHIN_S, every_s=1), (
                number,
                spark.job(own),
            )
        repeated = {offset for offset, copies in judged_offsets().items() if copies > 1}
        assert not repeated & set(range(REQUESTS)), "they were committed before the first kill"
        alerted = wait_until(lambda: len(of(ALERTS.name)) >= len(MODES) * len(FLOOD.rules), ALERTED_WITHIN_S)
        assert alerted, spark.job(own)
        assert of(DEAD_LETTERS.name) == []


def _requests(at_ms: int) -> Iterator[tuple[bytes, bytes]]:
    """A flood of one ip that is alone in its group."""
    make = messages_of(FLOOD, ())
    for number in range(REQUESTS):
        yield b"1", make.event(number, "1", at_ms, is_closing=True)
