"""Labels: the check of what traffic was made to set off, with precision and recall."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules import (
    TOKEN_LENGTH,
    TOKEN_PATTERN,
    Count,
    Enrichment,
    EventType,
    Secret,
    Session,
    Text,
    Tumbling,
    UseCase,
    Whole,
    Window,
    WindowRule,
)
from millrace.traffic import Label, Message, message
from millrace.traffic.labels import ANY_KEY, Labels, alert_places, labels_of, places_left_out, together
from millrace.verify import Evidence, Question, Verdict, judge
from millrace.verify.checking import Found, Undecided
from millrace.verify.ledger import labelled
from millrace.verify.ledger.step import Labelled
from tests.traffic.visits import VISITS, crowd, visit, worse

START_MS = 1_790_000_000_000
SPAN_MS = (START_MS, START_MS + 60_000)
QUESTION = Question("p", VISITS, VISITS.rules)
CROWD = Label("crowd", 1, ("crowd",))


def made(*messages: Message) -> Labels:
    return labels_of(VISITS, messages, SPAN_MS)


def alert(rule: str, page: str, at_ms: int, window_start_ms: int | None = None, **changes: Any) -> dict[str, Any]:
    fact = at_ms if window_start_ms is None else window_start_ms
    version = {each.name: each.version for each in VISITS.rules}[rule]
    return {
        "alert_id": f"{rule} {page} {fact}",
        "rule": rule,
        "rule_version": version,
        "key": page,
        "subject": page,
        "window_start_ms": window_start_ms,
        "event_ids": [],
        "operands": {},
        "at_ms": at_ms,
        "ingest_ms": at_ms,
        "emit_ms": at_ms,
    } | changes


def judged(labels: Labels, alerts: Iterable[dict[str, Any]]) -> Verdict:
    records = [Record("alerts", 0, n, START_MS, None, json.dumps(each).encode()) for n, each in enumerate(alerts)]
    return judge(QUESTION, Evidence(raw={"visits": []}, outputs={"alerts": records}, labels=labels))


def test_events_of_one_window_are_one_label() -> None:
    three = [visit("home", START_MS, due_ms, CROWD) for due_ms in (0, 500, 999)]
    assert made(*three).meant == {("crowd", ("home", str(START_MS))): "crowd"}
    assert len(made(*three, visit("home", START_MS, 1_000, CROWD)).meant) == 2


def test_an_event_without_an_id_is_known_by_its_key_and_time() -> None:
    found = made(visit("home", START_MS, 7, Label("odd", 1, ("worse",))))
    assert found.meant == {("worse", ("home", str(START_MS + 7))): "odd"}
    assert judged(found, [alert(worse.name, "home", START_MS + 7)]).check("labels").status == "ok"
    assert judged(found, [alert(worse.name, "home", START_MS + 8)]).check("labels").status == "failed"


def test_a_missing_alert_is_an_offender_and_lowers_recall() -> None:
    labels = made(*(visit(page, START_MS, 0, CROWD) for page in ("a", "b", "c", "d")))
    found = judged(labels, [alert(crowd.name, page, START_MS + 9, START_MS) for page in "abc"]).check("labels")
    assert found.status == "failed"
    assert found.offenders == (f"d {START_MS} (crowd) raised no alert of crowd",)
    assert dict(found.figures) == {"crowd": 4, "crowd: precision": 1.0, "crowd: recall, crowd": 0.75, "offenders": 1}


def test_an_alert_without_a_label_lowers_precision_unless_chance_decides_or_it_is_of_another_time() -> None:
    labels = made(visit("a", START_MS, 0, CROWD), visit("chancy", START_MS, 0, Label("chance", 2)))
    alerts = [
        alert(crowd.name, "a", START_MS + 9, START_MS),
        alert(crowd.name, "b", START_MS + 9, START_MS),
        alert(crowd.name, "b", START_MS + 9, START_MS),  # a copy
        alert(crowd.name, "chancy", START_MS, START_MS),
        alert(crowd.name, "b", START_MS + 3_600_000, START_MS + 3_600_000),
    ]
    assert judged(labels, alerts).check("labels").figures["crowd: precision"] == 0.5


def test_labels_of_several_runs_stand_together() -> None:
    one, other = made(visit("a", START_MS, 0, CROWD)), made(visit("b", START_MS, 0, CROWD))
    both = together([one, replace(other, spans_ms={crowd.name: ((1, 2),)})])
    assert both.meant == {**one.meant, **other.meant}
    assert both.spans_ms[crowd.name] == (SPAN_MS, (1, 2))
    assert both.without({crowd.name}).spans_ms.keys() == one.spans_ms.keys() - {crowd.name}


def test_a_window_over_events_of_several_keys_answers_the_label_of_each() -> None:
    scans = EventType(
        "scans",
        "A parcel in a depot.",
        (Text("scan"), Text("parcel"), Text("depot"), Whole("at_ms", 0)),
        key="parcel",
        id="scan",
        time="at_ms",
        past_ms=60_000,
    )
    enrichment = Enrichment(scans)
    enriched = enrichment.enriched("enriched", "A scan.")
    rush = WindowRule("rush", "Two.", enriched, "depot", Session(1_000), {"n": Count()}, lambda w: w.n > 1)
    use = UseCase("parcels", scans, enrichment, enriched, rules=(rush,))
    sent = [
        message(
            0,
            "scans",
            parcel,
            {"scan": f"s{parcel}", "parcel": parcel, "depot": "d", "at_ms": 9},
            Label("r", 1, ("rush",)),
        )
        for parcel in "ab"
    ]
    labelled = labels_of(use, sent, SPAN_MS)
    alert = {"rule": "rush", "key": "d", "subject": "b", "event_ids": ["sa", "sb"], "window_start_ms": 9, "at_ms": 9}
    assert labelled.meant.keys() == {("rush", place) for place in alert_places(use, rush, alert)}


@pytest.mark.parametrize("key", ["zone", "badge"])
@pytest.mark.parametrize("window", [Session(1_000), Tumbling(1_000)])
def test_a_key_that_the_event_does_not_show_leaves_the_ids(key: str, window: Window) -> None:
    secret = Secret("badge_number", pattern="[0-9]+", complaint="a badge number has digits")
    badge = Text("badge", TOKEN_PATTERN, TOKEN_LENGTH, token_of=secret)
    scans = EventType(
        "scans", "", (Text("scan"), badge, Whole("at_ms", 0)), key="badge", id="scan", time="at_ms", past_ms=60_000
    )
    enrichment = Enrichment(scans)
    enriched = enrichment.enriched("enriched", "")
    enriched = replace(enriched, fields=(*enriched.fields, Text("zone")))
    pair = WindowRule("pair", "Two.", enriched, key, window, {"n": Count()}, lambda w: w.n > 1)
    use = UseCase("parcels", scans, enrichment, enriched, rules=(pair,))
    sent = message(0, "scans", "x", {"scan": "s1", "badge": "made", "at_ms": 9}, Label("p", 1, ("pair",)))
    alert = {"rule": "pair", "key": "sent", "subject": "sent", "event_ids": ["s1"], "window_start_ms": 0, "at_ms": 9}
    assert labels_of(use, [sent], SPAN_MS).meant.keys() == {("pair", each) for each in alert_places(use, pair, alert)}


def parcels(window: Window) -> UseCase:
    """A use with a rule whose alerts list two events, by a key that only an enriched event has."""
    scans = EventType(
        "scans",
        "",
        (Text("scan"), Text("parcel"), Whole("at_ms", 0)),
        key="parcel",
        id="scan",
        time="at_ms",
        past_ms=60_000,
    )
    enrichment = Enrichment(scans)
    enriched = enrichment.enriched("enriched", "")
    enriched = replace(enriched, fields=(*enriched.fields, Text("zone")))
    pair = WindowRule("pair", "Two.", enriched, "zone", window, {"n": Count()}, lambda w: w.n > 1, ids_most=2)
    return UseCase("parcels", scans, enrichment, enriched, rules=(pair,))


FULL = {"rule": "pair", "key": "a", "event_ids": ["s1", "s2"], "window_start_ms": 0, "at_ms": 900}


@pytest.mark.parametrize("window", [Session(1_000), Tumbling(1_000)])
def test_an_event_that_a_full_list_of_ids_leaves_out_answers_its_label(window: Window) -> None:
    use = parcels(window)
    (pair,) = use.rules
    events = [
        {"scan": scan, "zone": zone, "at_ms": at_ms}
        for scan, zone, at_ms in (
            ("s3", "a", 0),
            ("s4", "a", 900),
            ("late", "a", 901),
            ("early", "a", -1),
            ("s5", "b", 9),
        )
    ]
    found = [fact for _, fact in places_left_out(use, pair, FULL, lambda: events)]
    assert found == ["s3", "s4"]
    assert list(places_left_out(use, pair, {**FULL, "event_ids": ["s1"]}, lambda: events)) == []


def test_a_segment_does_not_decide_on_a_label_that_a_full_alert_may_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    use = parcels(Session(1_000))
    (pair,) = use.rules
    made = Labels({("pair", (ANY_KEY, "s3")): "pair"}, frozenset(), {"pair": [SPAN_MS]})

    def judged(*event_ids: str) -> Found | Undecided:
        step: Any = SimpleNamespace(
            use=use,
            rules={"pair": pair},
            question=SimpleNamespace(rules=[pair]),
            inputs=SimpleNamespace(labelled=[Labelled("run", 0, made)]),
            state=SimpleNamespace(labelled=[]),
            is_over=lambda since_ms: True,
        )
        alert = {**FULL, "subject": "p", "event_ids": event_ids, "rule_version": pair.version}
        monkeypatch.setattr(labelled, "_alerts", lambda step, run: {"1": alert})
        (checker,) = labelled.checkers(step)
        case: Any = None
        return checker.find(case)

    found = judged("s1", "s2")
    assert isinstance(found, Undecided)
    assert "1 labels may be among the events that full alerts leave out" in found.why
    found = judged("s1")
    assert isinstance(found, Found)
    assert list(found.offenders) == [f"{ANY_KEY} s3 (pair) raised no alert of pair"]
    found = judged("s2", "s3")
    assert isinstance(found, Found)
    assert not found.offenders
