"""The live page in a real browser, against patterns that run on real servers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from millrace import stack as stacks
from millrace.dashboard import view
from millrace.machine import processes
from millrace.machine.processes import wait_until
from millrace.patterns import Variant, load, model, topics
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import LATE, REPLAYED
from millrace.servers.dashboard import url
from millrace.settings import Settings
from millrace.stores.topics import Tail, publish
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import deploy, dispositions, provision, teardown, traffic
from millrace.verbs.validate import validate
from tests.browser import browser
from tests.patterns import own_patterns, problems

pytestmark = pytest.mark.stack

PATTERNS = {
    "live-fraud": {"of": "flink", "stages": {"persist": None}, "partitions": 1},
    "live-flood": {"of": "flood-flink", "partitions": 1},
}
SECONDS, RATE_PER_S = 12, 100
SHOWN_WITHIN_MS = 90_000
SEEN_WITHIN_MS = 1000
JUDGED_WITHIN_S = 300
HOSTILE = "<script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def target(stack: Settings) -> Target:
    return Target.read(stack)


@pytest.fixture(scope="module")
def lineage_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where OpenLineage's events go."""
    return tmp_path_factory.mktemp("lineage") / "events.jsonl"


def jobs() -> list[str]:
    return [f"{name}.{engine}" for name in PATTERNS for engine in load(name).engines]


def events_in(lineage_file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lineage_file.read_text().splitlines()]


def jobs_in(lineage_file: Path) -> set[tuple[str, str]]:
    """The jobs of the events, each with what happened to it."""
    return {(event["job"]["name"], event["eventType"]) for event in events_in(lineage_file)}


@pytest.fixture(scope="module", autouse=True)
def patterns(target: Target, tmp_path_factory: pytest.TempPathFactory, lineage_file: Path) -> Iterator[None]:
    """Both deployed, each with some traffic behind it, and shown by the page."""
    folder = tmp_path_factory.mktemp("patterns")
    with own_patterns(folder, PATTERNS), pytest.MonkeyPatch.context() as environment:
        config = {"transport": {"type": "file", "log_file_path": str(lineage_file), "append": True}}
        environment.setenv("OPENLINEAGE_CONFIG", str(folder / "lineage"))
        (folder / "lineage").write_text(yaml.safe_dump(config))
        stacks.restart(replace(target.settings, patterns=folder), ["dashboard"])
        for name in PATTERNS:
            provision.provision(target, name)
            deploy.deploy(target, name)
        with ThreadPoolExecutor() as both:
            list(both.map(partial(send, target), map(load, PATTERNS)))
        yield
        for name in PATTERNS:
            teardown.teardown(target, name, data=True)
        assert jobs_in(lineage_file) >= {(job, "COMPLETE") for job in jobs()}
        page = processes.records(target.settings.run)["dashboard"]
        processes.stop(page, within_s=5)
        processes.forget(page, target.settings.run)


def send(target: Target, variant: Variant) -> None:
    use = variant.use
    plan = plan_for(traffic.declared(use), SECONDS * RATE_PER_S, RATE_PER_S, name="live")
    load_ = traffic.generated(use, plan, traffic.secrets_of(target.settings, use))
    assert traffic.traffic(target, variant.name, load_).is_complete


@pytest.fixture(scope="module")
def window() -> Iterator[Page]:
    with browser(1500, 1000) as page:
        yield page


def opened(window: Page, target: Target, name: str) -> Page:
    window.goto(f"{url(target.settings)}#/{name}")
    window.reload()
    expect(window.locator("#connection")).to_have_text("live", timeout=SHOWN_WITHIN_MS)
    return window


@pytest.mark.parametrize("name", PATTERNS)
def test_its_totals_are_those_counted_from_kafka(window: Page, target: Target, name: str, tmp_path: Path) -> None:
    page = opened(window, target, name)

    def shown() -> dict[str, str]:
        return {
            each: page.locator(f".figure.{each} p span").inner_text()
            for each in ("in", "accepted", "refused", "alerts")
        }

    def counted() -> dict[str, str]:
        return {each: f"{total:,} in all" for each, total in totals(target, load(name)).items()}

    assert wait_until(lambda: shown() == counted(), within_s=90, every_s=2), (shown(), counted())
    assert totals(target, load(name))["accepted"] > 0
    measured = page.get_by_role("region", name="Latency").locator("tbody tr")
    expect(measured.filter(has_text="accepted events")).to_have_count(1, timeout=SHOWN_WITHIN_MS)
    health = page.get_by_role("region", name="Health")
    expect(health).to_contain_text("flink running", timeout=SHOWN_WITHIN_MS)
    expect(health).to_contain_text("windows judged up to", timeout=SHOWN_WITHIN_MS)
    page.screenshot(path=tmp_path / f"{name}.png", full_page=True)


def test_openlineage_gets_the_jobs_the_traffic_and_the_verdict(lineage_file: Path, target: Target) -> None:
    verdict = validate(target, "live-flood", within_s=JUDGED_WITHIN_S, report=print).verdict
    ended = {*(f"{name}.traffic" for name in PATTERNS), "live-flood.validate"}
    whole = {(name, state) for name in ended for state in ("START", "COMPLETE")}
    assert jobs_in(lineage_file) == {(job, "START") for job in jobs()} | whole
    judged = [event for event in events_in(lineage_file) if event["job"]["name"] == "live-flood.validate"]
    assert judged[-1]["run"]["facets"]["millrace_verdict"]["status"] == verdict.status
    assert not problems(verdict)


SHOWS = """(key) => {
  window.shown = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`no alert of ${key}`)), 60000);
    const look = () => {
      const texts = [...document.querySelectorAll("button.alert")].map((each) => each.textContent);
      if (texts.some((text) => text.includes(key))) resolve(Date.now());
      else requestAnimationFrame(look);
    };
    look();
  });
}"""
"""The page's own clock: Playwright looks again only after pauses of up to a second."""


def test_an_alert_is_shown_a_second_after_it_is_in_its_topic(window: Page, target: Target) -> None:
    """By the median: other tests keep the machine busy; a drill has all."""
    page = opened(window, target, "live-fraud")
    delays_ms = [shown_after_ms(page, target, "live-fraud", f"anna-now-{number}") for number in range(5)]
    assert median(delays_ms) < SEEN_WITHIN_MS, delays_ms


def shown_after_ms(page: Page, target: Target, name: str, key: str) -> float:
    """How long after the time of its record the page of a pattern shows an alert."""
    page.evaluate(SHOWS, key)
    topic = f"{name}.{ALERTS.name}"
    publish(target.bootstrap, [(topic, key.encode(), json.dumps(alert_of(key)).encode())])
    shown_ms = float(page.evaluate("() => window.shown"))
    with closing(Tail(target.bootstrap, {ALERTS.name: topic})) as tail:
        (there_ms,) = (each.ingest_ms for each in tail.new() if each.key == key.encode())
    return shown_ms - there_ms


def alert_of(key: str) -> dict[str, Any]:
    """An alert of this moment."""
    now_ms = time.time_ns() // 1_000_000
    return {
        **{"alert_id": sha256(key.encode()).hexdigest()[:32], "rule": "spree", "rule_version": "v"},
        **{"key": key, "subject": key, "window_start_ms": None, "event_ids": [], "operands": {}},
        **{"at_ms": now_ms, "sent_ms": now_ms, "ingest_ms": now_ms, "emit_ms": now_ms},
    }


def test_a_refused_message_that_looks_like_html_is_text(window: Page, target: Target) -> None:
    page = opened(window, target, "live-fraud")
    event = {"transaction_id": "h1", "customer": "anna", "merchant": HOSTILE}
    publish(target.bootstrap, [("live-fraud.transactions", b"anna", json.dumps(event).encode())])
    letters = page.get_by_role("region", name="Dead letters")
    expect(letters).to_contain_text(HOSTILE, timeout=SHOWN_WITHIN_MS)
    assert page.title() == "live-fraud · millrace"


def test_a_mark_appears_in_another_window_and_both_recover_when_their_server_and_kafka_were_killed(
    window: Page, target: Target
) -> None:
    page, variant = opened(window, target, "live-fraud"), load("live-fraud")
    settings = replace(target.settings, patterns=model.folders()[0])
    assert page.context.browser
    other = opened(page.context.browser.new_page(), target, "live-fraud")
    confirmed = view.of(variant.use).marks.confirmed

    def both_show_the_mark() -> None:
        for each in (page, other):
            expect(each.locator("button.alert .mark", has_text=confirmed)).to_have_count(1, timeout=SHOWN_WITHIN_MS)

    page.locator("button.alert").first.click()
    page.get_by_label("Your name").fill("anna")
    page.get_by_role("button", name=confirmed, exact=True).click()
    expect(page.locator("#detail")).to_contain_text(f"{confirmed}, by anna, ")
    page.keyboard.press("Escape")
    both_show_the_mark()
    stacks.kill(settings, ["dashboard"])
    expect(page.locator("#connection")).to_have_text("server away; reconnecting …", timeout=SHOWN_WITHIN_MS)
    stacks.up(settings, ["dashboard"])
    expect(page.locator("#connection")).to_have_text("live", timeout=SHOWN_WITHIN_MS)
    both_show_the_mark()
    stacks.kill(settings, ["kafka-1"])
    expect(page.locator("#notices")).to_contain_text("Kafka does not answer since", timeout=SHOWN_WITHIN_MS)
    stacks.up(settings, ["kafka"])
    expect(page.locator("#notices")).to_be_empty(timeout=SHOWN_WITHIN_MS)
    # A page that is loaded now has its marks from Kafka alone.
    stacks.restart(settings, ["dashboard"])
    opened(other, target, "live-fraud")
    both_show_the_mark()
    (made,) = dispositions.dispositions(target, variant).values()
    assert (made.mark, made.by) == ("confirmed", "anna")
    other.close()


def totals(target: Target, variant: Variant) -> dict[str, int]:
    """The totals of a pattern, counted message by message."""
    use = variant.use
    raw = {each.name for each in use.raw}
    with closing(Tail(target.bootstrap, topics(variant))) as tail:
        records = list(tail.new())
    letters = [json.loads(each.value or b"") for each in records if each.topic == DEAD_LETTERS.name]
    return {
        "in": sum(each.topic in raw for each in records),
        "accepted": sum(each.topic == use.enriched.name for each in records),
        "refused": sum(not each["reason"].startswith((LATE, REPLAYED)) for each in letters),
        "alerts": len({json.loads(each.value or b"")["alert_id"] for each in records if each.topic == ALERTS.name}),
    }
