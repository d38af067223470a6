"""The report shows the whole verdict, on one page without other files."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace

import pytest

from millrace.charts import PACKAGES
from millrace.machine import npm
from millrace.settings import Settings
from millrace.verify.latency import Latency, latency
from millrace.verify.ledger.chain import Span
from millrace.verify.report import by_nines, by_time, html
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
    return re.sub(r"\s+", " ", re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", page, flags=re.S))


def test_it_shows_verdict_checks_promises_latencies_and_reasons() -> None:
    page = html(VERDICT, {"commit": "2b1c33f", "load": 0.4})
    text = visible(page)
    for part in ("flink-spark", "ok", "raw 12,345", "48.2", "kept", "missing:customer", "2b1c33f", "0.4", "spree"):
        assert part in text, part
    assert "not installed here" in text


def test_it_loads_nothing_from_anywhere() -> None:
    page = html(VERDICT, assets=npm.ensure(Settings.read(os.environ), PACKAGES) / "assets")
    assert not re.search(r"https?://|src=|@import|url\(|from \"[^d]", page)


def test_offenders_are_shown_as_text_whatever_they_hold() -> None:
    nasty = checked("refusals", "?", {}, ["<script>alert(1)</script>"] * 12)
    page = html(replace(VERDICT, checks=(nasty,), dead_letters_by_reason={"<b>": 1}, alerts_by_rule={"<i>": (1,)}))
    assert "<script>alert" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "and 2 more" in visible(page)


def test_what_an_undecided_check_names_is_shown() -> None:
    doubtful = unchecked("alerts: burst", "?", "alerts rest on races", {"races": 1}, ["not there: burst c1"])
    assert "not there: burst c1" in visible(html(replace(VERDICT, checks=(doubtful,))))


def test_red_comes_first_and_an_unknown_has_its_reason() -> None:
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


def test_segments_are_a_timeline_with_the_causes_of_what_is_not_ok() -> None:
    spans = [Span("ok", 0, 60_000, 1, 500), Span("failed", 60_000, 90_000, 1, 20, ("alerts: burst: <missing>",))]
    page = html(VERDICT, timeline=spans)
    assert "Timeline" not in html(VERDICT)
    assert re.findall(r'class="at-(\w+)" style="flex-grow: (\d+)"', page) == [("ok", "60000"), ("failed", "30000")]
    assert "1970-01-01 00:01:00 1970-01-01 00:01:30 alerts: burst: &lt;missing&gt;" in visible(page)


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
def test_a_latency_is_drawn_as_far_as_it_has_messages(values: list[float]) -> None:
    own, more = latency("x", values), latency("y", range(1, 100_001))
    drawn = by_nines([own, more], promised_ms=100)
    assert drawn is not None
    assert max(drawn["nines"]) <= 5
    known = [value for value in drawn["values"][0] if value is not None]
    assert known == sorted(known)
    assert known[0] == max(min(values), 0.5)
    assert max(nine for nine, value in zip(drawn["nines"], drawn["values"][0], strict=True) if value) <= math.log10(
        len(values)
    )
    assert drawn["values"][1][drawn["nines"].index(2)] == 99_000


@pytest.mark.parametrize("span_ms", [0, 999, 90_000, 90_001, 10**9])
def test_every_alert_is_in_one_window_of_few(span_ms: int) -> None:
    drawn = by_time({"burst": [1_000, 1_000 + span_ms], "spree": []})
    assert drawn is not None
    assert len(drawn["starts"]) <= 92
    assert [sum(own) for own in drawn["values"]] == [2, 0]
    assert drawn["starts"][0] <= 1_000 < drawn["starts"][0] + drawn["window_ms"]
    assert by_time({"burst": []}) is None


def test_quantiles_are_measurements_and_of_the_nearest_rank() -> None:
    hundred = latency("x", range(1, 101))
    assert [hundred.quantile(q) for q in (0.0, 0.5, 0.95, 0.99, 0.999, 1.0)] == [1, 50, 95, 99, 100, 100]
    assert Latency("none", ()).quantile(0.5) is None


def test_only_the_first_offenders_are_named_and_all_are_counted() -> None:
    check: Check = checked("x", "?", {}, [str(n) for n in range(1_000)])
    assert (check.status, len(check.offenders), check.figures["offenders"]) == ("failed", 10, 1_000)
