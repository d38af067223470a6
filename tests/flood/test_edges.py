"""The edges of the flood rules, as text: what must come of a few requests, to the millisecond."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from millrace.settings import PROJECT
from tests.flood.by_hand import Alert, Found, alerts, declared_alerts

START_MS = 1_790_000_001_000
IPS = {"ann": "107.23.85.jfd", "bob": "61.135.190.abc"}
REST = {
    **dict.fromkeys(("zone", "cik", "size", "idx", "norefer", "noagent", "find", "crawler"), 0),
    **{"accession": "0001193125-16-635197", "extention": ".txt"},
}
_REQUEST = re.compile(r"\s*(\d+)\.(\d{3})  (ann|bob) of (\d) gets (\d{3})(?: (\d+) times)?")
_ALERT = re.compile(r" => (flood-\w+) (\w+) (\d+)\.(\d{3})  n=(\d+) refused=(\d+)(?: ip=(\w+))?")


@dataclass(frozen=True)
class Scenario:
    title: str
    requests: list[dict[str, object]]
    alerts: dict[Alert, Found]


def load(path: Path) -> list[Scenario]:
    """Every scenario of a file; a line that is neither request nor outcome fails."""
    scenarios: list[Scenario] = []
    for line in filter(None, path.read_text().splitlines()):
        if line.startswith("== "):
            scenarios.append(Scenario(line[3:], [], {}))
        elif request := _REQUEST.fullmatch(line):
            s, ms, who, group, code, times = request.groups()
            event = {"ip": IPS[who], "group_id": group, "at_ms": START_MS + int(s + ms), "code": int(code)}
            scenarios[-1].requests.extend([event] * int(times or 1))
        elif alert := _ALERT.fullmatch(line):
            rule, key, s, ms, n, refused, ip = alert.groups()
            found = Found(int(n), int(refused), IPS[ip or key])
            scenarios[-1].alerts[Alert(rule, IPS.get(key, key), START_MS + int(s + ms))] = found
        else:
            assert line.startswith("#") or line == " => nothing", line
    return scenarios


def message(request: Mapping[str, object]) -> bytes:
    """A whole request with these fields."""
    return json.dumps({**REST, **request}).encode()


SCENARIOS = load(PROJECT / "pipelines/flood/scenarios/edges.scenario")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_the_rules_by_hand_satisfy(scenario: Scenario) -> None:
    assert START_MS % 3_000 == 0
    assert alerts(scenario.requests) == scenario.alerts


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_the_rules_as_they_are_declared_satisfy(scenario: Scenario) -> None:
    assert declared_alerts(map(message, scenario.requests), START_MS + 60_000) == scenario.alerts
