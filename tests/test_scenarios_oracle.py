"""The oracle satisfies every scenario, and a scenario that makes no sense is refused with its line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from millrace import oracle
from millrace.oracle import Finding, Record
from millrace.rules import WindowRule
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic.poison import POISON
from tests.scenarios import Scenario, ScenarioError, load, load_all, placed

START_MS = 1_790_000_000_000
SCENARIOS = load_all()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s.file}: {s.title}")
def test_oracle(scenario: Scenario) -> None:
    assert outcome_of_oracle([(scenario, START_MS)])[scenario.prefix] == expected(scenario)


def test_all_scenarios_in_one_run_do_not_touch_each_other() -> None:
    outcomes = outcome_of_oracle(placed(SCENARIOS, START_MS))
    assert outcomes == {scenario.prefix: expected(scenario) for scenario in SCENARIOS}


def test_every_rule_and_every_poison_has_a_scenario() -> None:
    assert {alert.rule for s in SCENARIOS for alert in s.alerts} == {rule.name for rule in FRAUD.rules}
    spoilt = {h.poison.name for s in SCENARIOS for h in s.happenings if h.poison}
    assert spoilt == {poison.name for poison in POISON}


def test_scenarios_with_several_phases_leave_windows_no_choice() -> None:
    """Where topics take turns an engine test must wait in between, so no burst may hang on such a scenario."""
    mixed = [s for s in SCENARIOS if s.messages(0)[-1].phase > 0]
    assert not [s.title for s in mixed for alert in s.alerts if alert.rule == "burst"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("0.0 t1 anna buys bread", "line 2: 'anna buys bread' is nothing that can happen"),
        ("t1 anna pays 1.00 at bakery", "line 2: 't1 anna pays 1.00 at bakery' is no event"),
        ("0.0 t1 anna pays 1.00 at bakery in mars", "line 2: there is no place 'mars'"),
        ("0.0 t1 anna pays 1.00 at bakery spoilt by gremlins", "line 2: nothing is 'spoilt by gremlins'"),
        ("0.0 t2 again t1", "line 2: no line 't1' above"),
        ("=> brust t1", "'=> brust t1' of 'A title' is no outcome"),
        ("=> burst", "'=> burst' names no line"),
        ("", "needs at least one event and one outcome"),
    ],
)
def test_a_scenario_that_cannot_be_read_names_the_line_and_the_remedy(
    tmp_path: Path, line: str, complaint: str
) -> None:
    event = "\n0.0 t9 anna pays 1.00 at bakery" if line.startswith("=>") else ""
    path = tmp_path / "odd.scenario"
    path.write_text(f"== A title\n{line}{event}\n")
    with pytest.raises(ScenarioError, match=r"odd\.scenario, line \d+: ") as error:
        load(path)
    assert complaint in str(error.value)


Outcome = tuple[Counter[tuple[str, frozenset[str]]], dict[str, str]]


def expected(scenario: Scenario) -> Outcome:
    alerts = Counter((alert.rule, frozenset(map(scenario.transaction_id, alert.lines))) for alert in scenario.alerts)
    return alerts, dict(scenario.refusals)


def outcome_of_oracle(scenarios: list[tuple[Scenario, int]]) -> dict[str, Outcome]:
    references: dict[str, dict[str, dict[str, str]]] = {"customers": {}, "merchants": {}}
    tape, lines, outcomes = [], {}, {}
    for scenario, start_ms in scenarios:
        outcomes[scenario.prefix] = (Counter[tuple[str, frozenset[str]]](), dict[str, str]())
        for kind, reference in scenario.references():
            references[kind][reference[kind.removesuffix("s")]] = reference
        for message in scenario.messages(start_ms):
            record = Record(message.topic, 0, len(tape), message.arrives_ms, message.key, message.value)
            tape.append(record)
            lines[record.offset] = scenario, message.line
    accepted, findings = [], list[Finding]()
    for each in oracle.judge(FRAUD, FRAUD.rules, tape, references):
        scenario, line = lines[each.record.offset]
        if each.reason is not None:
            outcomes[scenario.prefix][1][line] = each.reason
        elif each.record.topic == FRAUD.judged.name and each.event is not None:
            accepted.append(each.event)
            findings += each.findings
    for rule in FRAUD.rules:
        if isinstance(rule, WindowRule):
            findings += oracle.window_findings(rule, accepted)
    by_prefix = {scenario.prefix: scenario for scenario, _ in scenarios}
    for finding in findings:
        scenario = by_prefix[".".join(finding.event_ids[0].split(".")[:2]) + "."]
        outcomes[scenario.prefix][0][finding.rule, frozenset(finding.event_ids)] += 1
        check_operands(scenario, finding)
    return outcomes


def check_operands(scenario: Scenario, finding: Finding) -> None:
    for alert in scenario.alerts:
        ids = set(map(scenario.transaction_id, alert.lines))
        if (alert.rule, ids) == (finding.rule, set(finding.event_ids)):
            shown = {name: str(finding.operands.get(name)) for name in alert.operands}
            assert shown == dict(alert.operands)
