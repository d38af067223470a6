"""Windows as charts: the largest groups of a summary's measure, over its latest windows.

A window that is still open shows what its accepted events make so far; its result then replaces that. Some engines
write results while it is open, too: it is over once an event is behind its end by the use's disorder, or none comes.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from millrace import oracle
from millrace.dashboard.shown import text
from millrace.dashboard.view import ChartFacts, Figure
from millrace.rules import Count, Max, Min, Sliding, Sum, Tumbling, WindowSummary

WINDOWS_KEPT = 40
"""Of a summary; none is drawn that is further behind the newest one."""
GROUPS_KEPT = 2_000
GROWS_EVERY_MS = 2_000
BARS_MOST, ROWS_MOST = 7, 24
OTHERS = "others"
SILENT_MS = 60_000
"""Behind so long without an event each result is the last one of its window."""
ALL = "all events"
"""The one group of a summary without keys."""

Group = tuple[Any, ...]
Values = tuple[Any, ...]
"""Of the measures of a summary, in its order."""
Row = Mapping[str, Any]


class Windows:
    """The latest windows of each summary; of a repeated result the last one counts."""

    def __init__(self, charts: Sequence[ChartFacts], figures: Iterable[Figure], disorder_ms: int = 0) -> None:
        self._charts = charts
        summaries = {each.summary.name: each.summary for each in charts}
        self._figures = [each for each in figures if each.summary in summaries]
        self._summaries = summaries
        self._rows: dict[str, OrderedDict[int, dict[Group, Values]]] = {name: OrderedDict() for name in summaries}
        self._has_changed = self._has_grown = False
        self._sent_ms = 0
        self._disorder_ms, self._passed_ms, self._is_silent = disorder_ms, 0, True
        self._results: dict[str, set[int]] = {name: set() for name in summaries}
        """Summary -> the starts of the windows with a result that may still be open."""
        self._closed: dict[str, int] = {}
        """Summary -> the start of the latest window that is over and has a result."""

    def pass_to(self, at_ms: int) -> None:
        """The newest event is of that moment."""
        if at_ms > self._passed_ms:
            self._passed_ms = at_ms
            for name in self._summaries:
                self._close(name)

    def note_silence(self, is_silent: bool) -> None:
        """Whether no event has come for a while."""
        self._has_changed |= is_silent != self._is_silent
        self._is_silent = is_silent

    def _close(self, name: str) -> None:
        """Note which of the windows with results are over."""
        window, over_ms = self._summaries[name].window, self._passed_ms - self._disorder_ms
        over = {start for start in self._results[name] if window.end_ms(start, start) <= over_ms}
        if over:
            self._results[name] -= over
            self._closed[name] = max(*over, self._closed.get(name, 0))
            self._has_changed = True

    def _last_closed(self, name: str) -> int | None:
        results = self._results[name] if self._is_silent else ()
        return max((*results, *([self._closed[name]] if name in self._closed else ())), default=None)

    def grow(self, event: Row) -> None:
        """Count an accepted event in the windows that it is in and that are still open."""
        for summary in self._summaries.values():
            for start in oracle.starts(summary.window, event[summary.on.time or ""]):
                if start <= self._closed.get(summary.name, -1):
                    continue
                groups = self._groups(summary.name, start)
                group, alone = _of(summary, {**event, **oracle.measured(summary, [event])})
                if group in groups:
                    measures = zip(summary.measures.values(), groups[group], alone, strict=True)
                    groups[group] = tuple(_added(*each) for each in measures)
                elif len(groups) < GROUPS_KEPT:
                    groups[group] = alone
                self._has_grown = True

    def take(self, row: Row) -> None:
        """Keep one result."""
        summary = self._summaries.get(row["summary"])
        if summary is None:
            return
        start = int(row["window_start_ms"])
        self._results[summary.name].add(start)
        self._close(summary.name)
        groups = self._groups(summary.name, start)
        group, values = _of(summary, row)
        if group in groups or len(groups) < GROUPS_KEPT:
            groups[group] = values
        self._has_changed = True

    def has_changed(self, now_ms: int) -> bool:
        """Whether there is something new to draw; what only grows is drawn less often."""
        is_due = self._has_changed or (self._has_grown and now_ms - self._sent_ms >= GROWS_EVERY_MS)
        if is_due:
            self._has_changed = self._has_grown = False
            self._sent_ms = now_ms
        return is_due

    def charts(self) -> list[dict[str, Any]]:
        """Each chart: the starts of its windows and the values of its largest groups; a strip has the largest first."""
        return [self._chart(each) for each in self._charts]

    def figures(self) -> list[Any]:
        """The value of each figure in the latest window that has closed; None without one."""
        return [self._figure(each) for each in self._figures]

    def _groups(self, summary: str, start: int) -> dict[Group, Values]:
        """The groups of a window; the oldest windows are dropped."""
        kept = self._rows[summary]
        groups = kept.setdefault(start, {})
        while len(kept) > WINDOWS_KEPT:
            self._results[summary].discard(oldest := min(kept))
            del kept[oldest]
        return groups

    def _chart(self, facts: ChartFacts) -> dict[str, Any]:
        rows = self._rows[facts.summary.name]
        by, measure = facts.chart.by, list(facts.summary.measures).index(facts.chart.measure)
        starts = _spread(rows, _step_ms(facts.summary.window))
        combine = _combining(facts)
        values: dict[str, dict[int, Any]] = defaultdict(dict)
        for start in starts:
            for group, measured in rows.get(start, {}).items():
                value = measured[measure]
                if value is not None:
                    of_group = values[str(group[facts.summary.keys.index(by)]) if by else ALL]
                    of_group[start] = combine([of_group[start], value]) if start in of_group else value
        is_strip = facts.chart.form == "strip"
        most = ROWS_MOST if is_strip else BARS_MOST
        if len(values) == most + 1:
            most += 1  # the rest would be this one group
        by_size = sorted(values, key=lambda group: (-_size(values[group], is_additive=facts.is_additive), group))
        # By name, a group has one colour in all bars, and keeps it when another becomes larger.
        drawn = by_size[:most] if is_strip else sorted(by_size[:most])
        # Two tokens may look alike once they are shortened, and stay two groups.
        series = [(text(group), [values[group].get(start) for start in starts]) for group in drawn]
        if (rest := by_size[most:]) and facts.is_additive:
            series.append((OTHERS, [sum(values[group].get(start, 0) for group in rest) for start in starts]))
        closed = self._last_closed(facts.summary.name)
        return {
            "starts": starts,
            "groups": [group for group, _ in series],
            "values": [of_group for _, of_group in series],
            "left_out": len(rest),
            "open_ms": next((start for start in starts if closed is None or start > closed), None),
        }

    def _figure(self, figure: Figure) -> Any:
        rows, closed = self._rows[figure.summary], self._last_closed(figure.summary)
        if closed is None or closed not in rows:
            return None
        measures = self._summaries[figure.summary].measures
        at, measure = list(measures).index(figure.measure), measures[figure.measure]
        found = [values[at] for values in rows[closed].values() if values[at] is not None]
        return _combining_of(measure)(found) if found else None


def _of(summary: WindowSummary, row: Row) -> tuple[Group, Values]:
    """The group of a result, and its values."""
    return tuple(row[key] for key in summary.keys), tuple(row[name] for name in summary.measures)


def _step_ms(window: Tumbling | Sliding) -> int:
    return window.step_ms if isinstance(window, Sliding) else window.size_ms


def _spread(starts: Collection[int], step_ms: int) -> list[int]:
    """The latest windows in an unbroken row; those of much earlier events are not drawn."""
    newest = max(starts, default=None)
    if newest is None:
        return []
    oldest = min(start for start in starts if start > newest - WINDOWS_KEPT * step_ms)
    return list(range(oldest, newest + 1, step_ms))


def _combining(facts: ChartFacts) -> Callable[[list[Any]], Any]:
    return _combining_of(facts.summary.measures[facts.chart.measure])


def _combining_of(measure: Any) -> Callable[[list[Any]], Any]:
    """How the values of several groups become one: sums and counts add up, of all else one is taken."""
    if isinstance(measure, Count | Sum):
        return sum
    return min if isinstance(measure, Min) else max


def _added(measure: Any, one: Any, other: Any) -> Any:
    """A measure over the events of both; None for one that cannot be made of two results."""
    if not isinstance(measure, Count | Sum | Max | Min):
        return None
    present = [each for each in (one, other) if each is not None]
    return _combining_of(measure)(present) if present else None


def _size(values: Mapping[int, Any], *, is_additive: bool) -> Any:
    numbers = [value for value in values.values() if isinstance(value, int | float)]
    return sum(numbers) if is_additive else max(numbers, default=0)
