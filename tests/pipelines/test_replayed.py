"""A changed rule on stored events: which alerts would appear, which would disappear, and which may do either."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules import EventRule, Max, Rule, Session, WindowRule
from millrace.traffic import plan_for
from millrace.verify import Evidence, Versions
from millrace.verify.case import Case
from millrace.verify.replayed import Difference, differences
from pipelines.fraud import FRAUD
from pipelines.fraud.events import transactions
from pipelines.fraud.rules import above_previous_max, burst
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend

PLAN = plan_for(TRAFFIC, events=1_500, rate_per_s=100)
LATER_MS = pretend.START_MS + 10 * pretend.HOURS_MS


@pytest.fixture(scope="module")
def ran() -> Evidence:
    return pretend.ran(PLAN, pretend.topics(pretend.messages(PLAN)))


def changed(*rules: Rule, evidence: Evidence, since_ms: int = 0) -> dict[str, Difference]:
    """What these rules, in place of those of the same names, would change."""
    by_name = {rule.name: rule for rule in (*FRAUD.rules, *rules)}
    use = replace(FRAUD, rules=tuple(by_name.values()))
    in_force = {name: Versions(((None, LATER_MS),)) for name in by_name}
    question = replace(pretend.QUESTION, use=use, rules=use.rules, in_force=in_force)
    return {each.rule: each for each in differences(Case(question, evidence), since_ms)}


def written(evidence: Evidence, rule: str) -> dict[str, dict[str, Any]]:
    alerts = (json.loads(record.value or b"") for record in evidence.outputs["alerts"] or ())
    return {alert["alert_id"]: alert for alert in alerts if alert["rule"] == rule}


def without(evidence: Evidence, rule: str, places: slice) -> tuple[Evidence, Sequence[Record]]:
    """The evidence without some of a rule's alerts, and these."""
    alerts = list(evidence.outputs["alerts"] or ())
    own = [record for record in alerts if json.loads(record.value or b"")["rule"] == rule][places]
    left = [record for record in alerts if record not in own]
    return replace(evidence, outputs={**evidence.outputs, "alerts": left}), own


def test_rules_that_did_not_change_change_nothing(ran: Evidence) -> None:
    found = changed(evidence=ran)
    assert {name: (each.appear, each.disappear) for name, each in found.items()} == dict.fromkeys(found, (0, 0))
    assert found["burst"].stay == len(written(ran, "burst")) > 0
    assert (found["burst"].old, found["burst"].new) == ((burst.version,), burst.version)


def test_a_higher_threshold_of_windows_names_the_alerts_that_disappear(ran: Evidence) -> None:
    totals = sorted(int(alert["operands"]["total_cents"]) for alert in written(ran, "burst").values())
    least_cents = totals[len(totals) // 2]
    stricter = burst_of(least_cents)
    found = changed(stricter, evidence=ran)["burst"]
    smaller = [alert for alert in written(ran, "burst").values() if int(alert["operands"]["total_cents"]) < least_cents]
    assert (found.appear, found.disappear) == (0, len(smaller))
    assert found.disappear > 0
    assert (found.old, found.new) == ((burst.version,), stricter.version)
    first = min(smaller, key=lambda alert: alert["window_start_ms"])
    assert (found.disappearing[0].key, found.disappearing[0].event_ids) == (first["key"], tuple(first["event_ids"]))


def test_a_looser_rule_on_events_names_the_alerts_that_appear(ran: Evidence) -> None:
    looser = EventRule(
        name=above_previous_max.name,
        doc="The amount is as large as the largest, or larger.",
        on=transactions,
        remembers={"highest_cents": Max("amount_cents")},
        alert_when=lambda now, before: now.amount_cents * 2 > before.highest_cents,
    )
    found = changed(looser, evidence=ran)[looser.name]
    assert found.disappear == 0
    assert found.appear > 0
    assert found.stay == len(written(ran, looser.name))
    example = found.appearing[0]
    assert example.event_ids
    assert example.operands["amount_cents"] * 2 > example.operands["before_highest_cents"] >= 0


def test_an_alert_that_was_never_written_would_appear_and_one_of_a_removed_rule_would_disappear(ran: Evidence) -> None:
    fewer, taken = without(ran, "burst", slice(0, 2))
    found = changed(evidence=fewer)["burst"]
    assert (found.appear, found.disappear) == (len(taken), 0) == (2, 0)
    rules = tuple(rule for rule in FRAUD.rules if rule.name != "spree")
    question = replace(pretend.QUESTION, rules=rules, in_force={})
    gone = {each.rule: each for each in differences(Case(question, ran))}["spree"]
    assert (gone.stay, gone.disappear, gone.new) == (0, len(written(ran, "spree")), None)


def test_a_window_that_may_still_be_open_neither_appears_nor_disappears(ran: Evidence) -> None:
    alive = [m for m in pretend.messages(PLAN) if m.label.kind != "closing"]
    cut = pretend.ran(PLAN, pretend.topics(alive))
    newest = max(written(cut, "burst").values(), key=lambda alert: alert["at_ms"])
    left = [r for r in cut.outputs["alerts"] or () if json.loads(r.value or b"")["alert_id"] != newest["alert_id"]]
    for alerts in (left, cut.outputs["alerts"]):
        found = changed(evidence=replace(cut, outputs={**cut.outputs, "alerts": alerts}))["burst"]
        assert (found.appear, found.disappear) == (0, 0)


def test_what_began_before_all_is_kept_is_not_compared(ran: Evidence) -> None:
    fewer, (record,) = without(ran, "burst", slice(0, 1))
    started_ms = json.loads(record.value or b"")["window_start_ms"]
    assert changed(evidence=fewer, since_ms=started_ms)["burst"].appear == 1
    assert changed(evidence=fewer, since_ms=started_ms + 1)["burst"].appear == 0


def burst_of(least_cents: int) -> WindowRule:
    return WindowRule(
        name="burst",
        doc="Two or more transactions of a card that are worth so much.",
        on=burst.on,
        key="card",
        window=Session(gap_ms=10_000),
        measures=dict(burst.measures),
        alert_when=lambda w: (w.n >= 2) & (w.total_cents >= least_cents),
    )
