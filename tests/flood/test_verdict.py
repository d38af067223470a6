"""A pretended engine runs the flood rules with one small fault each: the verdict is red for the rule that has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from millrace import oracle
from millrace.oracle import Finding, Record
from millrace.rules import Count, Tumbling, WindowRule, alert_id
from millrace.traffic import TrafficPlan, plan_for
from millrace.traffic import runs as traffic
from millrace.traffic.labels import labels_of
from millrace.verify import Evidence, Question, Verdict, Versions, judge
from millrace.verify.case import Case
from millrace.verify.spoiling import self_test, spoilings
from millrace.verify.verdict import Check
from pipelines.flood import FLOOD
from pipelines.flood.rules import HARMLESS, flood_group, flood_ip
from pipelines.flood.traffic import TRAFFIC
from tests.pipelines.pretend import key_of

START_MS, CLOSING_MS = 1_790_000_000_123, 20_000
WRITTEN_MS = START_MS + 3_600_000
PLAN = plan_for(TRAFFIC, 12_000, 500, seed=5, attacks=0.2)
SHORT = replace(PLAN, events=2_000)
TOPIC = "pretended.requests"
QUESTION = Question("pretended", FLOOD, FLOOD.rules, FLOOD.summaries, (), {})

Event = dict[str, Any]
Run = tuple[list[Record], list[Event], list[Event]]
"""The messages, the accepted events, and the dead letters."""


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of(PLAN)


@pytest.fixture(scope="module")
def short() -> Run:
    return run_of(SHORT)


def run_of(plan: TrafficPlan, partitions: int = 1) -> Run:
    sent = [*TRAFFIC.messages(plan, {}, START_MS), *TRAFFIC.closing(plan, {}, START_MS, ("0", "1"), CLOSING_MS)]
    raw, offsets = [], [count() for _ in range(partitions)]
    for message in sent:
        partition, at_ms = int(message.key or b"0") % partitions, START_MS + message.due_ms + 3
        raw.append(Record("requests", partition, next(offsets[partition]), at_ms, message.key, message.value))
    return judged(raw)


def judged(raw: list[Record]) -> Run:
    """The run of these messages, in this order."""
    accepted: list[Event] = []
    letters: list[Event] = []
    for each in oracle.judge(FLOOD, (), raw, {}):
        if each.reason is None and each.event is not None:
            accepted.append({**each.event, "source_topic": TOPIC})
        else:
            letters.append(letter(each.record, str(each.reason), "events"))
    return raw, accepted, letters


def letter(record: Record, reason: str, stage: str) -> Event:
    place = {"topic": TOPIC, "partition": record.partition, "offset": record.offset, "ingest_ms": record.ingest_ms}
    content = oracle.value_base64(FLOOD.judged, record.value, reason)
    return {"reason": reason, **place, "stage": stage, "value_base64": content}


def timely(run: Run) -> tuple[list[Event], list[Event]]:
    """The events of the windows, and the dead letters of those that came too late for them."""
    raw, accepted, _ = run
    by_place = {(record.partition, record.offset): record for record in raw}
    newest_ms, counted, late = 0, [], []
    for event in accepted:
        if event["at_ms"] // 3_000 * 3_000 + 3_000 <= newest_ms - FLOOD.disorder_ms:
            late.append(letter(by_place[event["source_partition"], event["source_offset"]], "late", "windows"))
        else:
            counted.append(event)
            newest_ms = max(newest_ms, event["at_ms"])
    return counted, late


def evidence_of(
    run: Run,
    rules: Sequence[WindowRule] = (flood_ip, flood_group),
    change: Callable[[list[Event]], object] = lambda alerts: None,
    arriving: Callable[[list[Event]], list[Event]] = lambda events: events,
    plan: TrafficPlan = PLAN,
) -> Evidence:
    """What an engine with these rules leaves behind, which takes events in as `arriving` gives them."""
    raw, accepted, letters = run
    counted, late = timely(run)
    # A wrong rule must not give itself away by its version: it passes for the right one.
    alerts = [
        alert(replace(finding, rule_version=FLOOD.rule(rule.name).version), among(finding, rule, counted))
        for rule in rules
        for finding in oracle.window_findings(rule, arriving(counted))
    ]
    change(alerts)
    outputs = {"enriched": accepted, "alerts": alerts, "dead-letters": [*letters, *late], "windows": rows_of(counted)}
    span_ms = (START_MS, START_MS + plan.due_ms(plan.events) + CLOSING_MS)
    labels = labels_of(FLOOD, TRAFFIC.messages(plan, {}, START_MS), span_ms)
    written = {kind: list(records(kind, events)) for kind, events in outputs.items()}
    return Evidence({"requests": raw}, written, labels=labels, kinds={TOPIC: "requests"})


def rows_of(counted: Sequence[Event]) -> list[Event]:
    """The rows of all summaries."""
    return [
        {"summary": s.name, "window_start_ms": key[0], "window_end_ms": key[0] + 3_000}
        | {**dict(zip(s.keys, key[1:], strict=True)), **numbers, "emit_ms": WRITTEN_MS}
        for s in FLOOD.summaries
        for key, numbers in oracle.summary_rows(s, counted).items()
    ]


def verdict(run: Run, *how: Any, **changes: Any) -> Verdict:
    """The verdict on it."""
    return judge(QUESTION, evidence_of(run, *how, **changes))


def among(finding: Finding, rule: WindowRule, counted: Iterable[Event]) -> list[Event]:
    """The events of a window, as they arrived."""
    own = (event for event in counted if event[rule.key] == finding.key)
    return [event for event in own if event["at_ms"] // 3_000 * 3_000 == finding.window_start_ms]


def alert(finding: Finding, among: Sequence[Event]) -> Event:
    return {
        "alert_id": finding.alert_id,
        "rule": finding.rule,
        "rule_version": finding.rule_version,
        "key": finding.key,
        "subject": finding.subject,
        "window_start_ms": finding.window_start_ms,
        "event_ids": list(finding.event_ids),
        "operands": {name: None if value is None else str(value) for name, value in finding.operands.items()},
        "at_ms": finding.at_ms,
        "sent_ms": max(event["sent_ms"] for event in among),
        "ingest_ms": max(event["ingest_ms"] for event in among),
        "emit_ms": WRITTEN_MS,
    }


def records(kind: str, events: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    for n, event in enumerate(events):
        yield Record(kind, 0, n, WRITTEN_MS, key_of(FLOOD, kind, event), json.dumps(event).encode())


def red(found: Verdict) -> set[str]:
    return {check.name for check in found.checks if check.status == "failed"}


def test_right_rules_are_ok_and_no_attack_within_a_window_is_missed(run: Run) -> None:
    found = verdict(run)
    assert found.status == "ok", [(c.name, c.why, c.offenders) for c in found.checks if c.status != "ok"]
    figures = next(check.figures for check in found.checks if check.name == "labels")
    for rule in (flood_ip, flood_group):
        assert figures[f"{rule.name}: precision"] == 1
        recalls = {name: share for name, share in figures.items() if name.startswith(f"{rule.name}: recall")}
        assert set(recalls.values()) == {1}
        assert len(recalls) >= 3, "kinds of attack"


WRONG = {
    "31 for 30": lambda w: (w.n > HARMLESS + 1) & (w.refused == w.n),
    "at least for more than": lambda w: (w.n >= HARMLESS) & (w.refused == w.n),
    "one may be served": lambda w: (w.n > HARMLESS) & (w.refused >= w.n - 1),
}


@pytest.mark.parametrize("fault", WRONG)
def test_rules_slightly_wrong_are_red_by_name(run: Run, fault: str) -> None:
    wrong = [replace(rule, alert_when=WRONG[fault]) for rule in (flood_ip, flood_group)]
    assert red(verdict(run, wrong)) >= {"alerts: flood-ip", "alerts: flood-group"}


def test_the_last_ip_by_event_time_is_red(run: Run) -> None:
    """Two ips attack together, and the older request of the two comes last."""

    def by_event_time(events: list[Event]) -> list[Event]:
        places = sorted(event["ingest_ms"] for event in events)
        ordered = sorted(events, key=lambda event: event["at_ms"])
        pairs = zip(ordered, places, strict=True)
        return [{**event, "ingest_ms": at, "source_offset": n} for n, (event, at) in enumerate(pairs)]

    assert red(verdict(run, arriving=by_event_time)) == {"alerts: flood-group"}


def test_a_tampered_count_is_red(run: Run) -> None:
    def tamper(alerts: list[Event]) -> None:
        chosen = next(each for each in alerts if each["rule"] == flood_ip.name)
        chosen["operands"]["n"] = str(int(chosen["operands"]["n"]) + 1)

    assert red(verdict(run, change=tamper)) == {"alerts: flood-ip"}


@pytest.mark.parametrize("name", ["", "at_ms", "ingest_ms", "sent_ms", "subject", "first_ms"])
def test_an_alert_of_an_earlier_version_has_the_times_of_its_window_though_its_events_have_no_ids(
    short: Run, name: str
) -> None:
    counted, _ = timely(short)

    def of_earlier(alerts: list[Event]) -> None:
        alert = next(each for each in alerts if each["rule"] == flood_group.name)
        span = range(alert["window_start_ms"], alert["at_ms"] + 1)
        among = [each for each in counted if each["group_id"] == alert["key"] and each["at_ms"] in span]
        others = {"subject": min(each["ip"] for each in among), "first_ms": str(alert["at_ms"])}
        if name in alert:
            alert[name] = others[name] if name == "subject" else min(each[name] for each in among)
        elif name:
            alert["operands"][name] = others[name]
        alert["rule_version"] = "old"
        alert["alert_id"] = alert_id(alert["rule"], "old", alert["key"], str(alert["window_start_ms"]))

    in_force = {flood_group.name: Versions((("old", WRITTEN_MS),))}
    found = judge(replace(QUESTION, in_force=in_force), evidence_of(short, change=of_earlier, plan=SHORT)).check(
        "alert ids"
    )
    assert [name in each for each in found.offenders] == ([True] if name else [])


FACTS = ("", "subject", "at_ms", "ingest_ms", "sent_ms", "first_ms", "last_ms")


@pytest.mark.parametrize("name", FACTS)
def test_an_alert_on_a_window_from_before_its_rule_changed_has_facts_of_its_events(short: Run, name: str) -> None:
    counted, _ = timely(short)

    def begun_anew(alerts: list[Event]) -> None:
        n, alert = next((n, each) for n, each in enumerate(alerts) if each["rule"] == flood_group.name)
        span = range(alert["window_start_ms"], alert["at_ms"] + 1)
        later = [each for each in counted if each["group_id"] == alert["key"] and each["at_ms"] in span][5:]
        operands = {**alert["operands"], "n": str(len(later)), "first_ms": str(min(each["at_ms"] for each in later))}
        if name in operands:
            operands[name] = "1"
        wrong = "nobody" if name == "subject" else 1
        alerts[n] = {**alert, "operands": operands, **({name: wrong} if name in alert else {})}
        if name == "at_ms":
            operands["last_ms"] = "1"

    in_force = {flood_group.name: Versions((("old", WRITTEN_MS + 1_000),))}
    found = judge(replace(QUESTION, in_force=in_force), evidence_of(short, change=begun_anew, plan=SHORT))
    assert len(found.check(f"alerts: {flood_group.name}").offenders) == (1 if name else 0)


@pytest.fixture(scope="module")
def in_two() -> tuple[Run, Evidence]:
    """A run with two partitions, and what it left behind, in its time."""
    run = run_of(SHORT, 2)
    return run, came_out(evidence_of(run, plan=SHORT), lambda event: 8)


def came_out(evidence: Evidence, after_ms: Callable[[Event], int]) -> Evidence:
    """The evidence with the enriched events so long after their arrival."""
    events = [json.loads(record.value or b"") for record in evidence.outputs["enriched"] or ()]
    timed = sorted((event["ingest_ms"] + after_ms(event), json.dumps(event).encode()) for event in events)
    enriched = [Record("enriched", 0, n, at_ms, b"", value) for n, (at_ms, value) in enumerate(timed)]
    return replace(evidence, outputs={**evidence.outputs, "enriched": enriched}, labels=None)


def called_late(run: Run, evidence: Evidence, among: Callable[[Event], bool], most: int) -> Evidence:
    """The evidence with late dead letters of so many events from the second half of the run."""
    raw, accepted, _ = run
    by_place = {(record.partition, record.offset): record for record in raw}
    chosen = [event for event in accepted[len(accepted) // 2 :] if among(event)][:most]
    letters = [letter(by_place[e["source_partition"], e["source_offset"]], "late", "windows") for e in chosen]
    written = [json.loads(record.value or b"") for record in evidence.outputs["dead-letters"] or ()]
    return replace(
        evidence, outputs={**evidence.outputs, "dead-letters": list(records("dead-letters", written + letters))}
    )


def lateness(evidence: Evidence) -> Check:
    return judge(QUESTION, evidence).check("lateness")


def everyday(event: Event) -> bool:
    """Whether an event is of no attack, so that no alert counts it."""
    return bool(event["ingest_ms"] - event["at_ms"] < 900 and event["code"] == 200)


def test_an_event_that_nothing_overtook_is_not_late() -> None:
    """The disorder is one second. Of one partition no event is read before those that arrived earlier."""
    run = run_of(SHORT)
    found = lateness(called_late(run, evidence_of(run, plan=SHORT), everyday, 1))
    assert (found.status, len(found.offenders)) == ("failed", 1)


@pytest.mark.parametrize(("most", "status"), [(3, "ok"), (100, "unknown")])
def test_few_events_are_late_because_another_partition_was_ahead(
    in_two: tuple[Run, Evidence], most: int, status: str
) -> None:
    found = lateness(called_late(*in_two, everyday, most))
    assert (found.status, found.figures["races"]) == (status, most)


def raced(run: Run, when: Callable[[int], Callable[[Any], Any]], at: int = 0) -> tuple[Question, Evidence]:
    """A run in which one event is late by a race, as one rule finds it; `when` gives its condition.

    Its window has so many events; it is the one at that place.
    """
    (_, accepted, _), (counted, _) = run, timely(run)
    half_ms = accepted[len(accepted) // 2]["ingest_ms"]
    windows = ((found, among(found, BUSY, counted)) for found in oracle.window_findings(BUSY, counted))
    own = next(own for _, own in windows if everyday(own[at]) and own[at]["ingest_ms"] > half_ms)
    chosen, n = own[at], len(own)
    rule = replace(BUSY, alert_when=when(n))
    left = [event for event in counted if event is not chosen]
    alerts = [alert(found, among(found, rule, left)) for found in oracle.window_findings(rule, left)]
    written = evidence_of(run, plan=SHORT)
    evidence = replace(written, outputs={**written.outputs, "alerts": list(records("alerts", alerts))}, labels=None)
    return replace(QUESTION, rules=(rule,)), called_late(run, evidence, lambda event: event is chosen, 1)


def held(evidence: Evidence) -> Evidence:
    """The same, but the event that was called late came out behind later ones, as behind a task that stands still."""
    late = json.loads((evidence.outputs["dead-letters"] or ())[-1].value or b"")
    return came_out(evidence, lambda event: 2_000 if event["source_offset"] == late["offset"] else 8)


RESTING: Mapping[str, tuple[Callable[[int], Callable[[Any], Any]], str]] = {
    "an alert is not there": (lambda n: lambda w: w.n >= n, "unknown"),
    "an alert is there": (lambda n: lambda w: w.n < n, "unknown"),
    "the alert is there either way": (lambda n: lambda w: w.n >= n - 1, "ok"),
}


@pytest.mark.parametrize("what", RESTING)
def test_whether_an_alert_is_due_does_not_rest_on_a_race(what: str) -> None:
    when, status = RESTING[what]
    found = {each.name: each for each in judge(*raced(run_of(SHORT, 2), when)).checks}
    assert found["lateness"].status == "ok"
    assert found["lateness"].figures["races"] == 1
    assert found["alerts: busy"].status == status


@pytest.mark.parametrize("what", RESTING)
def test_whether_an_alert_is_due_does_not_rest_on_the_order_in_which_events_came_out(what: str) -> None:
    when, status = RESTING[what]
    question, evidence = raced(run_of(SHORT), when, -1)
    found = {each.name: each for each in judge(question, held(evidence)).checks}
    assert (found["lateness"].status, found["lateness"].figures["races"]) == ("ok", 0)
    assert found["alerts: busy"].status == status


def test_an_alert_that_is_lost_with_its_events_called_late_is_noticed_by_its_check_alone() -> None:
    question, evidence = raced(run_of(SHORT, 2), lambda n: lambda w: w.n >= n - 1)
    way = "alerts: busy: one is lost, and its events are called late"
    (spoilt,) = (each for each in spoilings(Case(question, evidence)) if each.name == way)
    checks = judge(*spoilt.spoilt()).checks
    assert {each.name: each.status for each in checks if each.status != "ok"} == {"alerts: busy": "unknown"}


def test_an_alert_that_is_lost_so_is_on_a_window_that_began_after_its_rule_changed() -> None:
    question, evidence = raced(run_of(SHORT, 2), lambda n: lambda w: w.n >= n - 1)
    (rule,), evidence = question.rules, came_out(evidence, lambda event: 8)
    way = "alerts: busy: one is lost, and its events are called late"
    asked = replace(question, in_force={rule.name: Versions((("earlier", START_MS + 11_000),))})
    for each in spoilings(Case(asked, evidence)):
        if each.name == way:
            assert judge(*each.spoilt()).check("alerts: busy").status != "ok"


def with_clock_set_back() -> Evidence:
    """A run with two late events because another partition was ahead; their broker's clock is set back by more."""
    raw, _, _ = run_of(SHORT, 2)
    since_ms, by_ms = START_MS + 3_000, 5_000
    run = judged(
        [
            replace(each, ingest_ms=each.ingest_ms - by_ms)
            if each.partition == 0 and each.ingest_ms >= since_ms
            else each
            for each in raw
        ]
    )

    def follows(event: Event) -> bool:
        at_ms = event["ingest_ms"] + by_ms
        is_prompt = everyday({**event, "ingest_ms": at_ms})
        return bool(event["source_partition"] == 0 and since_ms <= at_ms < since_ms + 400 and is_prompt)

    return called_late(run, evidence_of(run, plan=SHORT), follows, 2)


def test_where_a_clock_was_set_back_an_event_arrived_with_those_before_it() -> None:
    found = lateness(with_clock_set_back())
    assert (found.status, found.figures["races"]) == ("ok", 2)


def test_events_that_came_out_after_newer_ones_may_be_late(in_two: tuple[Run, Evidence]) -> None:
    """A task stands still for two seconds, and the windows read the other one's events first."""
    run, evidence = in_two
    began_ms = START_MS + 2_000

    def stood_still(event: Event) -> bool:
        return bool(event["source_partition"] == 1 and began_ms <= event["ingest_ms"] < began_ms + 500)

    held = came_out(evidence, lambda event: began_ms + 2_500 - event["ingest_ms"] if stood_still(event) else 8)
    found = lateness(called_late(run, held, stood_still, 50))
    late = int(lateness(evidence).figures["late"] or 0)
    assert (found.status, found.figures) == ("ok", {"late": 50 + late, "races": 0, "offenders": 0})


BUSY = WindowRule(
    name="busy",
    doc="A group sends two requests within 3 seconds.",
    on=FLOOD.enriched,
    key="group_id",
    window=Tumbling(3_000),
    measures={"n": Count()},
    alert_when=lambda w: w.n >= 2,
)


@pytest.fixture(scope="module")
def minutes() -> Evidence:
    """A run of four minutes, with a request that came an hour late in the last one; its windows alert as they end."""
    plan = replace(PLAN, events=2_400, rate_per_s=10, shares={**PLAN.shares, "late": 0.02})
    run = run_of(plan)
    evidence, (counted, _) = came_out(evidence_of(run, plan=plan), lambda event: 8), timely(run)
    alerts = [alert(found, among(found, BUSY, counted)) for found in oracle.window_findings(BUSY, counted)]
    return showing(replace(evidence, outputs={**evidence.outputs, "alerts": list(records("alerts", alerts))}), 0, 0)


def showing(evidence: Evidence, stood_still_ms: int, until_ms: int) -> Evidence:
    """The evidence with the windows' outputs as they are over, but for those of a time in which they stood still."""

    def at(record: Record) -> Record:
        event = json.loads(record.value or b"")
        at_ms = max(event["ingest_ms"], event.get("window_start_ms", 0) + BUSY.window.size_ms) + 2_000
        at_ms = START_MS + until_ms if stood_still_ms <= at_ms - START_MS < until_ms else at_ms
        again = event | ({"emit_ms": at_ms} if "emit_ms" in event else {})
        return replace(record, ingest_ms=at_ms, value=json.dumps(again).encode())

    changed = {kind: list(map(at, evidence.outputs[kind] or ())) for kind in ("alerts", "dead-letters")}
    return replace(evidence, outputs={**evidence.outputs, **changed})


def without_late(evidence: Evidence, places: Sequence[int]) -> Evidence:
    """The evidence of a pattern without summaries, without some of its late dead letters."""
    letters = [(record, json.loads(record.value or b"")) for record in evidence.outputs["dead-letters"] or ()]
    late = [each for each in letters if each[1]["reason"] == "late"]
    lost = [late[at] for at in places]
    left = [replace(record, offset=n) for n, (record, _) in enumerate(each for each in letters if each not in lost)]
    return replace(evidence, outputs={**evidence.outputs, "dead-letters": left, "windows": []})


def lateness_without_summaries(evidence: Evidence, **changes: Any) -> Check:
    return judge(replace(QUESTION, rules=(BUSY,), summaries=(), **changes), evidence).check("lateness")


def test_an_event_far_behind_all_windows_is_late_or_counted(minutes: Evidence) -> None:
    assert lateness_without_summaries(without_late(minutes, [])).status == "ok"
    found = lateness_without_summaries(without_late(minutes, [-1]))
    assert (found.status, found.why[:8]) == ("unknown", "1 events")


def test_windows_that_stand_still_may_count_what_is_far_behind(minutes: Evidence) -> None:
    """Nothing shows that the windows had passed an event: that of the engine in front of them does not."""
    found = lateness_without_summaries(without_late(showing(minutes, 0, 300_000), [-1]))
    assert found.status == "ok"
    found = lateness_without_summaries(without_late(showing(minutes, 10_000, 300_000), [-1]))
    assert (found.status, found.why[:8]) == ("unknown", "1 events"), "they had passed it before they stood still"


def test_a_late_dead_letter_shows_how_far_the_windows_were(minutes: Evidence) -> None:
    """Without an alert: those of events that were less late show it."""
    letters = [json.loads(record.value or b"") for record in minutes.outputs["dead-letters"] or ()]
    last = [each["offset"] for each in letters if each["reason"] == "late"][-1]

    def later(record: Record) -> Record:
        event = json.loads(record.value or b"")
        is_last = event.get("source_offset", record.offset) == last
        again = event | {"at_ms": event["at_ms"] - 600_000} if is_last else event
        return replace(record, value=json.dumps(again).encode()) if is_last else record

    silent = replace(minutes, outputs={**minutes.outputs, "alerts": []})
    patient = replace(QUESTION.bounds, held_ms=86_400_000)
    assert lateness_without_summaries(without_late(silent, [-1]), bounds=patient).status == "ok"
    assert lateness_without_summaries(without_late(silent, [-1])).status == "unknown", "it is an hour behind"
    enriched = list(map(later, silent.outputs["enriched"] or ()))
    raw = [record if record.offset != last else later(record) for record in silent.raw["requests"] or ()]
    of_last = replace(silent, raw={"requests": raw}, outputs={**silent.outputs, "enriched": enriched})
    found = lateness_without_summaries(without_late(of_last, [-1]), bounds=patient)
    assert (found.status, found.why[:8]) == ("unknown", "1 events")


def test_of_a_backlog_any_event_may_be_counted(minutes: Evidence) -> None:
    """The job comes when all has arrived, takes three minutes for it, and its windows count what is there."""
    last_ms = max(json.loads(record.value or b"")["ingest_ms"] for record in minutes.outputs["enriched"] or ())

    def later(event: Event) -> int:
        return int(last_ms + 180_000 - (last_ms - event["ingest_ms"]) * 3 // 4 - event["ingest_ms"])

    assert lateness_without_summaries(without_late(came_out(minutes, later), [-1])).status == "ok"


def test_what_came_before_a_rule_on_windows_needs_no_late_dead_letter(minutes: Evidence) -> None:
    last_ms = max(json.loads(record.value or b"")["ingest_ms"] for record in minutes.outputs["enriched"] or ())
    added = {BUSY.name: Versions(((None, last_ms),))}
    assert lateness_without_summaries(without_late(minutes, [-1]), in_force=added).status == "ok"


def test_each_spoiling_of_a_flood_run_is_noticed_by_its_check() -> None:
    plan = replace(PLAN, events=600)
    run = run_of(plan)
    by_topic = {"requests": len(run[0])}
    sent = traffic.Run({"plan": {"name": "f"}}, START_MS, len(run[0]), by_topic, 24.0, 500.0, {}, is_complete=True)
    found = self_test(replace(QUESTION, runs=[sent]), evidence_of(run, plan=plan))
    assert found.why == ""
    assert found.missed == []
    assert len(found.outcomes) >= 60


def test_each_spoiling_is_noticed_where_the_first_windows_are_of_late_events_alone() -> None:
    plan = replace(PLAN, events=600, shares={**PLAN.shares, "late": 0.1})
    run = run_of(plan)
    evidence = evidence_of(run, plan=plan)
    rows = list(records("windows", rows_of(run[1])))
    found = self_test(QUESTION, replace(evidence, outputs={**evidence.outputs, "windows": rows}))
    assert (found.why, found.missed) == ("", [])
