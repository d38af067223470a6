"""The report shows the whole verdict, on one page without other files."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from millrace.verify import plots
from millrace.verify.latency import Latency, latency
from millrace.verify.report import html
from millrace.verify.verdict import Check, Promise, Verdict, checked, unchecked

OK = checked("conservation", "Is everything there?", {"raw": 12_345}, ())
VERDICT = Verdict(
    pattern="flink-spark",
    checks=(OK,),
    promises=(Promise("alert_latency_ms_p99", 100.0, 48.25, "kept"),),
    latencies=(latency("alerts from intended send", [12.0, 48.25]), latency("bare hop", [])),
    alerts_by_rule={"burst": (1_000, 2_500, 90_000), "spree": ()},
    dead_letters_by_reason={"json": 3, "missing:customer": 1},
)


def visible(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S))


def test_it_shows_verdict_checks_promises_latencies_and_reasons() -> None:
    page = html(VERDICT, {"commit": "2b1c33f", "load": 0.4})
    text = visible(page)
    for part in ("flink-spark", "ok", "raw 12,345", "48.2", "kept", "missing:customer", "2b1c33f", "0.4", "spree"):
        assert part in text, part
    assert page.count("<svg") == 3


def test_it_loads_nothing_from_anywhere() -> None:
    assert not re.search(r"https?://|src=|@import|url\(", html(VERDICT))


def test_offenders_are_shown_as_text_whatever_they_hold() -> None:
    nasty = checked("refusals", "?", {}, ["<script>alert(1)</script>"] * 12)
    page = html(replace(VERDICT, checks=(nasty,), dead_letters_by_reason={"<b>": 1}, alerts_by_rule={"<i>": (1,)}))
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "and 2 more" in visible(page)


def test_red_comes_first_and_an_unknown_says_why() -> None:
    unknown = unchecked("files", "Do the files hold everything?", "could not be read: files")
    failed = checked("alerts: burst", "?", {}, ["missing: burst c1 t1,t2"])
    text = visible(html(replace(VERDICT, checks=(OK, unknown, failed))))
    assert text.index("alerts: burst") < text.index("could not be read: files") < text.index("conservation")


def test_a_verdict_with_nothing_in_it_is_unknown_and_still_a_page() -> None:
    empty = Verdict("flink", (), (), (), {}, {})
    assert empty.status == "unknown"
    text = visible(html(empty))
    assert "There was no alert." in text
    assert "Nothing was refused." in text


def test_the_record_is_plain_data_without_the_single_measurements() -> None:
    record = VERDICT.record({"seed": 3})
    assert json.loads(json.dumps(record))["checks"][0]["figures"] == {"raw": 12_345, "offenders": 0}
    assert record["latencies"][0] == {
        "name": "alerts from intended send",
        "count": 2,
        "p50_ms": 12.0,
        "p95_ms": 48.25,
        "p99_ms": 48.25,
        "p999_ms": 48.25,
        "max_ms": 48.25,
    }


@pytest.mark.parametrize("values", [[0], [1.0, 1.0], [0, 5, 100_000], range(1, 20_000)])
def test_plots_stay_inside_their_frame(values: list[float]) -> None:
    drawn = plots.latencies([latency("x", values)], promised_ms=100)
    points = re.findall(r"(-?[\d.]+),(-?[\d.]+)", re.search(r'points="([^"]+)"', drawn)[1])  # type: ignore[index]
    assert all(0 <= float(x) <= plots.WIDTH and 0 <= float(y) <= 320 for x, y in points)


def test_quantiles_are_measurements_and_of_the_nearest_rank() -> None:
    hundred = latency("x", range(1, 101))
    assert [hundred.quantile(q) for q in (0.0, 0.5, 0.95, 0.99, 0.999, 1.0)] == [1, 50, 95, 99, 100, 100]
    assert Latency("none", ()).quantile(0.5) is None


def test_only_the_first_offenders_are_named_and_all_are_counted() -> None:
    check: Check = checked("x", "?", {}, [str(n) for n in range(1_000)])
    assert (check.status, len(check.offenders), check.figures["offenders"]) == ("failed", 10, 1_000)
