"""Two topics may be read a little apart: what a rule with a step of its own finds then is unknown, and not wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules import Count, FoldRule, Session, WindowRule
from millrace.traffic import plan_for
from millrace.verify import Bounds, Evidence, Question, Verdict, judge
from millrace.verify.ledger.step import Limits
from millrace.verify.verdict import together
from pipelines.fraud import FRAUD
from pipelines.fraud.events import device_locations
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend
from tests.pipelines.pretend import QUESTION, START_MS
from tests.pipelines.segmented import NEVER_MS, Ledger, again
from tests.pipelines.test_ids_again import purchase, reference
from tests.pipelines.test_segments import arrived

PLAN = plan_for(TRAFFIC, 800, 20, seed=3, name="p", customers=100)
BOUGHT_MS = 30_000


def far_from_phone(state: Any, event: Mapping[str, Any], stream: str) -> tuple[Any, Mapping[str, Any] | None]:
    if stream == device_locations.name:
        return event["latitude"], None
    if state is not None and abs(state - event["latitude"]) > 0.5:
        return state, {"latitude": state}
    return state, None


FAR = FoldRule("far", "Alert when the phone is elsewhere.", FRAUD.judged, far_from_phone, "1", also=(device_locations,))
USE = replace(FRAUD, rules=(FAR,), canaries=None, traffic=None)
ASKED = replace(QUESTION, use=USE, rules=(FAR,), summaries=(), stores=(), promises=None, bounds=Bounds(skew_ms=200))


@pytest.fixture(autouse=True)
def _of_this_rule() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretend, "FRAUD", USE)
        patch.setattr(pretend, "labels", lambda plan: None)
        yield


def phone(offset: int, after_ms: int, latitude: float) -> Record:
    at_ms = START_MS + after_ms
    fields = {"customer": "a", "latitude": latitude, "longitude": 1.0, "at_ms": at_ms, "sent_ms": at_ms}
    return Record(device_locations.name, 0, offset, at_ms, b"a", json.dumps(fields).encode())


def ran(phone_ms: int) -> Evidence:
    """A run in which the phone comes at that moment from where the purchases are not, and back again."""
    raw: dict[str, list[Record]] = {kind: [] for kind in pretend.KINDS.values()}
    raw["customers"] = [reference("customers", "a", customer="a", segment="s")]
    raw["merchants"] = [reference("merchants", "m", merchant="m", category="c", place="p")]
    raw["transactions"] = [purchase(n, f"x{n}", n * BOUGHT_MS, 100) for n in range(4)]
    raw[device_locations.name] = [phone(0, 10_000, 1.0), phone(1, phone_ms, 5.0), phone(2, 45_000, 1.0)]
    found = pretend.ran(PLAN, raw, (FAR,))
    return replace(found, outputs={**found.outputs, "windows": []}, stores={}, labels=None)


def read_first(phone_ms: int, **of_alert: Any) -> Verdict:
    """The verdict on an engine that read the phone before the purchase, though it came at that moment."""
    return judge(ASKED, reading_first(phone_ms, **of_alert))


def reading_first(phone_ms: int, **of_alert: Any) -> Evidence:
    """What it has written."""
    came, read = ran(phone_ms), ran(BOUGHT_MS - 1)
    outputs, (read_ms, came_ms) = dict(read.outputs), (b"%d" % (START_MS + ms) for ms in (BOUGHT_MS - 1, phone_ms))
    outputs["enriched"] = [
        replace(each, value=(each.value or b"").replace(read_ms, came_ms)) for each in read.outputs["enriched"] or ()
    ]
    outputs["alerts"] = [
        replace(each, value=json.dumps(json.loads(each.value or b"") | of_alert).encode())
        for each in read.outputs["alerts"] or ()
    ]
    return replace(came, outputs=outputs)


def statuses(verdict: Verdict) -> dict[str, str]:
    return {each.name: each.status for each in verdict.checks if each.status != "ok"}


@pytest.mark.parametrize("phone_ms", [BOUGHT_MS - 1, BOUGHT_MS + 5, BOUGHT_MS + 1_000])
def test_what_is_read_in_the_order_of_its_arrival_is_ok(phone_ms: int) -> None:
    assert statuses(judge(ASKED, ran(phone_ms))) == {}


def test_what_the_order_of_two_streams_decides_is_unknown() -> None:
    assert statuses(read_first(BOUGHT_MS + 5)) == {"enrichment": "unknown", "alerts: far": "unknown"}
    assert read_first(BOUGHT_MS + 5).check("alerts: far").offenders == ("extra: far a x1",)


def test_what_no_order_within_the_tolerance_explains_is_red() -> None:
    assert statuses(read_first(BOUGHT_MS + 1_000)) == {"enrichment": "failed", "alerts: far": "failed"}


@pytest.mark.parametrize("wrong", [{"subject": "b"}, {"at_ms": START_MS}, {"ingest_ms": START_MS}])
def test_such_an_alert_is_right_but_for_its_operands(wrong: dict[str, Any]) -> None:
    assert read_first(BOUGHT_MS + 5, **wrong).check("alerts: far").status == "failed"


def test_a_missing_alert_is_red_where_no_event_was_read_apart() -> None:
    run = ran(BOUGHT_MS - 1_000)
    assert len(run.outputs["alerts"] or ()) == 1
    verdict = judge(ASKED, replace(run, outputs={**run.outputs, "alerts": []}))
    assert statuses(verdict) == {"alerts: far": "failed"}


LIMITS = Limits(outstanding_ms=60_000, grace_ms=15_000)
CUTS_MS = range(START_MS, START_MS + 240_000, 10_000)
SECOND_MS, SPLIT_MS = START_MS + BOUGHT_MS, START_MS + BOUGHT_MS + 1


def in_segments(evidence: Evidence, cuts_ms: Iterable[int] = CUTS_MS, asked: Question = ASKED) -> dict[str, str]:
    """The status of each check that was not ok in a segment, with a state that is read back before each."""
    ledger = Ledger(asked, evidence, LIMITS)
    for cut_ms in cuts_ms:
        ledger.to(cut_ms)
        ledger.state = again(ledger.state)
    ledger.to(NEVER_MS, is_last=True)
    checks = [check for segment in ledger.segments for check in segment.checks if check.status != "ok"]
    return {check.name: together(each.status for each in checks if each.name == check.name) for check in checks}


UNDECIDED = {"enrichment": "unknown", "alerts: far": "unknown"}
IN_ORDER = [BOUGHT_MS - 1, BOUGHT_MS + 5, BOUGHT_MS + 1_000]


@pytest.mark.parametrize("phone_ms", IN_ORDER)
def test_in_segments_what_is_read_in_the_order_of_its_arrival_is_ok(phone_ms: int) -> None:
    assert in_segments(ran(phone_ms)) == {}


@pytest.mark.parametrize("cuts_ms", [CUTS_MS, (SECOND_MS, *CUTS_MS[4:]), (SPLIT_MS, *CUTS_MS[4:]), ()])
def test_in_segments_what_the_order_of_two_streams_decides_is_unknown(cuts_ms: Sequence[int]) -> None:
    assert in_segments(reading_first(BOUGHT_MS + 5), cuts_ms) == UNDECIDED


def test_in_segments_what_no_order_within_the_tolerance_explains_is_red() -> None:
    assert in_segments(reading_first(BOUGHT_MS + 1_000)) == {"enrichment": "failed", "alerts: far": "failed"}


@pytest.mark.parametrize("wrong", [{"subject": "b"}, {"at_ms": START_MS}, {"ingest_ms": START_MS}])
def test_in_segments_such_an_alert_is_right_but_for_its_operands(wrong: dict[str, Any]) -> None:
    assert in_segments(reading_first(BOUGHT_MS + 5, **wrong))["alerts: far"] == "failed"


def test_in_segments_an_alert_may_come_long_after_its_event() -> None:
    evidence = reading_first(BOUGHT_MS + 5)
    late = [replace(each, ingest_ms=each.ingest_ms + 30_000) for each in evidence.outputs["alerts"] or ()]
    assert in_segments(replace(evidence, outputs={**evidence.outputs, "alerts": late})) == UNDECIDED


def with_alert_alone(**of_alert: Any) -> Evidence:
    """A run that reads the purchase first, and has later the alert of one that reads the phone first."""
    anew = reading_first(BOUGHT_MS + 5, **of_alert).outputs["alerts"] or ()
    late = [replace(each, ingest_ms=each.ingest_ms + 15_000) for each in anew]
    once = ran(BOUGHT_MS + 5)
    return replace(once, outputs={**once.outputs, "alerts": late})


def test_in_segments_an_alert_may_come_long_after_its_event_was_judged() -> None:
    assert in_segments(with_alert_alone()) == {"alerts: far": "unknown"}


def test_in_segments_an_alert_on_several_events_is_red_though_one_of_them_has_only_come() -> None:
    cuts_ms = [*CUTS_MS[:6], START_MS + 110_000]
    evidence = with_alert_alone(event_ids=["x1", "x3"])
    assert in_segments(evidence, cuts_ms) == {"alert ids": "failed", "alerts: far": "failed"}


LONG = WindowRule(
    name="long",
    doc="Each time in which a customer buys very often; its windows keep the times of the events.",
    on=FRAUD.enriched,
    key="customer",
    window=Session(600_000),
    measures={"n": Count()},
    alert_when=lambda w: w.n >= 100,
)
COUNTING = replace(ASKED, use=replace(USE, rules=(FAR, LONG)), rules=(FAR, LONG))


@pytest.mark.parametrize(
    ("forged", "status"),
    [
        ({}, "unknown"),
        ({"alert_id": "0" * 32}, "failed"),
        ({"event_ids": []}, "failed"),
        ({"event_ids": ["x0", "x1"]}, "failed"),
        ({"event_ids": ["x0"]}, "failed"),
        ({"event_ids": ["nobody's"]}, "failed"),
        ({"window_start_ms": START_MS}, "failed"),
        ({"subject": "b"}, "failed"),
        ({"at_ms": START_MS}, "failed"),
        ({"ingest_ms": START_MS}, "failed"),
    ],
)
def test_in_segments_an_alert_that_comes_later_is_of_one_event_that_was_judged(
    forged: dict[str, Any], status: str
) -> None:
    assert in_segments(with_alert_alone(**forged), asked=COUNTING)["alerts: far"] == status


def read_otherwise_again(phone_ms: int, **of_event: Any) -> Evidence:
    """A run whose job reads the purchase and all that follows once more, and the phone before them."""
    once, anew = ran(phone_ms), reading_first(phone_ms)
    outputs = dict(once.outputs)
    for kind in ("enriched", "alerts"):
        later = [
            replace(each, offset=0, ingest_ms=each.ingest_ms + 100_000, value=json.dumps(content | changed).encode())
            for each in anew.outputs[kind] or ()
            if (content := json.loads(each.value or b""))["at_ms"] >= START_MS + BOUGHT_MS
            for is_second in [content["at_ms"] == START_MS + BOUGHT_MS]
            for changed in [of_event if kind == "enriched" and is_second else {}]
        ]
        outputs[kind] = arrived([*(once.outputs[kind] or ()), *later])
    return replace(once, outputs=outputs)


def test_in_segments_a_later_copy_may_be_read_in_the_other_order() -> None:
    run = read_otherwise_again(BOUGHT_MS + 5)
    assert statuses(judge(ASKED, run)) == UNDECIDED
    assert in_segments(run) == UNDECIDED


@pytest.mark.parametrize("changed", [{"amount_cents": 1}, {"flags": ["far", "far"]}, {"flags": ["near"]}])
def test_in_segments_no_more_of_a_later_copy_may_differ(changed: dict[str, Any]) -> None:
    run = read_otherwise_again(BOUGHT_MS + 5, **changed)
    assert in_segments(run)["enrichment"] == "failed"


def test_in_segments_a_later_copy_of_a_key_that_was_read_in_one_order_has_the_content_of_the_first() -> None:
    assert in_segments(read_otherwise_again(BOUGHT_MS + 1_000)) == {"enrichment": "failed", "alerts: far": "failed"}


def test_another_version_of_a_step_has_read_nothing_apart() -> None:
    ledger = Ledger(ASKED, ran(BOUGHT_MS + 5), LIMITS)
    ledger.to(START_MS + 110_000)
    assert ledger.state.apart == {"a": ["far"]}
    rules = (replace(FAR, version="2"),)
    ledger.question = replace(ASKED, use=replace(USE, rules=rules), rules=rules)
    ledger.to(START_MS + 120_000)
    assert ledger.state.apart == {}
