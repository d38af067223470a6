"""The figures of one pattern: each message counts once, and what is kept is bounded."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from millrace.dashboard import board as boards
from millrace.dashboard import events, figures, latencies, view, windows
from millrace.dashboard import reader as readers
from millrace.dashboard.board import Board
from millrace.oracle import Record
from millrace.patterns import Variant, load
from millrace.rules.outputs import LATE, REPLAYED
from millrace.testing import token
from pipelines.fraud.rules import spend_per_minute
from tests.dashboard.playback import records

START_MS = 1_790_000_000_000
NOW_MS = START_MS + 60_000
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def flink() -> Variant:
    return load("flink")


@pytest.fixture
def board(flink: Variant) -> Board:
    return Board(flink, view.of(flink.use))


def sent(kind: str, content: Any, at_ms: int = NOW_MS, offset: int = 0) -> Record:
    return Record(kind, 0, offset, at_ms, None, json.dumps(content).encode())


def alert(number: int, **changes: Any) -> dict[str, Any]:
    found = {
        **{"alert_id": f"{number:032x}", "rule": "above-previous-max", "rule_version": "other", "key": "anna"},
        **{
            "subject": "anna",
            "window_start_ms": None,
            "event_ids": [f"t{number}"],
            "operands": {"amount_cents": "900"},
        },
        **{"at_ms": NOW_MS - 50, "sent_ms": NOW_MS - 40, "ingest_ms": NOW_MS - 30, "emit_ms": NOW_MS - 10},
    }
    return found | changes


def letter(reason: str, value: str = "") -> dict[str, Any]:
    import base64

    return {
        "reason": reason,
        "topic": "flink.transactions",
        "partition": 0,
        "offset": 7,
        "value_base64": base64.b64encode(value.encode()).decode(),
    }


def charts(board: Board) -> dict[str, Any]:
    """What the page has of each chart, by its title."""
    return dict(zip((each.title for each in board.view.charts), board.full(NOW_MS)["charts"], strict=True))


def test_every_message_of_a_run_is_counted_once(flink: Variant, board: Board) -> None:
    tape = records(flink, START_MS, seconds=30, rate_per_s=50)
    for _, record in tape:
        board.take(record)
    totals, kinds = board.full(NOW_MS)["totals"], Counter(record.topic for _, record in tape)
    refused = [
        record
        for _, record in tape
        if record.topic == "dead-letters" and not json.loads(record.value or b"")["reason"].startswith((LATE, REPLAYED))
    ]
    assert totals["in"] == kinds["transactions"] + kinds["device-locations"] == 1_500
    assert totals["accepted"] == kinds["enriched"] > 0
    assert totals["refused"] == len(refused) > 0
    assert totals["alerts"] == kinds["alerts"] == sum(board.by_rule.values()) > 0
    assert sum(board.reasons.values()) == kinds["dead-letters"]
    assert board.unreadable == 0


@pytest.mark.parametrize(("kind", "total"), [("alerts", "alerts"), ("dead-letters", "refused")])
def test_totals_do_not_fall_when_the_pages_server_restarts(
    flink: Variant, board: Board, monkeypatch: pytest.MonkeyPatch, kind: str, total: str
) -> None:
    monkeypatch.setitem(readers.READ_AT_FIRST, kind, 10)
    content = alert if kind == "alerts" else lambda number: letter("json")
    messages = [sent(kind, content(number), offset=number) for number in range(30)]
    for message in messages:
        board.take(message)
    reader, topic = readers.Reader("127.0.0.1:1", lambda name, data: None), flink.topic(kind)
    place, found = (topic, 0), Board(flink, board.view)
    reader.follow({"flink": found}, {topic: ("flink", kind)}, {place: readers.Span("id", 0, 30)})
    for message in messages[reader._next[place] :]:
        found.take(message)
    before, after = board.full(NOW_MS), found.full(NOW_MS)
    assert after["totals"][total] == before["totals"][total] == 30
    split, of = ("by_rule", "above-previous-max") if kind == "alerts" else ("reasons", "json")
    assert {**after, **after["letters"]}[split] == {boards.NOT_READ: 20, of: 10}
    assert sums(found) == sums(board)


def sums(board: Board) -> Counter[str]:
    """What Prometheus gets of a pattern, over all rules and reasons."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(figures.text({"flink": board}, {}).decode()):
        for sample in family.samples:
            if family.name in ("millrace_messages", "millrace_alerts", "millrace_dead_letters"):
                found[f"{sample.name} {sample.labels.get('stream', '')}"] += int(sample.value)
    return found


def test_an_alert_that_comes_twice_is_one_alert(board: Board) -> None:
    board.take(sent("alerts", alert(1)))
    board.take(sent("alerts", alert(1), offset=1))
    assert (board.full(NOW_MS)["totals"]["alerts"], board.totals["repeated alerts"]) == (1, 1)


def test_a_tick_has_what_came_since_the_last_one(board: Board) -> None:
    board.take(sent("alerts", alert(1)))
    assert [each["id"] for each in board.tick(NOW_MS)["alerts"]] == [alert(1)["alert_id"]]
    assert "alerts" not in board.tick(NOW_MS)
    assert [each["id"] for each in board.full(NOW_MS)["alerts"]] == [alert(1)["alert_id"]]


def test_an_alert_is_sent_again_once_its_event_is_there(board: Board) -> None:
    board.take(sent("alerts", alert(1)))
    board.take(sent("alerts", alert(2)))
    assert ["about" in each for each in board.tick(NOW_MS)["alerts"]] == [False, False]
    event = {"transaction_id": "t1", "customer": "anna", "latitude": 1.0, "longitude": 2.0, "amount_cents": 900}
    board.take(sent("enriched", event | {"merchant_category": "fuel", "merchant_place": "Oslo"}))
    board.full(NOW_MS)
    again = board.tick(NOW_MS)["alerts"]
    assert [(each["id"], each["about"]) for each in again] == [(alert(1)["alert_id"], [900, "fuel", "Oslo"])]
    assert "alerts" not in board.tick(NOW_MS)


def test_rates_are_those_of_the_last_complete_seconds(board: Board) -> None:
    for offset in range(50):
        board.take(sent("transactions", {}, NOW_MS - 1 - offset * 100, offset))
    assert board.full(NOW_MS)["rates"]["in"] == 10
    series = board.full(NOW_MS)["series"]
    assert series["from_s"] + len(series["in"]) == NOW_MS // 1000
    assert series["in"][-5:] == [10] * 5


def test_duplicates_are_refused_and_late_events_are_not(board: Board) -> None:
    for reason in ("duplicate", LATE, REPLAYED, "json"):
        board.take(sent("dead-letters", letter(reason)))
    assert board.full(NOW_MS)["totals"]["refused"] == 2
    assert board.full(NOW_MS)["letters"]["reasons"] == {"duplicate": 1, LATE: 1, REPLAYED: 1, "json": 1}


def test_a_rare_reason_keeps_its_messages(board: Board) -> None:
    board.take(sent("dead-letters", letter("json", "rare")))
    for _ in range(100):
        board.take(sent("dead-letters", letter("duplicate")))
    sample = board.full(NOW_MS)["letters"]["sample"]
    assert [each["excerpt"] for each in sample if each["reason"] == "json"] == ["rare"]
    assert Counter(each["reason"] for each in sample) == {"json": 1, "duplicate": boards.SAMPLES_KEPT}


def test_the_last_mark_of_an_alert_counts_for_the_precision_of_its_rule_and_day(board: Board) -> None:
    def marked(number: int, mark: str, rule: str = "spree", alert_at_ms: int = NOW_MS) -> None:
        made = {"alert_id": f"{number:032x}", "mark": mark, "note": "", "by": "anna", "at_ms": NOW_MS}
        board.take(sent("dispositions", {**made, "rule": rule, "rule_version": "v", "alert_at_ms": alert_at_ms}))

    for number, mark in enumerate(("confirmed", "confirmed", "dismissed", "unsure")):
        marked(number, mark)
    marked(1, "dismissed")
    marked(9, "unsure", "burst")
    day = {"day": "2026-09-21", "rule": "spree", "confirmed": 1, "dismissed": 2}
    assert board.tick(NOW_MS)["precision"] == board.full(NOW_MS)["precision"] == [day]
    marked(7, "confirmed", alert_at_ms=NOW_MS + 86_400_000)
    assert board.full(NOW_MS)["precision"] == [day | {"day": "2026-09-22", "confirmed": 1, "dismissed": 0}, day]


def test_messages_that_nothing_can_read_are_counted_and_harm_nothing(board: Board) -> None:
    for value in (b"{", b"[]", b"null", b'{"alert_id": 1}', b"\xff"):
        board.take(Record("alerts", 0, 0, NOW_MS, None, value))
    board.take(sent("enriched", {"transaction_id": {}}))
    assert board.unreadable == 6
    board.take(Record("alerts", 0, 0, NOW_MS, None, b"[" * 100_000))
    board.take(sent("dispositions", {"alert_id": "a", "rule": "burst", "mark": "right", "alert_at_ms": 7 * 10**19}))
    board.take(sent("alerts", {name: value for name, value in alert(2, rule="odd").items() if name != "rule_version"}))
    board.take(sent("alerts", alert(3, at_ms=math.nan)))
    assert board.unreadable == 10
    assert "NaN" not in json.dumps(board.tick(NOW_MS))
    assert board.full(NOW_MS)["totals"]["alerts"] == 0


def test_the_latency_of_an_alert_is_split_into_stages(board: Board) -> None:
    board.take(sent("alerts", alert(1)))
    shown = {each["name"]: each["p50_ms"] for each in board.full(NOW_MS)["latencies"]}
    assert shown == {latencies.ALERTS: 40, latencies.IN: 10, latencies.JUDGED: 20, latencies.OUT: 10}
    assert board.full(NOW_MS)["alerts"][0]["latency_ms"] == 40


def test_the_quantiles_are_of_all_times_of_the_last_minute(board: Board) -> None:
    for second in range(90):
        at_ms = NOW_MS - 1_000 * (89 - second) - 1
        for _ in range(100):
            board.latencies.accepted(at_ms, {"sent_ms": at_ms - second})
    (row,) = board.full(NOW_MS)["latencies"]
    assert (row["count"], row["p50_ms"], row["max_ms"], row["is_recent"]) == (6_000, 59, 89, True)
    board.latencies._shown_ms = 0
    (row,) = board.full(NOW_MS + 600_000)["latencies"]
    assert (row["count"], row["is_recent"]) == (6_000, False)


def test_a_time_of_some_minutes_is_told_from_one_without_end(board: Board) -> None:
    board.take(sent("alerts", alert(1, sent_ms=NOW_MS - 200_000)))
    assert board.latencies.histograms[latencies.ALERTS].counts[-2:] == [1, 0]


def test_what_keeps_the_promise_is_counted_exactly(flink: Variant, board: Board) -> None:
    promises = flink.pattern.promises.model_copy(update={"alert_latency_ms_p99": 250})
    promising = replace(flink, pattern=flink.pattern.model_copy(update={"promises": promises}))
    found = Board(promising, board.view)
    for number, ms in enumerate((240, 250, 251)):
        found.take(sent("alerts", alert(number, sent_ms=NOW_MS - ms)))
    lines = figures.text({"flink": found}, {}).decode().splitlines()
    assert 'millrace_promised_latency_seconds{pattern="flink"} 0.25' in lines
    assert 'millrace_alert_latency_seconds_bucket{le="0.25",of="event",pattern="flink"} 2.0' in lines


def test_the_newest_accepted_moment_is_not_moved_by_old_events_nor_beyond_an_arrival(board: Board) -> None:
    event = {"transaction_id": "t1", "at_ms": NOW_MS - 5_000}
    board.take(sent("enriched", event))
    assert board.accepted_at_ms == NOW_MS - 5_000
    board.take(sent("enriched", event | {"transaction_id": "t2", "at_ms": NOW_MS - 3_600_000}))
    assert board.accepted_at_ms == NOW_MS - 5_000
    board.take(sent("enriched", event | {"transaction_id": "t3", "at_ms": NOW_MS + 60_000}))
    assert board.accepted_at_ms == NOW_MS


def test_a_window_alert_is_as_late_as_it_comes_after_its_window(board: Board) -> None:
    board.take(sent("alerts", alert(1, rule="burst", window_start_ms=NOW_MS - 30_000, at_ms=NOW_MS - 12_000)))
    assert board.full(NOW_MS)["alerts"][0]["latency_ms"] == 2_000


def test_the_events_of_an_alert_and_the_others_of_its_key_are_found(flink: Variant, board: Board) -> None:
    tape = records(flink, START_MS, seconds=30, rate_per_s=50)
    for _, record in tape:
        board.take(record)
    newest = board.full(NOW_MS)["alerts"][-1]
    found = board.alert(newest["id"])
    assert found is not None
    assert (len(found["events"]), found["missing"]) == (len(found["event_ids"]), 0)
    assert found["place"]["topic"] == "flink.alerts"
    assert board.alert("unknown") is None
    first = board.full(NOW_MS)["alerts"][-1]["about"]
    assert [type(value) for value in first] == [int, str, str]


def test_the_events_of_an_alert_stay_as_long_as_the_alert(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS_KEPT", 10)

    def arrive(*numbers: int) -> None:
        for number in numbers:
            event = {"transaction_id": f"t{number}", "customer": "anna", "latitude": 1.0, "longitude": 2.0}
            board.take(sent("enriched", event))

    def found(number: int) -> tuple[int, int] | None:
        shown = board.alert(alert(number)["alert_id"])
        return None if shown is None else (len(shown["events"]), shown["missing"])

    arrive(1, 2, 3)
    board.take(sent("alerts", alert(1, event_ids=["t1", "t2"])))
    board.take(sent("alerts", alert(2, event_ids=["t2", "gone"])))
    arrive(*range(100, 120))
    assert (found(1), found(2), len(board._events)) == ((2, 0), (1, 1), 12)
    arrive(1)
    assert len(board._events) == 11, "an event that comes again is kept once"
    arrive(*range(120, 140))
    for number in range(1_000, 999 + boards.ALERTS_KEPT):
        board.take(sent("alerts", alert(number)))
    assert (found(1), found(2), len(board._events)) == (None, (1, 1), 11)
    board.take(sent("alerts", alert(3_000)))
    assert (found(2), len(board._events)) == (None, 10)
    assert set(board._events._alerts) == {f"t{number}" for number in [*range(1_000, 999 + boards.ALERTS_KEPT), 3_000]}


def test_a_card_is_shortened_everywhere(board: Board) -> None:
    card = token("anna")
    board.take(sent("alerts", alert(1, key=card, operands={"card": card})))
    board.take(sent("dead-letters", letter("json", f'{{"card": "{card}"')))
    event = {"transaction_id": "t1", "customer": "anna", "card": card, "latitude": 1.0, "longitude": 2.0}
    board.take(sent("enriched", event))
    shown = json.dumps([board.full(NOW_MS), board.alert(alert(1)["alert_id"])])
    assert card[:13] in shown
    assert card not in shown


def test_what_is_kept_is_bounded(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS_KEPT", 100)
    monkeypatch.setattr(boards, "IDS_KEPT", 100)
    for number in range(3_000):
        rule = f"rule-{number}" if number % 2 else "spree"
        board.take(sent("alerts", alert(number, rule=rule), offset=number))
        mark = {"alert_id": f"{number:032x}", "rule": rule, "mark": f"mark-{number}", "by": "anna", "note": ""}
        day = {"alert_at_ms": START_MS + 86_400_000 * (number // 10), "at_ms": NOW_MS}
        board.take(sent("dispositions", mark | day))
        board.take(sent("dispositions", mark | day | {"mark": "confirmed" if number % 4 else "dismissed"}))
        board.take(sent("dead-letters", letter(f"reason-{number}"), NOW_MS + number * 1_000))
        event = {
            "transaction_id": f"t{number}",
            "at_ms": NOW_MS,
            "customer": "anna",
            "latitude": 1.0,
            "longitude": 2.0,
            "flags": ["spree"],
        }
        board.take(sent("enriched", event, NOW_MS + number * 1_000))
        row = {"summary": "spend-per-minute", "merchant_category": str(number), "merchant_place": "x"}
        board.take(
            sent(
                "windows",
                row | {"window_start_ms": number * 60_000, "purchases": 1, "total_cents": 1, "largest_cents": 1},
            )
        )
    full = board.full(NOW_MS)
    assert full["totals"]["alerts"] == 3_000
    assert full["by_rule"] == {"spree": 1_500, boards.OTHER_RULES: 1_500}
    assert [each["confirmed"] + each["dismissed"] for each in full["precision"]] == boards.DAYS_OF_PRECISION * [5]
    assert len(board._decided) == 2 * boards.DAYS_OF_PRECISION
    assert len(full["alerts"]) == boards.ALERTS_KEPT
    assert len(full["points"]) == boards.POINTS_KEPT
    assert len(full["letters"]["reasons"]) == boards.REASONS_KEPT + 1
    assert len(full["letters"]["sample"]) <= boards.SAMPLES_KEPT * (boards.REASONS_KEPT + 1)
    assert all(len(chart["starts"]) <= windows.WINDOWS_KEPT for chart in full["charts"])
    assert len(board._ids) == len(board._known) == 100
    assert len(board._events) == 200, "the latest, and the latest of others that alerts rest on"
    assert len(board._alerts_at) == boards.ALERTS_KEPT
    assert max(map(len, board._seconds.values())) <= 2 * boards.SERIES_S
    assert len(json.dumps(full)) < 1_000_000
    tick = board.tick(NOW_MS)
    assert [each["id"] for each in tick["alerts"]] == [each["id"] for each in full["alerts"]], (
        "an open page misses none"
    )
    assert len(json.dumps(tick)) < 1_000_000
    for number in range(3_000, 5_000):
        board.take(sent("alerts", alert(number), offset=number))
        board.tick(NOW_MS)
    assert len(board._incomplete) == boards.ALERTS_KEPT


def test_a_repeated_window_counts_once_and_gaps_are_drawn(board: Board) -> None:
    def row(minute: int, category: str, purchases: int, largest: int) -> dict[str, Any]:
        found = {"summary": "spend-per-minute", "window_start_ms": minute * 60_000, "merchant_place": "Oslo"}
        return found | {
            **{"merchant_category": category, "purchases": purchases},
            **{"total_cents": 100, "largest_cents": largest},
        }

    for each in ((1, "fuel", 1, 60), (1, "fuel", 2, 70), (3, "fuel", 5, 40), (3, "books", 9, 30)):
        board.take(sent("windows", row(*each)))
    found = charts(board)
    assert all(each["starts"] == [60_000, 120_000, 180_000] for each in found.values())
    assert {title: dict(zip(each["groups"], each["values"], strict=True)) for title, each in found.items()} == {
        "purchases by merchant category": {"books": [None, None, 9], "fuel": [2, None, 5]},
        "spent by merchant category": {"books": [None, None, 100], "fuel": [100, None, 100]},
        "largest purchase by merchant category": {"books": [None, None, 30], "fuel": [70, None, 40]},
        "purchases by place": {"Oslo": [2, None, 14]},
        "spent by place": {"Oslo": [100, None, 200]},
        "largest purchase by place": {"Oslo": [70, None, 40]},
    }
    assert board.full(NOW_MS)["figures"] == [200, 40]


def test_bars_keep_their_order_and_a_single_group_more_is_drawn_by_its_name(board: Board) -> None:
    def take(minute: int, **cents: int) -> None:
        row = {"summary": "spend-per-minute", "window_start_ms": minute * 60_000, "merchant_place": "Oslo"}
        for category, each in cents.items():
            measures = {"purchases": 1, "total_cents": each, "largest_cents": each}
            board.take(sent("windows", row | measures | {"merchant_category": category}))

    take(1, a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8)
    assert charts(board)["spent by merchant category"]["groups"] == [*"abcdefgh"]
    take(2, a=100)
    assert charts(board)["spent by merchant category"]["groups"] == [*"abcdefgh"]
    take(3, i=1)
    found = charts(board)
    assert found["spent by merchant category"]["groups"] == ["a", *"cdefgh", windows.OTHERS]
    assert found["spent by merchant category"]["values"][-1] == [2, 0, 1]
    assert found["largest purchase by merchant category"]["left_out"] == 2


def test_a_window_grows_with_its_events_until_its_result_replaces_them_and_it_is_over(board: Board) -> None:
    def purchase(number: int, cents: int, at_ms: int = 60_000) -> Record:
        event = {"transaction_id": f"t{number}", "customer": "anna", "latitude": 1.0, "longitude": 1.0}
        more = {"merchant_category": "fuel", "merchant_place": "Oslo", "amount_cents": cents, "at_ms": at_ms + number}
        return sent("enriched", event | more)

    for number, cents in ((1, 300), (2, 500), (2, 500)):
        board.take(purchase(number, cents))
    spent = charts(board)["spent by merchant category"]
    assert (spent["starts"], spent["values"], spent["open_ms"]) == ([60_000], [[800]], 60_000)
    assert board.full(NOW_MS)["figures"] == [None, None]
    result = {"summary": "spend-per-minute", "window_start_ms": 60_000, "merchant_place": "Oslo"}
    board.take(
        sent(
            "windows", result | {"merchant_category": "fuel", "purchases": 2, "total_cents": 801, "largest_cents": 500}
        )
    )
    assert board.full(NOW_MS)["figures"] == [None, None], "the window is not over"
    assert board.full(NOW_MS + windows.SILENT_MS + 1)["figures"] == [801, 500]
    board.take(purchase(3, 100))
    spent = charts(board)["spent by merchant category"]
    assert (spent["values"], spent["open_ms"]) == ([[901]], 60_000)
    board.take(purchase(4, 5, 120_000 + board.variant.use.disorder_ms))
    board.take(purchase(5, 7))
    spent = charts(board)["spent by merchant category"]
    assert (spent["values"], spent["open_ms"]) == ([[901, 5]], 120_000)
    assert board.full(NOW_MS)["figures"] == [901, 500]


def test_a_chart_by_card_shortens_the_cards_and_keeps_those_apart_that_then_look_alike() -> None:
    by_card = replace(spend_per_minute, name="spend-per-card", keys=("card",))
    chart = view.Chart(summary="spend-per-card", measure="total_cents", by="card")
    shown = windows.Windows([view.ChartFacts(chart, by_card, is_additive=True)], [])
    one = token("anna")
    other = f"{one[:13]}{one[:12:-1]}"
    for card, cents in ((one, 700), (other, 300)):
        shown.grow({"card": card, "amount_cents": cents, "at_ms": 60_000})
    row = {"summary": "spend-per-card", "window_start_ms": 120_000, "purchases": 1, "largest_cents": 5}
    shown.take(row | {"card": one, "total_cents": 5})
    found = shown.charts()[0]
    assert one != other
    assert (found["groups"], found["values"]) == ([f"{one[:13]}…"] * 2, [[700, 5], [300, None]])


def test_a_group_that_is_called_like_the_rest_is_no_part_of_it(board: Board) -> None:
    for number in range(windows.BARS_MOST + 2):
        row = {"summary": "spend-per-minute", "window_start_ms": 60_000, "merchant_place": "Oslo", "purchases": 1}
        category = f"c{number}" if number else windows.OTHERS
        board.take(
            sent("windows", row | {"merchant_category": category, "total_cents": 90 - number, "largest_cents": 1})
        )
    spent = charts(board)["spent by merchant category"]
    called = [values for name, values in zip(spent["groups"], spent["values"], strict=True) if name == windows.OTHERS]
    assert called == [[90], [82 + 83]]


def test_what_only_grows_is_drawn_less_often(board: Board) -> None:
    row = {"merchant_category": "fuel", "merchant_place": "Oslo", "amount_cents": 1, "at_ms": 60_000}
    board.windows.grow(row)
    assert board.windows.has_changed(NOW_MS)
    board.windows.grow(row)
    assert not board.windows.has_changed(NOW_MS + 500)
    assert board.windows.has_changed(NOW_MS + windows.GROWS_EVERY_MS)


def test_hostile_text_stays_text(board: Board) -> None:
    board.take(sent("alerts", alert(1, key=HOSTILE, subject=HOSTILE)))
    assert board.full(NOW_MS)["alerts"][0]["subject"] == HOSTILE


def test_canaries_are_in_no_figure_but_the_counts_of_messages(flink: Variant, board: Board) -> None:
    with_canaries = Board(flink, view.of(flink.use))
    tape = records(flink, START_MS, seconds=20, rate_per_s=40)
    for _, record in tape:
        board.take(record)
        with_canaries.take(record)
    canary = {"customer": "canary:0", "merchant_category": "canary:shop", "merchant_place": "canary:place"}
    bought = next(json.loads(r.value or b"") for _, r in tape if r.topic == "enriched")
    row = next(json.loads(r.value or b"") for _, r in tape if r.topic == "windows")
    with_canaries.take(sent("alerts", alert(1, subject="canary:0", key="canary:0")))
    with_canaries.take(sent("enriched", bought | canary | {"transaction_id": "canary:0:1", "amount_cents": 10**8}))
    with_canaries.take(sent("windows", row | canary | {"largest_cents": 10**8}))
    without, found = board.full(NOW_MS), with_canaries.full(NOW_MS)
    assert found["totals"]["accepted"] == without["totals"]["accepted"] + 1
    for each in ("alerts", "points", "charts", "figures", "by_rule", "latencies"):
        assert found[each] == without[each], each
    with_canaries.take(sent("alerts", alert(2)))
    assert found["by_rule"] != with_canaries.full(NOW_MS)["by_rule"], "alerts of others count"
