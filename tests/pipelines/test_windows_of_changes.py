"""A window that holds an event from before its rule changed is not judged, and counted; each later one is judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from millrace.oracle import Record, summary_rows, window_findings
from millrace.rules import Count, Max, Min, Session, Tumbling, WindowRule, WindowSummary, alert_id
from millrace.traffic import plan_for
from millrace.verify import Evidence, Question, judge
from millrace.verify.evidence import Versions
from millrace.verify.ledger.segments import Segment
from millrace.verify.ledger.step import Limits
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend
from tests.pipelines.pretend import START_MS, among_of, messages, ran, topics, window_alert
from tests.pipelines.segmented import Ledger, figures, wrong
from tests.pipelines.test_ids_again import purchase, reference
from tests.pipelines.test_read_apart import phone
from tests.pipelines.test_redeclared import ABOVE, UPGRADED_MS, changed
from tests.pipelines.test_segments import (
    LAST_MS,
    LIMITS,
    STREAM,
    arrived,
    in_order,
    live,
    read,
    trickle,
)

PLAN = plan_for(TRAFFIC, 2_000, 20, seed=3, name="p", customers=40, frauds=0.1, edges=0.3)
NOT_JUDGED = "of windows from before a change, not judged"
ASKED = replace(STREAM, stores=())
BURST = FRAUD.rule("burst")
assert isinstance(BURST, WindowRule)
OTHERS = [rule for rule in FRAUD.rules if rule is not BURST]
SAME_WINDOW = replace(BURST, alert_when=lambda w: (w.n >= 2) & (w.total_cents >= 0))
WIDER = replace(BURST, window=Session(15_000))
TUMBLING = replace(BURST, window=Tumbling(15_000))
CROWD = WindowRule(
    name="crowd",
    doc="Each span in which a customer buys.",
    on=FRAUD.enriched,
    key="customer",
    window=Tumbling(5_000),
    measures={"n": Count()},
    alert_when=lambda w: w.n >= 1,
)
Events = Sequence[Mapping[str, Any]]


def with_late(raw: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """The raw topics with some events that come half an hour late."""

    def late(record: Record) -> Record:
        content = json.loads(record.value or b"")
        return replace(record, value=json.dumps({**content, "at_ms": content["at_ms"] - 1_800_000}).encode())

    own = [late(each) if 10 <= each.offset < 13 else each for each in raw[FRAUD.judged.name]]
    return {**raw, FRAUD.judged.name: own}


@pytest.fixture(scope="module")
def good() -> Evidence:
    return live(ran(PLAN, with_late(topics(messages(PLAN)))))


def events_of(evidence: Evidence) -> tuple[Events, Events]:
    """The events in time, and all."""
    letters = [each for each in map(read, evidence.outputs["dead-letters"] or ()) if each["reason"] == "late"]
    late = {(each["partition"], each["offset"]) for each in letters}
    every = [*map(read, evidence.outputs["enriched"] or ())]
    return [each for each in every if (each["source_partition"], each["source_offset"]) not in late], every


def alerts_of(rule: WindowRule, events: Events, since_ms: int = 0) -> list[dict[str, Any]]:
    """The alerts on these events; those of windows that are long over come at once."""
    found = [window_alert(each, rule, among_of(each, events), rule.version) for each in window_findings(rule, events)]
    return [each | {"emit_ms": max(each["emit_ms"], since_ms + 500)} for each in found]


def by_engine(how: str, before: WindowRule, after: WindowRule, good: Evidence) -> list[dict[str, Any]]:
    """The alerts of both versions: an engine begins its windows anew, keeps them, or reads their events again."""
    in_time, every = events_of(good)
    first = [each for each in alerts_of(before, in_time) if each["emit_ms"] < UPGRADED_MS]
    match how:
        case "anew":
            later = [each for each in in_time if each["ingest_ms"] + 8 >= UPGRADED_MS]
            return first + alerts_of(after, later, UPGRADED_MS)
        case "kept":
            return first + [each for each in alerts_of(after, in_time) if each["emit_ms"] >= UPGRADED_MS]
    return first + alerts_of(after, every, UPGRADED_MS)


def with_alerts(good: Evidence, alerts: list[dict[str, Any]], *rules: WindowRule) -> Evidence:
    names = {rule.name for rule in rules}
    others = [each for each in map(read, good.outputs["alerts"] or ()) if each["rule"] not in names]
    outputs = {**good.outputs, "alerts": in_order("alerts", others + alerts, "emit_ms")}
    return replace(good, outputs=outputs, labels=None, stores={})


def asked(before: WindowRule | None, *rules: WindowRule) -> Question:
    """The question since the first of these rules came, or changed."""
    in_force = {rules[0].name: Versions(((before.version if before else None, UPGRADED_MS),))}
    earlier = {(before.name, before.version): before} if before else {}
    return replace(ASKED, rules=[*OTHERS, *rules], in_force=in_force, earlier=earlier)


def segments(before: Question, after: Question, evidence: Evidence, until_ms: int = LAST_MS) -> list[Segment]:
    ledger = changed((before, evidence), (after, evidence))
    for cut_ms in range(LAST_MS, until_ms, 10_000):
        ledger.to(cut_ms)
    return ledger.segments


ENGINES = [
    ("anew", SAME_WINDOW),
    ("anew", WIDER),
    ("anew", TUMBLING),
    ("kept", SAME_WINDOW),
    ("again", SAME_WINDOW),
    ("again", WIDER),
]


@pytest.mark.parametrize(("how", "after"), ENGINES)
def test_windows_from_before_a_change_are_counted_and_no_fault(good: Evidence, how: str, after: WindowRule) -> None:
    evidence, question = with_alerts(good, by_engine(how, BURST, after, good), BURST), asked(BURST, after)
    verdict = judge(question, evidence)
    assert {each.name: each.offenders for each in verdict.checks if each.status == "failed"} == {}
    found = verdict.check("alerts: burst").figures
    assert int(found["expected"] or 0) > 0
    assert (int(found.get(NOT_JUDGED) or 0) > 0) == (how != "again"), "what is read again is right, and not missing"
    in_segments = segments(replace(ASKED, rules=[*OTHERS, BURST]), question, evidence)
    why = [causes for causes in wrong(in_segments).values() if not causes[0].startswith("no window that begins before")]
    assert why == []
    if after is SAME_WINDOW:
        assert figures(in_segments)["alerts: burst"][NOT_JUDGED] > 0


@pytest.mark.parametrize(("how", "after"), ENGINES)
def test_a_missing_alert_on_a_window_behind_the_change_is_red(good: Evidence, how: str, after: WindowRule) -> None:
    alerts = by_engine(how, BURST, after, good)
    later = [each for each in alerts if each["window_start_ms"] > UPGRADED_MS + 15_000]
    gone = min(later, key=lambda each: each["emit_ms"])
    evidence = with_alerts(good, [each for each in alerts if each is not gone], BURST)
    question = asked(BURST, after)
    (offender,) = judge(question, evidence).check("alerts: burst").offenders
    assert offender.startswith(f"missing: burst {gone['key']} {gone['window_start_ms']} ")
    found = wrong(segments(replace(ASKED, rules=[*OTHERS, BURST]), question, evidence, LAST_MS + 40_000))
    assert [causes for causes in found.values() if offender in causes] == [["", offender]]


def test_an_alert_that_is_wrong_for_the_events_that_it_names_is_red(good: Evidence) -> None:
    alerts = by_engine("anew", BURST, SAME_WINDOW, good)
    whole = {each["alert_id"] for each in by_engine("kept", BURST, SAME_WINDOW, good)}
    part = next(each for each in alerts if each["alert_id"] not in whole)
    part["operands"]["n"] = "7"
    verdict = judge(asked(BURST, SAME_WINDOW), with_alerts(good, alerts, BURST))
    (offender,) = verdict.check("alerts: burst").offenders
    assert offender == f"extra: burst {part['key']} {part['window_start_ms']}"


WRONG_FACTS: dict[str, dict[str, Any]] = {
    "": {},
    "subject": {"subject": "nobody"},
    "at_ms": {"at_ms": START_MS, "operands": {"last_ms": str(START_MS)}},
    "ingest_ms": {"ingest_ms": START_MS},
    "sent_ms": {"sent_ms": START_MS},
    "first_ms": {"operands": {"first_ms": "1"}},
    "last_ms": {"operands": {"last_ms": "2"}},
    "event_ids": {"event_ids": ["of no event"]},
}


@pytest.mark.parametrize("fact", WRONG_FACTS)
def test_an_alert_with_a_full_list_of_ids_has_the_facts_of_some_events_of_its_window(good: Evidence, fact: str) -> None:
    after = replace(SAME_WINDOW, ids_most=1)
    alerts = by_engine("anew", BURST, after, good)
    whole = {each["alert_id"] for each in by_engine("kept", BURST, after, good)}
    part = next(each for each in alerts if each["alert_id"] not in whole)
    operands = part["operands"]
    part |= WRONG_FACTS[fact]
    part["operands"] = operands | WRONG_FACTS[fact].get("operands", {})
    verdict = judge(asked(BURST, after), with_alerts(good, alerts, BURST))
    named = f"extra: burst {part['key']} {part['window_start_ms']}"
    assert [*verdict.check("alerts: burst").offenders] == ([named] if fact else [])


SPEND = replace(FRAUD.summaries[0], window=Tumbling(5_000))
AND_LEAST = replace(SPEND, measures={**SPEND.measures, "least_cents": Min("amount_cents")})


def rows_of(summary: WindowSummary, events: Events, since_ms: int = 0) -> list[dict[str, Any]]:
    """The rows of the windows that end after that moment, each ten seconds after its end."""
    found = []
    for (start_ms, *keys), numbers in summary_rows(summary, events).items():
        end_ms = summary.window.end_ms(start_ms, start_ms)
        row = dict(zip(summary.columns, (summary.name, start_ms, end_ms, *keys), strict=False))
        found.append({**row, **numbers, "emit_ms": end_ms + 10_000})
    return [row for row in found if row["emit_ms"] >= since_ms]


def ahead(raw: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """The raw topics with events of a clock that is ahead, from before the change: their windows begin after it."""

    def moved(record: Record) -> Record:
        content = json.loads(record.value or b"")
        return replace(record, value=json.dumps({**content, "at_ms": UPGRADED_MS + 12_000}).encode())

    def is_moved(record: Record) -> bool:
        return UPGRADED_MS - 5_000 < record.ingest_ms < UPGRADED_MS - 1_000

    own = [moved(each) if is_moved(each) else each for each in raw[FRAUD.judged.name]]
    return {**raw, FRAUD.judged.name: own}


@pytest.mark.parametrize("altered", [0, 1])
def test_rows_of_windows_from_before_a_change_are_counted_and_no_fault(altered: int) -> None:
    good = live(ran(PLAN, ahead(topics(messages(PLAN)))))
    in_time, _ = events_of(good)
    later = [each for each in in_time if each["ingest_ms"] + 8 >= UPGRADED_MS]
    before = [row for row in rows_of(SPEND, in_time) if row["emit_ms"] < UPGRADED_MS]
    after = rows_of(AND_LEAST, later, UPGRADED_MS)
    for row in [row for row in after if row["window_start_ms"] > UPGRADED_MS + 25_000][:altered]:
        row["least_cents"] += 1
    evidence = with_alerts(good, by_engine("kept", BURST, BURST, good), BURST)
    evidence = replace(
        evidence, outputs={**evidence.outputs, "windows": in_order("windows", before + after, "emit_ms")}
    )
    asked_before = replace(ASKED, summaries=[SPEND])
    in_force = {SPEND.name: Versions(((SPEND.version, UPGRADED_MS),))}
    question = replace(ASKED, summaries=[AND_LEAST], in_force=in_force)
    check = judge(question, evidence).check(f"numbers: {SPEND.name}")
    assert (len(check.offenders) > 0, int(check.figures.get(NOT_JUDGED) or 0) > 0) == (altered > 0, True), check
    found = wrong(segments(asked_before, question, evidence, LAST_MS + 40_000))
    assert (len([causes for causes in found.values() if causes[0] == ""]) > 0) == (altered > 0), found


def with_letters_again(evidence: Evidence) -> Evidence:
    """The late dead letters come again, too."""
    records = [*(evidence.outputs["dead-letters"] or ())]
    late = [each for each in records if read(each)["reason"] == "late" and each.ingest_ms < UPGRADED_MS]
    assert late
    letters = arrived([*records, *(replace(each, ingest_ms=UPGRADED_MS + 500) for each in late)])
    return replace(evidence, outputs={**evidence.outputs, "dead-letters": letters})


def test_a_rule_beside_a_changed_one_may_tell_old_windows_again_with_late_events(good: Evidence) -> None:
    in_time, every = events_of(good)
    again = [each for each in alerts_of(CROWD, every, UPGRADED_MS) if each["at_ms"] < UPGRADED_MS - 15_000]
    once = alerts_of(CROWD, in_time)
    assert {each["alert_id"] for each in again} - {each["alert_id"] for each in once}, "windows of late events alone"
    burst = by_engine("again", BURST, SAME_WINDOW, good)
    evidence = with_letters_again(with_alerts(good, burst + once + again, BURST, CROWD))
    question = asked(BURST, SAME_WINDOW, CROWD)
    verdict = judge(question, evidence)
    assert {each.name: each.offenders for each in verdict.checks if each.status == "failed"} == {}
    assert wrong(segments(replace(ASKED, rules=[*OTHERS, BURST, CROWD]), question, evidence)) == {}
    elsewhere = replace(ASKED, rules=[*OTHERS, CROWD], in_force={ABOVE.name: Versions(((None, UPGRADED_MS),))})
    assert judge(elsewhere, with_alerts(good, once + again, BURST, CROWD)).check("alerts: crowd").status == "failed"


@pytest.mark.parametrize("came", ["in time", "after the change", "never"])
def test_an_alert_that_an_earlier_version_owes_is_waited_for_and_then_undecided(came: str) -> None:
    changed_ms = START_MS + 300_000
    question, evidence = trickle(lambda partition, arrived_ms: arrived_ms, 420_000)
    events = [*map(read, evidence.outputs["enriched"] or ())]
    earlier = [each for each in alerts_of(BURST, events) if each["emit_ms"] < changed_ms]
    later = alerts_of(SAME_WINDOW, [each for each in events if each["ingest_ms"] + 8 >= changed_ms])
    owed = next(each for each in earlier if each["at_ms"] > START_MS + 150_000)
    kept = [each for each in earlier if each is not owed or came == "in time"]
    late = [owed | {"emit_ms": changed_ms + 90_000}] if came == "after the change" else []
    outputs = {**evidence.outputs, "alerts": in_order("alerts", kept + late + later, "emit_ms")}
    ledger = Ledger(replace(question, stores=()), replace(evidence, outputs=outputs), Limits())
    for cut_ms in range(START_MS, START_MS + 1_200_000, 60_000):
        if cut_ms > changed_ms:
            in_force = {BURST.name: Versions(((BURST.version, changed_ms),))}
            ledger.question = replace(question, stores=(), rules=(SAME_WINDOW,), in_force=in_force)
        ledger.to(cut_ms)
    why = (
        f"a window was over, and lacked its alert when the rule changed: burst {owed['key']} {owed['window_start_ms']}"
    )
    found = wrong(ledger.segments)
    assert list(found.values()) == ([[why]] if came == "never" else [])
    assert all(each.endswith("earlier alerts") for each in found)
    assert ledger.segments[-1].pending["windows overdue"] == 0


def test_a_verdict_notes_in_which_span_earlier_versions_have_judged_windows(good: Evidence) -> None:
    since, until = (
        datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "seconds") for ms in (first_out_ms(good), UPGRADED_MS)
    )
    changes = {BURST.name: BURST.version, SPEND.name: SPEND.version, "a rule that came then": None}
    in_force = {name: Versions(((version, UPGRADED_MS),)) for name, version in changes.items()}
    question = replace(ASKED, rules=[*OTHERS, SAME_WINDOW], summaries=[AND_LEAST], in_force=in_force)
    notes = [each for each in judge(question, good).notes if "earlier versions" in each]
    assert [each.partition(", so")[0] for each in notes] == [
        f"alerts of earlier versions of burst on windows, from {since} to {until}, are not judged",
        f"rows of earlier versions of {SPEND.name} on windows, from {since} to {until}, are not judged",
    ]
    assert not any("earlier versions" in each for each in judge(ASKED, good).notes)


def first_out_ms(evidence: Evidence) -> int:
    """When the first event came out."""
    return min(record.ingest_ms for record in evidence.outputs["enriched"] or ())


FAR = replace(BURST, measures={**BURST.measures, "most_km": Max("km_from_phone")})
FAR_SINCE = replace(FAR, alert_when=lambda w: (w.n >= 2) & (w.total_cents >= 0))


def of_card(bought: Sequence[tuple[str, str, int]], phones: Sequence[Record] = ()) -> dict[str, list[Record]]:
    """The raw topics with purchases with one card, by customer, id and moment."""
    raw: dict[str, list[Record]] = {kind: [] for kind in pretend.KINDS.values()}
    customers = sorted({customer for customer, *_ in bought})
    raw["customers"] = [
        replace(reference("customers", each, customer=each, segment="s"), offset=at)
        for at, each in enumerate(customers)
    ]
    raw["merchants"] = [reference("merchants", "m", merchant="m", category="c", place="p")]
    raw["device-locations"] = [*phones]
    for at, (customer, identity, after_ms) in enumerate(bought):
        record = purchase(at, identity, after_ms, 100)
        content = json.loads(record.value or b"") | {"customer": customer}
        raw["transactions"].append(replace(record, key=customer.encode(), value=json.dumps(content).encode()))
    return raw


@pytest.mark.parametrize("after_ms", [1, 10_000])
@pytest.mark.parametrize(("most_km", "is_ok"), [("0.0", True), ("-1.0", False)])
def test_operands_of_an_earlier_version_are_those_of_the_events_as_they_came_out(
    after_ms: int, most_km: str, is_ok: bool
) -> None:
    """The engine has read a phone later than it came; before the events come out, it is not known how they do."""
    away = phone(1, 29_995, 5.0)
    phones = [phone(0, 10_000, 1.0), replace(away, ingest_ms=START_MS + 30_005), phone(2, 32_000, 1.0)]
    raw = of_card([("a", "x1", 30_000), ("a", "x2", 35_000)], phones)
    evidence = pretend.ran(PLAN, raw)
    (alert,) = alerts_of(FAR, [*map(read, evidence.outputs["enriched"] or ())])
    assert alert["operands"]["most_km"] == "0.0"
    alert["operands"]["most_km"] = most_km
    alert["emit_ms"] = cut_ms = alert["ingest_ms"] + after_ms
    raw["device-locations"][1] = away
    ledger = Ledger(asked(FAR, FAR_SINCE), replace(with_alerts(evidence, [alert], FAR), raw=raw), LIMITS)
    check = next(each for each in ledger.to(cut_ms).checks if each.name == "alert ids")
    assert (check.status == "ok") is (is_ok or after_ms == 1), check


@pytest.mark.parametrize(("forged", "is_ok"), [({}, True), ({"n": "99"}, False)])
def test_operands_of_an_earlier_version_are_not_compared_where_its_fields_were_not_kept(
    good: Evidence, forged: dict[str, str], is_ok: bool
) -> None:
    """Between two versions that read a field, one did not, and the events came while it was in force."""
    alerts = (each for each in alerts_of(FAR, events_of(good)[0]) if each["operands"]["most_km"] is not None)
    alert = min(alerts, key=lambda each: each["ingest_ms"])
    alert["operands"] |= forged
    alert["emit_ms"] = alert["at_ms"] + 4_000
    ledger = Ledger(replace(ASKED, rules=[*OTHERS, BURST]), with_alerts(good, [alert], BURST), LIMITS)
    ledger.to(alert["emit_ms"] - 1)
    assert wrong(ledger.segments) == {}
    ledger.question = asked(FAR, FAR_SINCE)
    ledger.to(alert["emit_ms"])
    check = next(each for each in ledger.segments[-1].checks if each.name == "alert ids")
    assert (check.status == "ok") is is_ok, check


def test_an_alert_of_an_earlier_version_may_name_ids_that_events_of_another_customer_have() -> None:
    """Both have bought with one card, and the events of the first are gone."""
    bought = [("a", "x1", 0), ("a", "x2", 5_000), ("c", "x3", 300_000), ("b", "x1", 400_000), ("b", "x2", 405_000)]
    evidence = pretend.ran(PLAN, of_card(bought))
    alerts = [*map(read, evidence.outputs["alerts"] or ())]
    first = next(each for each in alerts if each["rule"] == "burst" and each["subject"] == "a")
    old = first | {"rule_version": "old", "emit_ms": START_MS + 406_000}
    old["alert_id"] = alert_id("burst", "old", old["key"], str(old["window_start_ms"]))
    outputs = {**evidence.outputs, "windows": [], "alerts": in_order("alerts", [*alerts, old], "emit_ms")}
    question = replace(
        ASKED,
        summaries=(),
        in_force={"burst": Versions((("old", START_MS + 1),))},
        earlier={("burst", "old"): BURST},
    )
    ledger = Ledger(question, replace(evidence, outputs=outputs, labels=None, stores={}), LIMITS)
    assert wrong(ledger.through(range(START_MS, START_MS + 500_000, 10_000))) == {}
