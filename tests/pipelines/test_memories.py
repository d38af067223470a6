"""A memory begins with the version of a rule that needs it: the verdict expects what is remembered since then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace import oracle
from millrace.oracle import Finding, Origin, Record
from millrace.rules import DistinctOthers, EventRule, FoldRule, Last, Min, Rule, memories
from millrace.traffic import plan_for
from millrace.verify import Evidence, Question, judge
from millrace.verify.evidence import Versions
from millrace.verify.ledger import state as states
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import START_MS, alert, messages, ran, topics
from tests.pipelines.segmented import Ledger, wrong
from tests.pipelines.test_redeclared import CHANGED_MS, SOON, UPGRADED_MS, changed
from tests.pipelines.test_segments import STREAM, arrived, in_order, live, read

PLAN = plan_for(TRAFFIC, 1_500, 20, seed=3, name="p", customers=60)

BEFORE, AFTER = CHANGED_MS - 12_000, CHANGED_MS + 3_000
"""When the job stops: some segments before the ledger has the new declaration, and after it."""
ASKED = replace(STREAM, stores=())
PHONES = next(each for each in FRAUD.others if each.name == "device-locations")
MINUTE_MS = 60_000
GONE = "gone"

CHEAPEST = EventRule(
    name="cheapest",
    doc="Less than the customer has ever paid.",
    on=FRAUD.judged,
    remembers={"least": Min("amount_cents")},
    alert_when=lambda now, before: now.amount_cents < before.least,
)
SPREE = EventRule(
    name="spree",
    doc="The customer buys at another merchant within ten minutes.",
    on=FRAUD.judged,
    remembers={"others": DistinctOthers("merchant", within_ms=10 * MINUTE_MS)},
    alert_when=lambda now, before: before.others >= 1,
)
SEEN = EventRule(
    name="seen",
    doc="The customer's phone has been seen.",
    on=FRAUD.judged,
    remembers={"seen": Last(PHONES, "latitude", "at_ms")},
    alert_when=lambda now, before: now.at_ms - before.seen.at_ms <= 15 * MINUTE_MS,
)
PREVIOUS = FRAUD.rule("above-previous-max")
assert isinstance(PREVIOUS, EventRule)
ABOVE = replace(PREVIOUS, remembers={**PREVIOUS.remembers, "least": Min("amount_cents")})


def by_text(state: Any, event: Mapping[str, Any], stream: str) -> tuple[Any, Mapping[str, Any] | None]:
    """The first version keeps a text for each customer,"""
    text = (state or "") + "x"
    return text, {"n": len(text)} if len(text) % 2 else None


def by_number(state: Any, event: Mapping[str, Any], stream: str) -> tuple[Any, Mapping[str, Any] | None]:
    """and the second one a number."""
    number = (state or 0) + 1
    return number, {"n": number} if number >= 2 else None


FIRST = FoldRule("counting", "Every other purchase.", FRAUD.judged, by_text, "1")
SECOND = FoldRule("counting", "All but the first purchase.", FRAUD.judged, by_number, "2")


@pytest.fixture(scope="module")
def good() -> Evidence:
    return live(ran(PLAN, topics(messages(PLAN))))


def found_by(rule: Rule | None, good: Evidence, since_ms: int, until_ms: int) -> dict[Origin, Finding]:
    """What a job finds that begins without any memory and reads what arrives in this span."""
    known: dict[str, dict[str, oracle.Event]] = {reference.name: {} for reference in FRAUD.references}
    for reference in FRAUD.references:
        for record in good.raw[reference.name] or ():
            oracle.refer(reference, known[reference.name], record)
    accepted = {(each["source_partition"], each["source_offset"]) for each in map(read, good.outputs["enriched"] or ())}
    tape = sorted((r for kind in FRAUD.raw for r in good.raw[kind.name] or ()), key=lambda r: (r.ingest_ms, r.topic))
    own = [r for r in tape if since_ms <= r.ingest_ms < until_ms]
    own = [r for r in own if r.topic != FRAUD.judged.name or (r.partition, r.offset) in accepted]
    judged = oracle.judge(FRAUD, [rule] if rule else [], own, known)
    return {each.record.origin: finding for each in judged for finding in each.findings}


def redeclared(good: Evidence, before: Rule | None, rule: Rule, stopped_ms: int) -> Evidence:
    """The run in which a rule is in another version, or new, since the upgrade; the job stood still before it."""
    first = found_by(before, good, 0, stopped_ms)
    then = found_by(rule, good, 0 if rule is ABOVE else stopped_ms, 2 * UPGRADED_MS)

    def out_ms(ingest_ms: int, out_ms: int) -> int:
        """Of what waited, all comes out soon after the upgrade, in its order."""
        return out_ms if ingest_ms < stopped_ms else max(out_ms, UPGRADED_MS + (ingest_ms - stopped_ms) // 4)

    outs: list[Record] = []
    alerts = [
        {**each, "emit_ms": out_ms(each["ingest_ms"], each["emit_ms"])}
        for each in map(read, good.outputs["alerts"] or ())
        if each["rule"] != rule.name
    ]
    for record in good.outputs["enriched"] or ():
        event = read(record)
        origin = ("transactions", event["source_partition"], event["source_offset"])
        finding = (first if event["ingest_ms"] < stopped_ms else then).get(origin)
        flags = [flag for flag in event["flags"] if flag != rule.name] + ([rule.name] if finding else [])
        at_ms = out_ms(event["ingest_ms"], record.ingest_ms)
        outs.append(replace(record, ingest_ms=at_ms, value=json.dumps({**event, "flags": flags}).encode()))
        if finding:
            alerts.append(alert(finding, event["sent_ms"], event["ingest_ms"], at_ms + 1, finding.rule_version))
    outputs = {"enriched": arrived(outs), "alerts": in_order("alerts", alerts, "emit_ms")}
    return replace(good, outputs={**good.outputs, **outputs}, labels=None, stores={})


def asked(before: Rule | None, rule: Rule) -> Question:
    """The question since the upgrade."""
    others = [each for each in FRAUD.rules if each.name != rule.name]
    earlier = before.version if before else None
    new = memories([rule], None) - memories([*others, *([before] if before else [])], FRAUD.enrichment)
    return replace(
        ASKED,
        rules=[*others, rule],
        in_force={rule.name: Versions(((earlier, UPGRADED_MS),))},
        away_ms={name: [(0, UPGRADED_MS)] for name in new},
    )


def asked_before(before: Rule | None, rule: Rule) -> Question:
    others = [each for each in FRAUD.rules if each.name != rule.name]
    return replace(ASKED, rules=[*others, before] if before else others)


CHANGES = [
    (None, CHEAPEST),
    (FRAUD.rule("spree"), SPREE),
    (PREVIOUS, ABOVE),
    (None, SEEN),
    (FIRST, SECOND),
]
NAMES = ["a minimum for ever", "a longer span", "one more measure", "the other stream", "a step"]


@pytest.mark.parametrize(("before", "rule"), CHANGES, ids=NAMES)
@pytest.mark.parametrize("stopped_ms", [BEFORE, AFTER])
def test_a_memory_that_begins_under_way_is_no_fault(
    good: Evidence, before: Rule | None, rule: Rule, stopped_ms: int
) -> None:
    evidence, question = redeclared(good, before, rule, stopped_ms), asked(before, rule)
    verdict = judge(question, evidence)
    assert {each.name: each.offenders for each in verdict.checks if each.status == "failed"} == {}
    assert int(verdict.check(f"alerts: {rule.name}").figures["expected"] or 0) > 1
    ledger = changed((asked_before(before, rule), evidence), (question, evidence))
    assert wrong(ledger.segments) == {}


@pytest.mark.parametrize(("before", "rule"), CHANGES, ids=NAMES)
def test_a_memory_from_before_is_a_fault_where_the_job_had_none(
    good: Evidence, before: Rule | None, rule: Rule
) -> None:
    evidence = redeclared(good, before, rule, AFTER)
    question = replace(asked(before, rule), away_ms={})
    assert (judge(question, evidence).status == "failed") == (rule is not ABOVE)


@pytest.mark.parametrize(("before", "rule"), CHANGES, ids=NAMES)
def test_a_missing_alert_on_what_a_new_memory_holds_is_red(good: Evidence, before: Rule | None, rule: Rule) -> None:
    evidence, question = redeclared(good, before, rule, AFTER), asked(before, rule)
    alerts = [*map(read, evidence.outputs["alerts"] or ())]
    gone = next(each for each in alerts if each["rule_version"] == rule.version)
    left = in_order("alerts", [each for each in alerts if each is not gone], "emit_ms")
    evidence = replace(evidence, outputs={**evidence.outputs, "alerts": left})
    (offender,) = judge(question, evidence).check(f"alerts: {rule.name}").offenders
    assert offender.startswith(f"missing: {rule.name} {gone['key']} ")
    found = wrong(changed((asked_before(before, rule), evidence), (question, evidence)).segments)
    assert [causes for check, causes in found.items() if f"alerts: {rule.name}" in check] == [["", offender]]


@pytest.mark.parametrize(("before", "rule"), CHANGES, ids=NAMES)
def test_an_event_that_cannot_be_remembered_is_red(good: Evidence, before: Rule | None, rule: Rule) -> None:
    evidence, question = redeclared(good, before, rule, BEFORE), asked(before, rule)
    records = list(evidence.outputs["enriched"] or ())
    at = next(n for n, each in enumerate(records) if each.ingest_ms >= UPGRADED_MS)
    others = [(name, value) for name in read(records[0]) for value in (GONE, None, [], "x", 1)]
    spoilt = []
    for record, (name, value) in zip(records[:at], others, strict=False):
        event = {each: own for each, own in {**read(record), name: value}.items() if own != GONE}
        spoilt.append(replace(records[at], value=json.dumps(event).encode()))
    outputs = {**evidence.outputs, "enriched": arrived([*records[:at], *spoilt, *records[at:]])}
    evidence = replace(evidence, outputs=outputs)
    found = wrong(changed((asked_before(before, rule), evidence), (question, evidence)).segments)
    assert any(each.endswith(" enrichment") for each in found)


def test_a_memory_that_a_roll_back_restores_is_whole(good: Evidence) -> None:
    """All that came out since the upgrade comes out again, and the state is that from before it."""
    back_ms, outs = UPGRADED_MS + 20_000, list[Record]()
    for kind in ("enriched", "alerts"):
        records = [*(good.outputs[kind] or ())]
        again = [r for r in records if UPGRADED_MS <= r.ingest_ms < back_ms]
        outs += [replace(r, ingest_ms=back_ms + (r.ingest_ms - UPGRADED_MS) // 10) for r in again] + records
    outputs = {kind: arrived([r for r in outs if r.topic == kind]) for kind in ("enriched", "alerts")}
    away_ms = {name: [(UPGRADED_MS, back_ms)] for name in memories([ABOVE], None)}
    in_force = {ABOVE.name: Versions(((ABOVE.version, UPGRADED_MS), ("another", back_ms)))}
    question = replace(ASKED, in_force=in_force, away_ms=away_ms)
    verdict = judge(question, replace(good, outputs={**good.outputs, **outputs}, labels=None, stores={}))
    assert {each.name: each.offenders for each in verdict.checks if each.status == "failed"} == {}


def test_what_a_job_remembers_again_is_unknown_to_a_ledger(good: Evidence) -> None:
    """Of a key without an event in between, a job still has what it remembered before."""
    away_ms = {name: [(START_MS + 5_000, UPGRADED_MS)] for name in memories([ABOVE], None)}
    question = replace(ASKED, in_force={ABOVE.name: Versions(((None, UPGRADED_MS),))})
    before = replace(question, in_force={})
    evidence = redeclared(good, PREVIOUS, PREVIOUS, AFTER)
    found = wrong(changed((before, evidence), (replace(question, away_ms=away_ms), evidence)).segments)
    assert {causes[0] for check, causes in found.items() if "above" in check or "enrichment" in check} == {
        "assumed: 'max(transactions.amount_cents)' is remembered again"
    }


def test_a_state_of_a_step_is_read_that_an_earlier_version_wrote(good: Evidence) -> None:
    evidence = redeclared(good, None, FIRST, CHANGED_MS)
    ledger = Ledger(asked_before(FIRST, SECOND), evidence, SOON)
    ledger.to(CHANGED_MS)
    lines = [json.loads(line) for line in states.lines(ledger.state)]
    old = [["folded", each[1].partition(" ")[0], *each[2:]] if each[0] == "folded" else each for each in lines[1:]]
    again = states.read([json.dumps(each).encode() for each in (lines[0], *old)])
    assert again.oracle.folded == ledger.state.oracle.folded != {}
