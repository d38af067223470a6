"""What a spoiler may alter who has read the verdict: each of it is red or unknown, in the whole and in a ledger."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.patterns import load
from millrace.traffic import plan_for
from millrace.verbs.validation import bounds_of, question_about
from millrace.verify import Evidence, Question, judge
from millrace.verify.case import Case
from millrace.verify.evidence import Versions
from millrace.verify.spoiling import spoilings
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend
from tests.pipelines.pretend import START_MS, messages, ran, summary_rows, topics
from tests.pipelines.segmented import Ledger, again, wrong
from tests.pipelines.test_segments import LAST_MS, LIMITS, STREAM, arrived, in_order, live, read, trickle
from tests.pipelines.test_verdict import accepted_at, retold

PLAN = plan_for(TRAFFIC, 800, 20, seed=3, name="p", customers=100, frauds=0.1, edges=0.1, races=0.02)
(CHART,) = FRAUD.summaries
NUMBERS = f"numbers: {CHART.name}"


HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def good() -> Evidence:
    """A run with purchases that are late by seconds, and by an hour."""
    raw = topics(messages(PLAN))
    plain = ran(PLAN, raw)
    at = accepted_at(plain, raw)[40:150:10]
    made_ms = {n: json.loads(raw["transactions"][n].value or b"")["at_ms"] for n in at}
    late = {n: {"at_ms": made_ms[n] - (8_000 if number % 2 else HOUR_MS)} for number, n in enumerate(at)}
    return replace(live(ran(PLAN, retold(raw, late))), labels=None)


def with_output(evidence: Evidence, kind: str, records: Sequence[Record]) -> Evidence:
    return replace(evidence, outputs={**evidence.outputs, kind: records})


def changed(record: Record, **columns: Any) -> Record:
    return replace(record, value=json.dumps({**read(record), **columns}).encode())


def in_segments(evidence: Evidence, question: Question = STREAM) -> set[str]:
    """The checks that are not ok in some segment."""
    segments = Ledger(question, evidence, LIMITS).through(range(START_MS, LAST_MS, 10_000))
    return {name.partition(" ")[2] for name in wrong(segments)}


def not_ok(evidence: Evidence, question: Question = STREAM) -> set[str]:
    return {check.name for check in judge(question, evidence).checks if check.status != "ok"}


@pytest.fixture(scope="module")
def counting(good: Evidence) -> Evidence:
    return counting_late(good)


def counting_late(good: Evidence, late_ms: int = START_MS + 45_000) -> Evidence:
    """The run whose chart counts all that is late; what is an hour old came by that time."""
    rows = summary_rows([read(each) for each in good.outputs["enriched"] or ()])
    rows = [row | {"emit_ms": max(row["window_end_ms"], late_ms * (row["window_end_ms"] < START_MS))} for row in rows]
    rows = [row | {"emit_ms": row["emit_ms"] + 10_000} for row in rows]
    return with_output(good, "windows", in_order("windows", rows, "emit_ms"))


def tried(evidence: Evidence, name: str, question: Question = STREAM) -> int:
    """How many spoilings with this in their names the run allows; each is noticed by its check."""
    own = [each for each in spoilings(Case(question, evidence)) if name in each.name]
    for each in own:
        found = {check.name for check in judge(*each.spoilt()).checks if check.status != "ok"}
        assert found >= set(each.checks), each.name
    return len(own)


class TestRowsWithLateEvents:
    """A chart with a watermark of its own may count events that are late for the rules: all of them, or some."""

    def late_rows(self, evidence: Evidence) -> list[int]:
        """Where the rows are that count late events."""
        late = {(each["partition"], each["offset"]) for each in self.letters(evidence)}
        events = [read(each) for each in evidence.outputs["enriched"] or ()]
        own = summary_rows([each for each in events if (each["source_partition"], each["source_offset"]) in late])
        keys = {tuple(row[name] for name in ("window_start_ms", *CHART.keys)) for row in own}
        rows = [read(each) for each in evidence.outputs["windows"] or ()]
        return [n for n, row in enumerate(rows) if tuple(row[k] for k in ("window_start_ms", *CHART.keys)) in keys]

    def letters(self, evidence: Evidence) -> list[dict[str, Any]]:
        return [each for each in map(read, evidence.outputs["dead-letters"] or ()) if each["reason"] == "late"]

    def test_they_may_count_them(self, counting: Evidence) -> None:
        assert len(self.late_rows(counting)) > 3
        assert not_ok(counting) == set()
        assert in_segments(counting) == set()

    def test_charts_that_leave_out_what_is_late_may_not(self, counting: Evidence, good: Evidence) -> None:
        strict = replace(STREAM, counts_late=False)
        assert not_ok(good, strict) == in_segments(good, strict) == set()
        assert not_ok(counting, strict) == in_segments(counting, strict) == {NUMBERS}

    @pytest.mark.parametrize("column", ["total_cents", "largest_cents", "purchases"])
    def test_another_number_is_red(self, counting: Evidence, column: str) -> None:
        rows = list(counting.outputs["windows"] or ())
        for at in self.late_rows(counting)[:3]:
            less = changed(rows[at], **{column: read(rows[at])[column] - 1})
            spoilt = with_output(counting, "windows", [*rows[:at], less, *rows[at + 1 :]])
            assert not_ok(spoilt) == {NUMBERS}
            assert in_segments(spoilt) == {NUMBERS}

    def test_the_self_test_alters_one(self, counting: Evidence) -> None:
        assert tried(counting, "of a row with late events") == 2


@pytest.fixture(scope="module")
def brief() -> Evidence:
    """A run of some seconds within a minute."""
    raw = topics(messages(PLAN))
    early = {kind: [each for each in own if each.ingest_ms < START_MS + 15_000] for kind, own in raw.items()}
    evidence = replace(live(ran(PLAN, early)), labels=None)
    assert judge(STREAM, evidence).check(NUMBERS).figures["due"] == 0
    return evidence


class TestRowsOfNoJudgedWindow:
    """Where a change leaves out all windows that are over, the absence of their rows is not ok."""

    JUST_CHANGED = replace(STREAM, in_force={CHART.name: Versions((("v0", START_MS + HOUR_MS),))})

    def status(self, question: Question, evidence: Evidence) -> str:
        return judge(question, evidence).check(NUMBERS).status

    def test_all_rows_lost_are_unknown(self, good: Evidence) -> None:
        assert self.status(self.JUST_CHANGED, good) == "ok"
        assert self.status(self.JUST_CHANGED, with_output(good, "windows", [])) == "unknown"

    def test_before_a_window_is_over_no_row_is_due(self, brief: Evidence) -> None:
        """A run of some seconds has a verdict, whichever minute it begins in."""
        assert self.status(STREAM, with_output(brief, "windows", [])) == "ok"

    def test_the_self_test_loses_them(self, good: Evidence) -> None:
        assert tried(good, "all rows are lost") == 2


@pytest.fixture(scope="module")
def lone() -> tuple[Question, Evidence]:
    """A run of lone purchases, one an hour old: no alert shows how far the windows are."""
    late = (0, 300_000)
    question, evidence = trickle(
        lambda partition, at_ms: None if at_ms % 20_000 else at_ms - HOUR_MS * ((partition, at_ms) == late), 600_000
    )
    assert not evidence.outputs["alerts"]
    return question, counting_late(evidence, START_MS + 300_000)


class TestLateLetter:
    """A lone purchase an hour old, which a chart counts and no alert does, is missed by its dead letter alone."""

    def test_without_it_lateness_is_unknown(self, lone: tuple[Question, Evidence]) -> None:
        question, evidence = lone
        assert not_ok(evidence, question) == set()
        left = with_output(evidence, "dead-letters", [])
        assert len(evidence.outputs["dead-letters"] or ()) == 1
        assert not_ok(left, question) == {"lateness"}
        for each, found in ((evidence, set()), (left, {"lateness"})):
            segments = Ledger(question, each, LIMITS).through(range(START_MS, START_MS + 800_000, 30_000))
            assert {name.partition(" ")[2] for name in wrong(segments)} - {NUMBERS} == found

    def test_the_self_test_loses_it(self, lone: tuple[Question, Evidence]) -> None:
        question, evidence = lone
        assert tried(evidence, "one that is late is lost", question) == 1


class TestRefusedReferenceData:
    """Compaction takes reference data away, and a ledger forgets it: its dead letter is still compared."""

    def refused(self, good: Evidence) -> tuple[Record, Record]:
        """A refused merchant, and its dead letter."""
        merchants = {each.offset: each for each in good.raw["merchants"] or ()}
        letters = good.outputs["dead-letters"] or ()
        own = next(each for each in letters if read(each)["reason"] == "missing:category")
        return merchants[read(own)["offset"]], own

    @pytest.mark.parametrize(
        "change", [{}, {"reason": "json"}, {"value_base64": None}, {"value_base64": "a valid one"}]
    )
    def test_where_its_message_is_gone_it_carries_what_is_refused_so(
        self, good: Evidence, change: dict[str, Any]
    ) -> None:
        merchant, letter = self.refused(good)
        merchants = [each for each in good.raw["merchants"] or () if each is not merchant]
        if change.get("value_base64"):
            change = {"value_base64": base64.b64encode(merchants[0].value or b"").decode()}
        letters = [changed(each, **change) if each is letter else each for each in good.outputs["dead-letters"] or ()]
        compacted = replace(good, raw={**good.raw, "merchants": merchants})
        assert not_ok(with_output(compacted, "dead-letters", letters)) == ({"refusals"} if change else set())

    def test_a_ledger_remembers_what_was_refused(self, good: Evidence) -> None:
        merchant, letter = self.refused(good)
        valid = next(each for each in good.raw["merchants"] or () if each.offset != merchant.offset)
        limits = replace(LIMITS, copies_ms=60_000)
        letters = list(good.outputs["dead-letters"] or ())
        for more, found in (
            ({}, set()),
            ({"offset": valid.offset}, {"refusals"}),
            ({"reason": "json", "value_base64": "ew=="}, {"refusals"}),
        ):
            late = replace(changed(letter, **more), offset=len(letters), ingest_ms=START_MS + 200_000)
            spoilt = with_output(good, "dead-letters", [*letters, late])
            ledger = Ledger(STREAM, spoilt, limits)
            for cut_ms in range(START_MS, START_MS + 400_000, 20_000):
                ledger.to(cut_ms)
                ledger.state = again(ledger.state)
            assert {name.partition(" ")[2] for name in wrong(ledger.segments)} == found


@pytest.fixture(scope="module")
def bursts() -> tuple[Question, Evidence]:
    return trickle(lambda partition, at_ms: at_ms, 300_000)


class TestWindowAlertADayLate:
    """An alert on a window has no event beside it, but those on later windows show that it was due."""

    def test_it_is_unknown(self, bursts: tuple[Question, Evidence]) -> None:
        question, evidence = bursts
        alerts = list(evidence.outputs["alerts"] or ())
        assert not_ok(evidence, question) == set()
        made_ms = read(alerts[4])["emit_ms"] + 24 * HOUR_MS
        alerts[4] = replace(changed(alerts[4], emit_ms=made_ms), ingest_ms=made_ms)
        assert not_ok(with_output(evidence, "alerts", alerts), question) == {"alerts: burst"}

    def test_after_an_outage_it_is_none(self, bursts: tuple[Question, Evidence]) -> None:
        """What a batch that the outage interrupted had written came within its time."""
        question, evidence = bursts
        down_ms = START_MS + 60_000
        alerts = [
            replace(changed(each, emit_ms=read(each)["emit_ms"] + HOUR_MS), ingest_ms=each.ingest_ms + HOUR_MS)
            if each.ingest_ms > down_ms or (each.ingest_ms > down_ms - 20_000 and n % 2)
            else each
            for n, each in enumerate(evidence.outputs["alerts"] or ())
        ]
        assert not_ok(with_output(evidence, "alerts", alerts), question) == set()

    def test_the_self_test_makes_one(self, bursts: tuple[Question, Evidence]) -> None:
        question, evidence = bursts
        assert tried(evidence, "is made a day late", question) == 1


class TestEventsMovedBehindOthers:
    """In its topic an event may be far behind those of other keys; windows of the job that wrote it do not read it."""

    def moved(self, counting: Evidence, count: int) -> Evidence:
        """So many customers' last purchases come out ten seconds late, behind those of others, and are called late."""
        events = list(counting.outputs["enriched"] or ())
        last = {read(each)["customer"]: n for n, each in enumerate(events)}
        alerted = {identity for each in counting.outputs["alerts"] or () for identity in read(each)["event_ids"]}
        letters = list(counting.outputs["dead-letters"] or ())
        late = {(read(each)["partition"], read(each)["offset"]) for each in letters}
        places = [
            (n, place)
            for n, event in enumerate(map(read, events))
            if (place := (event["source_partition"], event["source_offset"])) not in late
            and n in last.values()
            and event["transaction_id"] not in alerted
            and START_MS + 10_000 < event["at_ms"] < START_MS + 40_000
        ]
        raw = {(each.partition, each.offset): each for each in counting.raw["transactions"] or ()}
        for n, place in places[:count]:
            events[n] = replace(events[n], ingest_ms=events[n].ingest_ms + 10_000)
            letter = pretend.letter(raw[place], "late") | {"stage": "windows"}
            letters += pretend.records("dead-letters", [letter], [events[n].ingest_ms + 8])
        assert len(places) >= count
        return with_output(with_output(counting, "enriched", arrived(events)), "dead-letters", arrived(letters))

    @pytest.mark.parametrize(
        ("count", "follows", "found"), [(6, True, set()), (6, False, {"lateness"}), (2, False, set())]
    )
    def test_many_are_unknown_where_windows_do_not_read_them_so(
        self, counting: Evidence, count: int, follows: bool, found: set[str]
    ) -> None:
        evidence, question = self.moved(counting, count), replace(STREAM, follows_enriched=follows)
        assert not_ok(evidence, question) == found
        segments = Ledger(question, evidence, LIMITS).through(range(START_MS, LAST_MS, 10_000))
        assert {name.partition(" ")[2] for name in wrong(segments)} == found

    def test_windows_of_the_same_job_do_not_read_the_topic(self) -> None:
        found = {name: question_of(name).follows_enriched for name in ("flink", "flink-spark", "spark", "streams")}
        assert found == {"flink": False, "flink-spark": True, "spark": True, "streams": False}


def question_of(name: str) -> Question:
    variant = load(name)
    return question_about(variant, bounds_of(variant), {})
