"""A verdict in segments finds what the verdict on the whole run finds, wherever the run is cut."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from millrace import oracle
from millrace.oracle import Record
from millrace.rules import ENRICHMENT, Max, Session, Sliding, Tumbling, WindowRule, alert_id
from millrace.rules import LIMITS as LIMITS_CHANGED
from millrace.traffic import plan_for
from millrace.verify import Evidence, Question, judge
from millrace.verify.case import Case
from millrace.verify.checks.alert_ids import fact_of
from millrace.verify.evidence import EARLIER_MOST_MS, Bounds, Versions
from millrace.verify.ledger import state as states
from millrace.verify.ledger.segments import Segment
from millrace.verify.ledger.step import Limits, Step
from millrace.verify.spoiling import EARLIER_WINDOW, PROMISE, Spoiling, spoilings
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend
from tests.pipelines.pretend import QUESTION, START_MS, messages, ran, short_run, topics
from tests.pipelines.segmented import Ledger, figures, wrong
from tests.pipelines.test_verdict import MARKS, marked

PLAN = plan_for(TRAFFIC, 800, 20, seed=3, name="p", customers=100, frauds=0.1, edges=0.1, races=0.02)
STREAM = replace(QUESTION, stores=("hdfs",))
UNSHRUNK = (Phase.explicit, Phase.generate)
"""A list of cuts is read as it is, and each example takes a second."""
LIMITS = Limits(outstanding_ms=60_000, grace_ms=15_000)


def live(evidence: Evidence) -> Evidence:
    """The run as a pipeline leaves it while it goes on: late events are dead letters, and rows come in their time."""
    enriched = [json.loads(record.value or b"") for record in evidence.outputs["enriched"] or ()]
    late, newest_ms = [], 0
    for event in sorted(enriched, key=lambda event: event["ingest_ms"]):
        newest_ms = max(newest_ms, min(event["at_ms"], event["ingest_ms"]))
        if newest_ms - event["at_ms"] > FRAUD.disorder_ms:
            late.append(event)
    places = {(event["source_partition"], event["source_offset"]) for event in late}
    in_time = [event for event in enriched if (event["source_partition"], event["source_offset"]) not in places]
    raw = {(r.partition, r.offset): r for r in evidence.raw["transactions"] or ()}
    letters = [json.loads(record.value or b"") for record in evidence.outputs["dead-letters"] or ()]
    for partition, offset in places:
        letters.append(pretend.letter(raw[partition, offset], "late") | {"stage": "windows"})
    of_windows = {rule.name for rule in FRAUD.rules if isinstance(rule, WindowRule)}
    alerts = [json.loads(record.value or b"") for record in evidence.outputs["alerts"] or ()]
    alerts = [each for each in alerts if each["rule"] not in of_windows]
    for rule in FRAUD.rules:
        if isinstance(rule, WindowRule):
            found = oracle.window_findings(rule, in_time)
            alerts += [pretend.window_alert(each, rule, pretend.among_of(each, in_time)) for each in found]
    rows = [row | {"emit_ms": row["window_end_ms"] + 10_000} for row in pretend.summary_rows(in_time)]
    outputs = {
        "alerts": in_order("alerts", alerts, "emit_ms"),
        "dead-letters": in_order("dead-letters", letters, "ingest_ms", 8),
        "windows": in_order("windows", rows, "emit_ms"),
    }
    return replace(evidence, outputs={**evidence.outputs, **outputs})


def in_order(kind: str, events: Sequence[Mapping[str, Any]], time: str, after_ms: int = 0) -> list[Record]:
    ordered = sorted(events, key=lambda event: (event[time], json.dumps(event)))
    return pretend.records(kind, ordered, [event[time] + after_ms for event in ordered])


@pytest.fixture(scope="module")
def good() -> Evidence:
    return live(ran(PLAN, topics(messages(PLAN))))


def test_a_good_run_is_ok_in_segments(good: Evidence) -> None:
    assert {check.name for check in judge(STREAM, good).checks if check.status != "ok"} == set()
    segments = Ledger(STREAM, good, LIMITS).through(range(START_MS, START_MS + 200_000, 20_000))
    assert wrong(segments) == {}


def whole(question: Question, evidence: Evidence) -> dict[str, dict[str, int]]:
    """What the verdict on the whole run counts."""
    return {
        check.name: {name: int(value or 0) for name, value in check.figures.items() if not isinstance(value, str)}
        for check in judge(question, evidence).checks
        if check.name not in ("substance", "acknowledged")
    }


def test_offsets_without_a_message_are_counted_wherever_a_run_is_cut(good: Evidence) -> None:
    """As the markers of transactions leave them, here one behind each message."""
    raw = {kind: [replace(each, offset=2 * each.offset) for each in own or ()] for kind, own in good.raw.items()}
    figure = "transactions: offsets without a message"
    count = judge(STREAM, replace(good, raw=raw)).check("substance").figures[figure]
    assert count == len(raw["transactions"]) - 2, "two partitions"
    segments = Ledger(STREAM, replace(good, raw=raw), LIMITS).through(CUTS_MS)
    assert figures(segments)["conservation"][figure] == count


SILENT_MS = START_MS + 25_000


def test_a_silent_partition_holds_back_no_window_of_the_others() -> None:
    raw = topics(messages(PLAN))
    purchases = [each for each in raw["transactions"] if each.partition == 0 or each.ingest_ms < SILENT_MS]
    evidence = replace(live(ran(PLAN, {**raw, "transactions": purchases})), labels=None)
    cuts_ms = range(START_MS, START_MS + 200_000, 20_000)
    assert wrong(Ledger(STREAM, evidence, LIMITS).through(cuts_ms)) == {}

    def is_later(record: Record) -> bool:
        return read(record)["rule"] == "burst" and read(record)["at_ms"] > SILENT_MS

    alerts = evidence.outputs["alerts"] or ()
    kept = [each for each in alerts if not is_later(each)]
    assert len(kept) < len(alerts)
    missing = replace(evidence, outputs={**evidence.outputs, "alerts": arrived(kept), "windows": ()})
    found = wrong(Ledger(STREAM, missing, LIMITS).through(cuts_ms))
    assert {name.partition(" ")[2] for name in found} == {"alerts: burst", "numbers: spend-per-minute"}


def reading_phones(good: Evidence, late_ms: int) -> Evidence:
    """The run of an engine that reads every phone so late."""
    phones = [replace(each, ingest_ms=each.ingest_ms + late_ms) for each in good.raw["device-locations"] or ()]
    found = live(ran(PLAN, {**topics(messages(PLAN)), "device-locations": phones}))
    return replace(found, raw=good.raw, outputs={**found.outputs, "dead-letters": good.outputs["dead-letters"]})


def after_a_restart(before: Evidence, after: Evidence) -> Evidence:
    """The run of an engine that judged all of it again, in another order."""
    outputs = {
        kind: arrived(
            [
                *(before.outputs[kind] or ()),
                *(replace(each, ingest_ms=each.ingest_ms + 1) for each in after.outputs[kind] or ()),
            ]
        )
        for kind in ("enriched", "alerts")
    }
    return replace(before, outputs={**before.outputs, **outputs})


@pytest.mark.parametrize(
    ("of", "bounds"),
    [
        ("enrichment", Bounds(races_share=0, races_most=20)),
        ("enrichment", Bounds(races_share=0.1, races_most=0)),
        ("alerts: away-from-phone", Bounds(races_share=0, races_most=1)),
    ],
)
def test_races_are_red_over_several_segments_though_each_has_few(good: Evidence, of: str, bounds: Bounds) -> None:
    evidence = after_a_restart(reading_phones(good, 1_990), good)
    question, cuts_ms = replace(STREAM, stores=(), bounds=bounds), range(START_MS, START_MS + 150_000, 3_000)
    checks = [
        {check.name: check for check in segment.checks}
        for segment in Ledger(question, evidence, LIMITS).through(cuts_ms)
    ]
    races = [int(own[of].figures["races"] or 0) for own in checks]
    judged = [int(own["enrichment"].figures["compared"] or 0) for own in checks]
    most = [max(bounds.races_most, bounds.races_share * sum(judged[: n + 1])) for n in range(len(races))]
    red = [n for n, own in enumerate(checks) if own[of].status == "failed"]
    assert red == [n for n, own in enumerate(races) if own and sum(races[: n + 1]) > most[n]] != []
    assert all(own <= bounds.races_most for own in races) or bounds.races_share
    assert all("were judged in another order" in checks[n][of].offenders[-1] for n in red)


def test_races_of_long_ago_are_not_counted(good: Evidence) -> None:
    question = replace(STREAM, bounds=Bounds(races_share=0, races_most=6))
    limits, cuts_ms = replace(LIMITS, segments_of_races=1), range(START_MS, START_MS + 150_000, 3_000)
    segments = Ledger(question, reading_phones(good, 300), limits).through(cuts_ms)
    assert figures(segments)["enrichment"]["races"] > 6
    assert wrong(segments) == {}


LAST_MS = START_MS + 150_000
CUTS_MS = range(START_MS, LAST_MS, 20_000)
CUTS = st.lists(st.integers(START_MS - 70_000, LAST_MS), max_size=12)


@settings(max_examples=12, phases=UNSHRUNK)
@given(cuts_ms=CUTS)
def test_wherever_a_run_is_cut_the_segments_find_what_the_whole_verdict_finds(
    good: Evidence, cuts_ms: list[int]
) -> None:
    segments = Ledger(STREAM, good, LIMITS).through(cuts_ms)
    assert wrong(segments) == {}
    found, expected = figures(segments), whole(STREAM, good)
    for name, own in expected.items():
        # Each row of a summary counts where its window is judged; a window that no later event closes is not due.
        assert {key: found[name].get(key, 0) for key in own if key != "still open"} == {
            key: value for key, value in own.items() if key != "still open"
        }, name


@settings(max_examples=8, phases=UNSHRUNK)
@given(cuts_ms=CUTS.filter(bool), killed=st.data())
def test_a_validator_that_was_killed_continues_to_the_same_digest(
    good: Evidence, cuts_ms: list[int], killed: st.DataObject
) -> None:
    first = Ledger(STREAM, good, LIMITS)
    other = first.again()
    for cut_ms in sorted(cuts_ms):
        first.to(cut_ms)
        if killed.draw(st.booleans()):
            other.again().to(cut_ms)  # was not written down
            other = other.again()
        other.to(cut_ms)
        assert states.digest_of(states.lines(first.state)) == states.digest_of(states.lines(other.state))


def test_the_state_has_the_rules_that_change_while_events_wait_in_one_order(good: Evidence) -> None:
    ledger = Ledger(STREAM, replace(good, outputs=dict.fromkeys(good.outputs, ())), LIMITS)
    ledger.to(START_MS + 10_000)
    gone = [f"gone-{number:02}" for number in range(20)]
    ledger.state.versions = {**(ledger.state.versions or {}), **dict.fromkeys(gone, "1")}
    ledger.to(START_MS + 20_000)
    undecided = [rule for rule, _, _ in ledger.state.undecided]
    assert undecided[:20] == gone
    assert len(undecided) % 20 == 0


DELAYED_MS, RESTARTED_MS = 8_000, 17_000
PATIENT = replace(LIMITS, grace_ms=60_000, outstanding_ms=90_000)


def restarted(*, comes_again: bool = True, spent: str = "") -> Evidence:
    """A run in which a purchase was counted, and was late when it was read again; `spent` spoils its alert."""
    sent = messages(PLAN)
    plain = ran(PLAN, topics(sent))
    rule = FRAUD.rule("burst")
    assert isinstance(rule, WindowRule)
    events = {each["transaction_id"]: each for each in map(read, plain.outputs["enriched"] or ())}
    pair = next(each for each in map(read, plain.outputs["alerts"] or ()) if each["operands"].get("n") == "2")
    identity = max(pair["event_ids"], key=lambda each: events[each]["at_ms"])
    at = next(at for at, each in enumerate(sent) if identity.encode() in (each.value or b""))
    sent[at] = sent[at]._replace(due_ms=sent[at].due_ms + DELAYED_MS)
    evidence = live(ran(PLAN, topics(sorted(sent, key=lambda each: each.due_ms))))
    enriched = list(map(read, evidence.outputs["enriched"] or ()))
    delayed = next(each for each in enriched if each["transaction_id"] == identity)
    late = next(each for each in evidence.outputs["dead-letters"] or () if read(each)["reason"] == "late")
    (found,) = oracle.window_findings(rule, [each for each in enriched if each["transaction_id"] in pair["event_ids"]])
    before = pretend.window_alert(found, rule, pretend.among_of(found, enriched))
    before["operands"] |= {"total_cents": spent} if spent else {}
    restarted_ms = delayed["ingest_ms"] + RESTARTED_MS
    more = {
        "alerts": [pretend.records("alerts", [before], [before["emit_ms"]])],
        "enriched": [pretend.records("enriched", [delayed], [restarted_ms])] if comes_again else [],
    }
    outputs = {kind: [*(evidence.outputs[kind] or ()), *(each for own in more[kind] for each in own)] for kind in more}
    letters = [each for each in evidence.outputs["dead-letters"] or () if each is not late]
    outputs["dead-letters"] = [*letters, replace(late, ingest_ms=restarted_ms)]
    return replace(evidence, outputs={**evidence.outputs, **{kind: arrived(own) for kind, own in outputs.items()}})


def read(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.value or b"")
    return found


def arrived(records: Sequence[Record]) -> list[Record]:
    """The records of a topic in the order of their arrival."""
    ordered = sorted(records, key=lambda each: each.ingest_ms)
    return [replace(each, offset=offset) for offset, each in enumerate(ordered)]


@pytest.fixture(scope="module")
def again() -> Evidence:
    return restarted()


@settings(max_examples=8, phases=UNSHRUNK)
@given(cuts_ms=CUTS)
def test_an_alert_from_before_a_restart_may_count_an_event_that_is_late_when_it_is_read_again(
    again: Evidence, cuts_ms: list[int]
) -> None:
    segments = Ledger(STREAM, again, PATIENT).through(cuts_ms)
    assert wrong(segments) == {}
    assert figures(segments)["alerts: burst"]["races"] == whole(STREAM, again)["alerts: burst"]["races"] == 1


@pytest.mark.parametrize("spoiled", [{"comes_again": False}, {"spent": "1"}])
def test_no_other_alert_may_count_a_late_event(spoiled: dict[str, Any]) -> None:
    evidence = restarted(**spoiled)
    assert judge(STREAM, evidence).check("alerts: burst").status == "failed"
    segments = Ledger(STREAM, evidence, PATIENT).through(CUTS_MS)
    assert {name.partition(" ")[2] for name in wrong(segments)} == {"alerts: burst"}


@pytest.mark.parametrize("kind", ["enriched", "alerts", "dead-letters", "windows"])
@pytest.mark.parametrize("after_ms", [0, 30_000])
def test_where_nothing_may_come_twice_a_copy_is_red_once(good: Evidence, kind: str, after_ms: int) -> None:
    records = list(good.outputs[kind] or ())
    copied = records[len(records) // 2]
    again = arrived([*records, replace(copied, ingest_ms=copied.ingest_ms + after_ms)])
    spoilt = replace(good, outputs={**good.outputs, kind: again})
    assert wrong(Ledger(STREAM, spoilt, LIMITS).through(CUTS_MS)) == {}, "at least once"
    once = replace(STREAM, is_once=True)
    assert wrong(Ledger(once, good, LIMITS).through(CUTS_MS)) == {}
    red = wrong(Ledger(once, spoilt, LIMITS).through(CUTS_MS))
    assert [name.partition(" ")[2] for name in red] == ["repetitions"]


def with_copy(good: Evidence, kind: str, at: int, **changed: Any) -> Evidence:
    """The run with a later copy of a message, long after it was judged."""
    records = list(good.outputs[kind] or ())
    copy = replace(records[at], ingest_ms=records[at].ingest_ms + 90_000)
    content = read(copy) | changed
    if "emit_ms" in content and "emit_ms" not in changed:
        content["emit_ms"] += 90_000
    again = replace(copy, value=json.dumps(content).encode())
    return replace(good, outputs={**good.outputs, kind: arrived([*records, again])})


def where(good: Evidence, kind: str, **wanted: Any) -> int:
    """The first message with these fields."""
    events = map(read, good.outputs[kind] or ())
    return next(n for n, event in enumerate(events) if wanted.items() <= event.items())


@pytest.mark.parametrize(
    ("kind", "about", "changed", "check"),
    [
        ("enriched", {}, {}, ""),
        ("enriched", {"flags": []}, {"flags": ["spree"]}, "enrichment"),
        ("enriched", {"flags": []}, {"phone_latitude": 1.0, "km_from_phone": 7.0}, "enrichment"),
        ("alerts", {"rule": "spree"}, {}, ""),
        ("alerts", {"rule": "spree"}, {"emit_ms": START_MS - 86_400_000}, "alerts: spree"),
        ("alerts", {"rule": "burst"}, {"emit_ms": START_MS + 86_400_000}, "alerts: burst"),
        ("windows", {}, {}, ""),
        ("windows", {}, {"window_end_ms": 5}, "numbers: spend-per-minute"),
        ("windows", {}, {"emit_ms": START_MS + 86_400_000}, "numbers: spend-per-minute"),
    ],
)
def test_a_later_copy_has_the_content_of_the_first(
    good: Evidence, kind: str, about: dict[str, Any], changed: dict[str, Any], check: str
) -> None:
    evidence = with_copy(good, kind, where(good, kind, **about), **changed)
    found = wrong(Ledger(STREAM, evidence, LIMITS).through(CUTS_MS))
    assert {name.partition(" ")[2] for name in found} == ({check} if check else set())


@pytest.mark.parametrize(
    ("changed", "check"),
    [({}, ""), ({"value_base64": None}, ""), ({"value_base64": "AAAA"}, "refusals"), ({"stage": "x"}, "refusals")],
)
def test_a_later_copy_of_a_late_letter_has_its_content(again: Evidence, changed: dict[str, Any], check: str) -> None:
    evidence = with_copy(again, "dead-letters", where(again, "dead-letters", reason="late"), **changed)
    found = wrong(Ledger(STREAM, evidence, PATIENT).through(CUTS_MS))
    assert {name.partition(" ")[2] for name in found} == ({check} if check else set())


@pytest.mark.parametrize("rule", ["spree", "burst"])
@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, "unknown"),
        ({"event_ids": ["nobody's"]}, "failed"),
        ({"subject": "nobody"}, "failed"),
        ({"ingest_ms": LAST_MS}, "failed"),
    ],
)
def test_an_alert_that_comes_again_long_after_it_was_judged_is_not_compared(
    good: Evidence, rule: str, changed: dict[str, Any], status: str
) -> None:
    """As behind a restart from an old checkpoint."""
    evidence = with_copy(good, "alerts", where(good, "alerts", rule=rule), **changed)
    segments = Ledger(STREAM, evidence, replace(LIMITS, copies_ms=20_000)).through(CUTS_MS)
    found = [check for segment in segments for check in segment.checks if check.status != "ok"]
    assert [each.status for each in found if each.name == f"alerts: {rule}"] == [status]
    assert len(found) == 1 or status == "failed"


def in_other_order(good: Evidence) -> tuple[int, Mapping[str, Any]]:
    """An enriched event, and what it shows if a location was read on the other side of it."""
    case = Case(STREAM, good)
    for at, record in enumerate(good.outputs["enriched"] or ()):
        event = read(record)
        judged = case.expected.judged[event["customer"], event["transaction_id"]]
        for view, findings in case.expected.views.of(judged):
            if not findings and not judged.findings and view["km_from_phone"] != event["km_from_phone"]:
                return at, view
    raise AssertionError("no event is near a location")


def test_a_later_copy_may_show_another_order_of_two_topics(good: Evidence) -> None:
    at, view = in_other_order(good)
    changed = {name: view[name] for name in FRAUD.enrichment.built}
    changed["km_from_phone"] = changed["km_from_phone"] and changed["km_from_phone"] * (1 + 1e-12)
    evidence = with_copy(good, "enriched", at, **changed)
    segments = Ledger(STREAM, evidence, LIMITS).through(CUTS_MS)
    assert wrong(segments) == {}
    of_phone = replace(STREAM, in_force={"spree": Versions((("old", START_MS),))})
    flags = with_copy(good, "enriched", where(good, "enriched", flags=[]), flags=["spree"])
    segments = Ledger(of_phone, flags, LIMITS).through(CUTS_MS)
    assert wrong(segments) == {}, "another version of a rule flags other events"


@pytest.mark.parametrize(
    ("name", "changed", "is_ok"),
    [
        ("spree", {"flags": ["spree"]}, True),
        ("spree", {"flags": ["above-previous-max"]}, False),
        ("spree", {"flags": ["spree", "spree"]}, False),
        ("spree", {"flags": ["spree"], "km_from_phone": 7.0}, False),
        ("spend-per-minute", {"flags": ["spree"]}, False),
        ("spend-per-minute", {"flags": ["spend-per-minute"]}, False),
        ("burst", {"flags": ["spree"]}, False),
        ("table of customers", {"flags": ["spree"]}, False),
    ],
)
def test_a_change_excuses_only_what_it_decides_of_a_later_copy(
    good: Evidence, name: str, changed: dict[str, Any], is_ok: bool
) -> None:
    ledger = ledger_with_copy(good, name, changed)
    found = {each.partition(" ")[2] for each in wrong(ledger.through(CUTS_MS))}
    assert "enrichment" not in found if is_ok else "enrichment" in found
    assert sum(each["enrichment"] for each in ledger.state.races) == 0, "no order of arrival explains it"


@pytest.mark.parametrize(
    ("name", "changed", "status"),
    [
        (ENRICHMENT, {}, "ok"),
        (ENRICHMENT, {"km_from_phone": 7.0}, "unknown"),
        (ENRICHMENT, {"merchant_category": "another"}, "unknown"),
        (ENRICHMENT, {"amount_cents": 1}, "failed"),
        (ENRICHMENT, {"customer": "nobody"}, "failed"),
        (ENRICHMENT, {"ingest_ms": START_MS - 1}, "failed"),
        (ENRICHMENT, {"flags": ["spree"]}, "failed"),
        (ENRICHMENT, {"flags": ["spree"], "km_from_phone": 7.0}, "failed"),
        (LIMITS_CHANGED, {"flags": ["spree"]}, "unknown"),
        (LIMITS_CHANGED, {"amount_cents": 1}, "failed"),
    ],
)
def test_a_change_of_the_fields_or_limits_excuses_nothing_of_the_raw_event_in_a_later_copy(
    good: Evidence, name: str, changed: dict[str, Any], status: str
) -> None:
    ledger = ledger_with_copy(good, name, changed)
    ledger.to(LAST_MS - 60_000)
    assert ledger.state.sampled_ms == 0
    ledger = ledger.again()
    found = {check.name: check for segment in ledger.through([LAST_MS]) for check in segment.checks}
    enrichment = next(each for each in ledger.segments[0].checks if each.name == "enrichment")
    assert enrichment.status == status
    assert [each.name for each in found.values() if each.status == "failed" and each.name != "enrichment"] == []
    uncompared = enrichment.figures.get("copies from before a change, not compared")
    assert (uncompared, enrichment.figures["races"]) == (1 if status == "unknown" else None, 0)


def ledger_with_copy(good: Evidence, name: str, changed: Mapping[str, Any]) -> Ledger:
    """Of a run whose declaration with this name changes a minute before its end, and an event comes again changed."""
    question = replace(STREAM, in_force={name: Versions((("old", LAST_MS - 60_000),))})
    return Ledger(question, with_copy(good, "enriched", where(good, "enriched", flags=[]), **changed), LIMITS)


OTHERS = [f"another-{number}" for number in range(40)]


@pytest.mark.parametrize(
    ("before", "after", "is_ok"),
    [
        ([], ["burst-at-once", *OTHERS], True),
        (["burst-at-once"], [], True),
        (["burst-at-once"], OTHERS, True),
        (["spree", "burst-at-once"], ["another-3", "spree"], True),
        (["spree", "burst-at-once"], ["another-3"], False),
        ([], ["spree"], False),
        (["above-previous-max"], OTHERS, False),
        ([], ["another-3", "another-3"], False),
    ],
)
def test_of_many_rules_that_changed_at_once_a_later_copy_may_have_other_flags_and_no_others(
    good: Evidence, before: list[str], after: list[str], is_ok: bool
) -> None:
    in_force = {name: Versions((("old", LAST_MS - 60_000),)) for name in ("burst-at-once", *OTHERS)}
    evidence = with_copy(good, "enriched", where(good, "enriched", flags=before), flags=after)
    ledger = Ledger(replace(STREAM, in_force=in_force), evidence, LIMITS)
    ledger.to(LAST_MS - 60_000)
    ledger = ledger.again()
    found = {each.partition(" ")[2] for each in wrong(ledger.through([LAST_MS]))}
    assert found == (set() if is_ok else {"enrichment"})


def test_a_later_copy_that_equals_the_first_is_compared_with_nothing_else(
    good: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(STREAM, with_copy(good, "enriched", 0), LIMITS)
    for name in ("is_by_other_rules", "is_of_change", "may_show"):
        monkeypatch.delattr(Step, name)
    assert wrong(ledger.through([LAST_MS - 60_000, LAST_MS])) == {}
    assert figures(ledger.segments)["conservation"]["copies"] == 1


@pytest.mark.parametrize(("bounds", "status"), [(Bounds(), "failed"), (Bounds(races_most=10_000), "ok")])
def test_later_copies_that_show_another_order_are_bounded_in_the_segment_in_which_they_come(
    good: Evidence, bounds: Bounds, status: str
) -> None:
    """Of most events no form is kept, and a copy may show any."""
    ledger = Ledger(replace(STREAM, bounds=bounds), good, replace(LIMITS, forms=1))
    for cut_ms in CUTS_MS:
        ledger.to(cut_ms)
    ledger.state.sampled_ms = LAST_MS
    kept = {(partition, offset) for _, partition, offset in ledger.state.forms}
    enriched = list(good.outputs["enriched"] or ())
    plain = [
        each | {"flags": ["spree"]}
        for each in map(read, enriched)
        if not each["flags"] and (each["source_partition"], each["source_offset"]) not in kept
    ]
    more = pretend.records("enriched", plain, [LAST_MS] * len(plain))
    ledger.evidence = replace(good, outputs={**good.outputs, "enriched": arrived([*enriched, *more])})
    found = next(each for each in ledger.to(LAST_MS).checks if each.name == "enrichment")
    assert (found.status, found.figures["races"]) == (status, len(plain))
    assert ledger.state.races[-1]["enrichment"] == len(plain)


def with_earlier_rows(good: Evidence, **off: int) -> Evidence:
    """The run in which each window has a row before its last event, and before its last row; one has other numbers."""
    (summary,) = FRAUD.summaries
    late = {(each["partition"], each["offset"]) for each in map(read, good.outputs["dead-letters"] or ())}
    enriched = [
        each
        for each in map(read, good.outputs["enriched"] or ())
        if (each["source_partition"], each["source_offset"]) not in late
    ]
    events = oracle.summary_events(summary, enriched)
    found = []
    for record in good.outputs["windows"] or ():
        row = read(record)
        *first, _ = events[row["window_start_ms"], *(row[name] for name in summary.keys)]
        fewer = row | (oracle.measured(summary, first) if first else {})
        if len(first) > 1 and off:
            fewer |= {name: fewer[name] + by for name, by in off.items()}
            off = {}
        found += [replace(record, value=json.dumps(fewer).encode()), record]
    assert not off
    return replace(good, outputs={**good.outputs, "windows": arrived(found)})


@settings(max_examples=6, phases=UNSHRUNK)
@given(cuts_ms=CUTS)
def test_an_earlier_row_of_a_window_counts_its_first_events(good: Evidence, cuts_ms: list[int]) -> None:
    evidence = with_earlier_rows(good)
    assert judge(STREAM, evidence).check("numbers: spend-per-minute").status == "ok"
    assert wrong(Ledger(STREAM, evidence, LIMITS).through(cuts_ms)) == {}


@pytest.mark.parametrize("off", [{"total_cents": 1}, {"total_cents": -1}, {"purchases": 1}, {"purchases": -1}])
def test_an_earlier_row_of_a_window_counts_no_other_events(good: Evidence, off: dict[str, int]) -> None:
    evidence = with_earlier_rows(good, **off)
    assert judge(STREAM, evidence).check("numbers: spend-per-minute").status == "failed"
    found = wrong(Ledger(STREAM, evidence, LIMITS).through(CUTS_MS))
    assert [name.partition(" ")[2] for name in found] == ["numbers: spend-per-minute"]


def test_of_a_window_with_events_that_came_out_twice_an_earlier_row_may_count_any(good: Evidence) -> None:
    evidence = with_earlier_rows(good, total_cents=-1)
    enriched = evidence.outputs["enriched"] or ()
    twice = arrived([each for record in enriched for each in (record, record)])
    evidence = replace(evidence, outputs={**evidence.outputs, "enriched": twice})
    assert judge(STREAM, evidence).check("numbers: spend-per-minute").status == "ok"
    assert wrong(Ledger(STREAM, evidence, LIMITS).through(CUTS_MS)) == {}


def test_of_events_from_a_state_without_their_places_an_earlier_row_may_count_any(good: Evidence) -> None:
    ledger = Ledger(STREAM, with_earlier_rows(good, total_cents=-1), LIMITS)
    ledger.to(START_MS + 20_000)
    lines = list(map(json.loads, states.lines(ledger.state)))
    places = [each[2].pop("place") for each in lines if isinstance(each, list) and each[0] == "counted"]
    assert any(places)
    ledger.state = states.read(json.dumps(each).encode() for each in lines)
    assert wrong(ledger.through(range(START_MS + 30_000, LAST_MS, 10_000))) == {}


@pytest.mark.parametrize("forms", [1, 5])
def test_of_frequent_streams_what_events_may_show_is_kept_of_some(good: Evidence, forms: int) -> None:
    at, view = in_other_order(good)
    evidence = with_copy(good, "enriched", at, **{name: view[name] for name in FRAUD.enrichment.built})
    ledger = Ledger(STREAM, evidence, replace(LIMITS, forms=forms))
    for cut_ms in CUTS_MS:
        before = len(ledger.state.forms)
        ledger.to(cut_ms)
        assert len(ledger.state.forms) - before <= 3 * forms, "two partitions, and what waited longer"
    assert wrong(ledger.segments) == {}
    assert ledger.state.sampled_ms


def test_behind_a_state_that_kept_nothing_of_other_streams_a_copy_may_show_any(good: Evidence) -> None:
    at, view = in_other_order(good)
    evidence = with_copy(good, "enriched", at, **{name: view[name] for name in FRAUD.enrichment.built})
    arrived_ms = (good.outputs["enriched"] or ())[at].ingest_ms
    ledger = Ledger(STREAM, evidence, LIMITS)
    ledger.to(arrived_ms + 60_000)
    head, *rest = states.lines(ledger.state)
    earlier = {name: value for name, value in json.loads(head).items() if name != "sampled_ms"}
    ledger.state = states.read([json.dumps(earlier).encode(), *(each for each in rest if each[:8] != b'["forms"')])
    assert wrong(ledger.through(range(arrived_ms + 70_000, LAST_MS, 10_000))) == {}


def earlier(
    good: Evidence, since_ms: int, after_ms: int = 0, rule: str = "spree", **changed: Any
) -> tuple[Question, Evidence]:
    """The run with an alert of an earlier version more, on an event of the run."""
    alerts = list(good.outputs["alerts"] or ())
    found = next(each for each in alerts if read(each)["rule"] == rule)
    alert = read(found) | {"rule_version": "old"} | changed
    alert["alert_id"] = alert_id(rule, "old", alert["key"], fact_of(alert))
    key = alert["subject"].encode()
    more = replace(found, ingest_ms=found.ingest_ms + after_ms, key=key, value=json.dumps(alert).encode())
    question = replace(STREAM, in_force={rule: Versions((("old", since_ms),))})
    return question, replace(good, outputs={**good.outputs, "alerts": arrived([*alerts, more])})


@pytest.mark.parametrize(
    ("spoilt", "is_ok"),
    [
        ({"since_ms": START_MS}, True),
        ({"since_ms": START_MS, "after_ms": 60_000}, True),
        ({"since_ms": START_MS - EARLIER_MOST_MS - 60_000}, False),
        ({"since_ms": START_MS, "key": "nobody"}, False),
        ({"since_ms": START_MS, "subject": "nobody"}, False),
        ({"since_ms": START_MS, "at_ms": START_MS}, False),
        ({"since_ms": START_MS, "ingest_ms": START_MS}, False),
        ({"since_ms": START_MS, "sent_ms": START_MS}, False),
        ({"since_ms": START_MS, "emit_ms": START_MS - 100_000}, False),
        ({"since_ms": START_MS - 120_000}, False),
        ({"since_ms": START_MS, "rule": "burst"}, True),
        ({"since_ms": START_MS, "after_ms": 60_000, "subject": "nobody"}, False),
        ({"since_ms": START_MS, "after_ms": 60_000, "ingest_ms": START_MS}, False),
    ],
)
def test_an_alert_of_an_earlier_version_is_of_its_time_and_of_an_event(
    good: Evidence, spoilt: dict[str, Any], is_ok: bool
) -> None:
    question, evidence = earlier(good, **spoilt)
    expected = set() if is_ok else {"alert ids"}
    assert {each.name for each in judge(question, evidence).checks if each.status != "ok"} == expected
    found = wrong(Ledger(question, evidence, LIMITS).through(CUTS_MS))
    assert {name.partition(" ")[2] for name in found} == expected


def of_earlier(good: Evidence, *, is_removed: bool = False) -> tuple[Question, Evidence]:
    """The run with a rule that another version replaced, or none, behind its end."""

    def out(record: Record) -> Record:
        alert = read(record)
        if alert["rule"] != "spree":
            return record
        identity = alert_id("spree", "old", alert["key"], fact_of(alert))
        return replace(record, value=json.dumps(alert | {"rule_version": "old", "alert_id": identity}).encode())

    rules = [each for each in STREAM.rules if not (is_removed and each.name == "spree")]
    question = replace(STREAM, rules=rules, in_force={"spree": Versions((("old", LAST_MS),))})
    alerts = [out(each) for each in good.outputs["alerts"] or ()]
    return question, replace(good, outputs={**good.outputs, "alerts": alerts}, labels=None)


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("comes_again", [None, True, False])
def test_an_event_that_shows_an_alert_of_an_earlier_version_has_it(
    good: Evidence, is_removed: bool, comes_again: bool | None
) -> None:
    """Unless it is judged again, and then otherwise."""
    question, evidence = of_earlier(good, is_removed=is_removed)
    assert judge(question, evidence).status == "ok"
    assert wrong(Ledger(question, evidence, LIMITS).through(CUTS_MS)) == {}

    alerts = list(evidence.outputs["alerts"] or ())
    lost = next(each for each in alerts if read(each)["rule"] == "spree")
    alerts.remove(lost)
    enriched = list(evidence.outputs["enriched"] or ())
    (identity,) = read(lost)["event_ids"]
    shown = next(each for each in enriched if read(each)["transaction_id"] == identity)
    if comes_again is not None:
        flags = [flag for flag in read(shown)["flags"] if flag != "spree" or comes_again]
        again = json.dumps(read(shown) | {"flags": flags}).encode()
        enriched.append(replace(shown, ingest_ms=shown.ingest_ms + 3_000, value=again))
    outputs = {**evidence.outputs, "alerts": arrived(alerts), "enriched": arrived(enriched)}
    evidence = replace(evidence, outputs=outputs, stores={})
    question = replace(question, stores=())
    expected = {"earlier alerts"} if comes_again is not False else set()
    assert {each.name for each in judge(question, evidence).checks if each.status != "ok"} == expected
    found = wrong(Ledger(question, evidence, LIMITS).through(CUTS_MS))
    assert [name.partition(" ")[2] for name in found] == [*expected]


LONG_MS = EARLIER_MOST_MS + 120_000


@pytest.mark.parametrize("rule", ["spree", "burst"])
@pytest.mark.parametrize(
    ("past", "is_ok"),
    [
        ([("older", START_MS - LONG_MS), ("old", LAST_MS)], True),
        ([("old", START_MS + 60_000), ("newer", LAST_MS)], True),
        ([("old", START_MS - LONG_MS), ("newer", LAST_MS)], False),
        ([("old", START_MS - 120_000), ("newer", LAST_MS)], False),
        ([("older", LAST_MS + LONG_MS), ("old", LAST_MS + 2 * LONG_MS)], False),
        ([("old", START_MS - LONG_MS), ("newer", START_MS), ("old", LAST_MS)], True),
        ([("old", START_MS - LONG_MS), ("newer", LAST_MS), ("old", LAST_MS + LONG_MS)], False),
    ],
)
def test_an_alert_of_an_earlier_version_is_of_the_time_of_that_version(
    good: Evidence, rule: str, past: list[tuple[str, int]], is_ok: bool
) -> None:
    question, evidence = earlier(good, START_MS, rule=rule)
    others = [each for each in evidence.outputs["alerts"] or () if read(each)["rule_version"] == "old"]
    question = replace(question, in_force={rule: Versions(tuple(past))})
    evidence = replace(evidence, outputs={**evidence.outputs, "alerts": arrived(others)})
    assert (judge(question, evidence).check("alert ids").status == "ok") is is_ok
    found = wrong(Ledger(question, evidence, LIMITS).through(CUTS_MS))
    assert ("alert ids" in {name.partition(" ")[2] for name in found}) is not is_ok


@pytest.mark.parametrize("spoilt", [{"event_ids": ["nobody's"]}, {"subject": "nobody"}, {"event_ids": []}])
def test_a_segment_finds_an_alert_of_an_earlier_version_on_a_window_of_no_event(
    good: Evidence, spoilt: dict[str, Any]
) -> None:
    question, evidence = earlier(good, START_MS, rule="burst", **spoilt)
    found = wrong(Ledger(question, evidence, LIMITS).through(CUTS_MS))
    assert {each.partition(" ")[2] for each in found} == {"alert ids"}


CHANGED_MS = START_MS + 28_000


@pytest.mark.parametrize(
    ("spoilt", "is_ok"), [({}, True), ({"event_ids": ["nobody's"]}, False), ({"subject": "nobody"}, False)]
)
def test_an_alert_that_a_change_brings_again_is_of_events_that_were_there(
    good: Evidence, spoilt: dict[str, Any], is_ok: bool
) -> None:
    """Its engine has read the topic anew, and found another window."""
    alerts = list(good.outputs["alerts"] or ())
    bursts = [read(each) for each in alerts if read(each)["rule"] == "burst"]
    first = min(bursts, key=lambda each: each["window_start_ms"])
    other = first | {"window_start_ms": first["window_start_ms"] - 1} | spoilt
    other["alert_id"] = alert_id("burst", other["rule_version"], other["key"], fact_of(other))
    more = pretend.records("alerts", [other | {"emit_ms": CHANGED_MS + 80_000}], [CHANGED_MS + 80_000])
    question = replace(STREAM, in_force={"gone": Versions((("v0", CHANGED_MS),))})
    evidence = replace(good, outputs={**good.outputs, "alerts": arrived([*alerts, *more])})
    found = wrong(Ledger(question, evidence, LIMITS).through(CUTS_MS))
    assert {each.partition(" ")[2] for each in found} == (set() if is_ok else {"alerts: burst"})


@pytest.mark.parametrize("copies_ms", [20_000, 900_000])
def test_a_late_letter_that_comes_again_long_after_it_was_judged_is_not_compared(
    again: Evidence, copies_ms: int
) -> None:
    evidence = with_copy(again, "dead-letters", where(again, "dead-letters", reason="late"))
    limits = replace(PATIENT, copies_ms=copies_ms)
    segments = Ledger(STREAM, evidence, limits).through(range(START_MS, LAST_MS + 60_000, 10_000))
    found = [check for segment in segments for check in segment.checks if check.name in ("refusals", "lateness")]
    red = [(each.name, each.status) for each in found if each.status != "ok"]
    assert red == ([("refusals", "unknown")] if copies_ms == 20_000 else [])


@pytest.mark.parametrize(
    ("changed", "after_ms", "is_ok"),
    [
        ({}, 60_000, True),
        ({"offset": 10**9}, 60_000, False),
        ({"offset": -1}, 60_000, False),
        ({"topic": "pretended.device-locations"}, 60_000, False),
        ({"stage": "anything"}, 60_000, False),
        ({"ingest_ms": CHANGED_MS}, 60_000, False),
        ({"ingest_ms": CHANGED_MS - 1}, 60_000, False),
        ({}, EARLIER_MOST_MS + 1, False),
    ],
)
def test_a_late_letter_that_a_change_brings_again_is_of_a_message_that_was_read(
    good: Evidence, changed: dict[str, Any], after_ms: int, is_ok: bool
) -> None:
    """Its engine has read the topic anew, and calls another event late; here one whose windows were judged."""
    first = next(each for each in good.raw["transactions"] or () if each.partition == 1)
    letter = pretend.letter(first, "late") | {"stage": "windows"} | changed
    came_ms = CHANGED_MS + after_ms
    more = pretend.records("dead-letters", [letter], [came_ms])
    letters = arrived([*(good.outputs["dead-letters"] or ()), *more])
    question = replace(STREAM, in_force={"gone": Versions((("v0", CHANGED_MS),))})
    evidence = replace(good, outputs={**good.outputs, "dead-letters": letters})
    cuts_ms = [*CUTS_MS, came_ms + 10_000, came_ms + 120_000]
    assert (wrong(Ledger(question, evidence, LIMITS).through(cuts_ms)) == {}) is is_ok


def statuses(question: Question, evidence: Evidence, name: str) -> tuple[str, str]:
    """What the whole verdict makes of a check, and the ledger."""
    found = wrong(Ledger(question, evidence, LIMITS).through(CUTS_MS))
    in_segments = "failed" if name in {each.partition(" ")[2] for each in found} else "ok"
    return judge(question, evidence).check(name).status, in_segments


def of_earlier_window(good: Evidence, name: str) -> tuple[Question, Evidence]:
    """The run with an alert of an earlier version on a window, one fact of which is wrong."""
    alerts = map(read, good.outputs["alerts"] or ())
    found = next(each for each in alerts if each["rule"] == "burst")
    operands, ids = found["operands"], found["event_ids"]
    others = {"subject": "nobody", "event_ids": ["nobody's"], "order": None, "key": "no card", "": None}
    spoilt = {name: others.get(name, START_MS - 1)} if name else {}
    if name in operands or name == "more":
        spoilt = {"operands": {**operands, name: str(START_MS - 1)}}
    if name == "order":
        spoilt = {"event_ids": ids[::-1]}
    return earlier(good, START_MS, rule="burst", **spoilt)


OF_WINDOW = ["key", "subject", "at_ms", "ingest_ms", "sent_ms", "event_ids", "first_ms", "last_ms", ""]


@pytest.mark.parametrize("name", OF_WINDOW)
def test_an_alert_of_an_earlier_version_on_a_window_is_of_events_of_its_key(good: Evidence, name: str) -> None:
    status = "failed" if name else "ok"
    assert statuses(*of_earlier_window(good, name), "alert ids") == (status, status)


BURST = FRAUD.rule("burst")
assert isinstance(BURST, WindowRule)


@pytest.mark.parametrize("name", [*OF_WINDOW, "n", "total_cents", "more", "order"])
def test_an_alert_of_an_earlier_version_on_a_window_is_as_its_declaration_has_it(good: Evidence, name: str) -> None:
    question, evidence = of_earlier_window(good, name)
    question = replace(question, earlier={("burst", "old"): BURST})
    status = "failed" if name else "ok"
    assert statuses(question, evidence, "alert ids") == (status, status)


@pytest.mark.parametrize(
    ("then", "is_ok"),
    [
        (replace(BURST, alert_when=lambda w: w.n >= 100), False),
        (replace(BURST, window=Session(1)), False),
        (replace(BURST, window=Tumbling(7)), False),
        (replace(BURST, key="customer"), False),
        (replace(BURST, ids_most=1), True),
        (replace(BURST, measures={**BURST.measures, "most": Max("amount_cents")}), False),
    ],
)
def test_an_alert_of_an_earlier_version_is_one_that_its_declaration_raises(
    good: Evidence, then: WindowRule, is_ok: bool
) -> None:
    question, evidence = of_earlier_window(good, "")
    found = judge(replace(question, earlier={("burst", "old"): then}), evidence).check("alert ids")
    assert (found.status == "ok") is is_ok


@pytest.mark.parametrize("ids_most", [1, 50])
@pytest.mark.parametrize("name", OF_WINDOW)
def test_an_alert_that_waits_for_its_window_while_its_rule_changes_is_of_its_events(
    good: Evidence, name: str, ids_most: int
) -> None:
    """The list of ids is full where the rule names one at most."""
    before, after = (replace(BURST, ids_most=ids_most, alert_when=lambda w, most=most: w.n >= most) for most in (2, 3))
    first = min((each for each in map(read, good.outputs["alerts"] or ()) if each["rule"] == "burst"), key=emitted)
    wrong_of = {"subject": "nobody", "event_ids": ["nobody's"], "key": "no card"}
    spoilt = {name: wrong_of.get(name, START_MS - 1)} if name in first or name in first["operands"] else {}
    if name in first["operands"]:
        spoilt = {"operands": {**first["operands"], **{name: str(START_MS - 1)}}}
    changed_ms = emitted(first) + 500

    def out(alert: dict[str, Any]) -> dict[str, Any] | None:
        if alert["rule"] != "burst":
            return alert
        is_first = alert["alert_id"] == first["alert_id"]
        rule = before if is_first else after
        if int(alert["operands"]["n"]) < (2 if is_first else 3):
            return None
        alert = alert | {"rule_version": rule.version, "event_ids": alert["event_ids"][:ids_most]}
        alert |= spoilt if is_first else {}
        return alert | {"alert_id": alert_id("burst", rule.version, alert["key"], fact_of(alert))}

    alerts = [found for each in map(read, good.outputs["alerts"] or ()) if (found := out(each)) is not None]
    evidence = replace(good, outputs={**good.outputs, "alerts": in_order("alerts", alerts, "emit_ms")}, labels=None)
    rules = [each for each in STREAM.rules if each.name != "burst"]
    ledger = Ledger(replace(STREAM, rules=[*rules, before]), evidence, LIMITS)
    ledger.to(changed_ms)
    assert wrong(ledger.segments) == {}
    assert "burst" in {own[0][1][1]["rule"] for own in ledger.state.alerts.values()}
    ledger = ledger.again()
    in_force = {"burst": Versions(((before.version, changed_ms),))}
    ledger.question = replace(STREAM, rules=[*rules, after], in_force=in_force)
    found = {each.partition(" ")[2] for each in wrong(ledger.through(range(changed_ms + 10_000, LAST_MS, 10_000)))}
    assert found == ({"alert ids"} if name else set())


@pytest.mark.parametrize(("more", "is_ok"), [([], True), (["nobody's"], False)])
@pytest.mark.parametrize("after_ms", [-1, 10_000])
def test_an_alert_of_an_earlier_version_may_come_before_an_event_of_its_open_window(
    good: Evidence, after_ms: int, more: list[str], is_ok: bool
) -> None:
    """The brokers of two topics need not have the same time; an id of no event is red once the window is judged."""
    found = next(each for each in good.outputs["alerts"] or () if read(each)["rule"] == "burst")
    arrived_ms, ids = read(found)["ingest_ms"], sorted([*read(found)["event_ids"], *more])
    late_ms = arrived_ms + after_ms - found.ingest_ms
    question, evidence = earlier(good, START_MS, late_ms, "burst", event_ids=ids, emit_ms=arrived_ms)
    ledger = Ledger(
        replace(question, earlier={("burst", "old"): BURST}), evidence, replace(LIMITS, outstanding_ms=90_000)
    )
    ledger.to(arrived_ms - 1)
    assert wrong(ledger.segments) == {}
    assert [kind for kind, *_ in ledger.state.outputs].count("alerts") == (after_ms < 0)
    found_wrong = wrong(ledger.through(range(arrived_ms + 9_000, arrived_ms + 80_000, 10_000)))
    assert {each.partition(" ")[2] for each in found_wrong} == (set() if is_ok else {"alert ids"})


@pytest.mark.parametrize(("more", "is_ok"), [([], True), (["nobody's"], False)])
def test_a_full_list_of_an_alert_whose_window_is_gone_holds_ids_that_its_key_has_had(
    good: Evidence, more: list[str], is_ok: bool
) -> None:
    found = next(each for each in map(read, good.outputs["alerts"] or ()) if each["rule"] == "burst")
    ids = [*found["event_ids"], *more]
    question, evidence = earlier(good, START_MS, 90_000, "burst", key=found["subject"], event_ids=ids)
    then = replace(BURST, key=FRAUD.judged.key, ids_most=1)
    ledger = Ledger(replace(question, earlier={("burst", "old"): then}), evidence, LIMITS)
    segments = ledger.through(CUTS_MS)
    assert {each.partition(" ")[2] for each in wrong(segments)} == (set() if is_ok else {"alert ids"})


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize(("ids_most", "ids", "is_ok"), [(50, 1, True), (50, 0, False), (2, 1, True), (1, 0, True)])
def test_an_alert_of_a_window_that_is_longer_than_ids_are_remembered_may_name_forgotten_ones(
    good: Evidence, ids_most: int, ids: int, is_ok: bool, is_gone: bool
) -> None:
    """They are in the order of their text: a full list may hold only those."""
    found = next(each for each in map(read, good.outputs["alerts"] or ()) if each["rule"] == "burst")
    memory_ms, day_ms = FRAUD.judged.remembered_ms, 86_400_000
    start_ms = START_MS - START_MS % day_ms - memory_ms // day_ms * day_ms
    of_alert = {
        "key": found["subject"],
        "window_start_ms": start_ms,
        "event_ids": ["forgotten", *found["event_ids"][:ids]],
    }
    question, evidence = earlier(good, START_MS, 90_000, "burst", **of_alert)
    then = replace(BURST, key=FRAUD.judged.key, ids_most=ids_most, window=Sliding(14 * day_ms, day_ms))
    question = replace(question, earlier={("burst", "old"): then})
    if is_gone:
        question = replace(question, rules=[each for each in question.rules if each.name != "burst"])
        alerts = [each for each in evidence.outputs["alerts"] or () if read(each)["rule_version"] != BURST.version]
        evidence = replace(evidence, outputs={**evidence.outputs, "alerts": arrived(alerts)}, labels=None)
    segments = Ledger(question, evidence, LIMITS).through(CUTS_MS)
    assert {each.partition(" ")[2] for each in wrong(segments)} == (set() if is_ok else {"alert ids"})


def emitted(alert: Mapping[str, Any]) -> int:
    found: int = alert["emit_ms"]
    return found


def test_an_alert_of_an_earlier_version_on_a_window_takes_its_facts_from_one_window(good: Evidence) -> None:
    """Each is of some event of the key, and that of the last event of the window is of another one."""
    alerts = [each for each in map(read, good.outputs["alerts"] or ()) if each["rule"] == "burst"]
    events = [read(each) for each in good.outputs["enriched"] or ()]
    alert = alerts[0]
    among = [event for event in events if event["transaction_id"] in alert["event_ids"]]
    first = min(among, key=lambda event: event["at_ms"])
    for name in ("at_ms", "ingest_ms", "sent_ms"):
        assert first[name] != alert[name]
        question, evidence = earlier(good, START_MS, rule="burst", **{name: first[name]})
        assert judge(question, evidence).check("alert ids").status == "failed"


@pytest.mark.parametrize("waits", [False, True])
def test_an_alert_of_an_earlier_version_shows_the_fields_of_its_event(good: Evidence, waits: bool) -> None:
    """Also while its event waits: a phone's report may still come, so it is judged two seconds after it arrived."""
    alert = next(each for each in map(read, good.outputs["alerts"] or ()) if each["rule"] == "above-previous-max")
    cuts_ms = [alert["emit_ms"]] if waits else CUTS_MS
    for name, is_ok in (("amount_cents", False), ("before_highest_cents", True)):
        changed = {"operands": {**alert["operands"], name: "7"}}
        question, evidence = earlier(good, START_MS, rule="above-previous-max", **changed)
        assert (judge(question, evidence).check("alert ids").status == "ok") is is_ok
        found = wrong(Ledger(question, evidence, LIMITS).through(cuts_ms))
        assert ({each.partition(" ")[2] for each in found} == set()) is is_ok


def test_a_verdict_notes_what_of_earlier_versions_rests_on_flags(good: Evidence) -> None:
    question, evidence = earlier(good, LAST_MS)
    (note,) = [each for each in judge(question, evidence).notes if "earlier versions of spree" in each]
    assert note.endswith("flags and fields of their events only: one may be missing with its flag")


@pytest.mark.parametrize("is_twice", [False, True])
def test_an_alert_of_an_earlier_version_that_its_event_denies_is_red_unless_it_may_be_judged_again(
    good: Evidence, is_twice: bool
) -> None:
    question, evidence = earlier(good, START_MS)
    (identity,) = next(read(each) for each in evidence.outputs["alerts"] or () if read(each)["rule"] == "spree")[
        "event_ids"
    ]
    events = [
        replace(
            each, value=json.dumps(event | {"flags": [flag for flag in event["flags"] if flag != "spree"]}).encode()
        )
        if (event := read(each))["transaction_id"] == identity
        else each
        for each in evidence.outputs["enriched"] or ()
    ]
    events += [replace(events[-1], offset=len(events))] if is_twice else []
    denied = replace(evidence, outputs={**evidence.outputs, "enriched": events})
    assert (judge(question, denied).check("alert ids").status == "failed") is not is_twice


@pytest.mark.parametrize(("skew_ms", "ended_ms", "is_red"), [(0, 0, True), (3_600_000, 0, False), (0, -110_000, False)])
def test_an_alert_of_an_earlier_version_that_its_event_denies_is_red_though_other_outputs_are_there_twice(
    good: Evidence, skew_ms: int, ended_ms: int, is_red: bool
) -> None:
    """Unless the event may have been judged in another order of arrival, or by the next version, too."""
    question, evidence = of_earlier(good)
    in_force = {"spree": Versions((("old", LAST_MS + ended_ms),))}
    question = replace(question, in_force=in_force, bounds=replace(STREAM.bounds, skew_ms=skew_ms))
    (identity,) = next(read(each) for each in evidence.outputs["alerts"] or () if read(each)["rule"] == "spree")[
        "event_ids"
    ]
    events = list(evidence.outputs["enriched"] or ())
    at = next(n for n, each in enumerate(events) if read(each)["transaction_id"] == identity)
    flags = [flag for flag in read(events[at])["flags"] if flag != "spree"]
    events[at] = replace(events[at], value=json.dumps(read(events[at]) | {"flags": flags}).encode())
    letters = list(evidence.outputs["dead-letters"] or ())
    letters.append(replace(letters[-1], offset=len(letters)))
    spoilt = replace(evidence, outputs={**evidence.outputs, "enriched": events, "dead-letters": letters})
    found = judge(question, spoilt).check("alert ids")
    assert [each.endswith("its event shows otherwise") for each in found.offenders] == [True] * is_red
    segments = wrong(Ledger(question, spoilt, LIMITS).through(CUTS_MS))
    assert ("alert ids" in {name.partition(" ")[2] for name in segments}) is is_red


@pytest.mark.parametrize("mark", ["right", *MARKS, "of what nobody sent"])
def test_a_mark_of_a_replay_needs_its_dead_letter(good: Evidence, mark: str) -> None:
    segments = Ledger(STREAM, marked(good, mark), LIMITS).through(CUTS_MS)
    assert {name.partition(" ")[2] for name in wrong(segments)} == ({"refusals"} if mark != "right" else set())


SOON_MS = 15_000
OF_A_WHOLE = ("absent", "is deleted", "before a change", "a day behind", "came out late", "of a replaced file")
"""Spoilings that only the verdict on a whole run must notice."""
MANY = (
    "half of it",
    "all rows are lost",
    "tail is cut",
    "a clock is",
    "read a day late",
    "that is used is lost",
    "falls silent",
    "a day back",
    "a day late, and",
)
"""Spoilings of more than one message."""


@pytest.fixture(scope="module")
def short() -> Evidence:
    return live(short_run(PLAN))


@pytest.fixture(scope="module")
def of_topics(short: Evidence) -> list[Spoiling]:
    """The spoilings that a run in memory can show."""
    found = [
        each
        for each in spoilings(Case(STREAM, short))
        if not (each.name.startswith(("table of", EARLIER_WINDOW)) or "acknowledged" in each.checks)
        and not each.name.endswith(OF_A_WHOLE)
    ]
    assert len(found) > 100
    return found


def in_segments(spoiling: Spoiling, cuts_ms: Iterable[int]) -> list[Segment]:
    question, evidence = spoiling.spoilt()
    # Ten minutes are longer than the bound of these tests.
    limits = replace(LIMITS, outstanding_ms=900_000) if "a clock is" in spoiling.name else LIMITS
    return Ledger(question, evidence, limits).through(cuts_ms)


def is_noticed_once(spoiling: Spoiling, found: Sequence[Segment]) -> bool:
    """One altered message is three faults at most: what is missing, what nothing explains, and its row in a file."""
    red = {(segment.number, check.name) for segment in found for check in segment.checks if check.status != "ok"}
    expected = {name for name in spoiling.checks if not name.startswith(PROMISE)}
    is_once = len({number for number, _ in red}) <= 3 or any(many in spoiling.name for many in MANY)
    return bool(red) and is_once and not expected - {name for _, name in red}


def test_each_spoiling_is_red_in_one_segment_or_when_its_bound_has_passed(of_topics: list[Spoiling]) -> None:
    cuts_ms = range(START_MS, START_MS + 150_000, SOON_MS)
    found = {each.name: in_segments(each, cuts_ms) for each in of_topics}
    assert {
        each.name: wrong(found[each.name]) for each in of_topics if not is_noticed_once(each, found[each.name])
    } == {}


@settings(max_examples=20, phases=UNSHRUNK)
@given(cuts_ms=CUTS, which=st.integers(0, 10_000))
def test_wherever_a_spoilt_run_is_cut_each_fault_is_red_once_or_pending_until_its_bound(
    of_topics: list[Spoiling], cuts_ms: list[int], which: int
) -> None:
    spoiling = of_topics[which % len(of_topics)]
    found = in_segments(spoiling, cuts_ms)
    assert is_noticed_once(spoiling, found), (spoiling.name, wrong(found))
    red = Counter(each for segment in found for check in segment.checks for each in check.offenders)
    assert {each: count for each, count in red.items() if count > 1} == {}, spoiling.name


def test_the_state_does_not_grow_with_the_stream() -> None:
    """Ids and what is remembered of a customer have their own ends: remembered_ms, and the number of customers."""
    plan = replace(PLAN, events=2_400)  # two minutes
    evidence = live(ran(plan, topics(messages(plan))))
    ledger = Ledger(STREAM, evidence, Limits(outstanding_ms=15_000, grace_ms=8_000, copies_ms=15_000))
    sizes = []
    for cut_ms in range(START_MS, START_MS + 120_000, 5_000):
        assert ledger.to(cut_ms).status == "ok"
        kept = [
            line for line in states.lines(ledger.state) if not line.startswith((b'["id"', b'["memory"', b'["view"'))
        ]
        sizes.append(sum(map(len, kept)))
    early, late = sizes[len(sizes) // 3 : len(sizes) * 2 // 3], sizes[len(sizes) * 2 // 3 :]
    assert max(late) < 1.3 * max(early)


def test_of_a_key_that_falls_silent_one_event_of_each_other_stream_is_kept(good: Evidence) -> None:
    ledger = Ledger(STREAM, good, LIMITS)
    kept = []
    for cut_ms in range(START_MS, START_MS + 180_000, 5_000):
        ledger.to(cut_ms)
        kept.append(max(map(len, ledger.state.views.values()), default=0))
    assert max(kept) > kept[-1] == 1


def test_what_arrived_is_counted_for_as_long_as_messages_are_kept(good: Evidence) -> None:
    ledger = Ledger(STREAM, good, LIMITS)
    for cut_ms in range(START_MS, START_MS + 60_000, 5_000):
        ledger.question = replace(STREAM, kept_since_ms=cut_ms - 20_000)
        ledger.to(cut_ms)
    assert [at_ms for at_ms, _ in ledger.state.arrived] == [*range(START_MS + 30_000, START_MS + 60_000, 5_000)]
    arrived_ms = [each.ingest_ms for each in good.raw["transactions"] or ()]
    came = sum(START_MS + 25_000 < at_ms <= START_MS + 55_000 for at_ms in arrived_ms)
    assert sum(counts["transactions"] for _, counts in ledger.state.arrived) == came > 0


def test_an_alert_that_counts_what_came_behind_judged_windows_is_unknown() -> None:
    """The purchase before it was in a window of its own, without an alert, and that is judged and gone."""
    people = {"customer": "a", "segment": "s"}, {"merchant": "m", "category": "c", "place": "p"}
    raw: dict[str, list[Record]] = {kind: [] for kind in pretend.KINDS.values()}
    for kind, known in zip(("customers", "merchants"), people, strict=True):
        raw[kind].append(Record(kind, 0, 0, START_MS - 60_000, b"a", json.dumps(known).encode()))
    arrivals = [(at_ms, at_ms) for at_ms in range(0, 600_000, 20_000)]
    arrivals = sorted([*arrivals, (385_000, 205_000)])
    for number, (arrived_ms, at_ms) in enumerate(arrivals):
        purchase = {"transaction_id": f"t{number}", "customer": "a", "card": "5cea1a10." + "0" * 32, "merchant": "m"}
        purchase |= {"amount_cents": 100, "latitude": 1.0, "longitude": 1.0, "at_ms": START_MS + at_ms}
        purchase["sent_ms"] = START_MS + arrived_ms
        content = json.dumps(purchase).encode()
        raw["transactions"].append(Record("transactions", 0, number, START_MS + arrived_ms, b"a", content))
    question = replace(STREAM, rules=(FRAUD.rule("burst"),), summaries=(), stores=())
    evidence = ran(PLAN, raw, question.rules)
    evidence = replace(evidence, labels=None, outputs={**evidence.outputs, "windows": []})
    assert len(evidence.outputs["alerts"] or ()) == 1
    assert judge(question, evidence).check("lateness").status == "ok"
    segments = Ledger(question, evidence, LIMITS).through(range(START_MS, START_MS + 900_000, 30_000))
    found = [(each.name, each.status) for segment in segments for each in segment.checks if each.status != "ok"]
    assert found == [("alerts: burst", "unknown")]


def trickle(at_ms: Callable[[int, int], int | None], until_ms: int) -> tuple[Question, Evidence]:
    """Pairs of purchases in two partitions, a burst each; `at_ms` is when a purchase was made that arrives then."""
    people = {"customer": "a", "segment": "s"}, {"merchant": "m", "category": "c", "place": "p"}
    raw: dict[str, list[Record]] = {kind: [] for kind in pretend.KINDS.values()}
    for kind, known in zip(("customers", "merchants"), people, strict=True):
        raw[kind].append(Record(kind, 0, 0, START_MS - 60_000, b"a", json.dumps(known).encode()))
    for partition, arrived_ms in product((0, 1), range(0, until_ms, 5_000)):
        if (made_ms := at_ms(partition, arrived_ms)) is None:
            continue
        number = sum(each.partition == partition for each in raw["transactions"])
        purchase = {"transaction_id": f"t{partition}-{number}", "customer": "a", "merchant": "m", "amount_cents": 100}
        purchase |= {"card": f"5cea1a1{partition}." + f"{number // 2:032d}", "latitude": 1.0, "longitude": 1.0}
        purchase |= {"at_ms": START_MS + made_ms, "sent_ms": START_MS + arrived_ms}
        content = json.dumps(purchase).encode()
        raw["transactions"].append(Record("transactions", partition, number, START_MS + arrived_ms, b"a", content))
    raw["transactions"].sort(key=lambda each: each.ingest_ms)
    question = replace(STREAM, rules=(FRAUD.rule("burst"),), stores=())
    return question, replace(live(ran(PLAN, raw, question.rules)), labels=None)


def unknown_in(question: Question, evidence: Evidence) -> set[tuple[int, str]]:
    """The segments of a minute, and their checks, in which windows lack their results: all do, none for too long."""
    outputs = {**evidence.outputs, "windows": [], "alerts": []}
    ledger = Ledger(question, replace(evidence, outputs=outputs), Limits())
    for cut_ms in range(START_MS, START_MS + 660_000, 60_000):
        ledger.to(cut_ms)
    found = [(segment.number, each) for segment in ledger.segments for each in segment.checks if each.status != "ok"]
    assert all((each.status, "event time stands still" in each.why) == ("unknown", True) for _, each in found)
    return {(number, each.name) for number, each in found}


@pytest.mark.parametrize("is_frozen", [lambda partition: partition == 1, lambda partition: True])
def test_windows_that_never_close_are_unknown_after_a_minute(is_frozen: Callable[[int], bool]) -> None:
    """The clock of whoever fills one partition stands still, or that of everybody."""
    question, evidence = trickle(lambda partition, arrived_ms: 0 if is_frozen(partition) else arrived_ms, 600_000)
    found = unknown_in(question, evidence)
    assert {name for _, name in found} == {"alerts: burst", "numbers: spend-per-minute"}
    assert {number for number, _ in found} == set(range(4, 12)), "of the grace, too"


@pytest.mark.parametrize(("name", "first"), [("burst", 9), ("spend-per-minute", 10)])
def test_windows_from_before_a_change_that_never_close_are_not_awaited(name: str, first: int) -> None:
    """An engine may have begun them anew; those behind the change are overdue as ever."""
    question, evidence = trickle(lambda partition, arrived_ms: 0 if partition else arrived_ms, 600_000)
    changed = replace(question, in_force={name: Versions((("v0", START_MS + 300_000),))})
    found = unknown_in(changed, evidence)
    assert {number for number, check in found if check.endswith(name)} == set(range(first, 12))


@pytest.mark.parametrize(
    "at_ms",
    [
        lambda partition, arrived_ms: arrived_ms,
        lambda partition, arrived_ms: None if partition and arrived_ms > 60_000 else arrived_ms,
        lambda partition, arrived_ms: None if arrived_ms > 60_000 else arrived_ms,
        lambda partition, arrived_ms: arrived_ms - 600_000,
        lambda partition, arrived_ms: min(arrived_ms, 2 * arrived_ms - 500_000) if partition else arrived_ms,
    ],
    ids=["live", "an idle partition", "silence", "all ten minutes late", "a backlog of one partition"],
)
def test_windows_that_close_when_time_moves_are_no_fault(at_ms: Callable[[int, int], int | None]) -> None:
    question, evidence = trickle(at_ms, 600_000)
    assert unknown_in(question, evidence) == set()


@pytest.mark.parametrize(
    ("kind", "of", "change", "check"),
    [
        ("alerts", "burst", {"window_start_ms": -1}, "alerts: burst"),
        ("alerts", "spree", {"ingest_ms": None}, "alerts: spree"),
        ("windows", "spend-per-minute", {"window_start_ms": -1}, "numbers: spend-per-minute"),
        ("dead-letters", "type:segment", {"offset": -1}, "refusals"),
    ],
)
def test_an_output_of_no_time_or_place_is_red_and_so_is_its_copy(
    good: Evidence, kind: str, of: str, change: dict[str, Any], check: str
) -> None:
    """A later copy may come once the first is judged."""
    records = good.outputs[kind] or ()
    own = next(each for each in records if of in (read(each).get(name) for name in ("rule", "summary", "reason")))
    wrong_one = replace(own, value=json.dumps({**read(own), **change}).encode())
    copies = [replace(wrong_one, ingest_ms=own.ingest_ms + after_ms) for after_ms in (0, 100_000)]
    evidence = replace(good, outputs={**good.outputs, kind: arrived([*records, *copies])})
    segments = Ledger(STREAM, evidence, LIMITS).through(range(START_MS, START_MS + 200_000, 20_000))
    assert {name.partition(" ")[2] for name in wrong(segments)} >= {check}
