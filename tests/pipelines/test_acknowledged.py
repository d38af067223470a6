"""A recorded run shows what must be in the raw topics, though all that follows from an altered message is right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules.outputs import HOP
from millrace.traffic import plan_for
from millrace.traffic.planned import CLOSING_MS, KEYS, REFERENCES_MS, partition_of
from millrace.traffic.runs import Run
from millrace.verbs.sending import closing_keys
from millrace.verify import Evidence, Question, Verdict, judge
from millrace.verify.planned import planned
from millrace.verify.spoiling import self_test
from millrace.verify.verdict import Check
from pipelines.flood import FLOOD
from pipelines.flood.traffic import TRAFFIC as FLOOD_TRAFFIC
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import CLOSERS, HOURS_MS, QUESTION, SECRETS, START_MS, messages, ran, recorded, topics

EMPTIED: Mapping[str, Any] = {"sent": 0, "by_topic": {}, "content": ""}
PLAN = plan_for(TRAFFIC, 200, 20, seed=3, name="p", customers=30, frauds=0.1, edges=0.1)
Raw = dict[str, list[Record]]


@pytest.fixture(scope="module")
def raw() -> Raw:
    return topics(messages(PLAN))


@pytest.fixture(scope="module")
def good(raw: Raw) -> Evidence:
    return replace(ran(PLAN, raw), read_ms=START_MS + HOURS_MS)


@pytest.fixture
def run(raw: Raw) -> Run:
    return recorded(PLAN, raw)


def asked(*runs: Run) -> Question:
    return replace(QUESTION, runs=runs, secrets=SECRETS)


def red(verdict: Verdict) -> dict[str, str]:
    return {each.name: each.status for each in verdict.checks if each.status != "ok"}


def check(question: Question, evidence: Evidence) -> Check:
    return judge(question, evidence).check("acknowledged")


def test_what_was_sent_is_ok(run: Run, good: Evidence) -> None:
    verdict = judge(asked(run), good)
    assert red(verdict) == {}
    assert verdict.check("acknowledged").figures["runs compared with their plans"] == 1


@pytest.mark.parametrize(
    "about",
    [
        {"plan": {**asdict(PLAN), "events": 10**12}},
        {"plan": {**asdict(PLAN), "events": 10**12, "rate_per_s": 1e308}},
        {"plan": {**asdict(PLAN), "rate_per_s": 1e308, "sizes": {"customers": 0}}},
        {"plan": {**asdict(PLAN), "more": 1}},
        {"plan": {"name": "p", "shares": None}},
        {CLOSING_MS: 10**15},
    ],
)
def test_a_plan_that_gives_no_messages_or_far_too_many_is_not_made_again(
    run: Run, good: Evidence, about: dict[str, Any]
) -> None:
    altered = replace(run, about={**run.about, **about})
    verdict = judge(asked(altered), good)
    assert (red(verdict), verdict.check("acknowledged").figures["runs compared with their plans"]) == ({}, 0)
    assert any(note.startswith("1 of 1 generated run(s) could not be made again") for note in verdict.notes)


def test_keys_of_which_the_traffic_makes_no_closing_are_of_no_plan() -> None:
    plan = plan_for(FLOOD_TRAFFIC, 50, 20, name="f")
    about = {"plan": asdict(plan), KEYS: ["abc"], CLOSING_MS: 1_000, REFERENCES_MS: START_MS}
    run = Run(about, START_MS, 50, {"requests": 50}, 2.5, 20.0, {}, True, content="of other keys")
    found = planned(FLOOD, [run], {}, {"requests": []}, {})
    assert (found.compared, list(found.offenders)) == (0, [])


@pytest.mark.parametrize("kind", ["transactions", "merchants"])
def test_a_message_that_its_topic_had_after_it_was_read_is_red(run: Run, good: Evidence, raw: Raw, kind: str) -> None:
    ends_ms = good.read_ms + QUESTION.bounds.clocks_ms
    last = raw[kind][-1]
    for at_ms, status in ((ends_ms, "ok"), (ends_ms + 1, "failed")):
        more = replace(last, offset=last.offset + 1, ingest_ms=at_ms)
        evidence = replace(good, raw={**raw, kind: [*raw[kind], more]})
        assert check(asked(run), evidence).status == status
        assert check(asked(run), replace(evidence, read_ms=0)).status == "ok"
    assert check(replace(asked(run), is_finite=True), evidence).status == "ok", "its inputs have the times of events"


@pytest.mark.parametrize("changes", [{"content": "0" * 64}, {"content": ""}])
def test_a_run_that_is_not_compared_is_noted(run: Run, raw: Raw, good: Evidence, changes: dict[str, str]) -> None:
    """An altered message is not found then: whoever alters the record, too, leaves the note."""
    altered = json.dumps({**json.loads(raw["transactions"][9].value or b""), "amount_cents": 7}).encode()
    verdict = judge(asked(replace(run, **changes)), ran(PLAN, _with(raw, "transactions", 9, value=altered)))
    assert verdict.check("acknowledged").status == "ok"
    (note,) = [note for note in verdict.notes if "generated run(s)" in note]
    assert note.startswith("1 of 1 generated run(s) could not be made again from the plan")
    assert not any("generated run(s)" in note for note in judge(asked(run), good).notes)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("transactions", "amount_cents", 7),
        ("transactions", "card", "0" * 8 + "." + "1" * 32),
        ("device-locations", "latitude", 1.5),
        ("merchants", "place", "Nowhere"),
    ],
)
def test_an_altered_message_is_red_though_all_that_follows_is_right(
    run: Run, raw: Raw, kind: str, field: str, value: Any
) -> None:
    at = next(n for n, each in enumerate(raw[kind]) if n > len(raw[kind]) // 2 and _has(each, field))
    altered = json.dumps({**json.loads(raw[kind][at].value or b""), field: value}).encode()
    other = _with(raw, kind, at, value=altered)
    found = check(asked(run), ran(PLAN, other))
    assert (found.status, len(found.offenders)) == ("failed", 1)
    assert found.offenders[0].startswith(f"{kind}: a message of ")


def test_a_message_in_the_place_of_another_is_red(run: Run, raw: Raw) -> None:
    """The count is as before."""
    for changed in ({"key": b"somebody"}, {"key": None}, {"value": b"{"}, {"value": None}):
        found = check(asked(run), ran(PLAN, _with(raw, "transactions", 40, **changed)))
        assert (found.status, len(found.offenders)) == ("failed", 1)


def test_messages_of_others_and_copies_are_no_fault(run: Run, raw: Raw) -> None:
    last = raw["transactions"][-1]
    others = [replace(last, offset=last.offset + 1), replace(last, offset=last.offset + 2, value=b"{")]
    merchant = raw["merchants"][0]
    updated = replace(merchant, offset=9_999, ingest_ms=START_MS + 500, value=b'{"merchant":"m-000"}')
    more = {**raw, "transactions": [*raw["transactions"], *others], "merchants": [*raw["merchants"][1:], updated]}
    found = check(asked(run), ran(PLAN, more))
    assert (found.status, found.figures["transactions: of no recorded run"]) == ("ok", 2)


def test_reference_data_is_compacted(run: Run, raw: Raw) -> None:
    """Of a key, Kafka keeps the last message."""
    kept = {kind: list({each.key: each for each in raw[kind]}.values()) for kind in ("merchants", "customers")}
    assert len(kept["merchants"]) < len(raw["merchants"])
    assert check(asked(run), ran(PLAN, {**raw, **kept})).status == "ok"


def test_reference_data_that_is_gone_is_red_though_no_event_needs_it(run: Run, raw: Raw) -> None:
    bought = b"".join(each.value or b"" for each in raw["transactions"])
    kept = [each for each in raw["merchants"] if (each.key or b"") in bought]
    gone = len({each.key for each in raw["merchants"]} - {each.key for each in kept})
    found = check(asked(run), ran(PLAN, {**raw, "merchants": kept}))
    assert (found.status, found.figures["offenders"]) == ("failed", gone)
    later = replace(asked(run), kept_since_ms=START_MS)
    assert check(later, ran(PLAN, {**raw, "merchants": kept})).status == "ok", "it may have been deleted and compacted"


def test_reference_data_under_another_key_is_red_and_a_deleted_one_is_of_somebody_else(run: Run, raw: Raw) -> None:
    first, last = raw["merchants"][0], raw["merchants"][-1]
    other = check(asked(run), ran(PLAN, _with(raw, "merchants", 0, key=b"m-999")))
    assert (other.status, len(other.offenders)) == ("failed", 1)
    deleted = replace(last, offset=last.offset + 1, ingest_ms=START_MS, key=first.key, value=None)
    assert check(asked(run), ran(PLAN, {**raw, "merchants": [*raw["merchants"][1:], deleted]})).status == "ok"


def test_a_run_that_was_interrupted_is_compared_as_far_as_it_was_sent(run: Run, raw: Raw) -> None:
    sent = [each for each in messages(PLAN) if each.topic in run.by_topic][:150]
    fewer = {**topics(sent), **{kind: raw[kind] for kind in raw if kind not in run.by_topic}}
    by_topic = {kind: len(fewer[kind]) for kind in run.by_topic}
    interrupted = replace(run, sent=150, by_topic=by_topic, is_complete=False)
    assert check(asked(interrupted), ran(PLAN, fewer)).status == "ok"
    gone = {**fewer, "transactions": [replace(each, value=b"{") for each in fewer["transactions"]]}
    assert check(asked(interrupted), ran(PLAN, gone)).status == "failed"
    other = {"transactions": by_topic["transactions"] - 1}
    assert check(asked(replace(interrupted, by_topic={**by_topic, **other})), ran(PLAN, fewer)).status == "failed"


def test_two_runs_are_each_compared(run: Run, good: Evidence, raw: Raw) -> None:
    once = check(asked(run, run), good)
    assert once.status == "failed", "each message was acknowledged twice"
    twice = {kind: [*own, *(replace(each, offset=each.offset + 10**6) for each in own)] for kind, own in raw.items()}
    found = check(asked(run, run), ran(PLAN, twice))
    assert (found.status, found.figures["runs compared with their plans"]) == ("ok", 2)


@pytest.mark.parametrize(
    "unlike",
    [
        lambda question: replace(question, secrets=None),
        lambda question: replace(question, runs=[replace(each, content="") for each in question.runs]),
        lambda question: replace(
            question, runs=[replace(each, content="of another version") for each in question.runs]
        ),
        lambda question: replace(question, runs=[replace(each, about={"file": "a.csv"}) for each in question.runs]),
        lambda question: replace(question, runs=[replace(each, about=_earlier(each.about)) for each in question.runs]),
    ],
    ids=["a key is not there", "recorded before", "another version", "from a file", "without its closing"],
)
def test_where_no_plan_gives_the_messages_again_a_figure_shows_it(
    run: Run, good: Evidence, unlike: Callable[[Question], Question]
) -> None:
    found = check(unlike(asked(run)), good)
    assert (found.status, found.figures["runs"], found.figures["runs compared with their plans"]) == ("ok", 1, 0)


@pytest.mark.parametrize(
    "changed",
    [
        lambda run: {"by_topic": {}},
        lambda run: {"by_topic": {**run.by_topic, "device-locations": run.by_topic["device-locations"] - 1}},
        lambda run: {"by_topic": {"transactions": run.by_topic["transactions"]}},
        lambda run: {"sent": run.sent + 1},
        lambda run: {"until_ms": run.until_ms + 5_000},
        lambda run: {"until_ms": run.until_ms - 5_000},
        lambda run: {"until_ms": run.until_ms + 10**9, "content": ""},
        lambda run: {"start_ms": run.start_ms + 10**9, "content": ""},
        lambda run: {"start_ms": run.start_ms + 90_000},
        lambda run: EMPTIED,
        lambda run: {**EMPTIED, "about": {}},
        lambda run: {"behind_ms": {"count": run.sent - 1}},
        lambda run: {"behind_ms": {"p95_ms": 1.5, "p99_ms": 2_000.0, "max_ms": 9.5}},
        lambda run: {"seconds": run.seconds + 10_000, "content": ""},
        lambda run: {"seconds": 1e306},
        lambda run: {"about": {**run.about, KEYS: CLOSERS[::-1]}},
        lambda run: {"about": {**run.about, KEYS: []}},
    ],
)
def test_a_record_that_contradicts_itself_or_its_plan_is_red(
    run: Run, good: Evidence, changed: Callable[[Run], Mapping[str, Any]]
) -> None:
    assert red(judge(asked(replace(run, **changed(run))), good)) == {"acknowledged": "failed"}


def test_a_run_that_is_not_recorded_is_unknown_where_its_bare_hops_show_it(run: Run, placed: Evidence) -> None:
    """Whoever removes a line of the record leaves what the sender sent besides."""
    run, shown = with_hops(run, placed)
    assert red(judge(asked(run), shown)) == {}
    names = ("acknowledged", "labels", "partitions")
    for labels in (shown.labels, None):
        verdict = judge(asked(), replace(shown, labels=labels))
        assert red(verdict) == dict.fromkeys(names, "unknown")
        assert all("no recorded run has the bare hops" in verdict.check(name).why for name in names)
    later = replace(run, start_ms=run.start_ms + 60_000, until_ms=run.until_ms + 60_000, about={})
    assert judge(asked(later), shown).check("acknowledged").status != "ok"


def with_hops(run: Run, evidence: Evidence) -> tuple[Run, Evidence]:
    """The same with two bare hops a second."""
    sent_ms = range(*run.span_ms, 500)
    by_topic = {**run.by_topic, HOP: len(sent_ms)}
    return replace(run, by_topic=by_topic), replace(evidence, hop_sent_ms=[*evidence.hop_sent_ms, *sent_ms])


@pytest.mark.parametrize(
    "changes",
    [
        {"by_topic": {}, "sent": 0, "is_complete": False},
        {"by_topic": {"transactions": 1}, "sent": 1},
        {"by_topic": {"transactions": 1}, "sent": 1, "until_ms": 0, "seconds": 1e306, "is_complete": False},
    ],
)
def test_a_record_of_fewer_bare_hops_than_its_time_has_is_unknown(
    run: Run, placed: Evidence, changes: dict[str, Any]
) -> None:
    """A run that was emptied accounts for none, whatever time it is said to have taken."""
    run, shown = with_hops(run, placed)
    emptied = replace(run, about={}, content="", **changes)
    for labels in (shown.labels, None):
        verdict = judge(asked(emptied), replace(shown, labels=labels))
        assert red(verdict) == dict.fromkeys(("acknowledged", "labels", "partitions"), "unknown")
        assert "bare hops are from" in verdict.check("acknowledged").why


def test_a_run_that_is_said_to_last_longer_does_not_hide_the_next_one(run: Run, placed: Evidence) -> None:
    by_topic = {**run.by_topic, "transactions": run.by_topic["transactions"] - 1}
    run, shown = with_hops(replace(run, by_topic=by_topic, content=""), placed)
    start_ms, until_ms = run.span_ms[1] + 60_000, run.span_ms[1] + 70_000
    file = Run({"file": "a.csv"}, start_ms, 1, {"transactions": 1}, 10.0, 0.1, {}, True, until_ms=until_ms)
    file, shown = with_hops(file, shown)
    assert check(asked(run, file), shown).status == "ok"
    for end_ms, seconds in ((until_ms, 10.0), (0, (until_ms - run.start_ms) / 1_000)):
        found = check(asked(replace(run, until_ms=end_ms, seconds=seconds)), shown)
        assert (found.status, "bare hops are from" in found.why) == ("unknown", True)


def test_the_last_bare_hop_of_an_interrupted_run_and_those_of_two_senders_are_no_fault(
    run: Run, placed: Evidence
) -> None:
    run, shown = with_hops(run, placed)
    interrupted = replace(run, is_complete=False, by_topic={**run.by_topic, HOP: run.by_topic[HOP] - 1}, content="")
    assert check(asked(interrupted), shown).status == "ok"
    other = Run({"file": "a.csv"}, run.start_ms + 500, 1, {"transactions": 1}, 5.0, 1.0, {}, True)
    other, both = with_hops(other, shown)
    more = replace(run, by_topic={**run.by_topic, "transactions": run.by_topic["transactions"] - 1}, content="")
    assert check(asked(more, other), both).status == "ok"
    assert check(asked(more, replace(other, by_topic={"transactions": 1})), both).status == "unknown"


def test_a_line_that_the_record_lacks_makes_what_rests_on_it_unknown(run: Run, placed: Evidence) -> None:
    lacking = replace(asked(run), unrecorded=["line 2 does not follow the line before it"])
    assert red(judge(lacking, placed)) == {"acknowledged": "unknown", "labels": "unknown"}
    assert red(judge(replace(lacking, runs=[]), placed)).keys() == {"acknowledged", "labels", "partitions"}


def test_without_a_record_figures_show_what_nothing_vouches_for(good: Evidence, raw: Raw) -> None:
    """Outside senders leave no record."""
    found = check(asked(), good)
    assert (found.status, found.figures["runs"]) == ("ok", 0)
    assert found.figures["transactions: of no recorded run"] == len(raw["transactions"])


def test_messages_of_other_senders_alone_are_ok_and_a_note_names_what_is_not_held(placed: Evidence) -> None:
    verdict = judge(asked(), replace(placed, labels=None))
    assert (red(verdict), verdict.check("partitions").figures["outputs"]) == ({}, 0)
    assert any(note.startswith("no output is held against the partition of its key") for note in verdict.notes)
    assert "labels" not in {each.name for each in verdict.checks}


@pytest.fixture(scope="module")
def placed(good: Evidence) -> Evidence:
    """The outputs in two partitions, by their keys."""
    found = {kind: _in_order([_moved(each) for each in own or ()]) for kind, own in good.outputs.items()}
    return replace(good, outputs=found, partitions={"transactions": 2, **dict.fromkeys(found, 2)})


def test_each_output_is_in_the_partition_of_its_key(run: Run, placed: Evidence) -> None:
    verdict = judge(asked(run), placed)
    assert (red(verdict), verdict.check("partitions").figures["elsewhere"]) == ({}, 0)
    for kind in ("enriched", "alerts", "windows"):
        own = list(placed.outputs[kind] or ())
        own[-1] = replace(own[-1], partition=1 - own[-1].partition)
        moved = replace(placed, outputs={**placed.outputs, kind: _in_order(own)})
        found = judge(asked(run), moved).check("partitions")
        assert (found.status, len(found.offenders)) == ("unknown", 1)


def test_each_output_in_another_partition_is_noticed_by_the_self_test(run: Run, placed: Evidence) -> None:
    outcomes = {each.name: each.is_noticed for each in self_test(asked(run), placed).outcomes}
    for kind in ("transactions", "enriched", "alerts", "dead-letters", "windows"):
        assert outcomes[f"{kind}: one is in another partition"]
    assert outcomes["transactions: two are in another order"]


def test_a_run_that_is_recorded_with_other_partitions_than_it_had_leaves_no_output_unjudged(
    run: Run, placed: Evidence
) -> None:
    three = closing_keys(lambda number: f"closing-{number}", 3)
    later_ms = run.until_ms + QUESTION.bounds.clocks_ms
    for keys, until_ms, why in (
        (CLOSERS[:1], later_ms, "messages of its time are in 2"),
        (three, run.until_ms, "there are 2 now"),
    ):
        other = replace(run, about={**run.about, KEYS: keys}, until_ms=until_ms)
        verdict = judge(asked(other), placed)
        assert red(verdict) == {"partitions": "unknown"}
        assert verdict.check("partitions").why.endswith(why)


@pytest.mark.parametrize(
    "changed",
    [{}, {"is_complete": False, "seconds": 5.0, "until_ms": START_MS + 3_600_000}],
    ids=["by another clock", "interrupted"],
)
def test_what_came_after_the_first_run_is_in_partitions_that_were_added(
    run: Run, placed: Evidence, changed: Mapping[str, Any]
) -> None:
    """Messages of its time may be of later; an interrupted run is recorded with the end of its plan."""
    first = replace(run, about={**run.about, KEYS: CLOSERS[:1]}, **changed)
    found = judge(asked(first), placed).check("partitions")
    assert (found.status, found.figures["outputs"]) == ("ok", 0)


def test_where_partitions_may_have_been_added_no_output_is_misplaced(run: Run, placed: Evidence) -> None:
    for counts in ({"transactions": 3, "enriched": 3, "alerts": 3, "windows": 3}, {"transactions": 2}, {}):
        assert red(judge(asked(run), replace(placed, partitions=counts))) == {}
    before = replace(run, start_ms=run.start_ms + 7_200_000)
    figures = judge(asked(before), placed).check("partitions").figures
    assert figures["outputs"] == 0, "the topic had messages before the first run"


@pytest.mark.parametrize("kind", ["transactions", "windows", "dead-letters"])
def test_a_topic_with_other_partitions_than_the_others_is_unknown(run: Run, placed: Evidence, kind: str) -> None:
    """A pattern has one number for all of them: some were added by hand, and what is in them may have been moved."""
    found = judge(asked(run), replace(placed, partitions={**placed.partitions, kind: 3}))
    assert red(found) == {"partitions": "unknown"}
    assert f"{kind}: 3" in found.check("partitions").why


def test_outputs_that_are_not_held_against_their_keys_are_noted_by_topic(run: Run, placed: Evidence) -> None:
    first, *others = placed.outputs["dead-letters"] or ()
    earlier = [replace(first, ingest_ms=run.start_ms - 90_000), *others]
    verdict = judge(asked(run), replace(placed, outputs={**placed.outputs, "dead-letters": earlier}))
    assert any(note.startswith("no output of dead-letters is held against") for note in verdict.notes)
    assert not any("is held against" in note for note in judge(asked(run), placed).notes)


@pytest.mark.parametrize("kind", ["transactions", "device-locations"])
def test_an_own_message_in_another_partition_is_red(run: Run, raw: Raw, kind: str) -> None:
    own = list(raw[kind])
    own[20] = replace(own[20], partition=1 - own[20].partition)
    other = replace(ran(PLAN, {**raw, kind: _in_order(own)}), partitions={kind: 2})
    assert check(asked(run), other).status == "failed"
    assert check(asked(run), replace(other, partitions={kind: 3})).status == "ok", "they may have been added"
    of_others = [*raw[kind], replace(own[20], offset=9_999)]
    more = replace(ran(PLAN, {**raw, kind: of_others}), partitions={kind: 2})
    assert check(asked(run), more).status == "ok", "others choose for themselves"


def _moved(record: Record) -> Record:
    return replace(record, partition=partition_of(record.key or b"", 2))


def _in_order(records: Sequence[Record]) -> list[Record]:
    """With the offsets of their partitions."""
    offsets: Counter[int] = Counter()
    found = []
    for each in records:
        found.append(replace(each, offset=offsets[each.partition]))
        offsets[each.partition] += 1
    return found


def _earlier(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if name not in (CLOSING_MS, REFERENCES_MS)}


def _has(record: Record, field: str) -> bool:
    try:
        return field in json.loads(record.value or b"")
    except (ValueError, TypeError):
        return False


def _with(raw: Mapping[str, Sequence[Record]], kind: str, at: int, **changed: Any) -> dict[str, Sequence[Record]]:
    own = list(raw[kind])
    own[at] = replace(own[at], **changed)
    return {**raw, kind: own}


@pytest.mark.parametrize("kind", ["transactions", "device-locations"])
def test_messages_in_another_order_than_their_plan_are_red_though_all_that_follows_is_right(
    run: Run, raw: Raw, kind: str
) -> None:
    own, counts = list(raw[kind]), dict.fromkeys(("transactions", "device-locations"), 2)
    keyed = [n for n, each in enumerate(own) if each.key and each.partition == 0]
    first, second = keyed[len(keyed) // 2 :][:2]
    for one, other in ((first, second), (second, first)):
        own[one] = replace(raw[kind][one], key=raw[kind][other].key, value=raw[kind][other].value)
    exchanged = replace(ran(PLAN, {**raw, kind: own}), partitions=counts)
    found = check(asked(run), exchanged)
    assert (found.status, len(found.offenders)) == ("failed", 1)
    assert found.offenders[0].endswith("is not there in the order in which it was sent")
    added = replace(exchanged, partitions=dict.fromkeys(counts, 3))
    assert check(asked(run), added).status == "ok", "a key may have been in another partition before"


def test_messages_of_others_and_copies_do_not_change_the_order_of_a_run(run: Run, raw: Raw) -> None:
    """A copy comes behind its message, or before it if another sender made the same."""
    own = [each for each in raw["transactions"] if each.partition == 0 and each.key]
    again, others = [*own[:20], own[15], own[3], *own[20:]], [own[10], *own]
    rest = [each for each in raw["transactions"] if each not in own]
    for mixed in (again, others):
        following = [replace(each, offset=1_000 + n) for n, each in enumerate(mixed)]
        evidence = replace(ran(PLAN, {**raw, "transactions": [*rest, *following]}), partitions={"transactions": 2})
        assert check(asked(run), evidence).status == "ok"
