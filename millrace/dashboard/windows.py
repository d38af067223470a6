"""Windows as charts: the largest groups of a summary's measure, over its latest windows.

A window that is still open shows what its accepted events make so far; its result then replaces that.
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
ALL = "all events"
"""The one group of a summary without keys."""

Group = tuple[Any, ...]
Values = tuple[Any, ...]
"""Of the measures of a summary, in its order."""
Row = Mapping[str, Any]


class Windows:
    """The latest windows of each summary; of a repeated result the last one counts."""

    def __init__(self, charts: Sequence[ChartFacts], figures: Iterable[Figure]) -> None:
        self._charts = charts
        summaries = {each.summary.name: each.summary for each in charts}
        self._figures = [each for each in figures if each.summary in summaries]
        self._summaries = summaries
        self._rows: dict[str, OrderedDict[int, dict[Group, Values]]] = {name: OrderedDict() for name in summaries}
        self._has_changed = self._has_grown = False
        self._sent_ms = 0
        self._closed: dict[str, int] = {}
        """Summary -> the start of the latest window with a result."""

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
        self._closed[summary.name] = max(start, self._closed.get(summary.name, start))
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
            del kept[min(kept)]
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
        closed = self._closed.get(facts.summary.name)
        return {
            "starts": starts,
            "groups": [group for group, _ in series],
            "values": [of_group for _, of_group in series],
            "left_out": len(rest),
            "open_ms": next((start for start in starts if closed is None or start > closed), None),
        }

    def _figure(self, figure: Figure) -> Any:
        rows, closed = self._rows[figure.summary], self._closed.get(figure.summary)
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
