"""Each query gets the time that the stage before it has reached; in a silence, that of the wall clock."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from millrace.engines.spark.checkpoints import Committed
from millrace.engines.spark.event_time.clock import Clock
from millrace.engines.spark.event_time.elsewhere import Elsewhere, reached_ms
from millrace.engines.spark.event_time.ends import covers
from millrace.engines.spark.tuning import DISORDER_MARGIN_MS, IDLE_MS
from millrace.patterns import EnginePlan, Stores, engine_plans, load


@dataclass
class Named:
    name: str
    follows: str = ""


@dataclass
class Query:
    """A running query as the clock reads it."""

    query: Named
    batch: Committed | None = None
    is_open: bool = True

    def committed(self) -> Committed | None:
        return self.batch

    def holds_windows(self) -> bool:
        return self.is_open

    def reaches(self, end: int, clock_ms: int = 0) -> None:
        watermark_ms = clock_ms - load("flink-spark").use.disorder_ms - DISORDER_MARGIN_MS if clock_ms else 0
        self.batch = Committed({topic: {0: end} for topic in (raw, enriched)}, watermark_ms)


@dataclass
class Ends:
    """Kafka: both topics end at one offset, and another engine has judged up to another."""

    end: int
    judged: int = 0
    clock_ms: int = 0

    def of(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: self.end} for topic in topics}

    def judged_elsewhere(self) -> Elsewhere:
        return Elsewhere({raw: {0: self.judged}}, self.clock_ms)


def plan_of(pattern: str) -> EnginePlan:
    plans = engine_plans(load(pattern), 1, "kafka:9092", "file:///c", Stores("", "", 0, ""))
    return next(each for each in plans if each.engine == "spark")


OWN, BEHIND_FLINK = plan_of("spark"), plan_of("flink-spark")
REAL_TIME = replace(OWN, real_time=True)
raw, enriched = (OWN.topics[each.name] for each in (OWN.use.judged, OWN.use.enriched))
BEHIND_FLINK = replace(BEHIND_FLINK, topics={**BEHIND_FLINK.topics, **OWN.topics})


class Room:
    """A clock, its queries, and the ticks that they got."""

    def __init__(self, plan: EnginePlan, ends: Ends) -> None:
        self.events, self.files = Query(Named("events")), Query(Named("files"))
        self.windows = [Query(Named(f"window-{name}", "events")) for name in ("a", "b")]
        self.summary = Query(Named("summary-s", "rules"))
        queries: list[Any] = [*([self.events] if plan.events else []), *self.windows, self.summary, self.files]
        self.ticks: list[tuple[str, int]] = []
        self.clock = Clock(plan, queries, lambda *tick: self.ticks.append(tick), ends)  # type: ignore[arg-type]

    def keep(self, now_ms: int) -> list[tuple[str, int]]:
        """The ticks of one round."""
        self.ticks.clear()
        self.clock.keep(now_ms)
        return sorted(self.ticks)


def test_windows_get_the_time_of_the_last_completed_batch_of_the_stage_before_them() -> None:
    room = Room(OWN, Ends(end=9))
    assert room.keep(0) == []
    room.events.reaches(5, clock_ms=70_000)
    assert room.keep(0) == [("window-a", 70_000), ("window-b", 70_000)]
    assert room.keep(0) == [], "each time is sent once"


def test_the_time_of_a_batch_in_real_time_waits_for_what_had_arrived_in_any_partition_when_it_ended() -> None:
    ends = Ends(end=9)
    room = Room(REAL_TIME, ends)
    room.events.reaches(5, clock_ms=70_000)
    assert room.keep(0) == []
    ends.end = 14
    room.events.reaches(8, clock_ms=75_000)
    assert room.keep(0) == [], "the message before 9 may have come to another partition before 70,000"
    room.events.reaches(12, clock_ms=80_000)
    assert room.keep(0) == [("window-a", 70_000), ("window-b", 70_000)]
    room.events.reaches(14, clock_ms=81_000)
    assert room.keep(0) == [("window-a", 80_000), ("window-b", 80_000)]


def test_in_real_time_a_silence_begins_at_the_time_of_the_last_batch() -> None:
    room = Room(REAL_TIME, Ends(end=9))
    for each in (room.events, *room.windows):
        each.reaches(9, clock_ms=70_000)
    assert room.keep(0) == [("summary-s", 70_000)]
    assert room.keep(1) == [("window-a", 70_000), ("window-b", 70_000)]
    assert ("window-a", 70_000 + IDLE_MS) in room.keep(IDLE_MS)


def test_numbers_get_the_time_that_all_windows_of_rules_have_reached() -> None:
    room = Room(OWN, Ends(end=9))
    room.windows[0].reaches(5, clock_ms=70_000)
    assert room.keep(0) == []
    room.windows[1].reaches(3, clock_ms=60_000)
    assert room.keep(0) == [("summary-s", 60_000)]


def test_behind_another_engine_events_move_time_and_no_tick_is_sent_under_traffic() -> None:
    room = Room(BEHIND_FLINK, Ends(end=9, judged=5))
    for each in room.windows:
        each.reaches(5, clock_ms=70_000)
    assert room.keep(0) == [("summary-s", 70_000)]
    assert room.keep(IDLE_MS) == room.keep(10 * IDLE_MS) == []


def test_the_time_of_another_engines_backlog_is_sent_to_windows_that_have_read_all_of_it() -> None:
    ends = Ends(end=9, judged=5, clock_ms=80_000)
    room = Room(BEHIND_FLINK, ends)
    room.windows[0].reaches(9, clock_ms=70_000)
    room.windows[1].reaches(8, clock_ms=70_000)
    assert ("window-a", 80_000) in room.keep(0)
    ends.end, ends.clock_ms = 12, 90_000
    assert room.keep(0) == [], "the time before is not sent to all yet"
    room.windows[1].reaches(9, clock_ms=70_000)
    assert room.keep(0) == [("window-b", 80_000)]
    for each in room.windows:
        each.reaches(12, clock_ms=85_000)
    assert room.keep(0) == [("summary-s", 85_000), ("window-a", 90_000), ("window-b", 90_000)]
    assert room.keep(0) == []


def test_a_silence_begins_at_the_time_of_the_backlog_though_the_windows_have_not_reached_it() -> None:
    ends = Ends(end=9, judged=9, clock_ms=70_000)
    room = Room(BEHIND_FLINK, ends)
    for each in room.windows:
        each.reaches(9, clock_ms=60_000)
    room.keep(0)
    assert ("window-a", 70_000 + IDLE_MS) in room.keep(IDLE_MS)
    ends.clock_ms = 900_000  # of a later checkpoint
    assert ("window-a", 900_000 + IDLE_MS + 1) in room.keep(IDLE_MS + 1)


def test_events_that_have_moved_time_as_far_need_no_tick() -> None:
    room = Room(BEHIND_FLINK, Ends(end=9, judged=5, clock_ms=80_000))
    for each in room.windows:
        each.reaches(9, clock_ms=80_000)
    assert room.keep(0) == [("summary-s", 80_000)]


def test_time_is_what_all_partitions_have_reached() -> None:
    def note(newest_ms: int, through_ms: int) -> str:
        return json.dumps({"newest_ms": newest_ms, "through_ms": through_ms})

    assert reached_ms([note(50, 50), note(70, 70)]) == 50
    assert reached_ms([note(50, 900), note(70, 70)]) == 70, "a partition without a backlog holds nothing back"
    assert reached_ms([note(50, 900), note(70, 900)]) == 70
    assert reached_ms([note(0, 0), note(70, 70)]) == 0, "it has a backlog, and no event of it moved time yet"
    assert reached_ms([note(50, 60), note(70, 900)]) == 60, "its note is older than the other's"
    assert reached_ms([note(50, 50), ""]) == 0
    assert reached_ms([]) == 0


def test_in_a_silence_open_windows_get_the_time_that_passes() -> None:
    for plan in (OWN, BEHIND_FLINK):
        room = Room(plan, Ends(end=9, judged=9))
        for each in (room.events, *room.windows):
            each.reaches(9, clock_ms=70_000)
        room.keep(0)
        room.windows[1].is_open = False
        assert room.keep(IDLE_MS + 1) == [("window-a", 70_000 + IDLE_MS + 1)]


def test_a_window_that_has_not_counted_everything_delays_the_silence_and_a_store_does_not() -> None:
    room = Room(OWN, Ends(end=9))
    for each in (room.events, *room.windows):
        each.reaches(9, clock_ms=70_000)
    room.windows[1].reaches(8, clock_ms=70_000)
    room.keep(0)
    assert room.keep(IDLE_MS) == []
    room.windows[1].reaches(9, clock_ms=70_000)
    room.files.reaches(0)
    assert room.keep(IDLE_MS + 1) == [(name, 70_000 + IDLE_MS + 1) for name in ("window-a", "window-b")]


def test_a_message_that_is_not_judged_delays_the_silence() -> None:
    ends = Ends(end=9, judged=8)
    room = Room(BEHIND_FLINK, ends)
    for each in room.windows:
        each.reaches(9, clock_ms=70_000)
    room.keep(0)
    assert room.keep(IDLE_MS) == []
    ends.judged = 9
    assert room.keep(IDLE_MS) != []


def test_a_topic_is_covered_when_every_partition_is() -> None:
    ends = {"t": {0: 5, 1: 0}, "u": {0: 9}}
    assert covers({"t": {0: 5}}, ends, "t")
    assert not covers({"t": {0: 4, 1: 3}}, ends, "t")
    assert not covers({}, ends, "u")


def test_behind_a_finite_stream_open_windows_close_at_once_and_then_it_is_over() -> None:
    for plan in (OWN, BEHIND_FLINK):
        room = Room(replace(plan, finite=True), Ends(end=9, judged=9))
        for each in (room.events, *room.windows):
            each.reaches(8, clock_ms=70_000)
        room.keep(0)
        assert (room.keep(1), room.clock.is_over) == ([], False), "a message is not counted yet"
        for each in (room.events, *room.windows):
            each.reaches(9, clock_ms=70_000)
        longest_ms = max(rule.window.closes_after_ms for rule in plan.window_rules)
        assert all(at_ms > 70_000 + longest_ms + plan.use.disorder_ms for _, at_ms in room.keep(2))
        assert not room.clock.is_over
        for each in room.windows:
            each.is_open = False
        assert (room.keep(3), room.clock.is_over) == ([], True)
