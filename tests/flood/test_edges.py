"""The edges of the flood rules, as text: what must come of a few requests, to the millisecond."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from millrace import oracle
from pipelines.flood.rules import flood_group, flood_ip
from tests.flood.by_hand import Alert, Found, alerts, in_time

START_MS = 1_790_000_001_000
IPS = {"ann": "107.23.85.jfd", "bob": "61.135.190.abc"}
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


SCENARIOS = load(Path(__file__).parent / "edges.scenario")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_the_rules_by_hand_satisfy(scenario: Scenario) -> None:
    assert START_MS % 3_000 == 0
    assert alerts(scenario.requests) == scenario.alerts


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_the_rules_as_they_are_declared_satisfy(scenario: Scenario) -> None:
    assert declared_alerts(scenario.requests) == scenario.alerts


def declared_alerts(requests: list[dict[str, object]]) -> dict[Alert, Found]:
    """The alerts of the declared rules, by the oracle, on requests in the order of their arrival."""
    arrived = [
        {**event, "ingest_ms": number, "source_partition": 0, "source_offset": number}
        for number, event in enumerate(in_time(requests))
    ]
    found = {}
    for rule in (flood_ip, flood_group):
        for key in {event[rule.key] for event in arrived}:
            for start_ms, among in oracle.windows(rule.window, "at_ms", [e for e in arrived if e[rule.key] == key]):
                values = oracle.measured(rule, among)
                if oracle.value_of(rule.condition, {("w", name): value for name, value in values.items()}) is True:
                    last_ip = values.get("ip", key)
                    found[Alert(rule.name, key, start_ms)] = Found(values["n"], values["refused"], last_ip)
    return found
