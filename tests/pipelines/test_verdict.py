"""A verdict turns red for every single thing that can go wrong, and only then."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record, measured, summary_events
from millrace.patterns.loss import Loss
from millrace.rules import (
    Count,
    CountDistinct,
    DistinctOthers,
    EventRule,
    Last,
    Max,
    Rule,
    Session,
    Sum,
    WindowRule,
    alert_id,
    km,
)
from millrace.traffic import plan_for
from millrace.verbs.letters import NEVER_REPLAYED
from millrace.verify import Bounds, Evidence, Question, Verdict, Versions, case, judge
from millrace.verify.case import Rows
from millrace.verify.checks import numbers
from millrace.verify.checks.alert_ids import fact_of
from millrace.verify.checks.numbers import is_between, unordered
from millrace.verify.expected import Expected, expect, time_passed_ms
from millrace.verify.marks import Mark, digest_of
from millrace.verify.report import html
from pipelines.fraud import FRAUD
from pipelines.fraud.invented_cards import invented_cards_in
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, SECRETS, START_MS, messages, ran, recorded, topics

# A small town with much crime: 40 seconds of it.
PLAN = plan_for(TRAFFIC, 800, 20, seed=6, name="p", customers=100, frauds=0.1, edges=0.1, races=0.02)


# Hardly anything but edge cases, and long enough for sprees of just two minutes.
EDGES = plan_for(TRAFFIC, 2_200, 12, seed=3, name="e", customers=200, frauds=0, edges=0.3)


@pytest.fixture(scope="module", autouse=True)
def judged_once() -> Iterator[None]:
    """The oracle judges the same input once: it takes half of a verdict's time, and most tests spoil only outputs."""
    known: list[tuple[object, Expected]] = []

    def expected(*given: Any) -> Expected:
        for earlier, found in known:
            if earlier == given:
                return found
        known.append((given, expect(*given)))
        return known[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case, "expect", expected)
        yield


@pytest.fixture(scope="module")
def raw() -> dict[str, list[Record]]:
    return topics(messages(PLAN))


@pytest.fixture(scope="module")
def edges() -> dict[str, list[Record]]:
    return topics(messages(EDGES))


@pytest.fixture(scope="module")
def good(raw: dict[str, list[Record]]) -> Evidence:
    return ran(PLAN, raw)


@pytest.fixture(scope="module")
def short() -> Evidence:
    """Ten seconds of the same town, for tests with many verdicts each."""
    plan = replace(PLAN, events=200)
    return ran(plan, topics(messages(plan)))


def red(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.checks if check.status == "failed"}


def changed(records: Sequence[Record] | None, change: Callable[[dict[str, Any]], object], at: int = 0) -> list[Record]:
    """The records with one of them changed."""
    assert records is not None
    event = json.loads(records[at].value or b"")
    change(event)
    return [*records[:at], replace(records[at], value=json.dumps(event).encode()), *records[at + 1 :]]


def output(evidence: Evidence, kind: str) -> Sequence[Record]:
    return evidence.outputs[kind] or ()


def spoilt(evidence: Evidence, raw: Mapping[str, Sequence[Record]] | None = None, **parts: Any) -> Evidence:
    """The evidence with other outputs and stores; `dead_letters` stands for "dead-letters"."""
    outputs, stores = dict(evidence.outputs), dict(evidence.stores)
    for name, part in parts.items():
        kind, store = name.replace("_", "-"), name.replace("_", " ")
        if kind in outputs:
            outputs[kind] = part
        else:
            assert store in stores, name
            stores[store] = part
    return replace(evidence, raw=raw or evidence.raw, outputs=outputs, stores=stores)


def position(records: Sequence[Record] | None, fits: Callable[[dict[str, Any]], bool]) -> int:
    return next(n for n, record in enumerate(records or ()) if fits(json.loads(record.value or b"")))


def without(records: Sequence[Record] | None, at: int) -> list[Record]:
    assert records is not None
    return [*records[:at], *records[at + 1 :]]


def test_untouched_evidence_is_ok(good: Evidence) -> None:
    verdict = judge(QUESTION, good)
    assert [check for check in verdict.checks if check.status != "ok"] == []
    assert verdict.status == "ok"
    assert all(verdict.check(f"alerts: {rule.name}").figures["expected"] for rule in FRAUD.rules)


BROKEN: dict[str, Rule] = {
    "alerts: above-previous-max": EventRule(
        "above-previous-max",
        "",
        FRAUD.judged,
        lambda now, before: now.amount_cents >= before.highest_cents,
        {"highest_cents": Max("amount_cents")},
    ),
    "alerts: away-from-phone": EventRule(
        "away-from-phone",
        "",
        FRAUD.judged,
        lambda now, before: (km(now, before.phone) > 1.02) & (now.at_ms - before.phone.at_ms <= 900_000),
        {"phone": Last(FRAUD.others[0], "latitude", "longitude", "at_ms")},
    ),
    "alerts: spree": EventRule(
        "spree",
        "",
        FRAUD.judged,
        lambda now, before: before.other_merchants >= 4,
        {"other_merchants": DistinctOthers("merchant", within_ms=119_999)},
    ),
    "alerts: burst-at-once": EventRule(
        "burst-at-once",
        "",
        FRAUD.judged,
        lambda now, before: (before.purchases >= 1) & (now.at_ms - before.newest_ms >= -10_000),
        {"purchases": Count(within_ms=9_999), "newest_ms": Max("at_ms")},
    ),
    "alerts: burst": WindowRule(
        "burst",
        "",
        FRAUD.enriched,
        "card",
        Session(gap_ms=9_999),
        {"n": Count(), "total_cents": Sum("amount_cents")},
        lambda w: w.n >= 2,
    ),
}


@pytest.mark.parametrize("check", BROKEN)
def test_a_build_with_one_rule_slightly_wrong_is_red_for_that_rule(edges: dict[str, list[Record]], check: str) -> None:
    broken = BROKEN[check]
    rules = [broken if rule.name == broken.name else rule for rule in FRAUD.rules]
    assert check in red(judge(QUESTION, ran(EDGES, edges, rules)))


@pytest.mark.parametrize(("gap_ms", "least"), [(10_001, 2), (10_000, 3)])
def test_a_burst_off_by_a_millisecond_or_by_one_is_red(edges: dict[str, list[Record]], gap_ms: int, least: int) -> None:
    measures: dict[str, Any] = {"n": Count(), "total_cents": Sum("amount_cents")}
    burst = WindowRule("burst", "", FRAUD.enriched, "card", Session(gap_ms), measures, lambda w: w.n >= least)
    rules = [burst if rule.name == "burst" else rule for rule in FRAUD.rules]
    assert "alerts: burst" in red(judge(QUESTION, ran(EDGES, edges, rules)))


@pytest.fixture(scope="module")
def with_a_rule_changed(edges: dict[str, list[Record]]) -> tuple[Evidence, int]:
    """A run in the middle of which a rule was changed, and when that was: all that was judged before has old alerts."""
    rule = BROKEN["alerts: away-from-phone"]
    old = ran(EDGES, edges, [rule if each.name == rule.name else each for each in FRAUD.rules])
    new = ran(EDGES, edges)
    since_ms = output(old, "enriched")[len(output(old, "enriched")) // 2].ingest_ms

    def halves(before: Sequence[Record] | None, after: Sequence[Record] | None, at_ms: Callable[[Any], int]):
        return [
            *(record for record in before or () if at_ms(record) < since_ms),
            *(record for record in after or () if at_ms(record) >= since_ms),
        ]

    def of_old_version(record: Record) -> Record:
        alert = json.loads(record.value or b"")
        if alert["rule"] == rule.name and record.ingest_ms < since_ms:
            alert["rule_version"] = "old"
            alert["alert_id"] = alert_id(rule.name, "old", alert["key"], fact_of(alert))
        return replace(record, value=json.dumps(alert).encode())

    alerts = [
        of_old_version(record)
        for record in halves(output(old, "alerts"), output(new, "alerts"), lambda record: record.ingest_ms)
    ]
    enriched = halves(output(old, "enriched"), output(new, "enriched"), lambda record: record.ingest_ms)
    return spoilt(new, enriched=enriched, alerts=alerts, table_of_customers=None), since_ms


def test_alerts_of_an_earlier_version_of_a_rule_do_not_count_against_this_one(
    with_a_rule_changed: tuple[Evidence, int],
) -> None:
    evidence, since_ms = with_a_rule_changed
    assert {"alert ids", "alerts: away-from-phone", "enrichment"} <= red(judge(QUESTION, evidence))
    question = replace(QUESTION, in_force={"away-from-phone": Versions((("old", since_ms),))})
    assert evidence.labels is not None
    verdict = judge(question, replace(evidence, labels=evidence.labels.without({"away-from-phone"})))
    assert red(verdict) == set()
    figures = verdict.check("alerts: away-from-phone").figures
    assert figures["by earlier versions, not judged"]
    assert figures["expected"]


HOUR_MS = 3_600_000


@pytest.mark.parametrize(("ended_ms", "status"), [(-HOUR_MS, "failed"), (HOUR_MS, "ok")])
def test_before_a_version_is_in_force_it_alerts_nothing(good: Evidence, ended_ms: int, status: str) -> None:
    """Unless it was in force before the one that it replaced, which ends two hours after the run."""
    last_ms, now = output(good, "alerts")[-1].ingest_ms, QUESTION.use.rule("spree").version
    versions = Versions(((now, last_ms + ended_ms), ("old", last_ms + 2 * HOUR_MS)))
    question = replace(QUESTION, in_force={"spree": versions})
    assert judge(question, good).check("alert ids").status == status


def test_since_its_change_a_rule_is_judged_as_ever(with_a_rule_changed: tuple[Evidence, int]) -> None:
    evidence, since_ms = with_a_rule_changed
    question = replace(QUESTION, in_force={"away-from-phone": Versions((("old", since_ms),))})
    last = max(
        n for n, r in enumerate(output(evidence, "alerts")) if json.loads(r.value or b"")["rule"] == "away-from-phone"
    )
    assert "alerts: away-from-phone" in red(
        judge(question, spoilt(evidence, alerts=without(output(evidence, "alerts"), last)))
    )
    wrong = changed(output(evidence, "alerts"), lambda alert: alert.update(rule_version="unheard of"), last)
    assert "alert ids" in red(judge(question, spoilt(evidence, alerts=wrong)))
    of_others = replace(question, in_force={"spree": Versions((("old", since_ms),))})
    assert "alerts: away-from-phone" in red(judge(of_others, evidence))


def test_what_an_earlier_enrichment_added_is_not_held_against_this_one(good: Evidence) -> None:
    since_ms = output(good, "enriched")[len(output(good, "enriched")) // 2].ingest_ms
    question = replace(QUESTION, in_force={"enrichment": Versions((("old", since_ms),))})
    for at, status in ((7, "ok"), (len(output(good, "enriched")) - 7, "failed")):
        old = changed(output(good, "enriched"), lambda e: e.pop("merchant_place"), at)
        spent = changed(output(good, "enriched"), lambda e: e.update(amount_cents=1), at)
        assert judge(question, spoilt(good, enriched=old)).status == status
        assert "enrichment" in red(judge(question, spoilt(good, enriched=spent)))


@pytest.mark.parametrize("kind", ["transactions", "enriched"])
def test_where_the_beginning_has_been_deleted_nothing_is_called_right_or_wrong(good: Evidence, kind: str) -> None:
    raw = {**good.raw, "transactions": (good.raw["transactions"] or ())[20:]}
    assert judge(QUESTION, replace(good, raw=raw)).status == "failed"
    verdict = judge(QUESTION, replace(good, raw=raw, deleted=[kind]))
    assert verdict.status == "unknown"
    assert f"the first {kind}, older than what the pattern retains" in verdict.check("conservation").why


def test_what_was_accepted_as_lost_is_named_and_no_verdict_is_ok(good: Evidence) -> None:
    gaps = [Loss("p.transactions", 0, 2, 5, 10, "id", "id", "events"), Loss("p.enriched", 1, 7, 0, 3, "new", "id")]
    verdict = judge(replace(QUESTION, lost=gaps), good)
    assert verdict.status == "unknown"
    check = verdict.check("loss")
    assert (check.status, check.figures["gaps"], check.figures["messages at least"]) == ("unknown", 2, 3)
    assert check.offenders[0].startswith("offsets 2 to 4 of events: p.transactions[0]")
    assert check.offenders[1].startswith("all from offset 7 on of p.enriched[1]")
    page = html(verdict, {})
    assert all(each in page for each in ("p.transactions[0]", "p.enriched[1]", "--accept-loss"))
    assert "deleted before they were read" in verdict.check("conservation").why


def test_what_was_judged_by_other_limits_is_not_judged_by_these(good: Evidence) -> None:
    first_ms = good.raw["transactions"][0].ingest_ms  # type: ignore[index]
    for since_ms, status in ((first_ms, "ok"), (first_ms + 1, "unknown")):
        question = replace(QUESTION, in_force={"limits": Versions((("old", since_ms),))})
        assert judge(question, good).status == status
    assert judge(replace(QUESTION, in_force={"limits": Versions(((None, first_ms + 1),))}), good).status == "ok", (
        "none before"
    )


def retold(raw: Mapping[str, Sequence[Record]], changes: Mapping[int, dict[str, Any]]) -> dict[str, list[Record]]:
    """The raw topics with some purchases changed."""
    purchases = list(raw["transactions"])
    for at, change in changes.items():
        event = json.loads(purchases[at].value or b"")
        purchases[at] = replace(purchases[at], value=json.dumps({**event, **change}).encode())
    return {**{kind: list(records) for kind, records in raw.items()}, "transactions": purchases}


def accepted_at(evidence: Evidence, raw: Mapping[str, Sequence[Record]]) -> list[int]:
    """Where in the topic the accepted purchases are, as they arrived."""
    events = [json.loads(record.value or b"") for record in output(evidence, "enriched")]
    places = {(event["source_partition"], event["source_offset"]) for event in events}
    return [at for at, record in enumerate(raw["transactions"]) if (record.partition, record.offset) in places]


def test_two_customers_may_count_their_purchases_alike(good: Evidence, raw: dict[str, list[Record]]) -> None:
    at = accepted_at(good, raw)
    keys = [raw["transactions"][each].key for each in at]
    other = next(n for n, key in enumerate(keys) if key != keys[0])
    alike = retold(raw, {at[0]: {"transaction_id": "17"}, at[other]: {"transaction_id": "17"}})
    verdict = judge(QUESTION, replace(ran(PLAN, alike), labels=None))
    assert verdict.status == "ok", [check for check in verdict.checks if check.status != "ok"]


def test_a_clock_that_is_ahead_does_not_excuse_a_late_alert(good: Evidence, raw: dict[str, list[Record]]) -> None:
    at = accepted_at(good, raw)
    ahead = next(n for n in at if n > at[len(at) // 4])
    wrong_clock = retold(raw, {ahead: {"at_ms": raw["transactions"][ahead].ingest_ms + 240_000}})
    evidence = replace(ran(PLAN, wrong_clock), labels=None)
    assert judge(QUESTION, evidence).status == "ok"
    later = position(
        output(evidence, "enriched"), lambda e: e["ingest_ms"] > raw["transactions"][ahead].ingest_ms + 5_000
    )
    assert "lateness" in red(judge(QUESTION, called_late(evidence, later)))


@pytest.mark.parametrize(
    ("change", "is_red"),
    [({"merchant": "of-no-reference"}, False), ({"amount_cents": "no number"}, True)],
    ids=["unknown", "unreadable"],
)
def test_events_that_can_be_read_move_time_even_if_a_later_stage_refuses_them(
    good: Evidence, raw: dict[str, list[Record]], change: dict[str, Any], is_red: bool
) -> None:
    at, purchases = accepted_at(good, raw), raw["transactions"]
    late = at[len(at) // 2]
    arrived_ms = purchases[late].ingest_ms
    near = [n for n, each in enumerate(purchases) if n != late and abs(each.ingest_ms - arrived_ms) <= 10_000]
    readable = [n for n in near if n in set(at)]
    changed = retold(raw, {late: {"at_ms": arrived_ms - 6_000}} | dict.fromkeys(readable, change))
    evidence = replace(ran(PLAN, changed), labels=None)
    position_of = position(
        output(evidence, "enriched"),
        lambda event: (
            event["source_offset"] == purchases[late].offset and event["source_partition"] == purchases[late].partition
        ),
    )
    assert ("lateness" in red(judge(QUESTION, called_late(evidence, position_of)))) == is_red


def test_a_clock_that_is_ahead_makes_no_window_due() -> None:
    accepted = {("transactions", 0, 0): {"at_ms": START_MS + 240_000, "ingest_ms": START_MS}}
    assert time_passed_ms("at_ms", accepted, 7_000, 25_000) == START_MS - 7_000


def test_a_dropped_event_is_red(good: Evidence) -> None:
    assert red(judge(QUESTION, spoilt(good, enriched=output(good, "enriched")[1:]))) == {"conservation"}


def test_an_event_out_of_nowhere_is_red(good: Evidence) -> None:
    stray = changed(output(good, "enriched"), lambda e: e.update(source_offset=10**9))
    assert "conservation" in red(judge(QUESTION, spoilt(good, enriched=[*output(good, "enriched"), stray[0]])))


def test_a_lost_dead_letter_is_red(good: Evidence) -> None:
    for kind in ("transactions", "device-locations", "merchants", "customers"):
        at = position(output(good, "dead-letters"), lambda e, kind=kind: e["topic"] == f"pretended.{kind}")
        letters = without(output(good, "dead-letters"), at)
        assert "refusals" in red(judge(QUESTION, spoilt(good, dead_letters=letters)))


def test_a_dead_letter_for_the_wrong_reason_or_with_another_message_is_red(good: Evidence) -> None:
    wrong_reason = changed(output(good, "dead-letters"), lambda e: e.update(reason="json:somewhere"))
    assert red(judge(QUESTION, spoilt(good, dead_letters=wrong_reason))) == {"refusals"}
    carrying = position(output(good, "dead-letters"), lambda e: e["value_base64"] is not None)
    other = changed(output(good, "dead-letters"), lambda e: e.update(value_base64="AAAA"), carrying)
    assert red(judge(QUESTION, spoilt(good, dead_letters=other))) == {"refusals"}


def test_a_dead_letter_that_keeps_a_card_number_is_red(good: Evidence) -> None:
    raw = {(f"pretended.{r.topic}", r.partition, r.offset): r.value for records in good.raw.values() for r in records}

    def is_masked(letter: dict[str, Any]) -> bool:
        return invented_cards_in(raw[letter["topic"], letter["partition"], letter["offset"]] or b"") != set()

    def unmask(letter: dict[str, Any]) -> None:
        value = raw[letter["topic"], letter["partition"], letter["offset"]] or b""
        letter["value_base64"] = base64.b64encode(value).decode()

    masked = position(output(good, "dead-letters"), is_masked)
    kept = changed(output(good, "dead-letters"), unmask, masked)
    verdict = judge(QUESTION, spoilt(good, dead_letters=kept))
    assert red(verdict) == {"refusals"}
    assert "carries other bytes than it must keep" in str(verdict)


def with_letter(evidence: Evidence, letter: Mapping[str, Any]) -> Evidence:
    """The evidence with one more dead letter."""
    letters = output(evidence, "dead-letters")
    last, key = letters[-1], str(letter["topic"]).encode()
    at_ms = max(last.ingest_ms, letter["ingest_ms"])
    more = replace(last, offset=last.offset + 1, ingest_ms=at_ms, key=key, value=json.dumps(letter).encode())
    return spoilt(evidence, dead_letters=[*letters, more])


def sent_again(evidence: Evidence) -> tuple[Evidence, dict[str, Any], Record]:
    """The evidence with a refused message sent again, which is refused as before; its dead letter; and the new one."""
    letters = [json.loads(each.value or b"") for each in output(evidence, "dead-letters")]
    own_topic = [each for each in letters if each["topic"] == "pretended.transactions"]
    refused = next(each for each in own_topic if not each["reason"].startswith((*NEVER_REPLAYED, "unknown:")))
    purchases, partition = evidence.raw["transactions"] or (), refused["partition"]
    own = [each for each in purchases if each.partition == partition]
    (original,) = (each for each in own if each.offset == refused["offset"])
    again = replace(original, offset=own[-1].offset + 1, ingest_ms=own[-1].ingest_ms + 1_000)
    more = replace(evidence, raw={**evidence.raw, "transactions": [*purchases, again]})
    return with_letter(more, {**refused, "offset": again.offset, "ingest_ms": again.ingest_ms}), refused, again


def marked(evidence: Evidence, name: str) -> Evidence:
    """A refused message that was sent again, with the mark of it, or a wrong one."""
    more, refused, again = sent_again(evidence)
    accepted = next(
        each for _, each in case.Case(QUESTION, evidence).enriched if each["source_partition"] != again.partition
    )
    made = Mark(again.partition, again.offset, digest_of(again.key, again.value))
    mark = {**refused, "reason": "replayed", "stage": "replay", "value_base64": made.carried()}
    place = {"topic": "pretended.transactions", "partition": accepted["source_partition"]}
    other = replace(made, partition=accepted["source_partition"], offset=accepted["source_offset"])
    changes: dict[str, dict[str, Any]] = {
        "right": {},
        "of another stage": {"stage": "events"},
        "with a message": {"value_base64": refused["value_base64"] or "QUFB"},
        "of a foreign topic": {"topic": "foreign"},
        "of an accepted event": {**place, "offset": accepted["source_offset"], "ingest_ms": accepted["ingest_ms"]},
        "of no message": {"topic": "pretended.merchants", "partition": 0, "offset": 10**6},
        "of what nobody sent": {"value_base64": replace(made, offset=10**6).carried()},
        "of another message": {"value_base64": other.carried()},
        "of the message itself": {"value_base64": replace(made, offset=refused["offset"]).carried()},
        "of an earlier version": {"value_base64": None},
    }
    return with_letter(more, {**mark, **changes[name]})


MARKS = ("of another stage", "with a message", "of a foreign topic", "of an accepted event", "of no message")
UNSENT = ("of what nobody sent", "of another message", "of the message itself")


def test_a_message_that_was_sent_again_is_marked(good: Evidence) -> None:
    assert judge(QUESTION, marked(good, "right")).status == "ok"


@pytest.mark.parametrize("wrong", [*MARKS, *UNSENT])
def test_a_mark_without_its_dead_letter_or_its_new_message_is_red(good: Evidence, wrong: str) -> None:
    assert red(judge(QUESTION, marked(good, wrong))) == {"refusals"}


def test_a_mark_of_an_earlier_version_names_no_new_message_and_is_unknown(good: Evidence) -> None:
    check = judge(QUESTION, marked(good, "of an earlier version")).check("refusals")
    assert (check.status, check.why.startswith("1 marks of replays")) == ("unknown", True)


def test_a_mark_names_a_message_that_came_just_before_it_alone_and_that_no_run_sent(good: Evidence) -> None:
    right, raw = marked(good, "right"), dict(good.raw)
    letters = output(right, "dead-letters")
    days_later = [*letters[:-1], replace(letters[-1], ingest_ms=letters[-1].ingest_ms + 10**8)]
    assert red(judge(QUESTION, spoilt(right, dead_letters=days_later))) == {"refusals"}
    more, refused, again = sent_again(good)
    sent = {kind: own or () for kind, own in raw.items()}
    asked = replace(QUESTION, runs=[recorded(PLAN, sent)], secrets=SECRETS)
    assert judge(asked, right).status == "ok"
    planned = next(
        e for e in sent["transactions"] if e.partition == again.partition and e.ingest_ms > refused["ingest_ms"]
    )
    named = Mark(planned.partition, planned.offset, digest_of(planned.key, planned.value)).carried()
    mark = {**refused, "reason": "replayed", "stage": "replay", "value_base64": named}
    assert red(judge(asked, with_letter(more, mark))) == {"refusals"}
    other = next(
        letter
        for each in output(good, "dead-letters")
        if (letter := json.loads(each.value or b""))["topic"] == refused["topic"]
        and not letter["reason"].startswith(NEVER_REPLAYED)
        and letter["offset"] != refused["offset"]
    )
    both = {**other, "reason": "replayed", "stage": "replay"}
    both["value_base64"] = json.loads(letters[-1].value or b"")["value_base64"]
    assert red(judge(QUESTION, with_letter(right, both))) == {"refusals"}


def test_a_refusal_of_reference_data_that_never_was_is_red(good: Evidence) -> None:
    refused = json.loads(output(good, "dead-letters")[0].value or b"")
    at = {"topic": "pretended.merchants", "partition": 0, "reason": "json", "stage": "events"}
    for offset, status in ((10**6, "failed"), (len(good.raw["merchants"] or ()), "failed")):
        assert (
            judge(QUESTION, with_letter(good, {**refused, **at, "offset": offset})).check("refusals").status == status
        )
    gone = list(good.raw["merchants"] or ())
    del gone[1]
    compacted = replace(good, raw={**good.raw, "merchants": gone})
    question = replace(QUESTION, kept_since_ms=gone[-1].ingest_ms + 1)
    found = judge(question, with_letter(compacted, {**refused, **at, "offset": 1}))
    assert "behind the end" not in str(found.check("refusals").offenders)


def test_a_late_dead_letter_carries_its_message_or_none(good: Evidence) -> None:
    at = position(output(good, "enriched"), lambda event: event["ingest_ms"] > START_MS + 10_000)
    for carried, is_red in (("", True), ("QUFB", True), (None, False)):
        called = called_late(good, at)
        letters = changed(
            output(called, "dead-letters"),
            lambda letter, carried=carried: letter.update(value_base64=carried),
            len(output(called, "dead-letters")) - 1,
        )
        assert ("refusals" in red(judge(QUESTION, spoilt(called, dead_letters=letters)))) == is_red


def test_an_event_both_accepted_and_refused_is_red(good: Evidence) -> None:
    event = json.loads(output(good, "enriched")[0].value or b"")
    origin = {"topic": event["source_topic"], "partition": event["source_partition"], "offset": event["source_offset"]}
    letters = [*output(good, "dead-letters"), *changed(output(good, "dead-letters")[:1], lambda e: e.update(origin))]
    assert "conservation" in red(judge(QUESTION, spoilt(good, dead_letters=letters)))


def test_a_second_copy_of_an_alert_or_event_is_counted_and_does_no_harm(good: Evidence) -> None:
    twice = spoilt(
        good,
        alerts=[*output(good, "alerts"), output(good, "alerts")[0]],
        enriched=[*output(good, "enriched"), output(good, "enriched")[5]],
        dead_letters=[*output(good, "dead-letters"), output(good, "dead-letters")[2]],
    )
    verdict = judge(QUESTION, twice)
    rule = json.loads(output(good, "alerts")[0].value or b"")["rule"]
    assert verdict.status == "ok"
    assert verdict.check(f"alerts: {rule}").figures["copies"] == 1
    assert verdict.check("conservation").figures["copies"] == 1


@pytest.mark.parametrize("rule", [rule.name for rule in FRAUD.rules])
def test_a_missing_alert_is_red(good: Evidence, rule: str) -> None:
    at = position(output(good, "alerts"), lambda e: e["rule"] == rule and e["at_ms"] < START_MS + 40_000)
    gone = json.loads(output(good, "alerts")[at].value or b"")
    verdict = judge(QUESTION, spoilt(good, alerts=without(output(good, "alerts"), at)))
    assert f"alerts: {rule}" in red(verdict)
    assert fact_of(gone) in verdict.check(f"alerts: {rule}").offenders[0]
    assert not verdict.is_final, "it may still come"


@pytest.mark.parametrize("rule", [rule.name for rule in FRAUD.rules])
def test_a_second_id_for_the_same_fact_is_red(good: Evidence, rule: str) -> None:
    at = position(output(good, "alerts"), lambda e: e["rule"] == rule)
    again = changed(output(good, "alerts")[at : at + 1], lambda e: e.update(alert_id="0" * 32))
    verdict = judge(QUESTION, spoilt(good, alerts=[*output(good, "alerts"), *again]))
    assert {f"alerts: {rule}", "alert ids"} <= red(verdict)
    assert verdict.is_final


@pytest.mark.parametrize("rule", [rule.name for rule in FRAUD.rules])
def test_a_wrong_operand_is_red(good: Evidence, rule: str) -> None:
    at = position(output(good, "alerts"), lambda e: e["rule"] == rule)

    def spoil(alert: dict[str, Any]) -> None:
        name = sorted(alert["operands"])[0]
        alert["operands"][name] = str(float(alert["operands"][name]) + 0.001)

    assert red(judge(QUESTION, spoilt(good, alerts=changed(output(good, "alerts"), spoil, at)))) == {f"alerts: {rule}"}


def test_an_invented_alert_is_red(good: Evidence) -> None:
    def move(alert: dict[str, Any]) -> None:
        alert["event_ids"] = ["p-t00000001"]
        alert["alert_id"] = alert_id(alert["rule"], alert["rule_version"], alert["key"], "p-t00000001")

    at = position(output(good, "alerts"), lambda e: e["rule"] == "above-previous-max")
    invented = changed(output(good, "alerts")[at : at + 1], move)
    assert "alerts: above-previous-max" in red(
        judge(QUESTION, spoilt(good, alerts=[*output(good, "alerts"), *invented]))
    )


def test_an_unreadable_message_is_red(good: Evidence) -> None:
    garbage = Record("alerts", 0, 10**6, START_MS, None, b"{")
    verdict = judge(QUESTION, spoilt(good, alerts=[*output(good, "alerts"), garbage]))
    assert "readable" in red(verdict)
    assert verdict.is_final


def test_wrong_enrichment_is_red(good: Evidence) -> None:
    for wrong in ({"merchant_category": "nonsense"}, {"flags": ["burst"]}, {"phone_at_ms": 1}, {"amount_cents": 1}):
        enriched = changed(output(good, "enriched"), lambda e, wrong=wrong: e.update(wrong), 7)
        assert red(judge(QUESTION, spoilt(good, enriched=enriched))) == {"enrichment"}, wrong


REFERENCES = tuple(reference.name for reference in FRAUD.references)


def of_references(record: Record) -> bool:
    return json.loads(record.value or b"")["topic"].endswith(REFERENCES)


def test_reference_data_sent_again_and_compacted_was_known_before(good: Evidence) -> None:
    later_ms = 3_600_000
    count = {name: len(good.raw[name] or ()) for name in REFERENCES}

    def later(name: str) -> list[Record]:
        records = good.raw[name] or ()
        return [replace(r, offset=r.offset + count[name], ingest_ms=r.ingest_ms + later_ms) for r in records]

    def refused_again(letter: dict[str, Any]) -> None:
        letter["offset"] += count[letter["topic"].removeprefix("pretended.")]
        letter["ingest_ms"] += later_ms

    # What was refused is refused once more; the dead letters of what is gone stay, and nobody calls them made up.
    letters = output(good, "dead-letters")
    refused = [changed([letter], refused_again)[0] for letter in letters if of_references(letter)]
    again = [replace(each, ingest_ms=each.ingest_ms + later_ms) for each in refused]
    raw = {**good.raw, **{name: later(name) for name in REFERENCES}}
    question = replace(QUESTION, kept_since_ms=2 * later_ms + START_MS)
    assert judge(question, spoilt(good, raw=raw, dead_letters=[*letters, *again])).status == "ok"


@pytest.mark.parametrize(("kept_since_ms", "status"), [(START_MS, "ok"), (10 * START_MS, "failed")])
def test_reference_data_that_came_after_a_gap_is_new_while_nothing_of_its_time_is_compacted(
    raw: dict[str, list[Record]], kept_since_ms: int, status: str
) -> None:
    later, *merchants = raw["merchants"]
    good = ran(PLAN, {**raw, "merchants": merchants})
    late_ms = max(record.ingest_ms for record in raw["transactions"]) + 60_000
    after_a_gap = replace(later, offset=merchants[-1].offset + 2, ingest_ms=late_ms)
    evidence = replace(good, raw={**good.raw, "merchants": [*merchants, after_a_gap]})
    verdict = judge(replace(QUESTION, kept_since_ms=kept_since_ms), evidence)
    assert verdict.check("refusals").status == status


@pytest.mark.parametrize(("since_ms", "status"), [(START_MS, "ok"), (0, "failed")])
def test_reference_data_outlives_its_dead_letters(good: Evidence, since_ms: int, status: str) -> None:
    letters = [letter for letter in output(good, "dead-letters") if not of_references(letter)]
    verdict = judge(replace(QUESTION, kept_since_ms=since_ms), spoilt(good, dead_letters=letters))
    assert verdict.check("refusals").status == status


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(("later_ms", "status"), [(3_600_000, "ok"), (0, "failed")])
def test_reference_data_that_was_deleted_is_known_until_then(
    good: Evidence, later_ms: int, status: str, is_compacted: bool
) -> None:
    merchants = list(good.raw["merchants"] or ())
    first, last = merchants[0], merchants[-1]
    gone = replace(last, offset=last.offset + 2, ingest_ms=last.ingest_ms + later_ms, key=first.key, value=None)
    if is_compacted:
        # The first was sent again, and what stood there before has been taken away.
        merchants = [*merchants[1:], replace(first, offset=last.offset + 1, ingest_ms=last.ingest_ms)]
    question = replace(QUESTION, kept_since_ms=last.ingest_ms + 1 if is_compacted else 0)
    verdict = judge(question, replace(good, raw={**good.raw, "merchants": [*merchants, gone]}))
    assert (verdict.status, verdict.check("refusals").status) == (status, status)


def test_calling_a_punctual_event_late_is_red(good: Evidence) -> None:
    assert "lateness" in red(judge(QUESTION, called_late(good, 50)))


@pytest.mark.parametrize(("counts_late", "copies", "status"), [(True, 1, "ok"), (False, 2, "ok"), (False, 1, "failed")])
def test_a_row_that_counts_an_event_contradicts_its_late_letter_unless_the_event_was_read_twice(
    good: Evidence, counts_late: bool, copies: int, status: str
) -> None:
    again = [replace(output(good, "enriched")[50], offset=10**6)] * (copies - 1)
    called = spoilt(called_late(good, 50), enriched=[*output(good, "enriched"), *again])
    (summary,) = QUESTION.summaries
    verdict = judge(replace(QUESTION, counts_late=counts_late), called)
    assert verdict.check(f"numbers: {summary.name}").status == status


def called_late(evidence: Evidence, at: int) -> Evidence:
    """The evidence with a dead letter that calls one of the accepted events late."""
    event = json.loads(output(evidence, "enriched")[at].value or b"")
    late = {"reason": "late", "partition": event["source_partition"], "offset": event["source_offset"]}
    late |= {"topic": "pretended.transactions", "ingest_ms": event["ingest_ms"], "stage": "windows"}
    record = Record("dead-letters", 0, 10**6, START_MS, None, json.dumps(late).encode())
    return spoilt(evidence, dead_letters=[*output(evidence, "dead-letters"), record])


@pytest.mark.parametrize(
    ("came_out_twice", "status"),
    [("the late one", "ok"), ("another", "failed"), ("none", "failed")],
)
def test_an_alert_from_before_a_restart_may_count_an_event_that_is_late_when_it_is_read_again(
    good: Evidence, came_out_twice: str, status: str
) -> None:
    alerts = [json.loads(record.value or b"") for record in output(good, "alerts")]
    pair = next(each for each in alerts if each["rule"] == "burst" and each["operands"]["n"] == "2")
    enriched = output(good, "enriched")
    at = position(enriched, lambda event: event[FRAUD.judged.id or ""] == pair["event_ids"][0])
    again = {"the late one": [enriched[at]], "another": [enriched[at - 1]], "none": []}[came_out_twice]
    copies = [replace(each, offset=10**6) for each in again]
    check = judge(QUESTION, spoilt(called_late(good, at), enriched=[*enriched, *copies])).check("alerts: burst")
    assert (check.status, check.figures["races"]) == (status, status == "ok")
    wrong = position(output(good, "alerts"), lambda each: each["alert_id"] == pair["alert_id"])
    other = changed(output(good, "alerts"), lambda each: each["operands"].update(total_cents="1"), wrong)
    spoiled = spoilt(called_late(good, at), enriched=[*enriched, *copies], alerts=other)
    assert judge(QUESTION, spoiled).check("alerts: burst").status == "failed"


def test_a_wrong_or_missing_number_in_a_summary_is_red(good: Evidence) -> None:
    wrong = changed(output(good, "windows"), lambda row: row.update(total_cents=row["total_cents"] + 1))
    assert red(judge(QUESTION, spoilt(good, windows=wrong))) == {"numbers: spend-per-minute"}
    assert red(judge(QUESTION, spoilt(good, windows=output(good, "windows")[1:]))) == {"numbers: spend-per-minute"}


def rows_of_one_window(good: Evidence, *changes: Mapping[str, Any]) -> Evidence:
    """The evidence in which one window has several rows, the right ones with these changes."""
    first, *others = output(good, "windows")
    row = json.loads(first.value or b"")
    at_ms = first.ingest_ms
    of_first = [
        replace(
            first, offset=10**6 + n, ingest_ms=at_ms - n, value=json.dumps({**row, **change, "emit_ms": at_ms}).encode()
        )
        for n, change in enumerate(changes)
    ]
    return spoilt(good, windows=[*others, *of_first])


def without_last(good: Evidence, row: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a window before its last event came out."""
    (summary,) = FRAUD.summaries
    events = summary_events(summary, [json.loads(each.value or b"") for each in output(good, "enriched")])
    *first, _ = events[row["window_start_ms"], *(row[name] for name in summary.keys)]
    return measured(summary, first)


def test_an_earlier_row_of_a_window_counts_its_first_events(good: Evidence) -> None:
    row = json.loads(output(good, "windows")[0].value or b"")
    fewer = without_last(good, row)
    assert judge(QUESTION, rows_of_one_window(good, fewer, {})).status == "ok"
    for right in ({}, fewer):
        for name in ("purchases", "total_cents"):
            for number in ((right or row)[name] + 1, (right or row)[name] - 1, -1, 0):
                found = judge(QUESTION, rows_of_one_window(good, {**right, name: number}, {}))
                assert red(found) == {"numbers: spend-per-minute"}, (name, number)


def test_the_last_row_of_a_window_is_that_with_the_last_offset(good: Evidence) -> None:
    """A broker's clock is set back by a millisecond for each row."""
    row = json.loads(output(good, "windows")[0].value or b"")
    fewer = without_last(good, row)
    assert red(judge(QUESTION, rows_of_one_window(good, {}, fewer))) == {"numbers: spend-per-minute"}
    assert judge(QUESTION, rows_of_one_window(good, fewer, {})).status == "ok"


def test_a_number_that_only_late_events_have_may_be_any_of_theirs() -> None:
    in_time, with_late = {"largest_cents": None}, {"largest_cents": 7}
    assert all(is_between({"largest_cents": cents}, in_time, with_late) for cents in (None, 3, 7))


def test_of_a_large_window_measures_that_cannot_be_combined_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    (declared,) = FRAUD.summaries
    summary = replace(declared, measures={"purchases": Count(), "cards": CountDistinct("card")})
    parts = [[{"card": f"{part}-{n}"} for n in range(20)] for part in range(2)]
    rows_of = Rows({}, {(): measured(summary, [*parts[0], *parts[1]])}, {}, {})
    right, wrong = {"purchases": 10, "cards": 10}, {"purchases": 10, "cards": 9}
    assert [*unordered(summary, rows_of, (), [right], parts)] == []
    assert len([*unordered(summary, rows_of, (), [wrong], parts)]) == 1
    monkeypatch.setattr(numbers, "MEASURED_MOST", 100)
    assert [*unordered(summary, rows_of, (), [wrong], parts)] == []


def test_a_row_of_an_open_window_counts_its_first_events(good: Evidence) -> None:
    rows = [json.loads(record.value or b"") for record in output(good, "windows")]
    at = max(range(len(rows)), key=lambda n: (rows[n]["window_start_ms"], rows[n]["purchases"]))
    fewer = changed(output(good, "windows"), lambda row: row.update(without_last(good, rows[at])), at)
    assert judge(QUESTION, spoilt(good, windows=fewer)).status == "ok"
    more = changed(output(good, "windows"), lambda row: row.update(purchases=row["purchases"] + 1), at)
    assert red(judge(QUESTION, spoilt(good, windows=more))) == {"numbers: spend-per-minute"}


def test_missing_doubled_and_wrong_rows_in_files_are_red(good: Evidence) -> None:
    rows = list(good.stores["files"] or ())
    shorter = {name: value for name, value in rows[0].items() if name != "merchant_place"}
    for other in (rows[1:], [*rows, rows[0]], [{**rows[0], "amount_cents": 1}, *rows[1:]], [shorter, *rows[1:]]):
        assert red(judge(QUESTION, spoilt(good, files=other))) == {"files"}


def test_missing_and_wrong_rows_in_tables_are_red(good: Evidence) -> None:
    transactions, customers = (
        dict(good.stores["table of transactions"] or {}),
        dict(good.stores["table of customers"] or {}),
    )
    key, customer = sorted(transactions)[0], sorted(customers)[0]
    less = {k: v for k, v in transactions.items() if k != key}
    assert red(judge(QUESTION, spoilt(good, table_of_transactions=less))) == {"table of transactions"}
    wrong = transactions | {key: {**transactions[key], b"t:amount_cents": b"1"}}
    assert red(judge(QUESTION, spoilt(good, table_of_transactions=wrong))) == {"table of transactions"}
    elsewhere = customers | {customer: {**customers[customer], b"s:phone": b'{"at_ms": 1}'}}
    assert red(judge(QUESTION, spoilt(good, table_of_customers=elsewhere))) == {"table of customers"}
    lower = customers | {customer: {**customers[customer], b"s:highest_cents": b"1"}}
    assert red(judge(QUESTION, spoilt(good, table_of_customers=lower))) == {"table of customers"}


def test_what_could_not_be_read_is_unknown_and_never_ok(short: Evidence) -> None:
    for kind in short.outputs:
        assert judge(QUESTION, replace(short, outputs={**short.outputs, kind: None})).status == "unknown", kind
        assert (
            judge(QUESTION, replace(short, outputs={k: v for k, v in short.outputs.items() if k != kind})).status
            == "unknown"
        )
    for store in short.stores:
        assert judge(QUESTION, replace(short, stores={**short.stores, store: None})).status == "unknown", store
    assert judge(QUESTION, replace(short, raw=dict(short.raw) | {"device-locations": None})).status == "unknown"
    assert judge(QUESTION, Evidence(raw={})).status == "unknown"
    assert judge(QUESTION, replace(ran(PLAN, topics([])), labels=None)).status == "unknown"


@pytest.mark.parametrize("kind", ["enriched", "alerts", "dead-letters", "windows"])
def test_an_output_without_one_of_its_fields_is_red(good: Evidence, short: Evidence, kind: str) -> None:
    evidence = good if kind == "windows" else short  # no minute is over within ten seconds
    for name, value in json.loads(output(evidence, kind)[0].value or b"").items():
        if value is not None:
            lacking = changed(output(evidence, kind), lambda event, name=name: event.pop(name))
            outputs = {**evidence.outputs, kind: lacking}
            assert judge(QUESTION, replace(evidence, outputs=outputs)).status == "failed", name


def test_windows_that_may_still_be_open_are_unknown_rather_than_ok(good: Evidence) -> None:
    patient = replace(QUESTION, bounds=Bounds(closing_ms=10_000_000))
    verdict = judge(patient, good)
    assert verdict.check("alerts: burst").status == "unknown"
    assert verdict.status == "unknown"


def test_a_broken_promise_is_reported_beside_the_verdict_and_not_in_it(good: Evidence) -> None:
    verdict = judge(replace(QUESTION, promises={"alert_latency_ms_p99": 1}), good)
    assert (verdict.status, verdict.promises_status) == ("ok", "broken")
    verdict = judge(replace(QUESTION, promises={"something_else": 1}), good)
    assert (verdict.status, verdict.promises_status) == ("ok", "unknown")


def test_what_is_slow_while_it_is_cold_breaks_no_promise_and_what_is_slow_later_does(good: Evidence) -> None:
    first_ms, last_ms = (pick(map(_sent_ms, output(good, "enriched"))) for pick in (min, max))
    middle_ms = (first_ms + last_ms) // 2
    promised = replace(QUESTION, promises={"alert_latency_ms_p99": 60_000})
    question = replace(promised, began_ms=[first_ms], warm_after_ms=middle_ms - first_ms + 2)

    def kept(question: Question, is_slow: Callable[[int], bool]) -> str:
        hour = 3_600_000
        alerts = [replace(r, ingest_ms=r.ingest_ms + hour * is_slow(_sent_ms(r))) for r in output(good, "alerts")]
        return judge(question, spoilt(good, alerts=alerts)).promises_status

    assert kept(question, lambda sent_ms: sent_ms < middle_ms) == "kept"
    assert kept(question, lambda sent_ms: sent_ms >= middle_ms) == "broken"
    assert kept(promised, lambda sent_ms: sent_ms < middle_ms) == "broken"
    # Each tape begins cold: a job may have been started anew before it.
    later = replace(question, began_ms=[middle_ms])
    assert (kept(later, lambda ms: ms >= middle_ms), kept(later, lambda ms: ms < middle_ms)) == ("kept", "broken")
    assert kept(replace(promised, warm_after_ms=2 * (last_ms - first_ms)), lambda sent_ms: False) == "unknown"


def _sent_ms(record: Record) -> int:
    sent_ms: int = json.loads(record.value or b"{}")["sent_ms"]
    return sent_ms


class TestRace:
    """Two topics have no common order: the view that the engine reports must be among the possible ones."""

    def shifted(self, raw: dict[str, list[Record]], by_ms: int, for_ms: int) -> dict[str, list[Record]]:
        """The topics as an engine sees them that reads locations a little later or earlier, for a while."""
        moved = [
            replace(record, ingest_ms=record.ingest_ms + by_ms * (record.ingest_ms < START_MS + for_ms))
            for record in raw["device-locations"]
        ]
        return raw | {"device-locations": moved}

    def seen(self, raw: dict[str, list[Record]], good: Evidence, by_ms: int, for_ms: int = 3_600_000) -> Evidence:
        evidence = ran(PLAN, self.shifted(raw, by_ms, for_ms))
        letters = [
            record
            for record in output(good, "dead-letters")
            if json.loads(record.value or b"")["topic"].endswith("device-locations")
        ]
        others = [
            record
            for record in output(evidence, "dead-letters")
            if not json.loads(record.value or b"")["topic"].endswith("device-locations")
        ]
        return spoilt(evidence, raw=raw, dead_letters=[*letters, *others])

    @pytest.mark.parametrize("by_ms", [-300, 300])
    def test_a_small_shift_is_no_error_and_is_counted(
        self, raw: dict[str, list[Record]], good: Evidence, by_ms: int
    ) -> None:
        verdict = judge(QUESTION, self.seen(raw, good, by_ms, for_ms=8_000))
        assert verdict.status == "ok"
        assert verdict.check("enrichment").figures["races"]

    @pytest.mark.parametrize("by_ms", [-30_000, 30_000])
    def test_a_large_shift_is_an_error(self, raw: dict[str, list[Record]], good: Evidence, by_ms: int) -> None:
        assert "enrichment" in red(judge(QUESTION, self.seen(raw, good, by_ms)))

    def test_an_alert_of_an_earlier_attempt_is_admissible_by_its_own_operands(
        self, raw: dict[str, list[Record]], good: Evidence
    ) -> None:
        other = self.seen(raw, good, 300)
        attempts = spoilt(good, alerts=[*output(other, "alerts"), *output(good, "alerts")])
        verdict = judge(QUESTION, attempts)
        ids = [
            {json.loads(record.value or b"")["alert_id"] for record in output(each, "alerts")} for each in (other, good)
        ]
        assert verdict.check("alerts: away-from-phone").figures["races"] == len(ids[0] - ids[1]) > 0
        assert red(verdict) == {"table of customers"}  # it holds the alerts of one attempt only
