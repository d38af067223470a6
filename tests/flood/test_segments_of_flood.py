"""The same of the second use: its windows are fixed, its events have no id, and only windows raise alerts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.verify import Evidence, Versions, judge
from millrace.verify.case import Case
from millrace.verify.ledger.step import Limits
from millrace.verify.spoiling import PROMISE, spoilings
from millrace.verify.verdict import together
from tests.flood.test_verdict import (
    PLAN,
    QUESTION,
    RESTING,
    SHORT,
    START_MS,
    called_late,
    everyday,
    evidence_of,
    held,
    lateness,
    raced,
    run_of,
    with_clock_set_back,
)
from tests.pipelines.segmented import Ledger, figures, wrong

LIMITS = Limits(outstanding_ms=20_000, grace_ms=4_000)
CUTS_MS = range(START_MS, START_MS + 60_000, 3_500)
OF_A_WHOLE = ("absent", "is deleted", "before a change", "a day behind", "came out late", "of a replaced file")
"""Spoilings that only the verdict on a whole run must notice."""
MANY = ("all rows are lost", "tail is cut", "a clock is", "falls silent", "a day back")


def live(evidence: Evidence) -> Evidence:
    """The run with each output in its time."""
    times: dict[str, Callable[[Any], int]] = {
        "enriched": lambda event: event["ingest_ms"] + 8,
        "dead-letters": lambda letter: letter["ingest_ms"] + 9,
        "alerts": lambda alert: alert["ingest_ms"] + 5_000,
        "windows": lambda row: row["window_end_ms"] + 3_000,
    }
    outputs = {}
    for kind, own in evidence.outputs.items():
        found = []
        for record in own or ():
            event = json.loads(record.value or b"")
            at_ms = times[kind](event)
            if "emit_ms" in event:
                event["emit_ms"] = at_ms
            found.append((at_ms, json.dumps(event).encode(), record.key))
        ordered = sorted(found)
        outputs[kind] = [Record(kind, 0, n, at_ms, key, value) for n, (at_ms, value, key) in enumerate(ordered)]
    return replace(evidence, outputs=outputs, labels=None)


@pytest.fixture(scope="module")
def short() -> Evidence:
    plan = replace(PLAN, events=600, rate_per_s=100)
    return live(evidence_of(run_of(plan), plan=plan))


def test_a_good_run_is_ok_in_segments_and_counts_the_same(short: Evidence) -> None:
    segments = Ledger(QUESTION, short, LIMITS).through(CUTS_MS)
    assert wrong(segments) == {}
    found = figures(segments)
    for check in judge(QUESTION, short).checks:
        if check.name not in ("substance", "acknowledged"):
            counts = {name: value for name, value in check.figures.items() if not isinstance(value, str)}
            expected = {name: value for name, value in counts.items() if name != "still open"}
            assert {name: found[check.name].get(name, 0) for name in expected} == expected, check.name


@pytest.mark.parametrize(("most", "status"), [(3, "ok"), (50, "unknown")])
def test_few_events_are_late_because_another_partition_was_ahead(most: int, status: str) -> None:
    plan = replace(PLAN, events=600, rate_per_s=100)
    run = run_of(plan, 2)
    evidence = live(called_late(run, live(evidence_of(run, plan=plan)), everyday, most))
    segments = Ledger(QUESTION, evidence, LIMITS).through(CUTS_MS)
    of_each = [check for segment in segments for check in segment.checks if check.name == "lateness"]
    assert together(check.status for check in of_each) == status
    assert figures(segments)["lateness"]["races"] == lateness(evidence).figures["races"] == most


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("what", RESTING)
def test_whether_an_alert_is_due_does_not_rest_on_a_race_or_on_when_events_came_out(what: str, partitions: int) -> None:
    when, status = RESTING[what]
    question, evidence = raced(run_of(SHORT, partitions), when, partitions - 2)
    evidence = held(live(evidence)) if partitions == 1 else live(evidence)
    segments = Ledger(question, evidence, LIMITS).through(CUTS_MS)
    of_each = [check for segment in segments for check in segment.checks if check.name == "alerts: busy"]
    assert together(check.status for check in of_each) == status
    assert sum(check.status == "unknown" for check in of_each) == (status == "unknown")


def test_where_a_clock_was_set_back_an_event_arrived_with_those_before_it() -> None:
    segments = Ledger(QUESTION, live(with_clock_set_back()), LIMITS).through(CUTS_MS)
    of_each = [check for segment in segments for check in segment.checks if check.name == "lateness"]
    assert together(check.status for check in of_each) == "ok"
    assert figures(segments)["lateness"]["races"] == 2


def test_each_spoiling_is_red(short: Evidence) -> None:
    missed = {}
    for each in spoilings(Case(QUESTION, short)):
        if each.name.endswith(OF_A_WHOLE) or each.name.startswith("labels"):
            continue
        question, evidence = each.spoilt()
        limits = replace(LIMITS, outstanding_ms=900_000) if "a clock is" in each.name else LIMITS
        found = Ledger(question, evidence, limits).through(CUTS_MS)
        red = {(segment.number, check.name) for segment in found for check in segment.checks if check.status != "ok"}
        expected = {name for name in each.checks if not name.startswith(PROMISE)}
        is_once = len({number for number, _ in red}) <= 3 or any(many in each.name for many in MANY)
        if not red or not is_once or expected - {name for _, name in red}:
            missed[each.name] = sorted(red)
    assert missed == {}


@pytest.mark.parametrize("changed_ms", [0, START_MS + 2_000], ids=["unchanged", "changed"])
def test_an_alert_on_a_window_without_its_start_is_red(changed_ms: int) -> None:
    plan = replace(PLAN, events=2_000, rate_per_s=500)
    evidence = live(evidence_of(run_of(plan), plan=plan))
    names = [each.name for each in (*QUESTION.rules, *QUESTION.summaries)]
    versions = dict.fromkeys(names, Versions((("00000000", changed_ms),))) if changed_ms else {}

    def without(record: Record) -> Record:
        return replace(record, value=json.dumps({**json.loads(record.value or b""), "window_start_ms": None}).encode())

    alerts = list(evidence.outputs["alerts"] or ())
    for own in ([*alerts, *map(without, alerts)], list(map(without, alerts))):
        own.sort(key=lambda each: each.ingest_ms)
        records = [replace(each, offset=n) for n, each in enumerate(own)]
        spoilt = replace(evidence, outputs={**evidence.outputs, "alerts": records})
        found = Ledger(replace(QUESTION, in_force=versions), spoilt, LIMITS).through(CUTS_MS)
        red = {check.name: check.status for segment in found for check in segment.checks if check.status != "ok"}
        assert red["alert ids"] == "failed"
