"""A rule in plain Python runs on Flink as the oracle means it, and keeps its state."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from millrace import oracle
from millrace.machine import environments, processes
from millrace.patterns import EnginePlan, load
from millrace.settings import PROJECT
from millrace.target import Target
from tests.flink.fold_job import USE, charged_again
from tests.flink.test_recovery import CUSTOMERS, SHOPS, pays, phone
from tests.player import Player, ensure_topics, own_plan

VARIANT = load("flink")
HOUR_MS = 3_600_000

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture
def plan(target: Target) -> Iterator[EnginePlan]:
    rules = ("above-previous-max", charged_again.name, "away-from-phone")
    plan = own_plan(target, VARIANT, "folds", events=rules, parallelism=2)
    ensure_topics(plan, VARIANT)
    yield plan
    flink = target.engine("flink")
    for each in (plan, replace(plan, generation=2)):
        if flink.job(each).is_up:
            flink.stop(each)


def submit(target: Target, plan: EnginePlan, *more: str) -> None:
    home = target.settings.state / "conf" / "flink"
    command = [
        environments.python(target.settings, "flink"),
        "-m",
        "tests.flink.fold_job",
        "--plan",
        plan.to_json(),
        *more,
    ]
    done = subprocess.run(
        [*map(str, command), "--rest", target.addresses["FLINK_REST_URL"]],
        cwd=PROJECT,
        env=processes.environment({"FLINK_HOME": str(home), "FLINK_CONF_DIR": str(home / "conf")}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_rule_in_plain_python_finds_what_the_oracle_finds_before_and_after_a_savepoint(
    target: Target, plan: EnginePlan
) -> None:
    now_ms = int(time.time() * 1000) - 3 * HOUR_MS
    early_ms = now_ms - HOUR_MS
    player = Player(plan)
    customers = [("customers", {"customer": name, "segment": "private"}) for name in CUSTOMERS]
    shops = [("merchants", {"merchant": name, "category": "food", "place": "Ulm"}) for name in SHOPS]
    player.references([*customers, *shops])
    submit(target, plan)
    player.play([phone("anna", now_ms), phone("anna", now_ms), phone("berta", now_ms)], early_ms)
    player.play([pays(f"a{n}", "anna", 500, now_ms + n) for n in range(1, 4)], early_ms)
    player.play([phone("anna", now_ms)], early_ms)
    player.play([pays("b1", "berta", 500, now_ms + 5), pays("b2", "berta", 500, now_ms + 6)], early_ms)
    again = replace(plan, generation=2)
    submit(target, again, "--from", target.engine("flink").stop(plan) or "")
    player.play([pays("b3", "berta", 500, now_ms + 7), pays("a4", "anna", 500, now_ms + 10_003)], early_ms)
    player.play([pays("a5", "anna", 501, now_ms + 10_004)], early_ms)
    player.close(now_ms + HOUR_MS)
    found = player.outcome()

    references = {
        "customers": {who: {"segment": ""} for who in CUSTOMERS},
        "merchants": {shop: {"category": "", "place": ""} for shop in SHOPS},
    }
    arrived = sorted(found.raw, key=lambda record: (record.ingest_ms, record.topic, record.offset))
    rules = [USE.rule(name) for name in plan.events]
    judged = list(oracle.judge(USE, rules, arrived, references))
    meant = {finding.alert_id: finding for each in judged for finding in each.findings}
    alerts = {alert["alert_id"]: alert for alert in found.alerts if alert["rule"] != "burst"}
    assert alerts.keys() == meant.keys()
    by_rule = [alert for alert in found.alerts if alert["rule"] == charged_again.name]
    assert {alert["event_ids"][0]: alert["operands"] for alert in by_rule} == {
        "a3": {"times": "3", "reports": "2", "merchant": "shop-0", "nothing": None},
        "a4": {"times": "4", "reports": "3", "merchant": "shop-0", "nothing": None},
        "b3": {"times": "3", "reports": "1", "merchant": "shop-0", "nothing": None},
    }
    flags = {
        each.event["transaction_id"]: each.event["flags"] for each in judged if each.event and "flags" in each.event
    }
    assert {event["transaction_id"]: event["flags"] for event in found.enriched} == flags
    bursts = [alert["event_ids"] for alert in found.alerts if alert["rule"] == "burst"]
    assert sorted(bursts) == [["a1", "a2", "a3", "a4", "a5"], ["b1", "b2", "b3"]]
