"""What the page needs of a pattern before anything has run: rules, stages and the graph of its topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from millrace import registry
from millrace.dashboard import view as views
from millrace.dashboard.shown import SHOWN_OF_TOKEN
from millrace.patterns import Variant
from millrace.rules import ALERTS, DEAD_LETTERS, TOKEN_PATTERN
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.rules.sentences import words


@dataclass(frozen=True)
class Node:
    """A topic, or a stage that an engine runs."""

    id: str
    kind: str  # topic | stage | store
    title: str
    detail: str
    column: int
    row: float
    """From 0 at the top to 1 at the bottom."""
    engine: str = ""
    doc: str = ""


@dataclass(frozen=True)
class Edge:
    """Messages on their way; `flow` names the rate that is shown on it."""

    source: str
    target: str
    flow: str = ""
    engine: str = ""
    """While its job is not up nothing is read, whatever arrives in the source."""


def facts(variant: Variant, view: views.View) -> dict[str, Any]:
    """A pattern for the page."""
    pattern, use = variant.pattern, variant.use
    stages = pattern.stages
    numbers = {field.name for field in use.enriched.fields if getattr(field, "kind", "") in ("whole", "real")}
    rules = [
        {"name": rule.name, "doc": rule.doc, "sentence": rule.sentence(), "stage": stage}
        for stage, own in (("events", variant.event_rules), ("windows", variant.window_rules))
        for rule in own
    ]
    return {
        "name": variant.name,
        "title": pattern.title,
        "doc": pattern.doc,
        "use": use.name,
        "key": view.key,
        "streams": [each.name for each in use.raw],
        "rules": rules,
        "promised_ms": pattern.promises.alert_latency_ms_p99,
        "charts": [each.plain() for each in views.charts_of(view, use, stages.windowing.summaries)],
        "figures": [
            {"title": each.title, "unit": views.unit(each.measure)}
            for each in view.figures
            if each.summary in stages.windowing.summaries
        ],
        "map": _map(view),
        "token": {"pattern": TOKEN_PATTERN, "shown": SHOWN_OF_TOKEN},
        "marks": view.marks.model_dump(),
        "event": [{"name": name, "title": words(name), "unit": views.unit(name)} for name in view.event],
        "alert": [
            {"title": words(name), "unit": views.unit(name), "is_number": name in numbers} for name in view.alert
        ],
        "nodes": [asdict(each) for each in nodes(variant)],
        "edges": [asdict(each) for each in edges(variant)],
    }


def nodes(variant: Variant) -> Iterator[Node]:
    """The topics and stages of a pattern, in columns from left to right."""
    use, stages = variant.use, variant.pattern.stages
    inputs = (*use.raw, *use.references)
    for number, each in enumerate(inputs):
        row = number / (len(inputs) - 1) if len(inputs) > 1 else 0.5
        detail = "reference data" if each in use.references else ""
        yield Node(each.name, "topic", each.name, detail, 0, row, doc=each.doc)
    yield _stage("events", "events", stages.events.engine, "Filters, enriches, alerts.", 1, 0.5)
    yield Node(use.enriched.name, "topic", use.enriched.name, "", 2, 0.5, doc=use.enriched.doc)
    yield Node(DEAD_LETTERS.name, "topic", DEAD_LETTERS.name, "", 2, 1, doc=DEAD_LETTERS.doc)
    if stages.windows:
        yield _stage("windows-stage", "windows", stages.windows.engine, "Judges windows of accepted events.", 3, 0.5)
    yield Node(ALERTS.name, "topic", ALERTS.name, "", 4, 0, doc=ALERTS.doc)
    if stages.windowing.summaries:
        yield Node(WINDOWS_TOPIC, "topic", WINDOWS_TOPIC, "", 4, 0.5, doc="Numbers over a window, for charts.")
    if stages.persist:
        to = " and ".join({"hdfs": "HDFS", "hbase": "HBase"}[store] for store in stages.persist.to)
        yield replace(_stage("persist", to, stages.persist.engine, "Accepted events, and tables.", 4, 1), kind="store")


def _stage(name: str, title: str, engine: str, doc: str, column: int, row: float) -> Node:
    return Node(name, "stage", title, registry.manifest(engine).title, column, row, engine, doc)


def edges(variant: Variant) -> Iterator[Edge]:
    """What flows between them."""
    use, stages = variant.use, variant.pattern.stages
    for each in use.raw:
        yield Edge(each.name, "events", each.name)
    for each in use.references:
        yield Edge(each.name, "events")
    yield Edge("events", use.enriched.name, "accepted")
    yield Edge("events", DEAD_LETTERS.name, "refused")
    if stages.events.rules:
        yield Edge("events", ALERTS.name, "alerts-of-events")
    if stages.windows:
        yield Edge(use.enriched.name, "windows-stage", "accepted", stages.windows.engine)
        if stages.windows.rules:
            yield Edge("windows-stage", ALERTS.name, "alerts-of-windows")
        if stages.windows.summaries:
            yield Edge("windows-stage", WINDOWS_TOPIC, WINDOWS_TOPIC)
    if stages.persist:
        yield Edge(use.enriched.name, "persist", "accepted", stages.persist.engine)


def _map(view: views.View) -> dict[str, str] | None:
    if view.map is None:
        return None
    title = view.map.title or "where the events are"
    return {"title": title, "other_title": view.map.other_title}
