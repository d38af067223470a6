"""What a use shows: its view file, checked against its declarations, or a view made of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import charts, project
from millrace.dashboard import facts, view, windows
from millrace.patterns import load_all
from pipelines.fraud import FRAUD
from pipelines.fraud.rules import spend_per_minute

LOADED = [path for folder in (Path(view.__file__).parent, charts.HERE) for path in folder.rglob("*")]
"""What the page consists of, and the charts that it loads."""


@pytest.mark.parametrize("use", project.uses().values(), ids=lambda use: use.name)
def test_each_use_has_a_view_that_fits_it(use: view.UseCase) -> None:
    found = view.of(use)
    assert found.key
    assert found.event
    assert found.charts


def test_a_use_without_a_file_gets_charts_of_its_summaries_and_its_fields() -> None:
    found = view.completed(view.View(), FRAUD)
    assert [(each.summary, each.by) for each in found.charts] == [("spend-per-minute", "merchant_category")] * 2
    assert (found.key, found.event[0], found.map) == ("customer", "transaction_id", None)


def test_a_summary_without_keys_gets_charts_of_all_events() -> None:
    altogether = replace(spend_per_minute, name="altogether", keys=())
    use = replace(FRAUD, summaries=(altogether,))
    found = view.completed(view.View(), use)
    assert [(each.summary, each.measure, each.by) for each in found.charts] == [
        ("altogether", "purchases", ""),
        ("altogether", "total_cents", ""),
    ]
    drawn = view.charts_of(found, use, ["altogether"])
    assert [(each.plain()["title"], each.plain()["by"]) for each in drawn] == [("purchases", ""), ("total", "")]
    shown = windows.Windows(drawn, [])
    shown.take({"summary": "altogether", "window_start_ms": 0, "purchases": 3, "total_cents": 5, "largest_cents": 4})
    for cents in (200, 300):
        shown.grow({"amount_cents": cents, "at_ms": 60_000})
    assert [(each["groups"], each["values"]) for each in shown.charts()] == [
        ([windows.ALL], [[3, 2]]),
        ([windows.ALL], [[5, 500]]),
    ]


SPENT = "summary: spend-per-minute"
WRONG = {
    "charts: [{summary: spend-per-minut, measure: purchases, by: merchant_place}]": (
        "charts.0.summary: no summary 'spend-per-minut' in this use; did you mean 'spend-per-minute'?"
    ),
    f"charts: [{{{SPENT}, measure: purchase, by: merchant_place}}]": (
        "charts.0.measure: 'purchase' is no measure of spend-per-minute; did you mean 'purchases'?"
    ),
    f"charts: [{{{SPENT}, measure: purchases, by: place}}]": "charts.0.by: 'place' is no key of spend-per-minute",
    f"charts: [{{{SPENT}, measure: purchases}}]": "charts.0.by: '' is no key of spend-per-minute; choose one of: ",
    f"figures: [{{title: x, {SPENT}, measure: n}}]": "figures.0.measure: 'n' is no measure",
    "map: {latitude: latitude, longitude: longitud}": (
        "map: 'longitud' is no field of enriched; did you mean 'longitude'?"
    ),
    "event: [amount]": "event: 'amount' is no field of enriched",
    "keys: x": "keys: Extra inputs are not permitted; the keys are key, event, alert, figures, charts, map",
    "[1]": "the file: ",
    "{": "cannot be read",
    "event: [at_ms]\nevent: [amount_cents]": "cannot be read: line 2: the key 'event' is there already; keep one of",
}


@pytest.mark.parametrize(("text", "complaint"), WRONG.items())
def test_a_wrong_view_is_refused_with_place_and_remedy(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "view.yaml"
    path.write_text(text)
    with pytest.raises(view.ViewError, match=re.escape(complaint)) as refused:
        view.read(path, FRAUD)
    assert str(path) in str(refused.value)


def test_every_edge_of_a_pattern_connects_two_of_its_nodes() -> None:
    for variant in load_all():
        nodes = {each.id for each in facts.nodes(variant)}
        ends = [end for edge in facts.edges(variant) for end in (edge.source, edge.target)]
        assert nodes == set(ends)


def test_the_page_builds_nothing_from_text() -> None:
    for path in (each for each in LOADED if each.suffix == ".js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", path.read_text()
        ), path


OF_ANY_PAGE = {"browser", "code", "find", "idx", "latitude", "longitude", "requests", "size"}
"""Fields and topics of uses that are words of any page's code, too."""


@pytest.mark.parametrize("use", project.uses().values(), ids=lambda use: use.name)
def test_no_word_of_a_use_is_in_the_code_of_the_page(use: view.UseCase) -> None:
    of_all = set[str].intersection(*(set(each.enriched.names) for each in project.uses().values()))
    fields = {name for event in (*use.raw, use.enriched) for name in event.names} - of_all
    declared = {each.name for each in (*use.raw, *use.rules, *use.summaries)}
    own = ({use.name} | declared | fields) - OF_ANY_PAGE
    written = [path for path in LOADED if path.suffix in {".py", ".js", ".css", ".html"}]
    assert {"main.js", "charts.js"} <= {path.name for path in written}
    for path in written:
        assert not own & set(re.findall(r"[\w-]+", path.read_text(encoding="utf-8"))), path
