"""When requests are sent: their times, window by window, at a steady rate or by the curve of a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from millrace.traffic import TrafficPlan

from ..events import DAY_MS, HOUR_MS, SECOND_MS
from ..rules import WINDOW_MS

PEOPLE_BY_HOUR = (
    *(0.30, 0.24, 0.20, 0.20, 0.24, 0.34, 0.55, 0.85, 1.25, 1.55, 1.70, 1.75),
    *(1.80, 1.80, 1.70, 1.75, 1.80, 1.60, 1.15, 0.90, 0.80, 0.65, 0.50, 0.38),
)
"""People's requests in each hour, relative to the day's mean: they work by day, crawlers around the clock."""
PEOPLE_SHARE = 0.55


@dataclass(frozen=True)
class Window:
    """The moments of sending within one window of the rules."""

    begin_ms: int
    times_ms: Sequence[int]
    left_ms: int
    """From its begin to the end of the traffic; 0 where the traffic begins within it."""


def steady(plan: TrafficPlan, start_ms: int) -> Iterator[Window]:
    """The plan's moments."""
    end_ms = start_ms + plan.due_ms(plan.events)
    times_ms = (start_ms + plan.due_ms(position) for position in range(plan.events))
    for number, within in groupby(times_ms, key=lambda at_ms: at_ms // WINDOW_MS):
        begin_ms = number * WINDOW_MS
        yield Window(begin_ms, list(within), end_ms - begin_ms if begin_ms >= start_ms else 0)


def by_the_curve(lines: int, midnight_ms: int, first_hour: int = 0, hours: int = 24) -> Iterator[Window]:
    """So many moments, in whole seconds, spread over these hours of a day; the day must begin a window."""
    first_ms = midnight_ms + first_hour * HOUR_MS
    begins_ms = range(first_ms, first_ms + hours * HOUR_MS, WINDOW_MS)
    passed = list(accumulate(map(requests_at, begins_ms)))
    sent = 0
    for begin_ms, so_far in zip(begins_ms, passed, strict=True):
        count = round(lines * so_far / passed[-1]) - sent
        sent += count
        times_ms = [begin_ms + WINDOW_MS * n // count // SECOND_MS * SECOND_MS for n in range(count)]
        yield Window(begin_ms, times_ms, begins_ms.stop - begin_ms)


def requests_at(at_ms: int) -> float:
    """The requests at a time of the day, relative to the day's mean."""
    return 1 - PEOPLE_SHARE + PEOPLE_SHARE * people_at(at_ms)


def people_at(at_ms: int) -> float:
    """People's requests at a time of the day, relative to the day's mean."""
    hour, within_ms = divmod(at_ms % DAY_MS, HOUR_MS)
    this, following = PEOPLE_BY_HOUR[hour], PEOPLE_BY_HOUR[(hour + 1) % 24]
    return this + (following - this) * within_ms / HOUR_MS
