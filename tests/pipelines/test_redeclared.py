"""A ledger goes on when its pattern is declared otherwise: no right run is red, and no state stops the validator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record, summary_rows, window_findings
from millrace.rules import Count, CountDistinct, Enrichment, EventRule, Tumbling, WindowRule, alert_id
from millrace.verify import Evidence, Question, judge
from millrace.verify.evidence import FILES, Versions
from millrace.verify.ledger import state as states
from millrace.verify.ledger.segments import Segment
from pipelines.fraud import FRAUD
from tests.pipelines.pretend import START_MS, among_of, messages, ran, topics, window_alert
from tests.pipelines.segmented import NEVER_MS, Ledger, figures, wrong
from tests.pipelines.test_segments import LAST_MS, LIMITS, PLAN, STREAM, arrived, in_order, live, read

CHANGED_MS = START_MS + 30_000
SOON = replace(LIMITS, copies_ms=15_000)


@pytest.fixture(scope="module")
def good() -> Evidence:
    return live(ran(PLAN, topics(messages(PLAN))))


LATER = (
    "stored_since",
    "counting",
    "whole_since",
    "versions",
    "undecided",
    "folders",
    "folders_version",
    "has_all_files",
    "audit",
    "began",
    "edges",
    "came_out_ms",
    "back",
    "open_then",
)
"""What the states of an earlier version lack."""


def changed(before: tuple[Question, Evidence], after: tuple[Question, Evidence], lacking: Sequence[str] = ()) -> Ledger:
    """A ledger whose pattern is declared otherwise under way; its state lacks what an earlier version did not write."""
    ledger = Ledger(*before, SOON)
    for cut_ms in range(START_MS, CHANGED_MS + 1, 10_000):
        ledger.to(cut_ms)
    assert wrong(ledger.segments) == {}
    ledger = ledger.again()
    first, *more = states.lines(ledger.state)
    head = {name: value for name, value in json.loads(first).items() if name not in lacking}
    ledger.state = states.read([json.dumps(head).encode(), *more])
    ledger.question, ledger.evidence = after
    for cut_ms in range(CHANGED_MS + 10_000, LAST_MS, 10_000):
        ledger.to(cut_ms)
    return ledger


@pytest.mark.parametrize(("stored", "missing"), [(slice(None), 0), (slice(50, None), 0), (slice(-1), 1)])
def test_files_that_are_judged_from_now_on_may_hold_what_was_judged_before(
    good: Evidence, stored: slice, missing: int
) -> None:
    """A new job stores the topic from its beginning, as far as retention has left it."""
    rows = sorted(good.stores[FILES], key=lambda row: row["ingest_ms"])[stored]
    before = replace(STREAM, stores=()), replace(good, stores={})
    found = wrong(changed(before, (STREAM, replace(good, stores={FILES: rows}))).segments)
    assert [len(each) - 1 for each in found.values()] == ([missing] if missing else [])
    assert all("missing: " in cause for causes in found.values() for cause in causes if cause)


UPGRADED_MS = CHANGED_MS + 5_000
"""After the last cut before the change."""
ENRICHMENT = FRAUD.enrichment
ADDING = replace(ENRICHMENT, adds={**ENRICHMENT.adds, "twice": lambda now, before: now.amount_cents + now.amount_cents})
(MERCHANT,) = (each for each in ENRICHMENT.lookups if each.by == "merchant")
TAKING = replace(
    ENRICHMENT,
    lookups=tuple(
        replace(each, take={**each.take, "again": "category"}) if each is MERCHANT else each
        for each in ENRICHMENT.lookups
    ),
)


def with_fields(enrichment: Enrichment) -> Question:
    """The question about the pattern with more fields."""
    enriched = enrichment.enriched("enriched", FRAUD.enriched.doc)
    bare = replace(FRAUD, rules=(), summaries=(), tables=(), canaries=None, enrichment=enrichment, enriched=enriched)
    in_force = {"enrichment": Versions(((ENRICHMENT.version, UPGRADED_MS),))}
    return replace(STREAM, use=bare, in_force=in_force)


def filled(event: Mapping[str, Any], enrichment: Enrichment) -> dict[str, Any]:
    """An event as it comes out after the upgrade."""
    more = {"twice": 2 * event["amount_cents"], "again": event["merchant_category"]}
    return {**event, **{name: more[name] for name in enrichment.names - ENRICHMENT.names}}


def upgraded(good: Evidence, enrichment: Enrichment, stopped_ms: int, **of_copies: Any) -> Evidence:
    """The run with more fields since the upgrade, and what came out before the job stopped once more."""
    outs: list[Record] = []
    for record in good.outputs["enriched"] or ():
        more = replace(record, value=json.dumps(filled(read(record), enrichment)).encode())
        if record.ingest_ms >= stopped_ms:
            outs.append(replace(more, ingest_ms=max(record.ingest_ms, UPGRADED_MS)))
        else:
            outs.append(record)
            is_again = record.ingest_ms >= stopped_ms - 5_000
            copy = json.dumps(read(more) | of_copies).encode()
            outs += [replace(more, value=copy, ingest_ms=UPGRADED_MS + 6_000)] if is_again else []
    rows = [each if each["ingest_ms"] + 8 < stopped_ms else filled(each, enrichment) for each in good.stores[FILES]]
    return replace(good, outputs={**good.outputs, "enriched": arrived(outs)}, stores={FILES: rows})


@pytest.mark.parametrize("enrichment", [ADDING, TAKING])
@pytest.mark.parametrize("stopped_ms", [CHANGED_MS - 3_000, CHANGED_MS + 3_000])
@pytest.mark.parametrize(
    ("of_copies", "status"),
    [({}, "unknown"), ({"amount_cents": 1}, "failed"), ({"flags": ["away-from-phone"]}, "failed")],
)
def test_what_came_out_before_a_field_was_added_may_come_again_with_it_and_with_no_other_event(
    good: Evidence, enrichment: Enrichment, stopped_ms: int, of_copies: dict[str, Any], status: str
) -> None:
    """Its other fields are compared; which value the added one should have is not known."""
    evidence = upgraded(good, enrichment, stopped_ms, **of_copies)
    segments = changed((STREAM, evidence), (with_fields(enrichment), evidence)).segments
    found = [each for segment in segments for each in segment.checks if each.status != "ok"]
    assert {(each.name, each.status) for each in found} == {("enrichment", status)}
    assert figures(segments)["enrichment"].get("copies from before a change, not compared", 0) > 0 or of_copies


def test_a_row_of_what_came_before_a_field_was_added_is_of_its_event(good: Evidence) -> None:
    evidence = upgraded(good, ADDING, CHANGED_MS + 3_000)
    rows = [dict(row) for row in evidence.stores[FILES]]
    last = max(n for n, row in enumerate(rows) if row["ingest_ms"] < CHANGED_MS - 4_000)
    rows[last]["amount_cents"] = 1
    spoilt = replace(evidence, stores={FILES: rows})
    found = wrong(changed((STREAM, spoilt), (with_fields(ADDING), spoilt)).segments)
    assert [name.partition(" ")[2] for name in found] == ["files", "enrichment"]


def test_a_wrong_row_of_what_came_after_the_change_is_red(good: Evidence) -> None:
    question, evidence = with_fields(ADDING), upgraded(good, ADDING, CHANGED_MS)
    *rows, last = evidence.stores[FILES]
    evidence = replace(evidence, stores={FILES: [*rows, {**last, "twice": 1}]})
    found = wrong(changed((STREAM, evidence), (question, evidence)).segments)
    (causes,) = (causes for name, causes in found.items() if name.endswith("files"))
    assert [cause.partition(":")[0] for cause in causes] == ["", "wrong"]


BURST, SUMMARY = FRAUD.rule("burst"), replace(FRAUD.summaries[0], window=Tumbling(5_000))
assert isinstance(BURST, WindowRule)
OTHERS = [rule for rule in FRAUD.rules if rule is not BURST]
CROWD = WindowRule(
    name="crowd",
    doc="Each span in which somebody buys from a merchant.",
    on=FRAUD.enriched,
    key="merchant",
    window=Tumbling(5_000),
    measures={"n": Count()},
    alert_when=lambda w: w.n >= 1,
)
DISTINCT = {"n": Count(), "merchants": CountDistinct("merchant")}


def with_windows(good: Evidence, before: list[Any], after: list[Any]) -> Evidence:
    """The run in which other windows are counted since the upgrade; what was open until then has no result."""
    letters = [each for each in map(read, good.outputs["dead-letters"] or ()) if each["reason"] == "late"]
    late = {(each["partition"], each["offset"]) for each in letters}
    enriched = map(read, good.outputs["enriched"] or ())
    events = [each for each in enriched if (each["source_partition"], each["source_offset"]) not in late]
    alerts = [each for each in map(read, good.outputs["alerts"] or ()) if each["window_start_ms"] is None]
    rows: list[Record] = []
    spans = [(each, 0, NEVER_MS if each in after else UPGRADED_MS) for each in before]
    for each, since_ms, until_ms in (*spans, *((each, UPGRADED_MS, NEVER_MS) for each in after if each not in before)):
        if isinstance(each, WindowRule):
            found = [found for found in window_findings(each, events) if (found.window_start_ms or 0) >= since_ms]
            own = [window_alert(finding, each, among_of(finding, events), each.version) for finding in found]
            alerts += [alert for alert in own if alert["emit_ms"] < until_ms]
            continue
        for (start_ms, *keys), numbers in summary_rows(each, events).items():
            end_ms = each.window.end_ms(start_ms, start_ms)
            if start_ms >= since_ms and end_ms + 10_000 < until_ms:
                row = dict(zip(each.columns, (each.name, start_ms, end_ms, *keys), strict=False)) | numbers
                value, key = row | {"emit_ms": end_ms + 10_000}, "|".join(map(str, (start_ms, *keys)))
                rows.append(Record("windows", 0, 0, end_ms + 10_000, key.encode(), json.dumps(value).encode()))
    outputs = {"alerts": in_order("alerts", alerts, "emit_ms"), "windows": arrived(rows)}
    return replace(good, outputs={**good.outputs, **outputs})


def counted_otherwise(
    good: Evidence, before: list[Any], after: list[Any], lacking: Sequence[str] = ()
) -> list[Segment]:
    """What is found in a run in which other windows are counted since the upgrade."""

    def asked(windows: list[Any], in_force: Mapping[str, Versions]) -> Question:
        rules = [each for each in windows if isinstance(each, WindowRule)]
        summaries = [each for each in windows if each not in rules]
        return replace(STREAM, rules=[*OTHERS, *rules], summaries=summaries, in_force=in_force)

    name = after[0].name
    version = next((each.version for each in before if each.name == name), None)
    versions = Versions(((version, UPGRADED_MS),))
    first, then = asked(before, {}), asked(after, {} if before == after else {name: versions})
    evidence = replace(with_windows(good, before, after), labels=None)
    return changed((first, evidence), (then, evidence), lacking).segments


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [
        ([], [CROWD], False),
        ([SUMMARY], [CROWD, SUMMARY], True),
        ([replace(CROWD, key="customer")], [replace(CROWD, key="customer", measures=DISTINCT)], True),
        ([BURST], [replace(BURST, key="merchant")], True),
        ([SUMMARY], [replace(SUMMARY, keys=("merchant",))], True),
        ([SUMMARY], [replace(SUMMARY, measures=DISTINCT)], True),
    ],
)
def test_windows_that_read_another_field_are_judged_once_all_their_events_are_known(
    good: Evidence, before: list[Any], after: list[Any], is_known: bool
) -> None:
    found = counted_otherwise(good, before, after)
    ((check, (why,)),) = wrong(found).items()
    assert check in (f"5 alerts: {after[0].name}", f"5 numbers: {after[0].name}")
    assert why.startswith("no window that begins before 2026-")
    assert (figures(found)[check.partition(" ")[2]]["found"] > 0) == is_known


def test_a_state_that_does_not_show_how_windows_were_counted_is_read(good: Evidence) -> None:
    before = replace(CROWD, key="customer")
    assert wrong(counted_otherwise(good, [before], [before], LATER)) == {}
    found = wrong(counted_otherwise(good, [before], [replace(before, measures=DISTINCT)], LATER))
    assert found.keys() == {"5 alerts: crowd"}


ABOVE = FRAUD.rule("above-previous-max")
assert isinstance(ABOVE, EventRule)
NEVER = replace(ABOVE, alert_when=lambda now, before: now.amount_cents < 0)
SAME = replace(ABOVE, alert_when=lambda now, before: (now.amount_cents > before.highest_cents) & (now.amount_cents > 0))


def with_rule(good: Evidence, rule: EventRule, stopped_ms: int, upgraded_ms: int = UPGRADED_MS) -> Evidence:
    """The run in which another version judges all events that come out once the job has stopped."""

    def out(record: Record) -> Record | None:
        content, is_after = read(record), record.ingest_ms >= stopped_ms
        if not is_after:
            return record
        more = {"emit_ms": max(content["emit_ms"], upgraded_ms)} if "emit_ms" in content else {}
        if rule is NEVER and "flags" in content:
            more = {"flags": [flag for flag in content["flags"] if flag != ABOVE.name]}
        if content.get("rule") == ABOVE.name:
            if rule is NEVER:
                return None
            identity = alert_id(ABOVE.name, rule.version, content["key"], content["event_ids"][0])
            more |= {"alert_id": identity, "rule_version": rule.version}
        value = json.dumps({**content, **more}).encode()
        return replace(record, value=value, ingest_ms=max(record.ingest_ms, upgraded_ms))

    outputs = {
        kind: arrived([each for each in map(out, good.outputs[kind] or ()) if each is not None])
        for kind in ("enriched", "alerts")
    }
    return replace(good, outputs={**good.outputs, **outputs}, labels=None, stores={})


@pytest.mark.parametrize("rule", [NEVER, SAME])
@pytest.mark.parametrize("stopped_ms", [CHANGED_MS - 20_000, CHANGED_MS + 3_000])
def test_an_event_that_waits_while_a_rule_changes_is_judged_by_neither_version(
    good: Evidence, rule: EventRule, stopped_ms: int
) -> None:
    question, evidence = replace(STREAM, stores=()), with_rule(good, rule, stopped_ms)
    rules = [rule if each is ABOVE else each for each in question.rules]
    in_force = {ABOVE.name: Versions(((ABOVE.version, UPGRADED_MS),))}
    after = replace(question, rules=rules, in_force=in_force)
    assert wrong(changed((question, evidence), (after, evidence)).segments) == {}


@pytest.mark.parametrize(("stopped_ms", "is_noted"), [(-20_000, True), (3_000, True), (-20_000, False)])
def test_an_event_that_waits_while_a_rule_is_removed_is_not_judged_by_it(
    good: Evidence, stopped_ms: int, is_noted: bool
) -> None:
    question, evidence = replace(STREAM, stores=()), with_rule(good, NEVER, CHANGED_MS + stopped_ms)
    rules = [each for each in question.rules if each is not ABOVE]
    in_force = {ABOVE.name: Versions(((ABOVE.version, UPGRADED_MS),))} if is_noted else {}
    after = replace(question, rules=rules, in_force=in_force)
    assert wrong(changed((question, evidence), (after, evidence)).segments) == {}


@pytest.mark.parametrize("last", [ABOVE, NEVER])
def test_a_rule_that_changed_twice_turns_no_verdict_red_unless_an_alert_is_lost(
    good: Evidence, last: EventRule
) -> None:
    again_ms = UPGRADED_MS + 20_000
    past = ((ABOVE.version, UPGRADED_MS), (SAME.version, again_ms))
    evidence = with_rule(with_rule(good, SAME, CHANGED_MS), last, again_ms - 5_000, again_ms)
    question = replace(STREAM, stores=(), in_force={ABOVE.name: Versions(past)})
    question = replace(question, rules=[last if each is ABOVE else each for each in STREAM.rules])
    cuts_ms = range(START_MS, LAST_MS, 10_000)
    assert judge(question, evidence).status == "ok"
    assert wrong(Ledger(question, evidence, SOON).through(cuts_ms)) == {}
    assert wrong(changed((replace(STREAM, stores=()), evidence), (question, evidence)).segments) == {}

    alerts = evidence.outputs["alerts"] or ()
    for version, _ in past:
        lost = next(each for each in alerts if read(each)["rule_version"] == version)
        less = {**evidence.outputs, "alerts": arrived([each for each in alerts if each is not lost])}
        assert judge(question, replace(evidence, outputs=less)).check("earlier alerts").status == "failed"
        found = wrong(Ledger(question, replace(evidence, outputs=less), SOON).through(cuts_ms))
        assert {name.partition(" ")[2] for name in found} == {"earlier alerts"}
