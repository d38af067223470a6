"""The live page in a real browser, against Flink, Spark and the stores behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from millrace import stack as stacks
from millrace.machine import processes
from millrace.machine.processes import wait_until
from millrace.patterns import load
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import deploy, provision, teardown
from tests.browser import browser
from tests.dashboard.test_live import SEEN_WITHIN_MS, SHOWN_WITHIN_MS, opened, send, shown_after_ms, totals
from tests.patterns import own_patterns

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(900)]

NAME = "live-stores"
SHOWN = ("in", "accepted", "refused", "alerts")
MOVED_WITHIN_MS = 300_000
"""On a busy machine the first batch of a driver has taken 108 s, and the second one shows its moment."""


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """`flink-spark` with some traffic behind it, shown by the page."""
    target, folder = Target.read(stack), tmp_path_factory.mktemp("patterns")
    with own_patterns(folder, {NAME: {"of": "flink-spark", "partitions": 1}}):
        stacks.restart(replace(stack, patterns=folder), ["dashboard"])
        provision.provision(target, NAME)
        deploy.deploy(target, NAME)
        send(target, load(NAME))
        yield target
        teardown.teardown(target, NAME, data=True)
    page = processes.records(stack.run)["dashboard"]
    processes.stop(page, within_s=5)
    processes.forget(page, stack.run)


@pytest.fixture(scope="module")
def page(target: Target) -> Iterator[Page]:
    with browser(1500, 1000) as window:
        yield opened(window, target, NAME)


def test_it_shows_both_jobs_and_what_the_topics_hold(page: Page, target: Target, tmp_path: Path) -> None:
    def shown() -> dict[str, str]:
        return {each: page.locator(f".figure.{each} p span").inner_text() for each in SHOWN}

    def counted() -> dict[str, str]:
        return {each: f"{total:,} in all" for each, total in totals(target, load(NAME)).items()}

    assert wait_until(lambda: shown() == counted(), within_s=180, every_s=2), (shown(), counted())
    health = page.get_by_role("region", name="Health")
    for words in ("flink running", "spark running"):
        expect(health).to_contain_text(words, timeout=SHOWN_WITHIN_MS)
    expect(health).to_contain_text("windows judged up to", timeout=MOVED_WITHIN_MS)
    page.screenshot(path=tmp_path / f"{NAME}.png", full_page=True)


def test_each_alert_is_shown_within_a_second_after_the_time_of_its_record(page: Page, target: Target) -> None:
    delays_ms = [shown_after_ms(page, target, NAME, f"anna-now-{number}") for number in range(5)]
    print(f"shown after {delays_ms} ms")
    assert max(delays_ms) <= SEEN_WITHIN_MS, delays_ms


def test_an_alert_shows_what_hbase_holds_of_its_key(page: Page) -> None:
    def is_there() -> bool:
        page.keyboard.press("Escape")
        page.locator("button.alert").last.click()
        drawer = page.locator("#detail")
        expect(drawer).to_contain_text("alert id", timeout=SHOWN_WITHIN_MS)
        return "The customer in HBase" in drawer.inner_text()

    assert wait_until(is_there, within_s=90, every_s=2)
    assert page.locator("#detail table").count() > 1
