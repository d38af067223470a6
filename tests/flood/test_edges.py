"""The edges of the flood rules, to the millisecond: by the oracle, and by a few lines of plain Python."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.testing import Scenario, played, scenarios
from tests.flood.by_hand import KEYS, SIZE_MS, Alert, Found, alerts

SCENARIOS = scenarios("flood")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_scenario(scenario: Scenario) -> None:
    assert played(scenario) == scenario.expected


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_rules_by_hand_satisfy(scenario: Scenario) -> None:
    assert alerts(requests(scenario)) == expected(scenario)


def test_long_after_its_window_a_request_is_late_and_counts_nowhere() -> None:
    thirty = [each for each in SCENARIOS if each.title == "30 are too few"]
    (refused, *_) = sent = requests(*thirty)
    start_ms = refused["at_ms"]
    other, last = {**refused, "group_id": "8", "at_ms": start_ms + 14_000}, {**refused, "at_ms": start_ms + 2_999}
    assert alerts([*sent, last]).keys() == {Alert(r, refused[key], start_ms) for r, key in KEYS.items()}
    assert alerts([*sent, other, last]) == {}


def requests(scenario: Scenario) -> list[dict[str, Any]]:
    """The requests of a scenario, in the order of their arrival."""
    return [json.loads(each.value or b"") for each in scenario.arrivals]


def expected(scenario: Scenario) -> dict[Alert, Found]:
    """The outcome of a scenario, by the key and the window of the first line of each alert."""
    lines = dict(zip((each.line for each in scenario.arrivals), requests(scenario), strict=True))
    found = {}
    for each in scenario.outcome:
        first = lines[each.words[0]]
        alert = Alert(each.subject, first[KEYS[each.subject]], first["at_ms"] // SIZE_MS * SIZE_MS)
        found[alert] = Found(
            int(each.operands["n"]), int(each.operands["refused"]), each.operands.get("ip", first["ip"])
        )
    return found
