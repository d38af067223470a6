"""What the live page shows of a use: its `view.yaml`, or a view that is derived from its declarations.

The file is closed data like a pattern file. A use without one gets charts of its summaries and its events' fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from millrace import project
from millrace.errors import InfraError
from millrace.rules import Count, Sum, UseCase, WindowSummary
from millrace.rules.figures import unit
from millrace.rules.nearest import nearest
from millrace.rules.sentences import words
from millrace.yaml_text import YamlError, read_yaml

FILE = "view.yaml"
CHARTS_BY_SUMMARY = 2
FIELDS_MOST = 6


class ViewError(InfraError):
    """A view file that cannot be used; names the file, the key and the remedy."""


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Chart(Closed):
    """One measure of a summary over time: bars of the largest groups, or a strip with a row for each group.

    Where the values of groups do not add up, as the largest of each does not, lines replace the bars.
    """

    summary: str
    measure: str
    by: str = Field(default="", description="The key of the summary whose values are the groups; none without keys.")
    title: str = ""
    form: Literal["bars", "strip"] = "bars"


class Figure(Closed):
    """One number: a measure of a summary over all groups of its last complete window."""

    title: str
    summary: str
    measure: str


class Map(Closed):
    """Where accepted events are, and optionally another place that belongs to each."""

    latitude: str
    longitude: str
    label: str = ""
    title: str = ""
    other_latitude: str = ""
    other_longitude: str = ""
    other_title: str = ""


class Marks(Closed):
    """What a person may make of an alert, in the words of the use."""

    confirmed: str = "confirmed"
    dismissed: str = "dismissed"
    unsure: str = "unsure"


class View(Closed):
    """What the page shows of a use."""

    key: str = Field(default="", description="What the key of an event is called; default: the name of its field.")
    event: tuple[str, ...] = Field(default=(), description="The fields of an event that are shown, in this order.")
    alert: tuple[str, ...] = Field(default=(), description="Those fields of its last event that an alert's row shows.")
    figures: tuple[Figure, ...] = ()
    charts: tuple[Chart, ...] = ()
    map: Map | None = None
    marks: Marks = Field(default_factory=lambda: Marks(), description="What the marks of an alert are called.")


@dataclass(frozen=True)
class ChartFacts:
    """A chart, with what its summary declares."""

    chart: Chart
    summary: WindowSummary
    is_additive: bool
    """Whether the values of groups may be added up."""

    def plain(self) -> dict[str, Any]:
        """For the page."""
        by = f" by {words(self.chart.by)}" if self.chart.by else ""
        title = self.chart.title or f"{words(self.chart.measure)}{by}"
        return {
            "title": title,
            "doc": self.summary.doc,
            "form": self.chart.form,
            "is_additive": self.is_additive,
            "unit": unit(self.chart.measure),
            "by": words(self.chart.by),
            "window_ms": self.summary.window.size_ms,
        }


def of(use: UseCase) -> View:
    """The view of a use: of its file, completed by what the file leaves open."""
    path = project.use_folder(use.name) / FILE
    given = read(path, use) if path.exists() else View()
    return completed(given, use)


def read(path: Path, use: UseCase) -> View:
    """The view in a file, checked against what its use declares."""
    try:
        view = View.model_validate(read_yaml(path.read_text(encoding="utf-8")) or {})
    except (OSError, UnicodeDecodeError, YamlError) as error:
        raise ViewError(f"{path}: cannot be read: {error}") from None
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ViewError(f"{path}: {where}: {first['msg']}; {_keys_of(first['loc'])}") from None
    for complaint in _complaints(view, use):
        raise ViewError(f"{path}: {complaint}")
    return view


def completed(view: View, use: UseCase) -> View:
    """The view with a chart of each summary that has none, and names for what has none."""
    shown = {each.summary for each in view.charts}
    derived = tuple(
        Chart(summary=summary.name, measure=measure, by=summary.keys[0] if summary.keys else "")
        for summary in use.summaries
        if summary.name not in shown
        for measure in list(summary.measures)[:CHARTS_BY_SUMMARY]
    )
    fields = tuple(name for name in use.enriched.names if name not in _HIDDEN)[:FIELDS_MOST]
    return view.model_copy(
        update={
            "key": view.key or words(use.judged.key),
            "event": view.event or fields,
            "charts": (*view.charts, *derived),
        }
    )


def charts_of(view: View, use: UseCase, summaries: Iterable[str]) -> list[ChartFacts]:
    """The charts of the summaries that a pattern runs."""
    runs = set(summaries)
    return [_facts(chart, use.summary(chart.summary)) for chart in view.charts if chart.summary in runs]


_HIDDEN = frozenset({"flags", "source_topic", "source_partition", "source_offset", "ingest_ms", "sent_ms"})


def _facts(chart: Chart, summary: WindowSummary) -> ChartFacts:
    is_additive = isinstance(summary.measures[chart.measure], Count | Sum)
    return ChartFacts(chart, summary, is_additive)


def _complaints(view: View, use: UseCase) -> Iterable[str]:
    summaries = {each.name: each for each in use.summaries}
    measured: tuple[Chart | Figure, ...] = (*view.charts, *view.figures)
    for number, each in enumerate(measured):
        where = f"charts.{number}" if number < len(view.charts) else f"figures.{number - len(view.charts)}"
        if each.summary not in summaries:
            yield f"{where}.summary: no summary '{each.summary}' in this use; {nearest(each.summary, summaries)}"
            continue
        summary = summaries[each.summary]
        if each.measure not in summary.measures:
            yield f"{where}.measure: '{each.measure}' is no measure of {each.summary}; " + nearest(
                each.measure, summary.measures
            )
        if isinstance(each, Chart) and each.by not in (summary.keys or ("",)):
            yield f"{where}.by: '{each.by}' is no key of {each.summary}; {nearest(each.by, summary.keys)}"
    fields = {*use.enriched.names}
    named: Mapping[str, Iterable[str]] = {
        "event": view.event,
        "alert": view.alert,
        "map": [value for name, value in (view.map or _NOWHERE).model_dump().items() if value and "title" not in name],
    }
    for where, names in named.items():
        for name in names:
            if name not in fields:
                yield f"{where}: '{name}' is no field of {use.enriched.name}; {nearest(name, fields)}"


_NOWHERE = Map(latitude="", longitude="")


def _keys_of(location: tuple[int | str, ...]) -> str:
    models: Mapping[str, type[BaseModel]] = {"charts": Chart, "figures": Figure, "map": Map, "marks": Marks}
    model = models.get(str(location[0]), View) if len(location) > 1 else View
    return f"the keys are {', '.join(model.model_fields)}"


__all__ = ["Chart", "ChartFacts", "Figure", "Map", "View", "ViewError", "charts_of", "completed", "of", "read", "unit"]
