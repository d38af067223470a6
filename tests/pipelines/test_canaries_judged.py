"""A verdict judges canaries as any other events, and counts them in none of its figures about the traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules import EventType, Rule, Text
from millrace.traffic import Message
from millrace.traffic.labels import Labels, Meant, alert_places
from millrace.traffic.runs import Run
from millrace.verify import Evidence, Question, Verdict, judge
from millrace.verify.checks import acknowledged, labels
from millrace.verify.spoiling import self_test
from pipelines.fraud import FRAUD
from tests.pipelines.pretend import QUESTION, SECRETS, START_MS, messages, ran, topics
from tests.pipelines.test_verdict import PLAN

KEYS = ("canary:0", "canary:6")


def canaries(rounds: int = 2) -> list[Message]:
    """What a sender of canaries sends beside the traffic: a round every twenty seconds."""
    declared = FRAUD.canaries
    assert declared is not None
    found = [message for key in KEYS for message in declared.references(key)]
    for number in range(rounds):
        for key in KEYS:
            start_ms = START_MS + number * 20_000
            for each in declared.messages(key, SECRETS, start_ms, 20_000):
                found.append(each._replace(due_ms=each.due_ms + number * 20_000))
    return found


def verdict(sent: Sequence[Message]) -> tuple[Evidence, Verdict]:
    evidence = ran(PLAN, topics(sorted(sent, key=lambda each: each.due_ms)))
    return evidence, judge(QUESTION, evidence)


def figures(verdict: Verdict, name: str) -> dict[str, Any]:
    return next(dict(check.figures) for check in verdict.checks if check.name == name)


@pytest.fixture(scope="module")
def without() -> tuple[Evidence, Verdict]:
    return verdict(messages(PLAN))


@pytest.fixture(scope="module")
def beside() -> tuple[Evidence, Verdict]:
    return verdict([*messages(PLAN), *canaries()])


def test_canaries_beside_traffic_leave_a_verdict_ok_and_are_judged(
    without: tuple[Evidence, Verdict], beside: tuple[Evidence, Verdict]
) -> None:
    assert beside[1].status == "ok", [check for check in beside[1].checks if check.status != "ok"]
    found, expected = (figures(each[1], "alerts: burst")["found"] for each in (beside, without))
    assert found == expected + 2 * len(KEYS)


def test_they_are_in_neither_the_latencies_nor_the_precision(
    without: tuple[Evidence, Verdict], beside: tuple[Evidence, Verdict]
) -> None:
    counts = [{each.name: each.count for each in found.latencies} for _, found in (without, beside)]
    assert counts[0] == counts[1]
    assert counts[0]["alerts from intended send"] > 10
    assert figures(beside[1], "labels") == figures(without[1], "labels")


def test_an_alert_of_somebody_else_without_a_label_lowers_the_precision() -> None:
    rule = FRAUD.rule("spree")
    made = Labels({("spree", ("anna", "t1")): "spree"}, frozenset(), {"spree": [(0, 10_000)]})
    alert = {"rule": rule.name, "rule_version": rule.version, "key": "anna", "subject": "anna", "at_ms": 5_000}
    met = alert | {"event_ids": ["t1"]}

    def places(rule: Rule, alert: Mapping[str, Any]) -> Iterator[Meant]:
        yield from ((rule.name, place) for place in alert_places(FRAUD, rule, alert))

    for subject, precision in (("canary:0", 1.0), ("bob", 0.5)):
        other = alert | {"event_ids": ["t2"], "key": subject, "subject": subject}
        found, _ = labels.compared(FRAUD, [rule], made, [met, other], places)
        assert found["spree: precision"] == precision


def arrived(key: str, kind: str) -> Record:
    return Record(kind, 0, 0, START_MS, key.encode(), b"{}")


def test_only_the_mark_of_the_judged_key_shows_that_a_message_is_of_a_canary() -> None:
    """Of what else the key of a message begins with, its sender was acknowledged all."""
    assert FRAUD.canaries is not None
    phone = EventType("phones", "A phone.", (Text("phone"),), key="phone")
    marked = replace(FRAUD.canaries, marks={"customer": "canary:", "merchant_category": "zz"})
    use = replace(FRAUD, others=(*FRAUD.others, phone), canaries=marked)
    keys = ("anna", "zzebra", "canary:0")
    for kind, own in {"transactions": keys[:2], "device-locations": keys[:2], phone.name: keys}.items():
        left = acknowledged.without_canaries(use, kind, [arrived(key, kind) for key in keys])
        assert tuple((each.key or b"").decode() for each in left) == own
    run = Run({"file": "a.csv"}, START_MS, 3, {"transactions": 2, phone.name: 3}, 1.0, 1.0, {}, True)
    raw: dict[str, list[Record]] = {each.name: [] for each in (*use.raw, *use.references)}
    raw |= {kind: [arrived(key, kind) for key in keys] for kind in run.by_topic}
    found = judge(Question("p", use, (), runs=[run]), Evidence(raw)).check("acknowledged")
    assert (found.status, found.offenders) == ("ok", ())


@pytest.mark.parametrize("beside", ["nothing", "traffic"])
def test_each_spoiling_of_a_run_with_canaries_is_noticed(beside: str) -> None:
    """Without traffic a run has neither labels nor dead letters."""
    plan = replace(PLAN, events=200)
    sent = [*(messages(plan) if beside == "traffic" else ()), *canaries(3)]
    evidence = ran(plan, topics(sorted(sent, key=lambda each: each.due_ms)))
    found = self_test(QUESTION, evidence if beside == "traffic" else replace(evidence, labels=None))
    assert found.why == ""
    assert [each for each in found.outcomes if not each.is_noticed] == []
    assert len(found.outcomes) > 200
