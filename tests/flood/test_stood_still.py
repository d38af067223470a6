"""Windows that stand still while events go on coming out: what comes late meanwhile is rightly counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace import oracle
from millrace.oracle import Record
from millrace.verify import Evidence, judge
from millrace.verify.ledger.step import Limits
from pipelines.flood import FLOOD
from tests.flood.test_verdict import BUSY, PLAN, QUESTION, START_MS, TOPIC, Run, alert, among, run_of
from tests.pipelines.pretend import key_of
from tests.pipelines.segmented import Ledger, wrong

OF_BUSY = replace(QUESTION, rules=(BUSY,), promises={})
SUMMARY = FLOOD.summaries[0]
SIZE_MS = BUSY.window.size_ms
CUTS_MS = range(START_MS, START_MS + 2_400_000, 60_000)
LATE_AT, LATE_MS = 3_500, 180_000
"""The event that comes late, about six minutes after the first, and by how much."""


@pytest.fixture(scope="module")
def run() -> Run:
    """Ten minutes, with an event that comes three minutes late."""
    raw, accepted, letters = run_of(replace(PLAN, events=6_000, rate_per_s=10, shares={**PLAN.shares, "late": 0}))
    event = accepted[LATE_AT]
    event["at_ms"] -= LATE_MS
    at = event["source_offset"]
    content = json.loads(raw[at].value or b"") | {"at_ms": event["at_ms"]}
    return [*raw[:at], replace(raw[at], value=json.dumps(content).encode()), *raw[at + 1 :]], accepted, letters


def written(kind: str, events: Sequence[Mapping[str, Any]], time: str, after_ms: int = 0) -> list[Record]:
    ordered = sorted(events, key=lambda event: event[time])
    return [
        Record(kind, 0, n, event[time] + after_ms, key_of(FLOOD, kind, event), json.dumps(event).encode())
        for n, event in enumerate(ordered)
    ]


def row(key: tuple[Any, ...], numbers: Mapping[str, Any], emit_ms: int) -> dict[str, Any]:
    start_ms, group = key
    span = {"window_start_ms": start_ms, "window_end_ms": start_ms + SIZE_MS}
    return {"summary": SUMMARY.name, **span, "group_id": group, **numbers, "emit_ms": emit_ms}


def evidence_of(run: Run, counted: Sequence[dict[str, Any]], since_ms: int, until_ms: int) -> Evidence:
    """What windows leave that count these events, and stand still for a time."""
    raw, accepted, letters = run

    def out_ms(at_ms: int) -> int:
        return START_MS + until_ms if since_ms <= at_ms - START_MS < until_ms else at_ms

    def last_ms(events: Sequence[Mapping[str, Any]], start_ms: int) -> int:
        return max(start_ms + SIZE_MS, *(event["ingest_ms"] for event in events)) + 2_000

    alerts = []
    for found in oracle.window_findings(BUSY, counted):
        own = among(found, BUSY, counted)
        alerts.append(alert(found, own) | {"emit_ms": out_ms(last_ms(own, found.window_start_ms or 0))})
    of_rows = oracle.summary_events(SUMMARY, counted)
    rows = [row(key, oracle.measured(SUMMARY, own), out_ms(last_ms(own, key[0]))) for key, own in of_rows.items()]
    outputs = {
        "enriched": written("enriched", accepted, "ingest_ms", 8),
        "alerts": written("alerts", alerts, "emit_ms"),
        "dead-letters": written("dead-letters", letters, "ingest_ms", 8),
        "windows": written("windows", rows, "emit_ms"),
    }
    return Evidence({"requests": raw}, outputs, kinds={TOPIC: "requests"})


def without_late(run: Run) -> list[dict[str, Any]]:
    return [event for at, event in enumerate(run[1]) if at != LATE_AT]


def test_what_comes_late_while_windows_stand_still_is_counted(run: Run) -> None:
    evidence = evidence_of(run, run[1], 100_000, 400_000)
    assert [check.name for check in judge(OF_BUSY, evidence).checks if check.status != "ok"] == []
    assert wrong(Ledger(OF_BUSY, evidence, Limits()).through(CUTS_MS)) == {}


def test_what_windows_had_passed_must_be_a_late_dead_letter(run: Run) -> None:
    evidence = evidence_of(run, without_late(run), 0, 0)
    found = wrong(Ledger(OF_BUSY, evidence, Limits()).through(CUTS_MS))
    assert [name.partition(" ")[2] for name in found] == ["lateness"]
    assert "came behind windows that were judged" in str(found)


def test_a_later_row_that_counts_what_came_behind_it_is_unknown(run: Run) -> None:
    """The row was right before: nothing else of its window came after it."""
    late = run[1][LATE_AT]
    evidence = evidence_of(run, without_late(run), 0, 0)
    key = late["at_ms"] // SIZE_MS * SIZE_MS, late["group_id"]
    again = row(key, oracle.summary_rows(SUMMARY, run[1])[key], late["ingest_ms"] + 70_000)
    rows = [*(json.loads(record.value or b"") for record in evidence.outputs["windows"] or ()), again]
    with_again = replace(evidence, outputs={**evidence.outputs, "windows": written("windows", rows, "emit_ms")})
    segments = Ledger(OF_BUSY, with_again, Limits()).through(CUTS_MS)
    assert {(each.name, each.status) for segment in segments for each in segment.checks if each.status != "ok"} == {
        ("lateness", "unknown"),
        (f"numbers: {SUMMARY.name}", "unknown"),
    }
