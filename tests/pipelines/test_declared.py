"""What an output has besides its declaration is red, in the whole verdict and in segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules import ENRICHMENT, Last
from millrace.traffic import plan_for
from millrace.verify import Evidence, Question, Versions, judge
from millrace.verify.case import Case
from millrace.verify.evidence import EARLIER_MOST_MS, is_text_of
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, START_MS, alert, messages, ran, topics
from tests.pipelines.segmented import Ledger
from tests.pipelines.test_segments import LIMITS, live
from tests.pipelines.test_verdict import output, spoilt

PLAN = plan_for(TRAFFIC, 400, 20, seed=6, name="p", customers=60, frauds=0.1, edges=0.1, races=0.02)
STREAM = replace(QUESTION, stores=("hdfs",))
CUTS_MS = range(START_MS, START_MS + 120_000, 10_000)
OUTPUTS = ("enriched", "alerts", "dead-letters", "windows")
CARD_NUMBER = "4111111111111111"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def good() -> Evidence:
    return live(ran(PLAN, topics(messages(PLAN))))


def test_a_good_run_is_ok(good: Evidence) -> None:
    assert red(STREAM, good) == (set(), set())


def red(question: Question, evidence: Evidence) -> tuple[set[str], set[str]]:
    """The checks that are not ok, of the whole verdict and of segments."""
    segments = Ledger(question, evidence, LIMITS).through(CUTS_MS)
    in_segments = {check.name for segment in segments for check in segment.checks if check.status != "ok"}
    return {check.name for check in judge(question, evidence).checks if check.status != "ok"}, in_segments


def found_by(check: str, question: Question, evidence: Evidence) -> bool:
    whole, in_segments = red(question, evidence)
    return check in whole and check in in_segments


def content(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.value or b"")
    return found


def with_output(evidence: Evidence, kind: str, records: Sequence[Record]) -> Evidence:
    return replace(evidence, outputs={**evidence.outputs, kind: records})


def changed(evidence: Evidence, kind: str, change: Change, at: int | None = None) -> Evidence:
    """The run with one message in the middle of an output changed, or with that at a place."""
    records = list(output(evidence, kind))
    at = len(records) // 2 if at is None else at
    event = content(records[at])
    change(event)
    records[at] = replace(records[at], value=json.dumps(event).encode())
    return with_output(evidence, kind, records)


def more(event: Mapping[str, Any]) -> dict[str, Any]:
    return {**event, "card_number": CARD_NUMBER}


class TestFields:
    @pytest.mark.parametrize("kind", OUTPUTS)
    def test_an_undeclared_field_of_a_message_is_red_and_not_shown(self, good: Evidence, kind: str) -> None:
        spoiled = changed(good, kind, lambda event: event.update(more(event)))
        whole, in_segments = red(STREAM, spoiled)
        assert whole == {"readable"}
        assert "readable" in in_segments
        (offender,) = judge(STREAM, spoiled).check("readable").offenders
        assert offender.endswith("'card_number' is not declared, and holds a card number")

    def test_what_came_out_before_the_enrichment_changed_has_the_fields_of_then(self, good: Evidence) -> None:
        at_ms = START_MS + 10_000
        question = replace(STREAM, in_force={ENRICHMENT: Versions((("earlier", at_ms),))})

        def with_more(records: Sequence[Record], until_ms: int) -> list[Record]:
            return [
                replace(each, value=json.dumps(more(content(each))).encode()) if each.ingest_ms < until_ms else each
                for each in records
            ]

        enriched = with_more(output(good, "enriched"), at_ms)
        rows = [more(row) if row["ingest_ms"] + 8 < at_ms else row for row in good.stores["files"]]
        assert red(question, spoilt(good, enriched=enriched, files=rows)) == (set(), set())
        assert red(question, spoilt(good, enriched=enriched)) == (set(), set()), "Spark stores what is declared now"
        of_all = with_more(output(good, "enriched"), START_MS * 2)
        assert found_by("readable", replace(question, in_force={}), spoilt(good, enriched=enriched, files=rows))
        late = replace(question, bounds=replace(question.bounds, clocks_ms=0))
        assert found_by("readable", late, spoilt(good, enriched=of_all))

    def test_an_undeclared_column_of_the_files_is_red_unless_it_is_null(self, good: Evidence) -> None:
        first, *others = good.stores["files"]
        assert red(STREAM, spoilt(good, files=[more(first), *others])) == ({"files"}, {"files"})
        of_all = [{**row, "card_number": None} for row in good.stores["files"]]
        assert red(STREAM, spoilt(good, files=of_all)) == (set(), set()), "other files of a compacted one had it"

    def test_an_undeclared_member_of_a_state_is_red(self, good: Evidence) -> None:
        table = good.stores["table of customers"]
        row = next(row for row, cells in table.items() if b"s:phone" in cells)
        cells = {**table[row], b"s:phone": json.dumps(more(json.loads(table[row][b"s:phone"]))).encode()}
        verdict = judge(replace(QUESTION, stores=("hbase",)), spoilt(good, table_of_customers={**table, row: cells}))
        assert verdict.check("table of customers").status == "failed"

    def test_what_a_copy_lacks_is_null_in_the_stores(self, good: Evidence) -> None:
        """An enriched event without a field has null there; so must a stored one."""
        rows = list(good.stores["files"])
        at = next(n for n, row in enumerate(rows) if row["phone_at_ms"] is None)
        without = [{k: v for k, v in content(each).items() if v is not None} for each in output(good, "enriched")]
        records = [
            replace(each, value=json.dumps(event).encode())
            for each, event in zip(output(good, "enriched"), without, strict=True)
        ]
        lacking = with_output(good, "enriched", records)
        assert red(STREAM, lacking) == (set(), set())
        rows[at] = {**rows[at], "phone_at_ms": 12_345}
        assert red(STREAM, spoilt(lacking, files=rows)) == ({"files"}, {"files"})
        table, origin = dict(good.stores["table of transactions"]), rows[at]["transaction_id"].encode()
        row = next(row for row in table if row.endswith(origin))
        table[row] = {**table[row], b"t:phone_at_ms": b"12345"}
        verdict = judge(replace(QUESTION, stores=("hbase",)), spoilt(lacking, table_of_transactions=table))
        assert verdict.check("table of transactions").status == "failed"


class TestEarlierSummaries:
    """Of rows whose summary is declared no more, their name, their time and card numbers in them are judged."""

    UNTIL_MS = START_MS + 20_000
    OF_OTHERS = ("spree", "enrichment", "limits", "table of transactions", "table of what-was-removed")

    def asked(self, name: str, until_ms: int, version: str | None = "earlier") -> Question:
        return replace(STREAM, in_force={name: Versions(((version, until_ms),))})

    def and_row(self, good: Evidence, came_ms: int, **fields: Any) -> Evidence:
        """The run with one more row, that came then."""
        row = {"window_start_ms": 5, "visits": 3, **fields}
        records = [each for each in output(good, "windows") if each.ingest_ms <= came_ms]
        rest = [replace(each, offset=each.offset + 1) for each in output(good, "windows")[len(records) :]]
        more = Record("windows", 0, len(records), came_ms, None, json.dumps(row).encode())
        return with_output(good, "windows", [*records, more, *rest])

    @pytest.mark.parametrize("came_ms", [UNTIL_MS - 5_000, UNTIL_MS + 60_000])
    def test_a_row_from_then_is_right(self, good: Evidence, came_ms: int) -> None:
        question = self.asked("visits-per-minute", self.UNTIL_MS)
        evidence = self.and_row(good, came_ms, summary="visits-per-minute", place="Oslo")
        assert judge(question, evidence).check("readable").status == "ok"
        assert "readable" not in red(question, evidence)[1]

    @pytest.mark.parametrize("name", OF_OTHERS)
    def test_a_row_under_the_name_of_something_else_is_red(self, good: Evidence, name: str) -> None:
        question = self.asked(name, START_MS - 1)
        assert found_by("readable", question, self.and_row(good, self.UNTIL_MS, summary=name))

    @pytest.mark.parametrize(
        ("version", "until_ms"), [("earlier", START_MS - EARLIER_MOST_MS - 1), (None, START_MS + 10_000)]
    )
    def test_a_row_from_when_there_was_no_such_summary_is_red(
        self, good: Evidence, version: str | None, until_ms: int
    ) -> None:
        question = self.asked("visits-per-minute", until_ms, version)
        assert found_by("readable", question, self.and_row(good, self.UNTIL_MS, summary="visits-per-minute"))

    @pytest.mark.parametrize("name", ["visits-per-minute", STREAM.summaries[0].name])
    @pytest.mark.parametrize("value", [CARD_NUMBER, int(CARD_NUMBER)])
    def test_a_row_that_holds_a_card_number_is_not_ok(self, good: Evidence, name: str, value: Any) -> None:
        question = self.asked(name, self.UNTIL_MS)
        spoiled = self.and_row(good, self.UNTIL_MS, summary=name, place=value, merchant_category="x")
        check = judge(question, spoiled).check("readable")
        is_found = not isinstance(value, list)
        assert check.status == ("unknown" if is_found else "ok")
        assert ("readable" in red(question, spoiled)[1]) == is_found
        assert all(each.endswith("'place' may hold a card number") for each in check.offenders)
        with_token = self.and_row(good, self.UNTIL_MS, summary=name, card=CARD_NUMBER, merchant_category="x")
        assert judge(question, with_token).check("readable").status == "ok", "a token may have such digits by chance"

    def test_a_measure_may_show_a_field_that_may_have_such_digits(self, good: Evidence) -> None:
        (own,) = STREAM.summaries
        measures = {**own.measures, "newest": Last("transaction_id"), "place": Last("merchant_category")}
        asked = replace(self.asked(own.name, self.UNTIL_MS), summaries=(replace(own, measures=measures),))
        row = {"summary": own.name, "merchant_category": "x"}
        for name, status in (("newest", "ok"), ("place", "unknown")):
            check = judge(asked, self.and_row(good, self.UNTIL_MS, **row, **{name: CARD_NUMBER})).check("readable")
            assert (check.status, len(check.offenders)) == (status, int(status != "ok"))


class TestKeys:
    @pytest.mark.parametrize("kind", OUTPUTS)
    def test_a_message_with_the_key_of_another_or_without_one_is_red(self, good: Evidence, kind: str) -> None:
        records = list(output(good, kind))
        at = len(records) // 2
        spoiled = [*records[:at], replace(records[at], key=b"another"), *records[at + 1 :]]
        assert red(STREAM, with_output(good, kind, spoiled)) == ({"readable"}, {"readable"})
        without = [replace(each, key=None) for each in records]
        assert red(STREAM, with_output(good, kind, without)) == ({"readable"}, {"readable"})

    def test_engines_key_the_rows_of_a_summary_by_one_column_or_by_the_window(self, good: Evidence) -> None:
        (summary,) = STREAM.summaries
        column = summary.keys[0]
        records = [replace(each, key=content(each)[column].encode()) for each in output(good, "windows")]
        assert records != output(good, "windows")
        assert red(STREAM, with_output(good, "windows", records)) == (set(), set())

    def test_messages_of_other_producers_have_any_key(self, good: Evidence) -> None:
        raw = {kind: [replace(each, key=b"x") for each in own or ()] for kind, own in good.raw.items()}
        raw |= {kind: list(good.raw[kind] or ()) for kind in ("merchants", "customers")}
        assert judge(STREAM, replace(good, raw=raw)).status == "ok"


class TestOrder:
    def of_one_key(self, good: Evidence) -> list[int]:
        """Where the events of the customer with most of them are."""
        by_key: dict[bytes | None, list[int]] = {}
        for n, each in enumerate(output(good, "enriched")):
            by_key.setdefault(each.key, []).append(n)
        return max(by_key.values(), key=len)

    def moved(self, good: Evidence, places: Sequence[int]) -> Evidence:
        """The run with enriched events in another order: each place has what another had."""
        records = list(output(good, "enriched"))
        own = sorted(places)
        for at, other in zip(own, places, strict=True):
            records[at] = replace(output(good, "enriched")[other], offset=at, ingest_ms=records[at].ingest_ms)
        return with_output(good, "enriched", records)

    def test_events_of_one_key_in_reverse_are_red(self, good: Evidence) -> None:
        at = self.of_one_key(good)
        assert len(at) > 2
        check = judge(STREAM, self.moved(good, at[::-1])).check("order")
        assert check.status == "failed"
        assert "came out behind transactions[" in check.offenders[0]
        assert found_by("order", STREAM, self.moved(good, range(len(output(good, "enriched")))[::-1]))

    def test_events_of_two_keys_have_no_order(self, good: Evidence) -> None:
        records = output(good, "enriched")
        at = next(n for n in range(100, 200) if records[n].key != records[n + 1].key)
        assert red(STREAM, self.moved(good, [at + 1, at])) == (set(), set())

    def alerts_of_one_rule(self, good: Evidence) -> list[int]:
        """Where the alerts on single events are of the rule and customer with most of them."""
        by_writer: dict[tuple[str, str], list[int]] = {}
        for n, each in enumerate(map(content, output(good, "alerts"))):
            if each["window_start_ms"] is None:
                by_writer.setdefault((each["rule"], each["key"]), []).append(n)
        return max(by_writer.values(), key=len)

    def test_alerts_of_one_rule_and_key_in_reverse_are_red(self, good: Evidence) -> None:
        records = list(output(good, "alerts"))
        first, second, *_ = self.alerts_of_one_rule(good)
        emit_ms = records[second].ingest_ms
        for at, other in ((first, second), (second, first)):
            value = json.dumps({**content(output(good, "alerts")[other]), "emit_ms": emit_ms}).encode()
            records[at] = replace(output(good, "alerts")[at], value=value, ingest_ms=emit_ms)
        turned = sorted(records, key=lambda each: each.ingest_ms)
        turned = [replace(each, offset=n) for n, each in enumerate(turned)]
        assert red(STREAM, with_output(good, "alerts", turned)) == ({"order"}, {"order"})

    def test_alerts_come_again_behind_those_that_were_not_taken(self, good: Evidence) -> None:
        records, own = list(output(good, "alerts")), self.alerts_of_one_rule(good)
        again = [records[at] for at in own]
        records = [*records[: own[0]], *records[own[0] + 1 :], *again]
        written = [replace(each, offset=n, ingest_ms=records[-1].ingest_ms) for n, each in enumerate(records)]
        assert judge(STREAM, with_output(good, "alerts", written)).check("order").status == "ok"

    def test_alerts_that_an_event_denies_in_one_of_its_copies_have_no_order(self, good: Evidence) -> None:
        """What a restart judges again may be another order of arrival, and set off no alert."""
        records, events = output(good, "alerts"), list(output(good, "enriched"))
        first, second, *_ = self.alerts_of_one_rule(good)
        (identity,), rule = content(records[first])["event_ids"], content(records[first])["rule"]
        at = next(n for n, each in enumerate(events) if content(each)["transaction_id"] == identity)
        event = content(events[at])
        event["flags"].remove(rule)
        events.insert(at, replace(events[at], value=json.dumps(event).encode()))
        denied = with_output(good, "enriched", [replace(each, offset=n) for n, each in enumerate(events)])
        turned = [replace(each, offset=len(records) - n) for n, each in enumerate(records)]
        pair = [turned[first], turned[second]]
        assert judge(STREAM, with_output(denied, "alerts", pair)).check("order").status == "ok"
        assert judge(STREAM, with_output(good, "alerts", pair)).check("order").status == "failed"

    @pytest.mark.parametrize("lacking", [0, 2])
    def test_a_restart_repeats_the_end_of_what_was_written(self, good: Evidence, lacking: int) -> None:
        """Of what came out just before, the beginning may be lacking: it comes out behind its followers."""
        records = list(output(good, "enriched"))
        since = len(records) - 40
        before = [*records[:since], *records[since + lacking : since + 20]]
        again = [replace(each, ingest_ms=records[-1].ingest_ms) for each in records[since:]]
        written = [replace(each, offset=n) for n, each in enumerate([*before, *again])]
        assert judge(STREAM, with_output(good, "enriched", written)).status == "ok"

    def test_a_segment_may_have_only_a_part_of_what_a_restart_repeats(self, good: Evidence) -> None:
        records = list(output(good, "enriched"))
        since, at_ms = len(records) - 40, records[-1].ingest_ms + 60_000
        again = [replace(each, ingest_ms=at_ms + 200 * n) for n, each in enumerate(records[since:])]
        written = [replace(each, offset=n) for n, each in enumerate([*records, *again])]
        ledger = Ledger(STREAM, with_output(good, "enriched", written), LIMITS)
        segments = ledger.through([*CUTS_MS, at_ms + 3_000])
        assert {check.name for each in segments for check in each.checks if check.status != "ok"} == set()

    def in_partitions(self, good: Evidence, kind: str, partition_at: Callable[[int], int]) -> Evidence:
        """The run with the messages of one key in these partitions, by their number."""
        records = list(output(good, kind))
        key = records[self.of_one_key(good)[0]].key if kind == "enriched" else records[0].key
        own = [n for n, each in enumerate(records) if each.key == key and content(each).get("rule") in (None, "spree")]
        for number, at in enumerate(own):
            records[at] = replace(records[at], partition=partition_at(number))
        return with_output(good, kind, records)

    def test_a_message_in_another_partition_than_others_of_its_key_is_not_ok(self, good: Evidence) -> None:
        verdict = judge(STREAM, self.in_partitions(good, "enriched", lambda number: int(number == 1)))
        assert (verdict.status, verdict.check("order").status) == ("unknown", "unknown")
        assert "were partitions added" in verdict.check("order").why
        assert "order" in red(STREAM, self.in_partitions(good, "enriched", lambda number: number % 2))[1]

    def test_a_key_moves_once_when_partitions_are_added(self, good: Evidence) -> None:
        spoiled = self.in_partitions(good, "enriched", lambda number: int(number > 1))
        assert red(STREAM, spoiled) == (set(), set())
        assert judge(STREAM, spoiled).check("order").figures["keys that moved"] == 1


DAY_MS = 86_400_000
TOPIC = "pretended.transactions"


class TestTimes:
    """What is late without a reason is shown, and what came before its cause is red."""

    @pytest.mark.parametrize("kind", OUTPUTS)
    def test_an_output_that_its_topic_had_after_it_was_read_is_red(self, good: Evidence, kind: str) -> None:
        read = replace(good, read_ms=max(each.ingest_ms for own in good.outputs.values() for each in own or ()))
        ends_ms = read.read_ms + STREAM.bounds.clocks_ms
        assert judge(STREAM, read).check("readable").status == "ok"
        for at_ms, status in ((ends_ms, "ok"), (ends_ms + 1, "failed")):
            records = [*output(good, kind)]
            records[-1] = replace(records[-1], ingest_ms=at_ms)
            spoiled = with_output(read, kind, records)
            assert judge(STREAM, spoiled).check("readable").status == status
            assert judge(STREAM, replace(spoiled, read_ms=0)).check("readable").status == "ok"

    def test_an_alert_on_a_window_is_not_there_before_its_events(self, good: Evidence) -> None:
        clocks_ms = STREAM.bounds.clocks_ms
        for ahead_ms, status in ((clocks_ms, "ok"), (clocks_ms + 60_000, "failed")):
            later = [replace(each, ingest_ms=each.ingest_ms + ahead_ms) for each in output(good, "enriched")]
            spoiled = with_output(good, "enriched", later)
            assert judge(STREAM, spoiled).check("alerts: burst").status == status
            inside = replace(STREAM, follows_enriched=False)
            assert judge(inside, spoiled).check("alerts: burst").status == "ok", "the windows read the raw topic"

    def delayed(self, evidence: Evidence, kind: str, at: int, by_ms: int) -> Evidence:
        records = list(output(evidence, kind))
        late = records.pop(at)
        return with_output(
            evidence, kind, [*records, replace(late, offset=len(records) + 1, ingest_ms=late.ingest_ms + by_ms)]
        )

    def test_an_alert_that_a_listener_received_is_there(self, good: Evidence) -> None:
        alerts = output(good, "alerts")
        received = {content(each)["alert_id"]: each.ingest_ms + 1.5 for each in alerts}
        assert red(STREAM, replace(good, received_ms=received)) == (set(), set())
        identity, *_ = received
        first_ms = next(each.ingest_ms for each in alerts if content(each)["alert_id"] == identity)
        for other in ({"0" * 32: 1.0}, {identity: first_ms - 60_001.0}):
            spoiled = replace(good, received_ms={**received, **other})
            (found,) = (each for each in judge(STREAM, spoiled).checks if each.status != "ok")
            assert (found.name, found.status, len(found.offenders)) == ("heard", "unknown", 1)
        early = replace(good, received_ms={**received, identity: first_ms - 59_999.0})
        assert judge(STREAM, early).status == "ok", "clocks differ"
        left = [each for each in alerts if content(each)["alert_id"] != identity]
        assert judge(STREAM, replace(with_output(good, "alerts", left), received_ms=received)).check("heard").offenders

    @pytest.mark.parametrize("kind", ["enriched", "alerts", "dead-letters"])
    def test_the_longest_delay_is_shown_with_its_output(self, good: Evidence, kind: str) -> None:
        late = self.delayed(good, kind, 0, DAY_MS)
        figures = judge(STREAM, late).check("readable").figures
        assert str(figures[f"{kind}: longest delay"]).startswith("86,400.0")
        assert str(figures[f"{kind}: longest delay"]).endswith(f" s, {kind}[0]@{len(output(good, kind))}")

    def test_a_copy_that_comes_late_is_no_delay(self, good: Evidence) -> None:
        records = list(output(good, "enriched"))
        again = replace(records[7], offset=len(records), ingest_ms=records[7].ingest_ms + DAY_MS)
        figures = judge(STREAM, with_output(good, "enriched", [*records, again])).check("readable").figures
        assert str(figures["enriched: longest delay"]).startswith("0.008 s")

    @pytest.mark.parametrize("kind", ["enriched", "alerts", "dead-letters"])
    def test_an_output_from_before_its_cause_is_red(self, good: Evidence, kind: str) -> None:
        records = [replace(each, ingest_ms=each.ingest_ms - 2 * 3_600_000) for each in output(good, kind)]
        assert found_by("readable", STREAM, with_output(good, kind, records))
        skewed = [replace(each, ingest_ms=each.ingest_ms - 30_000) for each in output(good, kind)]
        assert judge(STREAM, with_output(good, kind, skewed)).status == "ok", "brokers' clocks may differ"

    def test_in_a_backfill_the_inputs_have_the_times_of_their_events(self, good: Evidence) -> None:
        earlier = [replace(each, ingest_ms=each.ingest_ms - DAY_MS) for each in output(good, "enriched")]
        finite = replace(STREAM, is_finite=True)
        assert judge(finite, with_output(good, "enriched", earlier)).check("readable").status == "ok"

    def test_no_change_of_a_rule_excuses_what_is_dated_before_it(self, good: Evidence) -> None:
        """Events that came out before the rule's version need no alert of it, and no flag."""
        since_ms = START_MS - 3_600_000
        question = replace(STREAM, in_force={"spree": Versions((("earlier", since_ms),))})
        alerts = [each for each in output(good, "alerts") if content(each)["rule"] != "spree"]
        enriched = []
        for each in output(good, "enriched"):
            event = content(each)
            earlier_ms = 2 * 3_600_000 if "spree" in event["flags"] else 0
            value = json.dumps(event | {"flags": [flag for flag in event["flags"] if flag != "spree"]}).encode()
            enriched.append(replace(each, ingest_ms=each.ingest_ms - earlier_ms, value=value))
        rows = [row | {"flags": [flag for flag in row["flags"] if flag != "spree"]} for row in good.stores["files"]]
        spoiled = spoilt(replace(good, labels=None), alerts=alerts, enriched=enriched, files=rows)
        assert found_by("readable", question, spoiled)

    def of_rule(self, good: Evidence, rule: str) -> list[int]:
        return [n for n, each in enumerate(output(good, "alerts")) if content(each)["rule"] == rule]

    @pytest.mark.parametrize("rule", ["spree", "burst"])
    def test_an_alert_that_was_made_long_before_its_topic_had_it_is_not_ok(self, good: Evidence, rule: str) -> None:
        """A machine may have been suspended, if nothing shows that it worked meanwhile."""
        at = self.of_rule(good, rule)
        assert len(at) > 1
        check = judge(STREAM, self.delayed(good, "alerts", at[0], DAY_MS)).check(f"alerts: {rule}")
        assert (check.status, check.why) == (
            "unknown",
            "alerts came long after their emit_ms: was the machine suspended?",
        )
        later = DAY_MS // 2

        def by_half_a_day(alert: dict[str, Any]) -> None:
            alert["emit_ms"] += later

        records = list(output(changed(good, "alerts", by_half_a_day, at[1]), "alerts"))
        records[at[1]] = replace(records[at[1]], ingest_ms=records[at[1]].ingest_ms + later)
        ids = content(records[at[1]])["event_ids"]
        events = [
            replace(each, ingest_ms=each.ingest_ms + (later if content(each)["transaction_id"] in ids else 0))
            for each in output(good, "enriched")
        ]
        alone = judge(STREAM, with_output(good, "alerts", records)).check(f"alerts: {rule}")
        assert alone.status == ("failed" if rule == "spree" else "ok"), "an event and its alerts come together"
        meanwhile = with_output(with_output(good, "enriched", events), "alerts", records)
        assert judge(STREAM, meanwhile).check(f"alerts: {rule}").status == "ok", "made late, after an outage"
        check = judge(STREAM, self.delayed(meanwhile, "alerts", at[0], DAY_MS)).check(f"alerts: {rule}")
        assert check.status == "failed"
        assert check.offenders[0].endswith("s after its emit_ms")

    def test_a_row_that_was_made_long_before_its_topic_had_it_is_not_ok(self, good: Evidence) -> None:
        check = judge(STREAM, self.delayed(good, "windows", 3, DAY_MS)).check("numbers: spend-per-minute")
        assert check.status == "failed", "rows of other windows came meanwhile"
        assert check.offenders[0].endswith("s after its emit_ms")

    @pytest.mark.parametrize("kind", ["enriched", "dead-letters"])
    def test_what_comes_long_after_later_messages_of_its_partition_is_not_ok(self, good: Evidence, kind: str) -> None:
        """Even the last event of its key; a machine may have been suspended while it was on its way."""
        records = output(good, kind)
        own = [n for n, each in enumerate(records) if content(each).get("topic", TOPIC) == TOPIC]
        at = min({records[n].key if kind == "enriched" else n: n for n in own}.values())
        check = judge(STREAM, self.delayed(good, kind, at, 3_600_000)).check("order")
        assert check.status == "unknown"
        assert check.why == "outputs came long after later ones: was the machine suspended?"
        assert judge(STREAM, self.delayed(good, kind, at, 600_000)).check("order").status == "ok"

    def test_a_batch_that_an_outage_interrupts_goes_on_behind_it(self, good: Evidence) -> None:
        events = output(good, "enriched")
        at = max(n for n, each in enumerate(events) if each.ingest_ms < START_MS + 10_000)
        later = [replace(each, ingest_ms=each.ingest_ms + 3_600_000) for each in (events[at], *events[at + 10 :])]
        written = [*events[:at], *events[at + 1 : at + 10], *later]
        interrupted = with_output(good, "enriched", [replace(each, offset=n) for n, each in enumerate(written)])
        letters = [
            replace(each, ingest_ms=each.ingest_ms + (3_600_000 if each.ingest_ms > START_MS + 10_000 else 0))
            for each in output(good, "dead-letters")
        ]
        assert judge(STREAM, with_output(interrupted, "dead-letters", letters)).check("order").status == "ok"

    def test_what_is_read_again_repeats_all_that_follows(self, good: Evidence) -> None:
        """An engine that was away for an hour had read later messages before, and not written one."""
        events = output(good, "enriched")
        at = min({each.key: n for n, each in enumerate(events)}.values())
        again = [replace(each, ingest_ms=each.ingest_ms + 3_600_000) for each in events[at:]]
        written = [*events[:at], *events[at + 1 :], *again]
        rewound = with_output(good, "enriched", [replace(each, offset=n) for n, each in enumerate(written)])
        letters = output(good, "dead-letters")
        more = [replace(each, offset=n, ingest_ms=again[-1].ingest_ms) for n, each in enumerate(letters, len(letters))]
        rewound = with_output(rewound, "dead-letters", [*letters, *more])
        assert judge(STREAM, rewound).check("order").status == "ok"

    @pytest.mark.parametrize("kind", OUTPUTS)
    def test_what_a_broker_takes_ten_minutes_later_is_ok(self, good: Evidence, kind: str) -> None:
        records = list(output(good, kind))
        late = [replace(each, ingest_ms=each.ingest_ms + 600_000) for each in records]
        inside = replace(STREAM, follows_enriched=False)  # else the windows wait, too
        assert judge(inside, with_output(good, kind, late)).status == "ok"

    def test_a_promise_that_was_not_measured_is_not_kept(self, good: Evidence) -> None:
        assert judge(replace(STREAM, promises={}), good).promises_status == "unknown"
        assert judge(STREAM, good).promises_status == "kept"

    def test_no_reader_has_an_alert_before_its_topic(self, good: Evidence) -> None:
        """Such a time is another run's, or wrong: then the time of the topic counts."""
        received = {content(each)["alert_id"]: content(each)["ingest_ms"] + 1.0 for each in output(good, "alerts")}
        late = [replace(each, ingest_ms=each.ingest_ms + DAY_MS) for each in output(good, "alerts")]
        assert judge(STREAM, replace(good, received_ms=received)).promises_status == "kept"
        spoiled = replace(with_output(good, "alerts", late), received_ms=received)
        assert judge(STREAM, spoiled).promises_status == "broken"


class TestTopics:
    """Readers find the raw message by the name of its topic; the kind of event is none."""

    def by_kind(self, event: dict[str, Any], name: str) -> None:
        event[name] = event[name].removeprefix("pretended.")

    def test_an_output_that_names_the_kind_instead_of_the_topic_is_red(self, good: Evidence) -> None:
        enriched = changed(good, "enriched", lambda event: self.by_kind(event, "source_topic"))
        assert found_by("conservation", STREAM, enriched)
        letters = changed(good, "dead-letters", lambda letter: self.by_kind(letter, "topic"))
        assert found_by("refusals", STREAM, letters)
        first, *others = good.stores["files"]
        files = spoilt(good, files=[{**first, "source_topic": "transactions"}, *others])
        assert found_by("files", STREAM, files)

    def test_a_cell_has_the_name_of_the_topic(self, good: Evidence) -> None:
        table = good.stores["table of transactions"]
        row = next(iter(table))
        cells = {**table[row], b"t:source_topic": b"transactions"}
        verdict = judge(replace(QUESTION, stores=("hbase",)), spoilt(good, table_of_transactions={**table, row: cells}))
        assert verdict.check("table of transactions").status == "failed"


class TestJson:
    """Readers in other languages read the same: UTF-8 without a byte order mark, and each name once."""

    @pytest.mark.parametrize("kind", OUTPUTS)
    @pytest.mark.parametrize(
        "written",
        [
            lambda value: value.decode().encode("utf-16"),
            lambda value: b"\xef\xbb\xbf" + value,
            lambda value: b'{"ingest_ms": 1, "emit_ms": 1, ' + value[1:],
        ],
    )
    def test_other_json_is_red(self, good: Evidence, kind: str, written: Callable[[bytes], bytes]) -> None:
        records = list(output(good, kind))
        at = len(records) // 2
        records[at] = replace(records[at], value=written(records[at].value or b""))
        assert found_by("readable", STREAM, with_output(good, kind, records))

    def test_an_operand_that_is_there_twice_is_red(self, good: Evidence) -> None:
        records = list(output(good, "alerts"))
        value = (records[0].value or b"").replace(b'"operands": {', b'"operands": {"before_other_merchants": "1", ')
        assert value != records[0].value
        at = next(n for n, each in enumerate(records) if "before_other_merchants" in content(each)["operands"])
        value = (records[at].value or b"").replace(b'"operands": {', b'"operands": {"before_other_merchants": "1", ')
        records[at] = replace(records[at], value=value)
        assert found_by("readable", STREAM, with_output(good, "alerts", records))


@pytest.fixture(scope="module")
def racing() -> Evidence:
    plan = plan_for(TRAFFIC, 800, 20, seed=3, name="p", customers=60, frauds=0.1, edges=0.1, races=0.3)
    return live(ran(plan, topics(messages(plan))))


class TestRaces:
    """Two topics have no common order, but an alert shows the same one as its event."""

    def otherwise(self, evidence: Evidence) -> tuple[int, int, dict[str, Any], dict[str, str | None]]:
        """Where an alert and its event are, the event as another order of arrival leaves it, and the operands then."""
        case = Case(STREAM, evidence)
        for each in case.expected.judged.values():
            first, *others = case.expected.views.of(each)
            mine = next((found for found in first[1] if found.rule == "away-from-phone"), None)
            for event, findings in others if mine else ():
                other = next((found for found in findings if found.rule == "away-from-phone"), None)
                if mine and other and other.operands != mine.operands:
                    alert = [content(record)["alert_id"] for record in output(evidence, "alerts")].index(mine.alert_id)
                    origins = [case.source(content(record)) for record in output(evidence, "enriched")]
                    operands = {name: None if value is None else str(value) for name, value in other.operands.items()}
                    place = {"source_topic": "pretended.transactions"}
                    return alert, origins.index(each.record.origin), {**event, **place}, operands
        raise LookupError("no such race")

    def test_an_alert_that_shows_another_order_than_its_event_is_not_ok(self, racing: Evidence) -> None:
        alert, event, other, operands = self.otherwise(racing)
        apart = changed(racing, "alerts", lambda each: each.update(operands=operands), alert)
        assert judge(STREAM, apart).check("alerts: away-from-phone").status == "failed"
        assert "alerts: away-from-phone" in red(STREAM, apart)[1]
        together = changed(apart, "enriched", lambda each: each.update(other), event)
        assert judge(STREAM, together).check("alerts: away-from-phone").status == "ok"

    def denied(self, evidence: Evidence) -> Evidence:
        """The run with an alert more, which its event would set off in another order of arrival."""
        case = Case(STREAM, evidence)
        for each in case.expected.judged.values():
            event = each.event or {}
            for _, findings in () if "away-from-phone" in event["flags"] else case.expected.views.of(each):
                for found in (found for found in findings if found.rule == "away-from-phone"):
                    made = alert(found, event["sent_ms"], event["ingest_ms"], event["ingest_ms"] + 9)
                    value, records = json.dumps(made).encode(), list(output(evidence, "alerts"))
                    more = Record("alerts", 0, 0, made["emit_ms"], made["subject"].encode(), value)
                    records = sorted([*records, more], key=lambda record: record.ingest_ms)
                    return with_output(evidence, "alerts", [replace(own, offset=n) for n, own in enumerate(records)])
        raise LookupError("no such race")

    def test_an_alert_that_its_event_denies_is_red_where_nothing_came_out_twice(self, racing: Evidence) -> None:
        spoiled = self.denied(racing)
        assert judge(STREAM, spoiled).check("alerts: away-from-phone").status == "failed"
        again = output(spoiled, "enriched")[-1]
        twice = with_output(spoiled, "enriched", [*output(spoiled, "enriched"), replace(again, offset=10**6)])
        assert judge(STREAM, twice).check("alerts: away-from-phone").figures["races"] == 1
        assert red(STREAM, twice) == (set(), set()), "a restart may have judged the event again"
        once = replace(STREAM, is_once=True)
        assert red(once, spoiled) == ({"alerts: away-from-phone"}, {"alerts: away-from-phone"})

    def test_a_restart_may_leave_both_of_them_twice(self, racing: Evidence) -> None:
        """The first event may not have come out, or not its alert; what was judged again came out whole."""
        alert, event, other, operands = self.otherwise(racing)
        first = output(changed(racing, "alerts", lambda each: each.update(operands=operands), alert), "alerts")[alert]
        before = output(changed(racing, "enriched", lambda each: each.update(other), event), "enriched")[event]
        for kind, own in (("alerts", first), ("enriched", before)):
            records = list(output(racing, kind))
            at = alert if kind == "alerts" else event
            twice = [*records[:at], own, *records[at:]]
            again = with_output(racing, kind, [replace(each, offset=n) for n, each in enumerate(twice)])
            assert red(STREAM, again)[0] == set(), kind


class TestOperands:
    """An operand is the text that engines write of its value, and no other that stands for the same number."""

    @pytest.mark.parametrize("text", [" 5 ", "+5", "0005", "0_5", "\u0665", "5.0", "5\n"])
    def test_of_a_whole_number(self, text: str) -> None:
        assert is_text_of("5", 5)
        assert is_text_of("-5", -5)
        assert not is_text_of(text, 5)

    @pytest.mark.parametrize("text", ["0.1", "1e-1", "1.0E-1", "1.0e-01", "0.10000000000000001"])
    def test_of_a_real_number_as_engines_write_it(self, text: str) -> None:
        assert is_text_of(text, 0.1)

    @pytest.mark.parametrize("text", [" 0.1", "+0.1", "0_0.1", "0.1d", "\u0660.1", ".1", "0.1\n"])
    def test_of_a_real_number_otherwise(self, text: str) -> None:
        assert not is_text_of(text, 0.1)

    @pytest.mark.parametrize("number", [1.0e10, 1.5e300, -2.5e-7, 123_456_789.125, 0.0, 5.0])
    def test_of_large_and_small_numbers(self, number: float) -> None:
        """Java writes 1.0E10, Python 10000000000.0 and 1.5e+300."""
        mantissa, _, exponent = f"{number:.16e}".partition("e")
        for text in (repr(number), f"{float(mantissa)}E{int(exponent)}"):
            assert is_text_of(text, number), text

    def test_in_the_verdict(self, good: Evidence) -> None:
        at = next(n for n, each in enumerate(output(good, "alerts")) if content(each)["rule"] == "spree")

        def widened(alert: dict[str, Any]) -> None:
            alert["operands"] = {name: text and f" {text}" for name, text in alert["operands"].items()}

        assert found_by("alerts: spree", STREAM, changed(good, "alerts", widened, at))


def test_labels_that_lack_a_rule_make_a_segment_unknown(good: Evidence) -> None:
    assert good.labels is not None
    without = replace(good.labels.without({"spree"}), of_other_versions=frozenset())
    assert red(STREAM, replace(good, labels=without))[1] == {"labels"}
    assert red(STREAM, replace(good, labels=good.labels.without({"spree"})))[1] == set()
