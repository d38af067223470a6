"""A verdict is not ok where something is missing, late, unread, raced or unlabelled, however quietly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.patterns import load
from millrace.traffic import CLOSING, plan_for
from millrace.traffic.labels import Labels
from millrace.traffic.runs import Run
from millrace.verbs.traffic import remarks
from millrace.verbs.validation import bounds_of
from millrace.verify import Bounds, Evidence, Question, Versions, judge
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, START_MS, messages, ran, recorded, topics
from tests.pipelines.test_verdict import changed, output, position, red, spoilt

PLAN = plan_for(TRAFFIC, 800, 20, seed=3, name="p", customers=100, frauds=0.1, edges=0.1, races=0.02)
SILENT_MS = START_MS + 25_000


@pytest.fixture(scope="module")
def raw() -> dict[str, list[Record]]:
    return topics(messages(PLAN))


@pytest.fixture(scope="module")
def good(raw: dict[str, list[Record]]) -> Evidence:
    return ran(PLAN, raw)


def content(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.value or b"")
    return found


@pytest.fixture(scope="module")
def silent(raw: Mapping[str, Sequence[Record]]) -> Evidence:
    """A run in which one partition of the purchases falls silent."""
    purchases = [each for each in raw["transactions"] if each.partition == 0 or each.ingest_ms < SILENT_MS]
    return replace(ran(PLAN, {**raw, "transactions": purchases}), labels=None)


class TestSilentPartition:
    """A partition without traffic holds back no window of the others."""

    def test_its_silence_is_no_fault(self, silent: Evidence) -> None:
        assert judge(QUESTION, silent).status == "ok"

    def without_later_bursts(self, silent: Evidence) -> list[Record]:
        def is_later(record: Record) -> bool:
            alert = content(record)
            return bool(alert["rule"] == "burst" and alert["at_ms"] > SILENT_MS)

        alerts = output(silent, "alerts")
        kept = [each for each in alerts if not is_later(each)]
        assert len(kept) < len(alerts)
        return kept

    def test_windows_of_the_other_partition_are_due(self, silent: Evidence) -> None:
        kept = self.without_later_bursts(silent)
        assert "alerts: burst" in red(judge(QUESTION, spoilt(silent, alerts=kept)))
        assert red(judge(QUESTION, spoilt(silent, windows=[]))) == {"numbers: spend-per-minute"}

    def test_a_window_that_should_long_have_closed_is_unknown(self, silent: Evidence) -> None:
        """Where nobody can say that the partition is idle, its windows may be open, but not for ever."""
        question = replace(QUESTION, bounds=Bounds(idle_ms=3_600_000, overdue_ms=15_000))
        missing = spoilt(silent, alerts=self.without_later_bursts(silent), windows=output(silent, "windows")[:1])
        for name in ("alerts: burst", "numbers: spend-per-minute"):
            check = judge(question, missing).check(name)
            assert check.status == "unknown"
            assert "may still be open though the oldest ended" in check.why
        assert judge(question, silent).status == "ok", "all of them have their results"


class TestUnclosedWindows:
    """A run of a file has no closing: what is missing of its last windows is not red, so they are named."""

    RUN = Run({"file": "a.csv"}, START_MS, 0, {}, 40.0, 20.0, {}, is_complete=False, until_ms=START_MS + 40_000)

    def without_last_results(self) -> Evidence:
        longer = replace(PLAN, events=1_200)  # a minute is over
        sent = [each for each in messages(longer) if each.label.kind != CLOSING]
        found = replace(ran(longer, topics(sent)), labels=None)
        open_ms = max(content(each)["at_ms"] for each in output(found, "enriched"))
        window = QUESTION.use.rule("burst").window

        def is_early(record: Record) -> bool:
            alert = content(record)
            return bool(alert["rule"] != "burst" or window.end_ms(0, alert["at_ms"]) < open_ms)

        alerts = [each for each in output(found, "alerts") if is_early(each)]
        assert len(alerts) < len(output(found, "alerts"))
        rows = [each for each in output(found, "windows") if content(each)["window_end_ms"] < open_ms]
        return spoilt(found, alerts=alerts, windows=rows)

    def notes(self, question: Question, evidence: Evidence) -> list[str]:
        verdict = judge(question, evidence)
        assert verdict.status == "ok"
        return [note for note in verdict.notes if "close its last windows" in note]

    def test_they_are_named_with_their_number(self) -> None:
        question = replace(QUESTION, runs=[self.RUN], stores=())
        (note,) = self.notes(question, self.without_last_results())
        found = re.fullmatch(
            r"nothing followed the run 'a\.csv' to close its last windows: ([1-9]\d*) of burst, ([1-9]\d*) of "
            "spend-per-minute have no result and are not judged until later events close them",
            note,
        )
        assert found is not None, note

    def test_none_is_named_behind_a_run_with_its_closing(self) -> None:
        runs = [self.RUN, recorded(PLAN, topics(messages(PLAN)))]
        evidence = ran(PLAN, topics(messages(PLAN)))
        assert self.notes(replace(QUESTION, runs=runs), evidence) == []
        interrupted = replace(runs[1], is_complete=False)
        assert self.notes(replace(QUESTION, runs=[interrupted]), evidence) == [], "all have their results"

    def test_those_of_a_summary_are_named_though_a_closing_closed_those_of_rules(self) -> None:
        """Its last minute is longer than the closing, so each row of it may be lost."""
        closed, good = recorded(PLAN, topics(messages(PLAN))), ran(PLAN, topics(messages(PLAN)))
        question, rows = replace(QUESTION, runs=[closed]), output(good, "windows")
        count = judge(question, good).check("numbers: spend-per-minute").figures["still open"]
        last_ms = max(content(each)["window_start_ms"] for each in rows)
        left = [each for each in rows if content(each)["window_start_ms"] < last_ms]
        assert len(rows) - len(left) == count
        (note,) = self.notes(question, spoilt(good, windows=left))
        assert note.startswith(f"the closing of the run '{closed.name}' did not close its last windows: ")
        assert f": {count} of spend-per-minute" in note

    def test_the_sender_is_warned(self) -> None:
        use, warning = QUESTION.use, "no closing follows: the last windows are not judged until later events close them"
        closed = recorded(PLAN, topics(messages(PLAN)))
        assert warning in remarks(use, self.RUN)
        assert warning in remarks(use, replace(closed, is_complete=False))
        assert warning not in remarks(use, closed)
        assert warning not in remarks(replace(use, rules=(use.rule("spree"),), summaries=(), canaries=None), self.RUN)


class TestUnheardAlert:
    """The listener may miss alerts; those then count with the time at which they were appended."""

    def promised(self, evidence: Evidence, question: Question = QUESTION) -> tuple[float | None, str]:
        (promise,) = judge(question, evidence).promises
        return promise.measured, promise.status

    def test_late_alerts_that_the_listener_missed_break_the_promise(self, good: Evidence) -> None:
        alerts = list(output(good, "alerts"))
        at = [n for n, each in enumerate(alerts) if content(each)["rule"] != "burst"]
        late = at[:: len(at) // 4][:4]
        received = {content(each)["alert_id"]: each.ingest_ms + 1.0 for each in alerts}
        for n in late:
            alerts[n] = replace(alerts[n], ingest_ms=alerts[n].ingest_ms + 300_000)
            del received[content(alerts[n])["alert_id"]]
        assert len(late) / len(at) < 0.1
        assert self.promised(replace(good, received_ms=received))[1] == "kept"
        measured, status = self.promised(replace(spoilt(good, alerts=alerts), received_ms=received))
        assert (status, measured is not None and measured > 300_000) == ("broken", True)


class TestRaces:
    """Two topics have no common order, but an engine that reads one of them late has no excuse for all events."""

    def reading_phones(self, raw: Mapping[str, Sequence[Record]], good: Evidence, late_ms: int) -> Evidence:
        """The run of an engine that reads every phone so late."""
        phones = [replace(each, ingest_ms=each.ingest_ms + late_ms) for each in raw["device-locations"]]
        found = ran(PLAN, {**raw, "device-locations": phones})

        def refused_phones(evidence: Evidence) -> list[Record]:
            return [each for each in output(evidence, "dead-letters") if "device" in content(each)["topic"]]

        others = [each for each in output(found, "dead-letters") if each not in refused_phones(found)]
        return spoilt(found, raw=raw, dead_letters=[*refused_phones(good), *others])

    def test_an_engine_that_reads_a_topic_late_is_red(self, raw: dict[str, list[Record]], good: Evidence) -> None:
        verdict = judge(QUESTION, self.reading_phones(raw, good, 1_990))
        figures = verdict.check("enrichment").figures
        assert int(str(figures["races"])) > 0.02 * len(output(good, "enriched"))
        assert "enrichment" in red(verdict)
        assert verdict.check("enrichment").offenders[-1].endswith("chance explains 0.5%")

    def test_a_source_that_keeps_the_order_of_arrival_has_less_tolerance(self) -> None:
        skews_ms = {name: bounds_of(load(name)).skew_ms for name in ("flink", "flink-spark", "spark")}
        assert skews_ms == {"flink": 200, "flink-spark": 200, "spark": 2_000}

    def test_what_is_out_of_order_by_more_than_the_tolerance_is_red(
        self, raw: dict[str, list[Record]], good: Evidence
    ) -> None:
        tolerant = replace(QUESTION, bounds=Bounds(races_share=1))
        late = self.reading_phones(raw, good, 300)
        assert judge(tolerant, late).status == "ok"
        strict = replace(tolerant, bounds=replace(tolerant.bounds, skew_ms=200))
        assert "enrichment" in red(judge(strict, late))


DAY_MS = 86_400_000


class TestColumns:
    """Every column of every output and store is compared."""

    def of_rule(self, good: Evidence, rule: str) -> int:
        return position(output(good, "alerts"), lambda alert: alert["rule"] == rule)

    @pytest.mark.parametrize("rule", ["spree", "burst"])
    @pytest.mark.parametrize(
        "change",
        [
            lambda alert: alert.update(sent_ms=alert["sent_ms"] - 1),
            lambda alert: alert.update(ingest_ms=alert["ingest_ms"] + 1),
            lambda alert: alert.update(emit_ms=alert["emit_ms"] - DAY_MS),
            lambda alert: alert.update(emit_ms=alert["emit_ms"] + DAY_MS),
            lambda alert: alert["operands"].update(n2="1"),
        ],
    )
    def test_of_alerts(self, good: Evidence, rule: str, change: Callable[[dict[str, Any]], object]) -> None:
        alerts = changed(output(good, "alerts"), change, self.of_rule(good, rule))
        assert red(judge(QUESTION, spoilt(good, alerts=alerts))) == {f"alerts: {rule}"}

    def test_of_dead_letters(self, good: Evidence) -> None:
        letters = changed(output(good, "dead-letters"), lambda letter: letter.update(stage="windows"))
        assert red(judge(QUESTION, spoilt(good, dead_letters=letters))) == {"refusals"}
        foreign = changed(output(good, "dead-letters")[:1], lambda letter: letter.update(topic="another.requests"))
        letters = [*output(good, "dead-letters"), *(replace(each, key=b"another.requests") for each in foreign)]
        assert red(judge(QUESTION, spoilt(good, dead_letters=letters))) == {"refusals"}

    @pytest.mark.parametrize("wrong", [{"window_end_ms": 1}, {"emit_ms": 1}, {"emit_ms": START_MS + DAY_MS}])
    def test_of_window_results(self, good: Evidence, wrong: dict[str, int]) -> None:
        rows = changed(output(good, "windows"), lambda row: row.update(wrong))
        assert red(judge(QUESTION, spoilt(good, windows=rows))) == {"numbers: spend-per-minute"}

    def test_flags_on_the_topic_in_files_and_in_tables(self, good: Evidence) -> None:
        twice = changed(output(good, "enriched"), lambda event: event.update(flags=["burst", "burst"]))
        assert red(judge(QUESTION, spoilt(good, enriched=twice))) == {"enrichment"}
        first, *others = good.stores["files"]
        assert red(judge(QUESTION, spoilt(good, files=[{**first, "flags": ["burst"]}, *others]))) == {"files"}
        table = good.stores["table of transactions"]
        row = next(iter(table))
        for cells in ({b"t:flags": b'["burst"]'}, {b"t:source_topic": b"elsewhere"}, {b"t:foreign": b"1"}):
            spoilt_table = {**table, row: {**table[row], **cells}}
            assert red(judge(QUESTION, spoilt(good, table_of_transactions=spoilt_table))) == {"table of transactions"}

    def test_cells_of_alerts(self, good: Evidence) -> None:
        table = good.stores["table of customers"]
        row, column = next((row, column) for row, cells in table.items() for column in cells if column[:2] == b"a:")
        for cells in ({column: b"1"}, {b"s:foreign": b"1"}):
            spoilt_table = {**table, row: {**table[row], **cells}}
            assert red(judge(QUESTION, spoilt(good, table_of_customers=spoilt_table))) == {"table of customers"}


def run_of(raw: Mapping[str, Sequence[Record]], **about: Any) -> Run:
    """The recorded run of the traffic in these topics."""
    by_topic = {kind: len(records) for kind, records in raw.items()}
    return Run({"plan": {"name": "p"}, **about}, START_MS, 800, by_topic, 40.0, 20.0, {}, is_complete=True)


class TestAbsence:
    """A check whose input is absent stays in the list, as unknown; loss before Kafka is red."""

    def test_a_run_with_its_messages_and_labels_is_ok(self, raw: dict[str, list[Record]], good: Evidence) -> None:
        question = replace(QUESTION, runs=[run_of(raw)])
        verdict = judge(question, good)
        assert verdict.status == "ok"
        assert verdict.check("acknowledged").figures["transactions"] == len(raw["transactions"])

    def test_generated_traffic_without_labels_is_unknown(self, raw: dict[str, list[Record]], good: Evidence) -> None:
        question = replace(QUESTION, runs=[run_of(raw)])
        verdict = judge(question, replace(good, labels=None))
        assert (verdict.check("labels").status, verdict.status) == ("unknown", "unknown")
        why = "the labels of the run 'p' are unused: it was interrupted"
        for labels in (None, good.labels):
            check = judge(QUESTION, replace(good, labels=labels, unlabelled=[why])).check("labels")
            assert (check.status, check.why) == ("unknown", why)
        missing = replace(spoilt(good, alerts=[]), unlabelled=[why])
        assert "labels" in red(judge(QUESTION, missing)), "what one run lacks excuses no other"

    def test_labels_that_lack_a_rule_of_generated_traffic_are_unknown(
        self, raw: dict[str, list[Record]], good: Evidence
    ) -> None:
        """Each run has labels of all rules, if only to show that none must alert."""
        assert good.labels is not None
        question = replace(QUESTION, runs=[run_of(raw)])
        without = replace(good.labels.without({"spree"}), of_other_versions=frozenset())
        for labels, named in ((without, "lack the rules spree"), (Labels(), "lack the rules above-previous-max, away")):
            check = judge(question, replace(good, labels=labels)).check("labels")
            assert (check.status, named in check.why) == ("unknown", True), check.why
            assert judge(QUESTION, replace(good, labels=labels)).status == "ok", "that traffic may not be generated"
        of_other_versions = replace(good, labels=good.labels.without({"spree"}))
        assert judge(question, of_other_versions).status == "ok"

    def test_labels_for_a_version_that_the_pattern_never_had_are_unknown(
        self, raw: dict[str, list[Record]], good: Evidence
    ) -> None:
        """Whoever alters the versions that a run names would have its labels left out as those of a changed rule."""
        assert good.labels is not None
        run, rules = run_of(raw), {rule.name: rule.version for rule in QUESTION.rules}
        left = replace(good, labels=good.labels.without({"spree"}))

        def status(spree: str | None, past: Sequence[tuple[str | None, int]] = ()) -> str:
            pinned = replace(run, about={**run.about, "rules": {**rules, "spree": spree}})
            in_force = {"spree": Versions(tuple(past))} if past else {}
            return judge(replace(QUESTION, runs=[pinned], in_force=in_force), left).check("labels").status

        assert (status("other"), status(None)) == ("unknown", "unknown")
        later_ms, day_ms = START_MS + 10_000, 24 * 3_600_000
        assert (status("other", [("other", later_ms)]), status(None, [(None, later_ms)])) == ("ok", "ok")
        assert status("other", [("another", later_ms)]) == "unknown"
        assert status("other", [("other", START_MS - day_ms)]) == "unknown", "it had been replaced a day before"
        assert status(rules["spree"], [("other", later_ms)]) == "ok"

    def test_a_recorded_file_has_no_labels(self, good: Evidence) -> None:
        run = Run({"file": "a.csv"}, 0, 1, {"transactions": 1}, 1, 1, {}, True)
        verdict = judge(replace(QUESTION, runs=[run]), good)
        assert verdict.status == "ok"
        assert [each.name for each in judge(QUESTION, replace(good, labels=None)).checks if each.name == "labels"] == []

    @pytest.mark.parametrize("kind", ["transactions", "device-locations"])
    def test_a_message_that_was_acknowledged_and_is_not_there_is_red(
        self, raw: dict[str, list[Record]], kind: str
    ) -> None:
        """The engine has judged all that there is: only the sender's own count shows the loss."""
        fewer = {**raw, kind: raw[kind][:-1]}
        verdict = judge(replace(QUESTION, runs=[run_of(raw)]), replace(ran(PLAN, fewer), labels=None))
        assert red(verdict) == {"acknowledged"}
        (offender,) = verdict.check("acknowledged").offenders
        assert offender.startswith(f"{kind}: {len(raw[kind])} messages were acknowledged")
        assert verdict.is_final

    def test_offsets_without_a_message_are_counted(self, raw: dict[str, list[Record]]) -> None:
        """Transactions leave them, too, so they are no fault: but a message that Kafka lost shows up here alone."""
        purchases = raw["transactions"]
        last = max((each for each in purchases if each.partition == 0), key=lambda each: each.offset)
        garbage = replace(last, offset=last.offset + 1, value=b"{")
        other = {**raw, "transactions": [*purchases[:200], *purchases[201:], garbage]}
        verdict = judge(replace(QUESTION, runs=[run_of(raw)]), replace(ran(PLAN, other), labels=None))
        assert verdict.check("acknowledged").status == "ok", "there are as many as were sent"
        assert verdict.check("substance").figures["transactions: offsets without a message"] == 1
        whole = judge(QUESTION, ran(PLAN, raw)).check("substance").figures
        assert [name for name in whole if "offsets" in name] == []


class TestLabelsOfOtherVersions:
    """Labels hold for the version of the rule for which they were made."""

    def test_they_are_reported_and_never_red(self, good: Evidence) -> None:
        assert good.labels is not None
        without_spree = [each for each in output(good, "alerts") if content(each)["rule"] != "spree"]
        assert "labels" in red(judge(QUESTION, spoilt(good, alerts=without_spree)))
        of_others = replace(good, labels=good.labels.without({"spree"}))
        verdict = judge(QUESTION, spoilt(of_others, alerts=without_spree))
        assert "labels" not in red(verdict)
        assert verdict.check("labels").figures["spree: runs"] == "labelled for another version"
        assert "spree: recall, spree" not in verdict.check("labels").figures
        assert [note for note in verdict.notes if "'spree'" in note]
        assert judge(QUESTION, of_others).status == "ok", "the oracle judges the rule all the same"

    def test_where_no_label_holds_each_rule_is_named(self, good: Evidence) -> None:
        """A pattern of one rule can be upgraded to another version of it: the oracle judges that."""
        assert good.labels is not None
        rules = {rule.name for rule in QUESTION.rules}
        verdict = judge(QUESTION, replace(good, labels=good.labels.without(rules)))
        assert verdict.status == "ok"
        named = {f"{name}: runs": "labelled for another version" for name in rules}
        assert verdict.check("labels").figures == {**named, "offenders": 0}
        assert len([note for note in verdict.notes if "send traffic again" in note]) == len(rules)

    def test_alerts_of_an_earlier_version_answer_no_label_of_this_one(self, good: Evidence) -> None:
        alerts = output(good, "alerts")
        at = position(alerts, lambda alert: alert["rule"] == "spree")
        earlier = changed(alerts, lambda alert: alert.update(rule_version="earlier"), at)
        assert "labels" in red(judge(QUESTION, spoilt(good, alerts=earlier)))


class TestBeforeTime:
    """What names a window before 1970, a place below zero, or no time, is red too."""

    def test_a_row_of_a_window_before_1970(self, good: Evidence) -> None:
        rows = output(good, "windows")
        more = changed(rows[:1], lambda row: row.update(window_start_ms=-1))
        found = judge(QUESTION, spoilt(good, windows=[*rows, replace(more[0], offset=len(rows))]))
        assert "numbers: spend-per-minute" in red(found)

    @pytest.mark.parametrize("place", [{"offset": -1}, {"partition": -1}])
    def test_a_dead_letter_of_a_place_below_zero(self, good: Evidence, place: dict[str, int]) -> None:
        letters = output(good, "dead-letters")
        at = position(letters, lambda letter: letter["topic"].endswith("merchants"))
        (more,) = changed(letters[at : at + 1], lambda letter: letter.update(place))
        found = judge(QUESTION, spoilt(good, dead_letters=[*letters, replace(more, offset=len(letters))]))
        assert red(found) == {"refusals"}

    @pytest.mark.parametrize("name", ["sent_ms", "ingest_ms", "emit_ms"])
    @pytest.mark.parametrize("rule", ["spree", "burst"])
    def test_an_alert_whose_time_is_null(self, good: Evidence, rule: str, name: str) -> None:
        at = position(output(good, "alerts"), lambda alert: alert["rule"] == rule)
        alerts = changed(output(good, "alerts"), lambda alert: alert.update({name: None}), at)
        assert red(judge(QUESTION, spoilt(good, alerts=alerts))) == {f"alerts: {rule}"}
