"""The live page in a real browser, fed from memory: what it shows, and what nothing can make it do."""

from __future__ import annotations

import csv
import json
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import combinations, product
from math import dist
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, ViewportSize, expect
from prometheus_client.parser import text_string_to_metric_families

from millrace.charts import PACKAGES, REPORT_POLICY
from millrace.dashboard import archive as archives
from millrace.dashboard import verdicts, view
from millrace.dashboard.verdicts import Finding
from millrace.errors import InfraError
from millrace.machine import npm
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import Variant, load
from millrace.patterns.plan import HOP
from millrace.rules import UseCase
from millrace.settings import PROJECT, Settings
from millrace.testing import token
from millrace.verify.report import html
from millrace.verify.verdict import checked
from pipelines.fraud import FRAUD
from pipelines.fraud.rules import spend_per_minute
from tests.browser import barriers, browser
from tests.dashboard.playback import (
    UP,
    Due,
    HeldArchive,
    PlaybackReader,
    Written,
    pattern_around,
    records,
    served,
    without_tables,
)
from tests.pipelines.test_report import VERDICT

pytestmark = pytest.mark.builds

NAMES = ("flink", "flood-flink", "spark", "flink-spark")
SHOWN_WITHIN_MS = 60_000
MEASURED_S = 8
TELLS_APART = 0.05
"""A distance of colours; 0.02 is just seen where they touch."""
NOTHING = "\N{EN DASH}"
EXPECTED = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "TrustedHTML", "status of 400")
"""What the browser logs where a test takes the server away, tries to write HTML, or marks an alert without a name."""
HOSTILE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"


LONG_AGO_MS, NEVER_MS = 1_700_000_000_000, 8_700_000_000_000
DOWN_SINCE = time.strftime("%H:%M:%S", time.localtime(LONG_AGO_MS / 1000))


RED = {"status": "failed", "at": "2026-11-21T09:14:03+00:00", "page": "", "checks": {"alerts: spree": "failed"}}


def down(state: str, since_ms: int) -> dict[str, Any]:
    return {"engine": "flink", "state": state, "down_since_ms": since_ms, "problem": "", "web": ""}


def variants() -> list[Variant]:
    return [without_tables(load(name)) for name in NAMES]


def around(**changes: Any) -> dict[str, Any]:
    """`flink` and `flood-flink` run, `spark` is empty, and `flink-spark` is not provisioned."""
    found = {
        "flink": pattern_around("flink"),
        "flood-flink": pattern_around("flink"),
        "spark": pattern_around("spark"),
        "flink-spark": pattern_around(is_provisioned=False, is_deployed=False),
    }
    return {"kafka": UP, "patterns": found | changes}


@pytest.fixture(scope="module")
def tapes() -> dict[str, list[tuple[int, Record]]]:
    """Runs that have just ended."""
    start_ms = time.time_ns() // 1_000_000 - 60_000
    return {
        "flink": records(load("flink"), start_ms, seconds=30, rate_per_s=40),
        "flood-flink": records(load("flood-flink"), start_ms, seconds=30, rate_per_s=40),
        "spark": [],
    }


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    read = Settings.read(os.environ)
    return Settings(read.project, read.home, tmp_path, read.port_base)


@pytest.fixture
def archive() -> HeldArchive:
    return HeldArchive()


@pytest.fixture
def reader(settings: Settings, tapes: dict[str, Any], port: int, archive: HeldArchive) -> Iterator[PlaybackReader]:
    with served(settings, variants(), tapes, around(), port, archive) as running:
        yield running


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where pictures are kept, beside the records."""
    folder = Settings.read(os.environ).state / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def window() -> Iterator[Page]:
    """One browser for all tests; whatever it logs as an error fails the test."""
    with browser(1500, 1000) as page:
        yield page


@pytest.fixture
def page(window: Page, reader: PlaybackReader, port: int) -> Iterator[Page]:
    complaints: list[str] = []
    window.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    window.on("pageerror", lambda error: complaints.append(str(error)))
    opened(window, port, "flink")
    try:
        yield window
    finally:
        window.set_viewport_size({"width": 1500, "height": 1000})
        window.goto("about:blank")
    assert [each for each in complaints if not any(words in each for words in EXPECTED)] == []


def photographed(page: Page, path: Path) -> None:
    """A picture of the whole page: the browser paints no alert outside its window, which is as high for a moment."""
    size = page.viewport_size
    assert size
    page.set_viewport_size({**size, "height": page.evaluate("document.documentElement.scrollHeight")})
    page.screenshot(path=path, full_page=True, animations="disabled")
    page.set_viewport_size(size)


def opened(page: Page, port: int, name: str) -> None:
    page.goto("about:blank")  # from another pattern's page, nothing would be loaded anew
    page.goto(f"http://127.0.0.1:{port}/#/{name}")
    expect(page.locator("#connection")).to_have_text("live", timeout=SHOWN_WITHIN_MS)
    expect(page.locator("article h1")).to_be_visible()


def alert(key: str = "anna", **changes: Any) -> Record:
    now_ms = time.time_ns() // 1_000_000
    content = {
        **{"alert_id": f"{time.time_ns():032x}", "rule": "spree", "rule_version": "other", "key": key, "subject": key},
        **{"window_start_ms": None, "event_ids": ["t1"], "operands": {"other_merchants": "4"}, "at_ms": now_ms},
        **{"sent_ms": now_ms, "ingest_ms": now_ms, "emit_ms": now_ms},
    }
    return Record("alerts", 0, time.time_ns(), now_ms, None, json.dumps(content | changes).encode())


def accepted(tapes: Mapping[str, list[tuple[int, Record]]], **changes: Any) -> Record:
    """An event of the run of `flink`, as if it came now."""
    event = next(json.loads(each.value or b"") for _, each in tapes["flink"] if each.topic == "enriched")
    return Record("enriched", 0, 0, time.time_ns() // 1_000_000, None, json.dumps(event | changes).encode())


def test_the_licence_of_each_package_is_kept(settings: Settings) -> None:
    packages = json.loads((npm.HERE / PACKAGES / "package.json").read_text())["dependencies"]
    kept = {path.name: path.read_text() for path in (npm.ensure(settings, PACKAGES) / "assets").glob("*.LICENSE")}
    assert kept.keys() == {f"{name}.LICENSE" for name in packages} >= {"uplot.LICENSE", "world-atlas.LICENSE"}
    assert all("Copyright" in text and "Permission" in text for text in kept.values())


def test_its_totals_are_those_of_the_messages(page: Page, reader: PlaybackReader) -> None:
    taken = reader.taken["flink"]
    total = taken["transactions"] + taken["device-locations"]
    expect(page.locator(".figure.in span")).to_have_text(f"{total:,} in all", timeout=SHOWN_WITHIN_MS)
    expect(page.locator(".figure.accepted span")).to_have_text(f"{taken['enriched']:,} in all")
    expect(page.locator(".figure.alerts span")).to_have_text(f"{taken['alerts']:,} in all")
    assert taken["alerts"] > 20


def test_the_promise_is_of_alerts_on_events_alone(page: Page, reader: PlaybackReader, port: int) -> None:
    window_ms = time.time_ns() // 1_000_000 - 90_000
    reader.put("flood-flink", alert(rule="flood-ip", window_start_ms=window_ms, operands={"requests": "400"}))
    expect(page.locator("p.promise")).to_contain_text("promised: p99 of at most", timeout=SHOWN_WITHIN_MS)
    opened(page, port, "flood-flink")
    expect(page.locator("table.latencies")).to_contain_text("window alerts", timeout=SHOWN_WITHIN_MS)
    expect(page.locator("p.promise")).to_be_hidden()


def test_an_alert_appears_and_is_explained_on_click(page: Page, reader: PlaybackReader) -> None:
    reader.put("flink", alert("anna-now"))
    expect(page.locator("button.alert").first).to_contain_text("anna-now", timeout=SHOWN_WITHIN_MS)
    page.get_by_role("searchbox").fill("spree")
    page.locator("button.alert", has_text="is at least 4").first.click()
    drawer = page.locator("#detail")
    for words in ("The customer buys at a fifth different merchant", "The event", "flink.alerts, partition 0"):
        expect(drawer).to_contain_text(words)
    assert drawer.locator("tbody tr").count() > 0
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()


def test_a_drawer_without_all_events_names_the_command_that_finds_them(
    page: Page, reader: PlaybackReader, tapes: dict[str, list[tuple[int, Record]]]
) -> None:
    reader.put("flink", accepted(tapes, transaction_id="kept"))
    reader.put("flink", alert("anna-none", event_ids=["gone"]), alert("anna-part", event_ids=["gone", "kept"]))
    drawer = page.locator("#detail")
    for key, words in (
        ("anna-none", "They are not among those that this page keeps"),
        ("anna-part", "1 more event: not among those that this page keeps"),
    ):
        row = page.locator("button.alert", has_text=key)
        row.click()
        command = f"millrace explain {row.get_attribute('data-id')}"
        expect(drawer.locator(".note")).to_have_text(f"{words}; {command} looks for them in Kafka.")
        page.keyboard.press("Escape")


def test_the_list_is_filtered_by_rule_and_read_by_keyboard(page: Page) -> None:
    page.get_by_role("button", name="above-previous-max").first.click()
    rows = page.locator("button.alert")
    assert set(rows.locator(".rule").all_text_contents()) == {"above-previous-max"}
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.id") == rows.nth(1).get_attribute("data-id")
    page.keyboard.press("Enter")
    expect(page.locator("#detail h2")).to_have_text("above-previous-max")
    page.keyboard.press("Escape")


def test_the_list_is_filtered_by_amount_and_time(page: Page, reader: PlaybackReader) -> None:
    rows = page.locator("button.alert")
    every = rows.count()
    page.get_by_label("Only alerts with at least this amount").fill("100")
    assert 0 < rows.count() < every
    amounts = [each.partition(" · ")[0] for each in rows.locator(".why b").all_text_contents()]
    assert len(amounts) == rows.count()
    assert all(float(each.replace(",", "")) >= 100 for each in amounts), amounts
    page.get_by_label("Only alerts with at least this amount").fill("")
    page.get_by_label("Only alerts since").fill(time.strftime("%Y-%m-%dT%H:%M:%S"))
    expect(rows).to_have_count(0)
    reader.put("flink", alert("anna-since"))
    expect(rows).to_have_count(1, timeout=SHOWN_WITHIN_MS)
    expect(rows).to_contain_text("anna-since")


def test_a_whole_token_finds_the_alerts_that_show_it_shortened(page: Page, reader: PlaybackReader) -> None:
    reader.put("flink", alert(token("anna")))
    row = page.locator("button.alert", has_text=token("anna")[:13])
    expect(row).to_be_visible(timeout=SHOWN_WITHIN_MS)
    page.get_by_role("searchbox").fill(f"  {token('anna').upper()} ")
    expect(page.locator("button.alert")).to_have_count(1)
    expect(row).to_be_visible()
    page.get_by_role("searchbox").fill(token("bert"))
    expect(page.locator("button.alert")).to_have_count(0)


def test_a_map_that_shows_a_sample_gives_its_size(
    page: Page, reader: PlaybackReader, tapes: dict[str, list[tuple[int, Record]]]
) -> None:
    notes = page.locator("canvas.map ~ p.note")
    for number in range(5):
        reader.put("flink", accepted(tapes, transaction_id=f"few-{number}", flags=[]))
    expect(page.locator("canvas.map")).to_be_visible(timeout=SHOWN_WITHIN_MS)
    many = [accepted(tapes, transaction_id=f"many-{number}", flags=[]) for number in range(2_000)]
    reader.ask(lambda: [reader.boards["flink"].take(each) for each in many]).result(20)
    expect(notes.last).to_contain_text(re.compile(r"^A sample: \d+ events of 2,\d{3}\.$"), timeout=SHOWN_WITHIN_MS)


def test_an_alert_gains_its_amount_once_its_event_is_there(
    page: Page, reader: PlaybackReader, tapes: dict[str, list[tuple[int, Record]]]
) -> None:
    reader.put("flink", alert("anna-late", event_ids=["late-1"]))
    row = page.locator("button.alert", has_text="anna-late")
    expect(row).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(row.locator(".why b")).to_have_count(0)
    reader.put("flink", accepted(tapes, transaction_id="late-1", amount_cents=77_700))
    expect(row.locator(".why b")).to_contain_text("777.00 · ", timeout=SHOWN_WITHIN_MS)

    page.get_by_label("Only alerts with at least this amount").fill("777")
    page.get_by_role("searchbox").fill("late")
    expect(page.locator("button.alert")).to_have_count(1)
    total = page.locator(".chips b").first
    before = total.inner_text()
    reader.put("flink", alert("anna-later", event_ids=["late-2"]))
    expect(total).not_to_have_text(before, timeout=SHOWN_WITHIN_MS)
    expect(page.locator("button.alert")).to_have_count(1)
    page.get_by_role("searchbox").fill("later")
    expect(page.locator("body")).to_contain_text("1 alert whose event the page does not have is not shown.")
    page.get_by_role("searchbox").fill("late")
    reader.put("flink", accepted(tapes, transaction_id="late-2", amount_cents=77_700))
    expect(page.locator(".alert-list .who")).to_have_text(["anna-later", "anna-late"], timeout=SHOWN_WITHIN_MS)


def many(reader: PlaybackReader, archive: HeldArchive, number: int) -> list[str]:
    """The keys of so many alerts that are on the page and in Kafka, the newest first."""
    found = [replace(alert(f"many-{each}"), offset=each) for each in range(number)]
    archive.records += found
    reader.put("flink", *found)
    return [f"many-{each}" for each in reversed(range(number))]


def test_alerts_that_the_page_no_longer_keeps_are_read_back_by_keyboard(
    page: Page, reader: PlaybackReader, archive: HeldArchive
) -> None:
    every = many(reader, archive, 1_300)
    page.get_by_role("searchbox").fill("many-")
    rows, older = page.locator("button.alert"), page.get_by_role("button", name="older alerts")
    expect(rows).to_have_count(300, timeout=SHOWN_WITHIN_MS)
    expect(rows.first).to_contain_text(every[0], timeout=SHOWN_WITHIN_MS)
    seen = page.locator(".who").all_text_contents()
    while len(seen) < len(every):
        older.focus()
        page.keyboard.press("Enter")
        expect(rows.first).to_contain_text(every[len(seen)])
        expect(rows.first).to_be_focused()
        seen += page.locator(".who").all_text_contents()
    assert seen == every
    expect(older).to_be_hidden()
    expect(page.locator("[role=status].note")).to_have_text("Older alerts; no others that Kafka has fit.")

    reader.put("flink", alert("many-new"))  # nothing moves while a person reads
    rows.last.click()
    drawer = page.locator("#detail")
    expect(drawer).to_contain_text("flink.alerts, partition 0, offset 0", timeout=10_000)
    drawer.get_by_label("Your name").fill("anna")
    drawer.get_by_role("button", name="fraud", exact=True).click()
    expect(drawer).to_contain_text("fraud, by anna, ")
    page.keyboard.press("Escape")
    expect(rows.last.locator(".mark")).to_have_text("fraud", timeout=SHOWN_WITHIN_MS)
    page.get_by_role("button", name="latest alerts").click()
    expect(rows.first).to_contain_text("many-new", timeout=SHOWN_WITHIN_MS)
    page.get_by_label("Only alerts with this mark").select_option("fraud")
    expect(rows).to_have_count(0)
    older.click()
    expect(page.locator(".who")).to_have_text(["many-0"])


def test_an_answer_that_ends_after_the_filter_changed_is_not_shown(
    page: Page, reader: PlaybackReader, archive: HeldArchive
) -> None:
    many(reader, archive, 1_300)
    page.get_by_role("searchbox").fill("many-")
    rows = page.locator("button.alert")
    expect(rows).to_have_count(300, timeout=SHOWN_WITHIN_MS)
    page.evaluate(
        """() => {
          const whole = Response.prototype.json;
          const released = new Promise((resolve) => { window.release = resolve; });
          window.begun = new Promise((resolve) => {
            Response.prototype.json = function () {
              resolve();
              return (window.ended = released.then(() => whole.call(this)));
            };
          });
        }"""
    )
    page.get_by_role("button", name="older alerts").click()
    page.evaluate("() => window.begun")
    page.get_by_role("searchbox").fill("many-129")
    expect(rows).to_have_count(10)
    page.evaluate("async () => { window.release(); await window.ended; }")
    expect(rows).to_have_count(10)
    expect(page.get_by_role("button", name="latest alerts")).to_be_hidden()
    expect(page.locator("[role=status].note")).to_be_empty()


def test_alerts_are_filtered_by_time_on_the_page_and_in_kafka(
    page: Page, reader: PlaybackReader, archive: HeldArchive
) -> None:
    yesterday_ms = time.time_ns() // 1_000_000 - 86_400_000
    archive.records += [
        replace(alert(f"{n} h before", at_ms=0), offset=9 - n, ingest_ms=yesterday_ms - n * 3_600_000)
        for n in (3, 2, 1)
    ]
    taken = reader.taken["flink"]["alerts"]
    reader.ask(lambda: reader.boards["flink"].skip("alerts", 3)).result(5)
    expect(page.locator(".figure.alerts span")).to_have_text(f"{taken + 3:,} in all", timeout=SHOWN_WITHIN_MS)
    hint = page.get_by_role("region", name="Alerts").locator("h2 small")
    expect(hint).to_have_text("newest first; choose one to see why; earlier, not read: 3")
    since, until = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(yesterday_ms / 1000 - s)) for s in (9_000, 5_400))
    page.get_by_label("Only alerts since").fill(since)
    page.get_by_label("Only alerts before").fill(until)
    rows = page.locator("button.alert")
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="older alerts").click()
    expect(page.locator(".who")).to_have_text(["2 h before"])
    day = time.strftime("%Y-%m-%d", time.localtime(yesterday_ms / 1000 - 7_200))
    expect(rows.locator(".when")).to_have_attribute("title", re.compile(day))


def test_what_the_filter_shows_is_saved_as_a_file(
    page: Page, reader: PlaybackReader, archive: HeldArchive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(archives, "dispositions", lambda target, variant: {})
    every = many(reader, archive, 1_300)
    page.get_by_role("searchbox").fill("many-12")
    expect(page.locator("button.alert")).to_have_count(100, timeout=SHOWN_WITHIN_MS)  # of those that it keeps
    wanted = [each for each in reversed(every) if "many-12" in each]
    for form, title in (("csv", "CSV"), ("parquet", "Parquet")):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"save as {title}").press("Enter")
        assert saved.value.suggested_filename == f"flink-alerts.{form}"
        saved.value.save_as(tmp_path / saved.value.suggested_filename)
    with (tmp_path / "flink-alerts.csv").open(newline="", encoding="utf-8") as file:
        assert [line["key"] for line in csv.DictReader(file)] == wanted
    assert pq.read_table(tmp_path / "flink-alerts.parquet").column("key").to_pylist() == wanted
    page.get_by_label("Only alerts with at least this amount").fill("5")
    expect(page.get_by_role("button", name="save as CSV")).to_be_disabled()
    page.get_by_label("Only alerts with at least this amount").fill("")
    monkeypatch.setattr(archives, "EXPORTED_MOST", 100)
    page.get_by_role("button", name="save as CSV").click()
    note = page.locator("[role=status].note")
    expect(note).to_contain_text("more than 100 alerts fit; choose a later start")
    reader.put("flink", alert("many-1299-later"))
    expect(page.locator("button.alert").first).to_contain_text("many-1299-later", timeout=SHOWN_WITHIN_MS)
    expect(note).to_contain_text("more than 100 alerts fit")


def test_a_key_in_a_row_chooses_its_alerts_alone_by_keyboard_and_pointer(
    page: Page, reader: PlaybackReader, archive: HeldArchive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(archives, "dispositions", lambda target, variant: {})
    card, other = (f"452cdf00.24eb{digit * 28}" for digit in "01")  # they look alike where they are shortened
    held = [replace(alert(key, subject="7", rule="burst"), offset=n) for n, key in enumerate((card, other))]
    shown = [replace(alert(key), offset=2 + n) for n, key in enumerate(("7", "77"))]
    archive.records += [*held, *shown]
    reader.put("flink", *held, *shown)
    rows, who = page.locator("button.alert"), page.locator(".alert-list .who")
    expect(rows.first).to_contain_text("77", timeout=SHOWN_WITHIN_MS)
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(who.nth(1).get_by_role("button")).to_be_focused()
    page.keyboard.press("Enter")
    expect(who).to_have_text(["7", *["7 · 452cdf00.24eb…"] * 2])
    chip = page.get_by_role("button", name="only 7 ✕")
    expect(chip).to_be_focused()

    reader.ask(lambda: reader.boards["flink"].skip("alerts", 3)).result(5)
    page.get_by_role("button", name="older alerts").click()
    expect(page.locator("[role=status].note")).to_contain_text("Older alerts", timeout=SHOWN_WITHIN_MS)
    page.get_by_role("button", name="latest alerts").click()
    for form, title in (("csv", "CSV"), ("parquet", "Parquet")):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"save as {title}").click()
        saved.value.save_as(tmp_path / f"alerts.{form}")
    with (tmp_path / "alerts.csv").open(newline="", encoding="utf-8") as file:
        assert [line["subject"] for line in csv.DictReader(file)] == ["7", "7", "7"]
    assert pq.read_table(tmp_path / "alerts.parquet").column("key").to_pylist()[-1] == "7"

    who.last.get_by_role("button").last.click()
    expect(who).to_have_text(["7 · 452cdf00.24eb…"])
    assert rows.get_attribute("data-id") == json.loads(held[0].value or b"")["alert_id"]
    page.get_by_role("button", name="only 452cdf00.24eb… ✕").press("Enter")
    expect(chip).to_be_hidden()
    expect(rows.first).to_be_focused()
    expect(who.first).to_have_text("77")


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/older/flink", "own", 200),
        ("/older/flink", "guessed", 403),
        ("/older/flink", None, 403),
        ("/older/flink?before=0-x", "own", 400),
        ("/older/flink?since_ms=now", "own", 400),
        ("/older/none", "own", 404),
        ("/export/flink.csv", "own", 200),
        ("/export/flink.csv", None, 403),
        ("/export/flink.html", "own", 404),
        ("/alerts/flink/none?place=0-0", None, 404),
        ("/alerts/flink/none?place=0-x", "own", 400),
    ],
)
def test_only_a_page_of_this_server_has_kafka_read_back(
    reader: PlaybackReader, port: int, monkeypatch: pytest.MonkeyPatch, path: str, token: str | None, status: int
) -> None:
    monkeypatch.setattr(archives, "dispositions", lambda target, variant: {})
    headers = {"X-Millrace-Token": token_of(port) if token == "own" else token} if token else {}
    try:
        answer = urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers))
    except urllib.error.HTTPError as refused:
        answer = refused
    assert answer.status == status
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    if path.startswith("/export") and status == 200:
        assert answer.headers["Content-Disposition"] == 'attachment; filename="flink-alerts.csv"'


def test_new_alerts_wait_while_a_person_reads_the_list(page: Page, reader: PlaybackReader) -> None:
    first = page.locator("button.alert").first
    first.focus()
    before = first.get_attribute("data-id")
    reader.put("flink", alert("anna-later"))
    expect(page.locator("button.more")).to_have_text("1 new alert", timeout=SHOWN_WITHIN_MS)
    assert first.get_attribute("data-id") == before
    page.locator("button.more").click()
    expect(first).to_contain_text("anna-later")


def test_what_looks_like_html_is_text(page: Page, reader: PlaybackReader) -> None:
    scripts = page.locator("script").count()
    reader.put("flink", alert(HOSTILE, operands={HOSTILE: HOSTILE}))
    expect(page.locator("button.alert").first).to_contain_text(HOSTILE, timeout=SHOWN_WITHIN_MS)
    page.locator("button.alert").first.click()
    expect(page.locator("#detail")).to_contain_text(HOSTILE)
    page.keyboard.press("Escape")
    assert (page.locator("script").count(), page.locator("img[src='x']").count()) == (scripts, 0)
    assert page.title() == "flink · millrace"
    refused = page.evaluate("try { document.body.innerHTML = '<b>'; 'taken' } catch (error) { error.name }")
    assert refused == "TypeError"


def test_it_recovers_when_its_server_was_away(
    window: Page, settings: Settings, tapes: dict[str, Any], port: int, pictures: Path
) -> None:
    with served(settings, variants(), tapes, around(), port):
        opened(window, port, "flink")
    expect(window.locator("#connection")).to_have_text("server away; reconnecting …", timeout=SHOWN_WITHIN_MS)
    expect(window.locator("#notices")).to_contain_text("The server of this page does not answer since")
    expect(window.locator("article h1")).to_have_text("flink")
    photographed(window, pictures / "server-away.png")
    with served(settings, variants(), tapes, around(), port) as back:
        expect(window.locator("#connection")).to_have_text("live", timeout=SHOWN_WITHIN_MS)
        back.put("flink", alert("anna-again"))
        expect(window.locator("button.alert").first).to_contain_text("anna-again", timeout=SHOWN_WITHIN_MS)
        window.goto("about:blank")


def test_a_stream_that_ends_is_no_absence_and_a_person_keeps_the_place(page: Page, reader: PlaybackReader) -> None:
    page.evaluate("""() => {
      window.seen = [];
      const watched = document.querySelector("#connection");
      new MutationObserver(() => window.seen.push(watched.className)).observe(watched, { attributes: true });
    }""")
    row = page.locator("button.alert").nth(3)
    row.focus()
    kept = row.get_attribute("data-id")
    before = set(reader.hub.browsers)
    for each in before:
        each.is_dropped = True
    assert wait_until(lambda: bool(reader.hub.browsers - before), SHOWN_WITHIN_MS / 1000)
    reader.put("flink", alert("anna-meanwhile"))
    expect(page.get_by_role("button", name="1 new alert")).to_be_visible(timeout=SHOWN_WITHIN_MS)
    assert page.evaluate("document.activeElement.dataset.id") == kept
    seen = page.evaluate("window.seen")
    assert "live" in seen
    assert "away" not in seen


def test_it_recovers_when_its_server_has_hung(page: Page, reader: PlaybackReader) -> None:
    loop, is_over = reader.hub._loop, threading.Event()
    assert loop
    loop.call_soon_threadsafe(is_over.wait)  # as if its process was stopped: connections stay open, nothing answers
    try:
        expect(page.locator("#connection")).to_have_text("no answer; reconnecting …", timeout=SHOWN_WITHIN_MS)
        expect(page.locator("#notices")).to_contain_text("The server of this page does not answer since")
    finally:
        is_over.set()
    expect(page.locator("#connection")).to_have_text("live", timeout=SHOWN_WITHIN_MS)
    expect(page.locator("#notices")).to_be_empty()
    reader.put("flink", alert("anna-awake"))
    expect(page.locator("button.alert").first).to_contain_text("anna-awake", timeout=SHOWN_WITHIN_MS)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("flink-spark", {}, "This pattern has no topics yet. millrace provision flink-spark"),
        ("spark", {}, "It runs, and no event has arrived yet. millrace traffic spark"),
        ("flink", {"is_deployed": False}, "Its topics exist, and no job reads them. millrace deploy flink"),
        ("flink", {"missing": ["flink.alerts"]}, "Kafka has no topic flink.alerts. millrace provision flink"),
        ("flink", {}, "The last event came"),
        ("flink", {"jobs": [{"engine": "flink", "state": "failed", "problem": "no slot", "web": ""}]}, "no slot"),
        (
            "flink",
            {"jobs": [down("absent", LONG_AGO_MS)]},
            f"The job of flink is absent since {DOWN_SINCE}. millrace deploy flink",
        ),
        ("flink", {"jobs": [down("stopped", NEVER_MS)]}, "a deploy or the watcher may be starting it"),
        ("flink", {"view_problem": "view.yaml: 'x' is no field"}, "view.yaml: 'x' is no field"),
        (
            "flink",
            {"judged_ms": LONG_AGO_MS},
            f"min old: its ledger has no entry since {DOWN_SINCE}. millrace verdicts",
        ),
        ("flink", {"judged_ms": NEVER_MS}, "The last event came"),
        ("flink", {"canaries": {"status": "alive", "why": "each rule was set off"}}, "✓ canaries alive"),
        ("flink", {"canaries": {"status": "silent", "why": "broken: spree"}}, "✗ canaries silent\nbroken: spree"),
        (
            "flink",
            {"canaries": {"status": "silent", "why": "broken: spree"}},
            "Canaries set off no alert of a rule: broken: spree. millrace canaries flink --status",
        ),
        ("flink", {"verdict": RED}, "is failed. millrace validate flink"),
        ("flink", {"verdict": RED, "judged_ms": NEVER_MS}, "is failed. millrace verdicts flink"),
    ],
)
def test_each_state_is_named(
    page: Page, reader: PlaybackReader, port: int, name: str, changes: dict[str, Any], words: str
) -> None:
    for job in changes.get("jobs", ()):
        job |= {"restarts": 3, "checkpoints": 0}
    reader.ask(lambda: reader.around["patterns"][name].update(changes)).result(5)
    page.goto(f"http://127.0.0.1:{port}/#/{name}")
    expect(page.locator("body")).to_contain_text(words, use_inner_text=True, timeout=SHOWN_WITHIN_MS)


def test_a_verdict_of_the_ledger_shows_since_when_and_why(page: Page, reader: PlaybackReader) -> None:
    at_ms = time.time_ns() // 1_000_000 // 1_000 * 1_000
    found = Finding("failed", at_ms, {"alerts: spree": "failed"}, at_ms - 9_000, at_ms - 4_000, ("one", "another"))
    red = {**verdicts.shown(found), "latencies": [], "page": "r.html"}
    reader.ask(lambda: reader.around["patterns"]["flink"].update(verdict=red)).result(5)
    shown = page.locator(".verdict.failed")
    expect(shown).to_contain_text("✗ verdict failed", timeout=SHOWN_WITHIN_MS)
    begun, ended = (time.strftime("%H:%M:%S", time.localtime((at_ms - ago) / 1000)) for ago in (9_000, 4_000))
    expect(shown).to_contain_text(f"from {begun}.000 to {ended}.000, judged")
    expect(shown).to_contain_text("1 check last report")
    expect(shown.locator("small")).to_have_text("one; another")


def test_the_latest_verdicts_are_a_short_list(page: Page, reader: PlaybackReader) -> None:
    at_ms = time.time_ns() // 1_000_000 - 60_000
    entries = [Finding("ok", at_ms - 1_000 * n, {}, at_ms - 1_000 * n) for n in range(2, 9)]
    broken = Finding("failed", at_ms - 1_000, {"enrichment": "failed"}, at_ms - 1_000, at_ms, (HOSTILE, "another"))
    entries += [broken, Finding("unknown", at_ms, {"canaries": "ok", "enrichment": "unknown"})]
    red = {**verdicts.shown(broken), "findings": verdicts.latest(entries), "latencies": [], "page": ""}
    assert len(red["findings"]) == verdicts.LISTED_MOST
    latest = page.get_by_role("list", name="The latest verdicts")
    expect(latest).to_be_hidden()
    reader.ask(lambda: reader.around["patterns"]["flink"].update(verdict=red)).result(5)
    clocks = [time.strftime("%H:%M:%S", time.localtime(at_ms / 1000 - n)) for n in range(verdicts.LISTED_MOST)]
    wanted = ["unknownenrichment: unknown", f"failed{HOSTILE}", *["ok"] * 3]
    expect(latest.locator("li")).to_have_text(
        [clock + words for clock, words in zip(clocks, wanted, strict=True)], timeout=SHOWN_WITHIN_MS
    )


def test_messages_that_the_page_cannot_read_are_counted(page: Page, reader: PlaybackReader) -> None:
    health = page.get_by_role("region", name="Health")
    expect(health).not_to_contain_text("cannot read")
    reader.put("flink", *(Record("alerts", 0, n, time.time_ns() // 1_000_000, None, b"{") for n in range(2)))
    expect(health).to_contain_text("2 messages that this page cannot read", timeout=SHOWN_WITHIN_MS)


def test_patterns_that_were_sent_the_same_tape_are_side_by_side(page: Page, reader: PlaybackReader, port: int) -> None:
    opened(page, port, "")
    compared = page.get_by_role("region", name="Compared")
    expect(compared).to_contain_text("No two patterns were sent the same traffic yet")

    def sent(name: str, status: str, p99_ms: int) -> dict[str, Any]:
        latencies = [{"name": "alerts", "p50_ms": 4, "p99_ms": p99_ms}]
        verdict = {"status": status, "latencies": latencies}
        return {"name": name, "events": 1_200, "cpu_s": {name: 3.5}, "verdict": verdict}

    found = [{"tape": "tape-7", "patterns": [sent("flink", "ok", 40), sent("spark", "failed", 2_500)]}]
    reader.ask(lambda: reader.around.update(comparisons=found)).result(5)
    rows = compared.locator("tr")
    expect(rows.first).to_have_text("tape-7flinkspark", timeout=SHOWN_WITHIN_MS)
    shown = [each.locator("th, td").all_inner_texts() for each in rows.all()]
    assert shown[1:] == [
        ["verdict", "ok", "failed"],
        ["events", "1,200", "1,200"],
        ["processor time of flink", "3.5 s", NOTHING],
        ["processor time of spark", NOTHING, "3.5 s"],
        ["alerts, p50 / p99", "4 ms / 40 ms", "4 ms / 2.5 s"],
    ]


def test_a_kafka_that_is_down_is_named_and_its_figures_stay(page: Page, reader: PlaybackReader) -> None:
    down = {"state": "down", "since_ms": time.time_ns() // 1_000_000, "problem": "refused"}
    reader.ask(lambda: reader.around.update(kafka=down)).result(5)
    expect(page.locator("#notices")).to_contain_text("Kafka does not answer since", timeout=SHOWN_WITHIN_MS)
    assert page.locator(".figure.in span").inner_text() != "0 in all"
    reader.ask(lambda: reader.around.update(kafka=UP)).result(5)
    expect(page.locator("#notices")).to_be_empty(timeout=SHOWN_WITHIN_MS)


def test_surroundings_that_were_not_looked_at_are_named(page: Page, reader: PlaybackReader) -> None:
    now_ms, state = time.time_ns() // 1_000_000, page.locator("article .state")
    reader.ask(lambda: reader.around.update(looked_ms=LONG_AGO_MS)).result(5)
    notice = f"Jobs, lag and verdicts are as of {DOWN_SINCE}: the server of this page has not looked at them since."
    expect(page.locator("#notices")).to_have_text(notice, timeout=SHOWN_WITHIN_MS)
    expect(state).to_have_text(f"not looked atIts jobs, lag and verdict are as of {DOWN_SINCE}.")
    reader.ask(lambda: reader.around.update(looked_ms=now_ms)).result(5)
    expect(page.locator("#notices")).to_be_empty(timeout=SHOWN_WITHIN_MS)


def test_a_reader_that_is_behind_kafka_is_named_and_no_pattern_is_called_quiet(
    page: Page, reader: PlaybackReader, port: int
) -> None:
    state = page.locator("article .state")
    expect(state).to_contain_text("The last event came", timeout=SHOWN_WITHIN_MS)
    reader.leave("flink", 1_234)
    sentence = "The page is behind Kafka: 1,234 messages of flink are in no figure yet."
    expect(page.locator("#notices")).to_have_text(sentence, timeout=SHOWN_WITHIN_MS)
    expect(state).to_have_text(f"behind{sentence}")
    unread = 'millrace_page_reader_lag_messages{pattern="flink"} 1234.0'
    assert unread in fetched(port, "/metrics").read().decode()
    reader.leave("flink", 0)
    expect(state).to_contain_text("The last event came", timeout=SHOWN_WITHIN_MS)
    expect(page.locator("#notices")).to_be_empty()


def test_it_fits_a_phone_and_shows_every_pattern(page: Page, port: int) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    for name in ("", "flink", "flood-flink"):
        opened(page, port, name)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 380, f"{name} is {width} pixels wide"
    opened(page, port, "")
    assert sorted(page.locator("article section h2 a").all_inner_texts()) == sorted(NAMES)


def test_a_stage_opens_its_engines_page_and_an_edge_has_its_rate(window: Page, settings: Settings, port: int) -> None:
    both = pattern_around("flink", "spark")
    for job in both["jobs"]:
        job["web"] = f"http://127.0.0.1:9/{job['engine']}"
    now_ms = time.time_ns() // 1_000_000
    sent = [Record("transactions", 0, n, now_ms - 10_000 + 100 * n, None, b"{}") for n in range(1_800)]
    with served(settings, variants(), {}, around(**{"flink-spark": both}), port) as reader:
        reader.ask(lambda: [reader.boards["flink-spark"].take(each) for each in sent]).result(5)
        opened(window, port, "flink-spark")
        rates = window.locator("svg.flow text.rate")
        expect(rates.first).to_have_text("10/s", timeout=SHOWN_WITHIN_MS)
        assert [each for each in rates.all_text_contents() if each] == ["10/s"], "the other edges carry nothing"
        assert window.locator("svg.flow path.flows").count() == 1
        assert window.locator("svg.flow a").evaluate_all(LINKS) == [
            ["events", "http://127.0.0.1:9/flink", "_blank"],
            ["windows", "http://127.0.0.1:9/spark", "_blank"],
        ]
        reader.ask(lambda: both["jobs"][1].update(web="javascript:alert(1)")).result(5)
        expect(window.locator("svg.flow a[href]")).to_have_count(1, timeout=SHOWN_WITHIN_MS)
        hint = window.get_by_role("region", name="Flow").locator("h2 small")
        expect(hint).to_have_text("messages a second; a stage opens its engine's page")
        reader.ask(lambda: both["jobs"][0].update(web="")).result(5)
        expect(hint).to_have_text("messages a second", timeout=SHOWN_WITHIN_MS)
        window.goto("about:blank")


def test_an_edge_to_a_stage_whose_job_is_down_has_no_rate(window: Page, settings: Settings, port: int) -> None:
    both = pattern_around("flink", "spark")
    now_ms = time.time_ns() // 1_000_000
    sent = [Record("enriched", 0, n, now_ms - 10_000 + 100 * n, None, b"") for n in range(1_800)]
    with served(settings, variants(), {}, around(**{"flink-spark": both}), port) as reader:
        reader.ask(lambda: [reader.boards["flink-spark"].take(each) for each in sent]).result(5)
        opened(window, port, "flink-spark")
        flowing = window.locator("svg.flow path.flows")
        expect(flowing).to_have_count(2, timeout=SHOWN_WITHIN_MS)  # out of the events, and into the windows
        reader.ask(lambda: both["jobs"][1].update(state="absent", is_up=False)).result(5)
        expect(flowing).to_have_count(1, timeout=SHOWN_WITHIN_MS)
        assert [each for each in window.locator("svg.flow text.rate").all_text_contents() if each] == ["10/s"]
        window.goto("about:blank")


LINKS = """(all) => all.map((link) =>
  [link.querySelector(".title").textContent, link.getAttribute("href"), link.getAttribute("target")])"""


def test_map_strips_and_bars_have_ink(
    page: Page, reader: PlaybackReader, tapes: dict[str, list[tuple[int, Record]]]
) -> None:
    reader.put("flink", accepted(tapes, transaction_id="now", flags=[]))  # the map has the last minute only
    canvases = {
        "canvas.map": (1, "land", "accepted"),
        "canvas.strip": (3, "heat-5"),
        ".charts .plot canvas": (3, "group-0", "group-7"),
    }
    page.locator(".charts .plot canvas").nth(2).wait_for()
    for selector, (count, *colours) in canvases.items():
        drawn = page.locator(selector)
        expect(drawn).to_have_count(count)
        for canvas, colour in product(drawn.all(), colours):
            assert wait_until(partial(canvas.evaluate, PAINTED, colour), within_s=10), (selector, colour)


PAINTED = """(canvas, name) => {
  const one = new OffscreenCanvas(1, 1).getContext("2d");
  one.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  one.fillRect(0, 0, 1, 1);
  const wanted = one.getImageData(0, 0, 1, 1).data;
  const found = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let painted = 0;
  for (let at = 0; at < found.length; at += 4)
    painted += wanted.every((part, n) => Math.abs(part - found[at + n]) < 3) ? 1 : 0;
  return painted > 0;
}"""


@dataclass(frozen=True)
class WithoutKeys(Variant):
    """A pattern of a use that has a summary without keys, too."""

    @property
    def use(self) -> UseCase:
        altogether = replace(spend_per_minute, name="altogether", keys=())
        return replace(FRAUD, summaries=(*FRAUD.summaries, altogether))


def test_a_use_without_a_view_file_has_its_charts_and_its_events(
    window: Page, settings: Settings, port: int, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "FILE", "there-is-none.yaml")
    pattern = load("flink").pattern
    windowing = pattern.stages.windowing.model_copy(update={"summaries": ("spend-per-minute", "altogether")})
    stages = pattern.stages.model_copy(update={"windows": windowing})
    own = without_tables(WithoutKeys("flink", pattern.model_copy(update={"stages": stages})))
    tape = records(own, time.time_ns() // 1_000_000 - 90_000, seconds=60, rate_per_s=40)
    ours = {"kafka": UP, "patterns": {"flink": pattern_around("flink")}}
    with served(settings, [own], {"flink": tape}, ours, port):
        opened(window, port, "flink")
        panels = window.locator(".charts > .panel")
        titles = ["purchases by merchant category", "total by merchant category", "purchases", "total"]
        expect(panels).to_have_count(len(titles), timeout=SHOWN_WITHIN_MS)
        for panel, title in zip(panels.all(), titles, strict=True):
            expect(panel).to_have_attribute("aria-label", title)
            expect(panel.locator("ul.legend li").first).to_be_visible()
        expect(panels.nth(2).locator("ul.legend li")).to_contain_text(["all events"])
        assert window.locator("canvas.map, .number").count() == 0
        window.locator("button.alert").first.click()
        expect(window.locator("#detail th").first).to_have_text("transaction id")
        window.keyboard.press("Escape")
        expect(window.get_by_label("Only alerts with at least this")).to_be_hidden()
        photographed(window, pictures / "without-view.png")
        window.goto("about:blank")


HURRIED, COPIES, PAST_MS = 4, 20, 6_000


def hurried(tape: Sequence[Due]) -> Iterator[Due]:
    """The messages of a run in a quarter of its time, some of which has passed, and each alert for many keys."""
    began_ms, first_ms = time.time_ns() // 1_000_000 - PAST_MS, tape[0][0]
    for at_ms, record in tape:
        later_ms = began_ms + (at_ms - first_ms) // HURRIED - at_ms
        moved = replace(record, ingest_ms=record.ingest_ms + later_ms)
        if record.topic not in ("enriched", "alerts", HOP):
            yield at_ms + later_ms, moved
            continue
        content = json.loads(record.value or b"")
        content |= {key: content[key] + later_ms for key in TIMES if content.get(key)}
        if record.topic == "alerts":
            for copy in range(COPIES):
                own = {"alert_id": sha256(f"{content['alert_id']} {copy}".encode()).hexdigest()[:32]}
                own |= {name: f"{content[name]}-{copy}" for name in ("subject", "key") if copy}
                yield at_ms + later_ms, replace(moved, value=json.dumps(content | own).encode())
        else:
            yield at_ms + later_ms, replace(moved, value=json.dumps(content).encode())


TIMES = ("at_ms", "sent_ms", "ingest_ms", "emit_ms")
PICTURES = ("wide-light", "phone-dark")
SHOWN = {"flink": "fraud", "flood-flink": "flood", "spark": "empty", "flink-spark": "not-provisioned", "": "overview"}
VIEWPORTS: dict[str, ViewportSize] = {"wide": {"width": 1500, "height": 1000}, "phone": {"width": 380, "height": 800}}


@pytest.mark.parametrize("form", PICTURES)
def test_pictures_of_it_are_kept(
    page: Page,
    reader: PlaybackReader,
    port: int,
    form: str,
    pictures: Path,
    tapes: dict[str, list[Due]],
) -> None:
    """Of both uses, of what is empty or absent, under load, of an alert, of a red verdict and of a broken Kafka."""
    size, scheme = form.split("-")
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size(VIEWPORTS[size])

    def taken(name: str) -> None:
        photographed(page, pictures / f"{name}-{form}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= VIEWPORTS[size]["width"], name

    for pattern, name in SHOWN.items():
        opened(page, port, pattern)
        taken(name)
    opened(page, port, "flink")
    reader.play("flink", [*hurried(tapes["flink"])])
    expect(page.locator(".chips b").first).to_have_text(re.compile(r"^[5-9]\d\d$"), timeout=SHOWN_WITHIN_MS)
    taken("under-load")
    page.locator("button.alert", has_text="spree").first.click()
    expect(page.locator("#detail")).to_contain_text("found in")
    page.screenshot(path=pictures / f"alert-{form}.png", animations="disabled")
    page.keyboard.press("Escape")
    red = {"status": "failed", "at": datetime.now(UTC).isoformat(), "page": "", "checks": {"alerts: spree": "failed"}}
    reader.ask(lambda: reader.around["patterns"]["flink"].update(verdict=red)).result(5)
    expect(page.locator("body")).to_contain_text("verdict failed", timeout=SHOWN_WITHIN_MS)
    taken("verdict-red")
    down = {"state": "down", "since_ms": time.time_ns() // 1_000_000, "problem": "refused"}
    reader.ask(lambda: reader.around.update(kafka=down)).result(5)
    expect(page.locator("#notices")).to_contain_text("Kafka does not answer since", timeout=SHOWN_WITHIN_MS)
    taken("kafka-down")
    page.emulate_media(color_scheme="light")


SEEN = """async () => {
  for (const _ of "ab") await new Promise(requestAnimationFrame); // it scrolls there
  const found = document.activeElement;
  if (found === document.body) return "";
  const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(found);
  const name = `${found.tagName} ${found.getAttribute("class")} ${found.textContent.slice(0, 20)}`;
  if (outlineStyle === "none") return `${name}: no ring`;
  const away = parseFloat(outlineWidth) + parseFloat(outlineOffset) - 1;
  const { top, left, bottom, right, width } = found.getBoundingClientRect();
  for (let each = found.parentElement; each !== document.body; each = each.parentElement) {
    const { overflowX, contentVisibility } = getComputedStyle(each);
    if (overflowX === "visible" && contentVisibility === "visible") continue;
    const clip = each.getBoundingClientRect();
    const isWide = left - away < clip.left || right + away > clip.right;
    if (isWide || top - away < clip.top || bottom + away > clip.bottom) return `${name}: cut off by ${each.tagName}`;
  }
  return found.contains(document.elementFromPoint(left + width / 2, top + 3)) ? "" : `${name}: covered`;
}"""
"""What hides the ring around what has the focus."""


@pytest.mark.parametrize("size", ["wide", "phone"])
def test_the_focus_is_seen_wherever_tab_takes_it(page: Page, port: int, size: str) -> None:
    page.set_viewport_size(VIEWPORTS[size])
    opened(page, port, "flink")
    hidden, stops = set[str](), set[str]()
    for key in ("Tab", "Shift+Tab"):
        page.evaluate("document.activeElement.blur()")
        for _ in range(150):
            page.keyboard.press(key)
            hidden.add(page.evaluate(SEEN))
            stops.add(page.evaluate("document.activeElement.textContent.slice(0, 20)"))
            if page.evaluate("document.activeElement === document.body"):
                break
    assert hidden - {""} == set()
    assert stops >= {"Skip to the figures", "flood-flink", "save as CSV", "as a table"}


def test_what_has_the_focus_keeps_it_while_its_figures_change(page: Page, reader: PlaybackReader) -> None:
    now_ms = time.time_ns() // 1_000_000

    def refused(reason: str, number: int) -> Iterator[Record]:
        content = {"reason": reason, "topic": "flink.transactions", "partition": 0, "offset": 0, "ingest_ms": now_ms}
        content |= {"stage": "events", "value_base64": ""}
        value = json.dumps(content).encode()
        yield from (Record("dead-letters", 0, time.time_ns() + n, now_ms, None, value) for n in range(number))

    health, letters = page.get_by_role("region", name="Health"), page.get_by_role("region", name="Dead letters")
    reader.put("flink", *refused("json", 50))
    reason = letters.locator(".reasons button", has_text="json")
    link = health.get_by_role("link", name="flink")
    for focused, count in ((link, 1), (reason, 2), (reason, 3)):
        focused.focus()
        if focused is reason:
            page.keyboard.press("Enter")
        expect(reason).to_have_attribute("aria-pressed", str(count == 2).lower())
        around = {**reader.around["patterns"]["flink"], "lag": count}
        reader.ask(lambda around=around: reader.around["patterns"].update(flink=around)).result(5)
        reader.put("flink", *refused("json", 1))
        expect(health).to_contain_text(f"Behind the last checkpoint: {count} event", timeout=SHOWN_WITHIN_MS)
        expect(focused).to_be_focused()


def test_the_keyboard_reads_an_alert_and_is_back_in_the_list(page: Page) -> None:
    row, drawer = page.locator("button.alert").nth(1), page.locator("#detail")
    row.focus()
    page.keyboard.press("Enter")
    expect(drawer).to_contain_text("found in")
    expect(drawer.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(row).to_be_focused()


WIDER = """(place) => [...document.querySelectorAll(`${place}, ${place} *`)]
  .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
  .filter((each) => getComputedStyle(each).overflowX === "visible")
  .map((each) => `${each.tagName} ${each.getAttribute("class")} ${each.textContent.slice(0, 30)}`)"""
"""What does not fit its place, and does not scroll."""


@pytest.mark.parametrize("width", [320, 750, 1500], ids=["narrow phone", "zoomed to 200 %", "wide"])
def test_names_of_any_length_fit(page: Page, reader: PlaybackReader, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    operands = {f"{number}_{'measure' * 20}": "9" * 60 for number in range(30)}
    reader.put("flink", *(alert(f"{number}{'k' * 200}", subject="s" * 200, operands=operands) for number in range(50)))
    row = page.locator("button.alert", has_text="49kkk")
    expect(row).to_be_visible(timeout=SHOWN_WITHIN_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(WIDER, "main") == []
    row.click()
    expect(page.locator("#detail")).to_contain_text("found in")
    assert page.evaluate(WIDER, "#detail") == []
    assert page.locator("#detail dt").count() > 30
    page.locator("#detail dt").last.scroll_into_view_if_needed()
    expect(page.locator("#detail").get_by_role("button", name="Close")).to_be_in_viewport(ratio=1)


def test_a_phone_shows_the_tab_that_is_chosen_and_whole_titles(page: Page, port: int) -> None:
    page.set_viewport_size(VIEWPORTS["phone"])
    opened(page, port, "flink-spark")
    expect(page.locator("#patterns a[aria-current]")).to_be_in_viewport(ratio=1)
    opened(page, port, "flink")
    assert page.locator("svg.flow.upright .node").count() > 6
    assert page.evaluate(OUTSIDE) == []


OUTSIDE = """() => [...document.querySelectorAll("svg.flow .node")].filter((node) => {
  const box = node.querySelector("rect").getBBox();
  const title = node.querySelector(".title").getBBox();
  return title.x < box.x || title.x + title.width > box.x + box.width || title.y < box.y;
}).map((node) => node.textContent)"""


def test_a_page_without_figures_begins_with_its_rules(page: Page, port: int) -> None:
    for name, is_open in (("flink-spark", True), ("flink", False)):
        opened(page, port, name)
        expect(page.locator(".title dl")).to_be_visible(visible=is_open)


def test_panels_side_by_side_end_together(page: Page, port: int) -> None:
    for name in ("flink", "flood-flink"):
        opened(page, port, name)
        assert page.evaluate(RAGGED) == [], name


RAGGED = """() => [...document.querySelectorAll(".charts, .numbers, .four")].flatMap((row) => {
  const place = (each, side) => Math.round(each.getBoundingClientRect()[side]);
  const rows = Map.groupBy([...row.children], (each) => place(each, "top"));
  return [...rows.values()].filter((all) => new Set(all.map((each) => place(each, "bottom"))).size > 1);
}).map((all) => all.map((each) => each.getAttribute("aria-label")).join(", "))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_has_no_barrier_that_axe_finds(page: Page, port: int, scheme: str) -> None:
    """Contrast, names for screen readers, what the keyboard reaches: of each kind of page, with all of it unfolded."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    found = set()
    for pattern in ("", "flink", "flood-flink", "spark", "flink-spark"):
        opened(page, port, pattern)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        found |= set(barriers(page))
    opened(page, port, "flink")
    page.locator("button.alert").first.click()
    expect(page.locator("#detail")).to_contain_text("found in")
    assert found | set(barriers(page)) == set()
    page.keyboard.press("Escape")
    page.evaluate("document.querySelector('#main').style.color = getComputedStyle(document.body).backgroundColor")
    assert any(each.startswith("color-contrast") for each in barriers(page))
    page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colour_blind_tell_lines_and_groups_apart(page: Page, port: int, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    opened(page, port, "flink")
    assert page.context.browser
    devtools, other = page.context.new_cdp_session(page), page.context.browser.new_page()
    for sight in ("none", "protanopia", "deuteranopia", "tritanopia"):
        devtools.send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
        for title in ("Rates", "spent by merchant category"):
            legend = page.get_by_role("region", name=title).locator("ul.legend")
            picture = b64encode(legend.screenshot()).decode()
            seen = [oklab(each) for each in other.evaluate(COLOURS, [picture, legend.evaluate(SWATCHES)])]
            assert len(seen) > 3
            assert min(dist(one, another) for one, another in combinations(seen, 2)) > TELLS_APART, (sight, title)
    devtools.send("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
    other.close()
    page.emulate_media(color_scheme="light")


SWATCHES = """(legend) => {
  const { x, y } = legend.getBoundingClientRect();
  return [...legend.querySelectorAll("i")].map((each) => each.getBoundingClientRect()).map(
    (each) => [each.x + each.width / 2 - x, each.y + each.height / 2 - y]);
}"""
"""The middle of each swatch of a legend."""
COLOURS = """async ([picture, places]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  return places.map(([x, y]) => [...canvas.getImageData(x, y, 1, 1).data].slice(0, 3));
}"""


def oklab(rgb: list[int]) -> tuple[float, float, float]:
    """Where a colour is in a space whose distances are as people see them (Ottosson 2020)."""
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (n / 255 for n in rgb))
    long = cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    mid = cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    short = cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return (
        0.2104542553 * long + 0.7936177850 * mid - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * mid + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * mid - 0.8086757660 * short,
    )


def cbrt(number: float) -> float:
    return number ** (1 / 3)


@pytest.mark.parametrize("name", ["flink", "flood-flink"])
def test_what_is_drawn_is_a_table_too_that_the_keyboard_opens(page: Page, port: int, name: str) -> None:
    opened(page, port, name)
    drawn = page.locator("details.values")
    assert drawn.count() == {"flink": 8, "flood-flink": 4}[name]
    for each in drawn.all():
        each.locator("summary").focus()
        page.keyboard.press("Enter")
        expect(each.locator("thead th").first).to_be_visible()
    windows = page.locator(".charts details.values tbody")  # others are of the last moments, in which nothing came
    assert windows.count() == {"flink": 6, "flood-flink": 3}[name]
    for each in windows.all():
        expect(each.locator("td").first).to_be_visible()


def test_a_thousand_alerts_keep_it_quick(page: Page, reader: PlaybackReader) -> None:
    devtools = page.context.new_cdp_session(page)
    # Its own processor time: on a busy machine the clock measures the others.
    devtools.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    devtools.send("Performance.enable")

    def busy_s() -> float:
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")

    before_s, began = busy_s(), time.monotonic()
    reader.put("flink", *(alert(f"many-{number}") for number in range(1_000)))
    expect(page.locator("button.alert").first).to_contain_text("many-999", timeout=SHOWN_WITHIN_MS)
    assert wait_until(lambda: time.monotonic() - began > MEASURED_S, within_s=2 * MEASURED_S)
    assert page.locator("button.alert").count() == 300
    page.get_by_role("searchbox").fill("many-")
    shown = {each.rsplit(" ", 1)[-1] for each in page.locator(".alert-list .who").all_text_contents()}
    assert shown == {f"many-{number}" for number in range(700, 1_000)}, "the latest of those that the page got"
    page.get_by_role("searchbox").fill("many-0")
    expect(page.locator("button.alert")).to_have_count(1)  # the first of them is there as well
    assert busy_s() - before_s < 0.25 * (time.monotonic() - began)


def test_a_browser_that_does_not_read_is_dropped(page: Page, reader: PlaybackReader, port: int) -> None:
    def is_dropped() -> bool:
        reader.hub.publish("noise", "x" * 500_000)  # it fills the buffers of the connection
        return reader.hub.dropped == 1

    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert wait_until(is_dropped, within_s=60, every_s=0.2)
    reader.put("flink", alert("anna-meanwhile"))
    expect(page.locator("button.alert").first).to_contain_text("anna-meanwhile", timeout=SHOWN_WITHIN_MS)


def test_metrics_are_the_same_figures(reader: PlaybackReader, port: int) -> None:
    taken = reader.taken["flink"]
    assert wait_until(lambda: taken["enriched"] > 0, within_s=10)
    text = fetched(port, "/metrics").read().decode()
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["millrace_kafka_up",] == 1
    assert samples["millrace_messages_total", ("pattern", "flink"), ("stream", "accepted")] == taken["enriched"]
    by_rule = [
        value
        for (name, *labels), value in samples.items()
        if name == "millrace_alerts_total" and ("pattern", "flink") in labels
    ]
    assert sum(by_rule) == taken["alerts"]
    assert samples["millrace_job_state", ("engine", "flink"), ("pattern", "flink"), ("state", "running")] == 1


def test_prometheus_gets_where_the_engines_serve_their_own_figures(reader: PlaybackReader, port: int) -> None:
    shared, own = "http://127.0.0.1:7/metrics", "http://127.0.0.1:8/metrics/prometheus"

    def serve() -> None:
        for name in ("flink", "flood-flink"):
            reader.around["patterns"][name]["jobs"][0]["metrics"] = [shared]
        reader.around["patterns"]["spark"]["jobs"][0]["metrics"] = [own]

    reader.ask(serve).result(5)
    assert json.load(fetched(port, "/targets")) == [
        {"targets": ["127.0.0.1:7"], "labels": {"__metrics_path__": "/metrics", "engine": "flink"}},
        {
            "targets": ["127.0.0.1:8"],
            "labels": {"__metrics_path__": "/metrics/prometheus", "engine": "spark", "pattern": "spark"},
        },
    ]


def test_the_runbook_is_served_as_plain_text(reader: PlaybackReader, port: int) -> None:
    for path in (PROJECT / "docs" / "runbook").glob("*.md"):
        answer = fetched(port, f"/runbook/{path.stem}")
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.read() == path.read_bytes()


def test_a_page_of_another_host_and_another_file_get_nothing(
    reader: PlaybackReader, settings: Settings, port: int
) -> None:
    (settings.state / "records").mkdir()
    (settings.state / "secret.html").write_text("secret")
    for path, host, status in (
        ("/", "evil.example", 400),
        ("/live", "evil.example", 400),
        ("/reports/..%2fsecret.html", "127.0.0.1", 404),
        ("/runbook/none", "127.0.0.1", 404),
        ("/runbook/..%2f..%2fREADME", "127.0.0.1", 404),
        ("/page/../app.py", "127.0.0.1", 404),
        ("/alerts/flink/none", "127.0.0.1", 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetched(port, path, host)
        assert refused.value.code == status, path
    headers = fetched(port, "/").headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_report_draws_its_charts_without_a_server_and_in_the_sandbox_of_the_page(
    page: Page, settings: Settings, port: int, tmp_path: Path
) -> None:
    kept = settings.state / "records" / "verdict.html"
    kept.parent.mkdir()
    card = token("anna")
    wrong = checked("enrichment", "?", {}, [f"card is '{card}'"])
    verdict = replace(VERDICT, checks=(wrong,))
    kept.write_text(html(verdict, {}, npm.ensure(settings, PACKAGES) / "assets"), encoding="utf-8")
    for address in (kept.as_uri(), f"http://127.0.0.1:{port}/reports/verdict.html"):
        page.goto(address)
        expect(page.locator("canvas")).to_have_count(2)
        expect(page.get_by_text("alerts from intended send")).to_have_count(2)  # in the table, and in the legend
        assert page.evaluate(INKED) == [True, True], address
    expect(page.locator(".offenders")).to_have_text(f"card is '{card[:13]}…'")
    page.screenshot(path=tmp_path / "report.png", full_page=True)


def test_a_report_draws_its_charts_in_the_frame_that_airflow_shows(page: Page, settings: Settings) -> None:
    report = html(VERDICT, {}, npm.ensure(settings, PACKAGES) / "assets")
    policy = {
        "Content-Security-Policy": f"{REPORT_POLICY}; frame-ancestors 'self'"
    }  # as millrace/airflow/page.py has it
    around = (
        '<iframe sandbox="allow-scripts allow-same-origin allow-forms" src="/framed" width=900 height=900></iframe>'
    )
    page.route("**/framed", lambda route: route.fulfill(body=report, headers=policy, content_type="text/html"))
    page.route("**/around", lambda route: route.fulfill(body=around, content_type="text/html"))
    page.goto("http://127.0.0.1:9/around")
    expect(page.frame_locator("iframe").locator("canvas")).to_have_count(2)
    assert page.frames[1].evaluate(INKED) == [True, True]
    assert page.frames[1].evaluate("origin") == "null", "it reaches nothing of Airflow's"
    page.unroute_all()


INKED = """() => [...document.querySelectorAll("canvas")].map((canvas) =>
  canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((part) => part > 0))"""


def fetched(port: int, path: str, host: str = "127.0.0.1") -> Any:
    return urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host}), timeout=10
    )


def test_a_mark_that_is_set_in_one_window_appears_in_another(page: Page, reader: PlaybackReader, port: int) -> None:
    reader.put("flink", alert("marked"))
    assert page.context.browser
    other = page.context.browser.new_page()
    opened(other, port, "flink")
    page.locator("button.alert", has_text="marked").first.click()
    drawer = page.locator("#detail")
    expect(drawer).to_contain_text("Not marked yet.")
    drawer.get_by_role("button", name="fraud", exact=True).click()
    expect(drawer).to_contain_text("It was not marked: by: one line of 1 to 64 characters")
    drawer.get_by_label("Your name").fill("anna")
    drawer.get_by_label("Note").fill(HOSTILE)
    drawer.get_by_role("button", name="fraud", exact=True).click()
    expect(drawer).to_contain_text("fraud, by anna, ")
    expect(drawer).to_contain_text(HOSTILE)
    same = other.locator("button.alert", has_text="marked")
    expect(same.locator(".mark")).to_have_text("fraud", timeout=SHOWN_WITHIN_MS)
    other.get_by_label("Only alerts with this mark").select_option("fraud")
    expect(other.locator("button.alert")).to_have_count(1)
    same.click()
    expect(other.locator("#detail .made")).to_contain_text("fraud, by anna, ")
    other.locator("#detail").get_by_label("Note").fill("half a word")
    drawer.get_by_role("button", name="no fraud", exact=True).click()
    expect(other.locator("#detail .made")).to_contain_text("no fraud, by anna, ")
    expect(other.locator("#detail [aria-pressed=true]")).to_have_text(["no fraud"])
    expect(other.locator("#detail").get_by_label("Note")).to_have_value("half a word")
    drawer.get_by_role("button", name="fraud", exact=True).click()
    expect(other.locator("#detail .made")).to_contain_text(re.compile("^fraud, by anna, "))
    other.keyboard.press("Escape")
    other.get_by_text("how many were right").click()
    expect(other.locator(".precision tbody tr")).to_have_count(1)
    expect(other.locator(".precision tbody")).to_contain_text("100 %")
    other.get_by_label("Only alerts with this mark").select_option("not marked")
    expect(other.locator("button.alert .mark").first).to_be_empty()
    assert page.title() == "flink · millrace"
    other.close()


@pytest.mark.parametrize("is_kept", [False, True], ids=["before Kafka has it", "after Kafka has it"])
def test_a_mark_whose_server_ends_before_its_answer_is_shown_only_if_kafka_has_it(
    window: Page, settings: Settings, tapes: dict[str, Any], port: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, is_over = threading.Event(), threading.Event()
    kept: list[Record] = []
    marked = alert("marked-in-vain")

    def publish(self: Written, messages: Iterable[tuple[str, bytes, bytes]]) -> None:
        for _, key, value in messages if is_kept else ():
            kept.append(Record("dispositions", 0, 0, time.time_ns() // 1_000_000, key, value))
        began.set()
        is_over.wait(SHOWN_WITHIN_MS / 1_000)
        raise InfraError("it has ended")

    monkeypatch.setattr(Written, "publish", publish)
    row, drawer = window.locator("button.alert", has_text="marked-in-vain"), window.locator("#detail")
    try:
        with served(settings, variants(), tapes, around(), port) as reader:
            opened(window, port, "flink")
            reader.put("flink", marked)
            row.click()
            drawer.get_by_label("Your name").fill("anna")
            drawer.get_by_role("button", name="fraud", exact=True).click()
            assert began.wait(SHOWN_WITHIN_MS / 1_000)
            expect(drawer).to_contain_text("Not marked yet.")
        expect(drawer.locator(".made")).to_contain_text("Not confirmed: the server of this page did not answer.")
        expect(drawer.locator("[aria-pressed=true]")).to_have_count(0)
    finally:
        is_over.set()
    with served(settings, variants(), tapes, around(), port) as back:
        back.put("flink", marked, *kept, alert("another"))
        # The drawer stays open: without it the row has the focus, and new alerts wait behind a button.
        expect(window.locator("button.alert", has_text="another")).to_be_visible(timeout=SHOWN_WITHIN_MS)
        expect(row.locator(".mark")).to_have_text("fraud" if is_kept else "", timeout=SHOWN_WITHIN_MS)
        window.goto("about:blank")


@pytest.mark.parametrize(
    ("origin", "token", "body", "status"),
    [
        ("own", "own", {"mark": "confirmed", "by": "anna"}, 200),
        ("own", "guessed", {"mark": "confirmed", "by": "anna"}, 403),
        ("own", None, {"mark": "confirmed", "by": "anna"}, 403),
        ("own", "gu\u00e9ssed", {"mark": "confirmed", "by": "anna"}, 403),
        (None, "own", {"mark": "confirmed", "by": "anna"}, 403),
        ("http://127.0.0.1:1", "own", {"mark": "confirmed", "by": "anna"}, 403),
        ("http://example.org", "own", {"mark": "confirmed", "by": "anna"}, 403),
        ("own", "own", {"mark": "confirmed", "by": "anna", "note": "x" * 10_000}, 413),
        ("own", "own", {"mark": "right", "by": "anna"}, 400),
        ("own", "own", "[" * 4_000 + "]" * 4_000, 400),
    ],
)
def test_only_a_page_of_this_server_marks_an_alert(
    reader: PlaybackReader, port: int, origin: str | None, token: str | None, body: dict[str, str] | str, status: int
) -> None:
    reader.put("flink", alert("marked"))
    assert wait_until(lambda: bool(reader.taken["flink"]["alerts"]), 60)
    alert_id = reader.ask(lambda: reader.boards["flink"].full(0)["alerts"][-1]["id"]).result(5)
    own = f"http://127.0.0.1:{port}"
    headers = {"Content-Type": "application/json"}
    headers |= {"Origin": own if origin == "own" else origin} if origin else {}
    headers |= {"X-Millrace-Token": token_of(port) if token == "own" else token} if token else {}
    content = body if isinstance(body, str) else json.dumps(body)
    asked = urllib.request.Request(f"{own}/alerts/flink/{alert_id}/mark", content.encode(), headers)
    try:
        answered = int(urllib.request.urlopen(asked).status)
    except urllib.error.HTTPError as refused:
        answered = refused.code
    assert answered == status

    def marks() -> dict[str, Any]:
        return dict(reader.ask(lambda: reader.boards["flink"].full(0)["marks"]).result(5))

    if status == 200:
        assert wait_until(lambda: alert_id in marks(), 60)
    else:
        assert marks() == {}


@pytest.mark.parametrize("mark", ["confirmed", token("a mark")])
def test_the_answer_to_a_mark_has_no_whole_card(reader: PlaybackReader, port: int, mark: str) -> None:
    reader.put("flink", alert("marked"))
    assert wait_until(lambda: bool(reader.taken["flink"]["alerts"]), 60)
    alert_id = reader.ask(lambda: reader.boards["flink"].full(0)["alerts"][-1]["id"]).result(5)
    own, card = f"http://127.0.0.1:{port}", token("anna")
    headers = {"Content-Type": "application/json", "Origin": own, "X-Millrace-Token": token_of(port)}
    content = json.dumps({"mark": mark, "by": "anna", "note": f"asked about {card}"}).encode()
    try:
        answer = urllib.request.urlopen(urllib.request.Request(f"{own}/alerts/flink/{alert_id}/mark", content, headers))
    except urllib.error.HTTPError as refused:
        answer = refused
    shown = answer.read().decode()
    assert (card[:13] if mark == "confirmed" else mark[:13]) in shown
    assert card not in shown
    assert mark == "confirmed" or mark not in shown


def token_of(port: int) -> str:
    """What a page that has loaded gets."""
    with fetched(port, "/live") as stream:
        line = next(line for line in stream if line.startswith(b"data: {"))
    return str(json.loads(line.removeprefix(b"data: "))["token"])
