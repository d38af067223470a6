"""An id that comes again when it is no longer remembered: both events are accepted, and both are judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.traffic import plan_for
from millrace.verify import Evidence, judge
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend
from tests.pipelines.pretend import QUESTION, START_MS

PLAN = plan_for(TRAFFIC, 800, 20, seed=3, name="p", customers=100)
LONG_MS = FRAUD.judged.remembered_ms + 60_000
ASKED = replace(QUESTION, summaries=(), promises=None)
ABOVE = "above-previous-max"


def purchase(offset: int, identity: str, after_ms: int, cents: int) -> Record:
    at_ms = START_MS + after_ms
    fields = {"transaction_id": identity, "customer": "a", "card": "5cea1a10." + "0" * 32, "merchant": "m"}
    fields |= {"amount_cents": cents, "latitude": 1.0, "longitude": 1.0, "at_ms": at_ms, "sent_ms": at_ms}
    return Record("transactions", 0, offset, at_ms, b"a", json.dumps(fields).encode())


def reference(kind: str, key: str, **fields: str) -> Record:
    return Record(kind, 0, 0, START_MS - 60_000, key.encode(), json.dumps(fields).encode())


@pytest.fixture(scope="module", params=[50, 300], ids=["one alert", "two alerts with one id"])
def good(request: pytest.FixtureRequest) -> Evidence:
    """A run in which x1 comes twice; its first event sets off a rule, and so may the second."""
    raw: dict[str, list[Record]] = {kind: [] for kind in pretend.KINDS.values()}
    raw["customers"] = [reference("customers", "a", customer="a", segment="s")]
    raw["merchants"] = [reference("merchants", "m", merchant="m", category="c", place="p")]
    bought = [("x0", 0, 100), ("x1", 30_000, 200), ("x1", LONG_MS, request.param), ("x2", LONG_MS + 120_000, 60)]
    raw["transactions"] = [purchase(offset, *each) for offset, each in enumerate(bought)]
    ran = pretend.ran(PLAN, raw)
    return replace(ran, outputs={**ran.outputs, "windows": []}, labels=None)


def spoilt(good: Evidence, kind: str, lost: Mapping[str, Any]) -> Evidence:
    """The evidence without the output that has these values."""

    def is_kept(record: Record) -> bool:
        event = json.loads(record.value or b"")
        return any(event.get(name) != value for name, value in lost.items())

    return replace(good, outputs={**good.outputs, kind: [each for each in good.outputs[kind] or () if is_kept(each)]})


def test_a_right_run_is_ok(good: Evidence) -> None:
    assert [each for each in judge(ASKED, good).checks if each.status != "ok"] == []
    assert judge(ASKED, good).check(f"alerts: {ABOVE}").figures["races"] == 0


def test_each_of_its_alerts_is_missed(good: Evidence) -> None:
    alerts = [json.loads(each.value or b"") for each in good.outputs["alerts"] or ()]
    assert {alert["alert_id"] for alert in alerts} == {alerts[0]["alert_id"]}
    for alert in alerts:
        check = judge(ASKED, spoilt(good, "alerts", {"at_ms": alert["at_ms"]})).check(f"alerts: {ABOVE}")
        assert [each.split(" (")[0] for each in check.offenders] == [f"missing: {ABOVE} a x1"]


def test_an_alert_with_the_facts_of_both_events_is_wrong(good: Evidence) -> None:
    first, *others = good.outputs["alerts"] or ()
    alert = json.loads(first.value or b"") | {"operands": {"amount_cents": "300", "before_highest_cents": "200"}}
    mixed = [replace(first, value=json.dumps(alert).encode()), *others]
    verdict = judge(ASKED, replace(good, outputs={**good.outputs, "alerts": mixed}))
    assert verdict.check(f"alerts: {ABOVE}").status == "failed"


@pytest.mark.parametrize("offset", [1, 2])
def test_each_of_its_events_is_compared(good: Evidence, offset: int) -> None:
    enriched = list(good.outputs["enriched"] or ())
    event = json.loads(enriched[offset].value or b"") | {"merchant_category": "another"}
    enriched[offset] = replace(enriched[offset], value=json.dumps(event).encode())
    verdict = judge(ASKED, replace(good, outputs={**good.outputs, "enriched": enriched}))
    assert verdict.check("enrichment").status == "failed"


@pytest.mark.parametrize("offset", [1, 2])
def test_each_of_its_rows_is_missed(good: Evidence, offset: int) -> None:
    rows = [row for row in good.stores["files"] if row["source_offset"] != offset]
    assert judge(ASKED, replace(good, stores={**good.stores, "files": rows})).check("files").status == "failed"
