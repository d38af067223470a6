"""What a driver continues, and what it begins anew, when declarations change under the version of a rule."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaAdminClient, TopicPartition

from millrace import kept
from millrace.engines.spark import layouts
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import EnginePlan, Variant, load
from millrace.rules import ALERTS, DEAD_LETTERS, Last, Real, Text, Tumbling, UseCase, Whole, WindowSummary
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from tests.player import own_plan, own_topics
from tests.spark.changing import WINDOW_MS, use
from tests.spark.test_event_time import Driven

BEFORE, AFTER = use(is_changed=False), use(is_changed=True)
KINDS = ("enriched", ALERTS.name, DEAD_LETTERS.name)
STARTED_WITHIN_S, TOLD_WITHIN_S = 300, 240

Event = dict[str, Any]


def test_a_changed_id_and_a_wider_sum_are_another_layout_and_no_other_version() -> None:
    (before,), (after,) = BEFORE.rules, AFTER.rules
    assert before.version == after.version
    assert BEFORE.summaries[0].version == AFTER.summaries[0].version
    said = [plan_with(each) for each in (BEFORE, AFTER)]
    assert [layouts.of_events(plan) for plan in said] == ["", "memory"]
    assert [layouts.of_files(plan) for plan in said] == ["places", "ids"]
    assert [layouts.of_windows(plan, plan.use.summaries) for plan in said] == [
        "ticks first; sizes: text, whole, whole",
        "ticks first; sizes: text, whole, wide",
    ]
    assert [layouts.of_windows(plan, rules_of(plan.use)) for plan in said] == [
        "ticks first; busy: whole, whole",
        "ticks first; busy: ids, whole, wide",
    ]
    elsewhere = plan_with(BEFORE, judges_events=False)
    assert layouts.of_windows(elsewhere, rules_of(BEFORE)) == "events first; busy: whole, whole"
    assert layouts.of_windows(elsewhere, BEFORE.summaries) == layouts.of_windows(said[0], BEFORE.summaries)


@pytest.mark.parametrize(("field", "kind"), [(Text("x"), "text"), (Whole("x"), "whole"), (Real("x", -1, 1), "real")])
def test_the_kind_of_a_field_is_of_the_layout(field: Text | Whole | Real, kind: str) -> None:
    on = replace(BEFORE.enriched, fields=(*BEFORE.enriched.fields, field))
    summary = WindowSummary("s", "", on, (), Tumbling(1), {"last": Last("x")})
    assert layouts.of_windows(plan_with(BEFORE), [summary]) == f"ticks first; s: {kind}"


@pytest.mark.stack
@pytest.mark.drill
@pytest.mark.timeout(1200)
def test_a_driver_continues_where_it_was_with_an_id_a_wider_sum_and_a_stream_less(
    stack: Settings, tmp_path: Path
) -> None:
    target, spark = Target.read(stack, {}), Target.read(stack, {}).engine("spark")
    first, second = (variant_of(tmp_path, each) for each in ("before", "after"))
    before = own_plan(target, first, "changing", declared=first.declared)
    now = own_plan(target, second, "changing", declared=second.declared)
    after = replace(now, pattern=before.pattern, topics=before.topics, checkpoints=before.checkpoints, generation=2)
    began_ms = int(time.time() * 1000) // WINDOW_MS * WINDOW_MS - 600_000
    with own_topics(target, before, first), closing(Tail(before.bootstrap, tailed(before))) as tail:
        found = list[Record]()

        def of(kind: str) -> list[Event]:
            found.extend(tail.new())
            return [json.loads(each.value or b"{}") for each in found if each.topic == kind]

        def alerted() -> list[list[str]]:
            return [alert["event_ids"] for alert in of(ALERTS.name)]

        spark.start(before, None)
        send(before, [("doors", {"ip": "a", "at_ms": began_ms})])
        send(before, requests(began_ms, "a", "b"))
        assert wait_until(lambda: [] in alerted(), STARTED_WITHIN_S), spark.job(before)
        driven = Driven(target, before, cast(Any, None), tail)
        doors = before.topics["doors"]
        assert wait_until(lambda: any(doors in line for line in driven.committed("events")), TOLD_WITHIN_S)
        spark.stop(before)

        spark.start(after, None)
        send(after, [*requests(began_ms + 60_000, "c", "d"), *requests(began_ms + 60_000, "c")])
        told = wait_until(lambda: ["c", "d"] in alerted() and of(DEAD_LETTERS.name), TOLD_WITHIN_S)
        assert told, spark.job(after)
        assert spark.job(after).problem == ""
        assert Counter(each["source_offset"] for each in of("enriched")) == Counter(range(4))
        assert [each["reason"] for each in of(DEAD_LETTERS.name)] == ["duplicate"]
        assert not any(doors in line for line in driven.committed("events"))
        spark.stop(after)

        again = replace(before, generation=3)
        delete_all(again, doors)
        spark.start(again, None)
        send(again, requests(began_ms + 120_000, "e"))
        told = wait_until(lambda: "e" in [each["request_id"] for each in of("enriched")], TOLD_WITHIN_S)
        assert told, spark.job(again)
        assert wait_until(lambda: any(doors in line for line in driven.committed("events")), TOLD_WITHIN_S)
        assert spark.job(again).problem == ""


def plan_with(declared: UseCase, *, judges_events: bool = True) -> EnginePlan:
    return cast(EnginePlan, SimpleNamespace(use=declared, event_rules=(), judges_events=judges_events))


def rules_of(declared: UseCase) -> list[Any]:
    return [*declared.rules]


def variant_of(folder: Path, which: str) -> Variant:
    """A pattern on Spark alone with the copy of the declarations before or after the change."""
    at = folder / which
    shutil.copytree(Path(__file__).parent / "changing", at / "changing", ignore=shutil.ignore_patterns("__pycache__"))
    (at / kept.USE).write_text(json.dumps({"module": f"changing.{which}"}), encoding="utf-8")
    pattern = load("flood-spark").pattern
    windows = pattern.stages.windowing.model_copy(update={"rules": ("busy",), "summaries": ("sizes",)})
    stages = pattern.stages.model_copy(update={"windows": windows, "persist": None})
    changed = pattern.model_copy(update={"use": "changing", "stages": stages})
    return Variant("flood-spark", changed, declared=str(at))


def delete_all(plan: EnginePlan, topic: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=plan.bootstrap)) as admin:
        admin.delete_records({TopicPartition(topic, 0): -1})


def tailed(plan: EnginePlan) -> dict[str, str]:
    return {kind: plan.topics[kind] for kind in KINDS}


def requests(at_ms: int, *ids: str) -> Iterable[tuple[str, Event]]:
    for number, each in enumerate(ids):
        yield "requests", {"ip": "a", "request_id": each, "size": 7, "at_ms": at_ms + number}


def send(plan: EnginePlan, events: Iterable[tuple[str, Event]]) -> None:
    topics.publish(
        plan.bootstrap,
        [(plan.topics[kind], event["ip"].encode(), json.dumps(event).encode()) for kind, event in events],
    )
