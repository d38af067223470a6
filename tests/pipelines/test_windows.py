"""Windows and measures are exact, to the millisecond and to the last bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from millrace.oracle import Memory, measured, window_findings, windows
from millrace.rules import (
    Count,
    CountDistinct,
    DistinctOthers,
    EventRule,
    EventType,
    Last,
    Max,
    Min,
    Real,
    RuleError,
    Session,
    Sliding,
    Sum,
    Text,
    Tumbling,
    Whole,
    Window,
    WindowRule,
    WindowSummary,
)
from millrace.rules.measures import Measure, fits_64_bits

MOST = 2**63 - 1

visits = EventType(
    "visits",
    "",
    (
        Text("who"),
        Whole("code", least=0, most=999),
        Whole("big", required=False),
        Real("level", -9, 9, required=False),
        Text("note", required=False),
        Whole("at_ms"),
    ),
    key="who",
    time="at_ms",
    past_ms=1_000,
)


def visit(at_ms: int, place: int = 0, **fields: Any) -> dict[str, Any]:
    content = {"who": "w", "code": 200, "big": None, "level": None, "note": None, "at_ms": at_ms, "sent_ms": None}
    placed = {"source_topic": "visits", "source_partition": 0, "source_offset": place, "ingest_ms": 5_000 + place}
    return {**content, **placed, **fields}


def spans(window: Window, times: Sequence[int]) -> list[tuple[int, list[int]]]:
    found = windows(window, "at_ms", [visit(at_ms) for at_ms in times])
    return [(start, [event["at_ms"] for event in own]) for start, own in found]


@pytest.mark.parametrize(
    ("window", "times", "wanted"),
    [
        (Tumbling(3_000), [2_999, 3_000, 5_999, 6_000], [(0, [2_999]), (3_000, [3_000, 5_999]), (6_000, [6_000])]),
        (Tumbling(3_000), [-1, 0], [(-3_000, [-1]), (0, [0])]),
        (Sliding(4_000, 2_000), [3_999], [(0, [3_999]), (2_000, [3_999])]),
        (Sliding(4_000, 2_000), [4_000], [(2_000, [4_000]), (4_000, [4_000])]),
        (Sliding(4_000, 4_000), [4_000], [(4_000, [4_000])]),
        (Session(10), [0, 10, 20, 31], [(0, [0, 10, 20]), (31, [31])]),
        (Session(10), [31, 20, 0, 10], [(0, [0, 10, 20]), (31, [31])]),
        (Session(10), [], []),
    ],
)
def test_an_event_is_in_these_windows(window: Window, times: list[int], wanted: list[tuple[int, list[int]]]) -> None:
    assert spans(window, times) == wanted


@pytest.mark.parametrize(
    ("window", "start_ms", "last_ms", "end_ms"),
    [(Tumbling(3_000), 3_000, 4_000, 6_000), (Sliding(4_000, 1_000), 1_000, 1_500, 5_000), (Session(10), 0, 25, 35)],
)
def test_a_window_is_complete_at_its_end(window: Window, start_ms: int, last_ms: int, end_ms: int) -> None:
    assert window.end_ms(start_ms, last_ms) == end_ms
    assert window.closes_after_ms >= end_ms - last_ms


def test_thirty_requests_are_none_too_many_and_thirty_one_are() -> None:
    rule = WindowRule(
        "flood",
        "",
        visits,
        "who",
        Tumbling(3_000),
        {"n": Count(), "refused": Count(where=lambda now: (now.code == 401) | (now.code == 403)), "note": Last("note")},
        lambda w: (w.n > 30) & (w.refused == w.n),
    )
    refused = [visit(at_ms * 90, at_ms, code=401 + 2 * (at_ms % 2), note=f"n{at_ms}") for at_ms in range(31)]
    assert window_findings(rule, refused[:30]) == []
    (found,) = window_findings(rule, reversed(refused))
    assert (found.fact, found.event_ids, found.at_ms) == ("0", (), 2_700)
    assert found.operands == {"n": 31, "refused": 31, "note": "n30", "first_ms": 0, "last_ms": 2_700}
    assert window_findings(rule, [*refused[:30], visit(2_999, code=200)]) == []
    assert window_findings(rule, [*refused[:30], visit(3_000, code=401)]) == []


@pytest.mark.parametrize(
    ("measure", "events", "wanted"),
    [
        (Last("note"), [visit(9, 1, note="first"), visit(1, 2, note="second"), visit(5, 3)], "second"),
        (Last("note"), [visit(1)], None),
        (CountDistinct("note"), [visit(1, note="a"), visit(2, note="a"), visit(3, note="b"), visit(4)], 2),
        (CountDistinct("note"), [visit(1)], 0),
        (Count(where=lambda now: now.big > 1), [visit(1, big=2), visit(2, big=1), visit(3)], 1),
        (Count(where=lambda now: ~(now.big > 1)), [visit(1, big=2), visit(2, big=1), visit(3)], 1),
        (Max("level"), [visit(1, level=-1.0), visit(2)], -1.0),
        (Min("level"), [visit(1)], None),
        (Sum("big"), [visit(1, big=MOST), visit(2, big=5), visit(3, big=-7)], MOST - 2),
        (Sum("big"), [visit(1, big=MOST), visit(2, big=5)], MOST),
        (Sum("big"), [visit(1, big=-MOST), visit(2, big=-5)], -MOST - 1),
        (Sum("big"), [visit(1)], None),
    ],
)
def test_a_window_measures(measure: Measure, events: list[Mapping[str, Any]], wanted: object) -> None:
    assert measured(WindowSummary("s", "", visits, ("who",), Tumbling(10), {"m": measure}), events) == {"m": wanted}


@pytest.mark.parametrize(
    ("times", "wanted"),
    [([0, 1_000], [0, 1]), ([0, 1_001], [0, 0]), ([0, 0, 0], [0, 1, 2]), ([5_000, 4_000, 3_999], [0, 1, 2])],
)
def test_a_key_remembers_how_many_events_came_lately(times: list[int], wanted: list[int]) -> None:
    memory, found = Memory({"lately": Count(within_ms=1_000)}, visits), []
    for at_ms in times:
        found.append(memory.before(visit(at_ms))["lately"])
        memory.learn("visits", visit(at_ms))
    assert found == wanted


def test_null_is_no_other_value_and_its_event_moves_time() -> None:
    memory, found = Memory({"others": DistinctOthers("note", 100)}, visits), []
    for event in (visit(0), visit(10, note="a"), visit(20, note="b"), visit(115), visit(111, note="b")):
        found.append(memory.before(event)["others"])
        memory.learn("visits", event)
    assert found == [0, 0, 1, 1, 0]


def test_a_running_sum_stays_at_the_limit_and_leaves_it_again() -> None:
    memory = Memory({"sum": Sum("big")}, visits)
    for big in (MOST, 5, None, -7):
        memory.learn("visits", visit(1, big=big))
    assert memory.before(visit(2)) == {"sum": MOST - 7}


def window_rule(measures: Mapping[str, Measure], key: str = "who") -> WindowRule:
    return WindowRule("r", "", visits, key, Tumbling(10), {"n": Count(), **measures}, lambda w: w.n > 1)


def event_rule(measures: Mapping[str, Measure]) -> EventRule:
    return EventRule("r", "", visits, lambda now, before: now.code > 1, measures)


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (
            lambda: Tumbling(0),
            "Tumbling: size_ms must be a whole number of milliseconds from 1 to 9,999,999,999,000, not 0",
        ),
        (lambda: Session(True), "gap_ms must be a whole number"),
        (lambda: Session(2**63), "gap_ms must be a whole number of milliseconds from 1 to 9,999,999,999,000, not 9223"),
        (
            lambda: Sliding(2_002_000, 2_000),
            "Sliding: each event would be in 1,001 windows, and at most 1,000 are allowed, because an engine counts it "
            "in each; choose a step of at least 2002 ms",
        ),
        (lambda: Sliding(10, 3), "size_ms=10 is not a multiple of step_ms=3; choose a step that divides the size"),
        (lambda: window_rule({"m": Count(within_ms=5)}), "): 'm': Count takes no within_ms in a window"),
        (lambda: window_rule({"m": Last("note", "code")}), 'takes one field in a window: Last("field")'),
        (lambda: window_rule({"m": Last(visits, "note")}), 'takes one field in a window: Last("field")'),
        (lambda: window_rule({"m": Last("nothing")}), "no field 'nothing'"),
        (lambda: window_rule({"m": Sum("note")}), "'m': Sum adds numbers, and note is text"),
        (lambda: window_rule({"m": DistinctOthers("note", 5)}), "CountDistinct counts the values in a window"),
        (lambda: window_rule({"m": Count(where=lambda now: now.cod > 1)}), "'now' has no 'cod'"),
        (lambda: window_rule({"m": Count(where=lambda now: now.code)}), "where must give a comparison of fields"),
        (lambda: event_rule({"m": Count(where=lambda now: now.code > 1)}), "take `where` away, or declare a rule on"),
        (lambda: event_rule({"m": Count(within_ms=0)}), "needs within_ms as a whole number of milliseconds from 1"),
        (lambda: event_rule({"m": Count(within_ms=10**13)}), "from 1 to 9,999,999,999,000, not 10000000000000"),
        (
            lambda: event_rule({"m": Count}),
            "'m' is <class 'millrace.rules.measures.Count'>, which is no measure; write",
        ),
        (lambda: window_rule({"m": "Count()"}), "'m' is 'Count()', which is no measure; write one, such as Count()"),
        (lambda: event_rule({"m": CountDistinct("note")}), "DistinctOthers counts the values"),
        (lambda: event_rule({"m": Last("note")}), "name the stream too: Last(visits, ...)"),
        (
            lambda: window_rule({}, key="code"),
            "): its key is 'code'; alerts need one that is a Text and required",
        ),
        (lambda: window_rule({}, key="note"), "its key is 'note'; alerts need one that is a Text and required"),
        (lambda: EventType("e", "", visits.fields, "who", time="big"), "its time 'big' is optional"),
    ],
)
def test_what_has_no_meaning_is_refused_with_the_remedy(declare: Any, why: str) -> None:
    with pytest.raises(RuleError) as refused:
        declare()
    assert why in str(refused.value)


def test_an_event_may_be_in_a_thousand_sliding_windows() -> None:
    assert Sliding(2_000_000, 2_000).closes_after_ms == 2_000_000


def test_a_count_under_another_condition_is_another_version() -> None:
    plain, of_401, of_403 = (
        window_rule({"m": measure}).version
        for measure in (Count(), Count(where=lambda now: now.code == 401), Count(where=lambda now: now.code == 403))
    )
    assert len({plain, of_401, of_403}) == 3


def test_only_a_field_with_wide_limits_can_leave_the_64_bits() -> None:
    assert fits_64_bits(visits, "code")
    assert not fits_64_bits(visits, "big")


def test_a_rule_on_windows_is_a_sentence() -> None:
    rule = WindowRule(
        "r",
        "",
        visits,
        "who",
        Sliding(4_000, 1_000),
        {"n": Count(where=lambda now: now.code == 401), "notes": CountDistinct("note")},
        lambda w: (w.n > 3) & (w.notes >= 2),
    )
    assert rule.sentence() == (
        "Alert when in a window of 4 seconds, a new one every 1 second, of one who, the number of events where the "
        "code is 401 is greater than 3 and the number of different values of note is at least 2."
    )
