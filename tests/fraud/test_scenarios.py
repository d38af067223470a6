"""The oracle satisfies every scenario of fraud, each alone and all in one run."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace import oracle
from millrace.oracle import Finding, Record
from millrace.rules import WindowRule
from millrace.testing import played
from pipelines.fraud import FRAUD
from tests.together import SCENARIOS, SPOILING, Outcome, Own, placed

START_MS = 1_790_000_000_000


@pytest.mark.parametrize("own", SCENARIOS, ids=str)
def test_scenario(own: Own) -> None:
    assert played(own.scenario) == own.scenario.expected


def test_all_scenarios_in_one_run_do_not_touch_each_other() -> None:
    assert outcomes() == {own.prefix: own.expected for own in SCENARIOS}


def test_every_rule_and_every_poison_has_a_scenario() -> None:
    assert {rule for own in SCENARIOS for rule, _ in own.expected[0]} == {rule.name for rule in FRAUD.rules}
    spoilt = {each.spoil for own in SCENARIOS for each in own.scenario.arrivals if each.spoil}
    assert spoilt == set(SPOILING.values())


def test_scenarios_with_several_phases_leave_windows_no_choice() -> None:
    """Where topics take turns an engine test must wait in between, so no burst may hang on such a scenario."""
    mixed = [own for own in SCENARIOS if own.messages(0)[-1].phase > 0]
    assert mixed
    assert not [str(own) for own in mixed for rule, _ in own.expected[0] if rule == "burst"]


def outcomes() -> dict[str, Outcome]:
    """What the oracle makes of all scenarios in one run, by their prefixes."""
    references: dict[str, dict[str, dict[str, str]]] = {kind.name: {} for kind in FRAUD.references}
    tape, lines = list[Record](), dict[int, tuple[Own, str]]()
    for own, start_ms in placed(SCENARIOS, START_MS):
        for kind, reference in own.references():
            references[kind][reference[kind.removesuffix("s")]] = reference
        for message in own.messages(start_ms):
            record = Record(message.topic, 0, len(tape), message.arrives_ms, message.key, message.value)
            tape.append(record)
            lines[record.offset] = own, message.line
    found = {own.prefix: (Counter[tuple[str, frozenset[str]]](), dict[str, str]()) for own in SCENARIOS}
    accepted, findings = [], list[Finding]()
    for each in oracle.judge(FRAUD, FRAUD.rules, tape, references):
        own, line = lines[each.record.offset]
        if each.reason is not None:
            found[own.prefix][1][line] = each.reason
        elif each.record.topic == FRAUD.judged.name and each.event is not None:
            accepted.append(each.event)
            findings += each.findings
    for rule in FRAUD.rules:
        if isinstance(rule, WindowRule):
            findings += oracle.window_findings(rule, accepted)
    by_prefix = {own.prefix: own for own in SCENARIOS}
    for finding in findings:
        own = by_prefix[finding.event_ids[0].partition(".")[0] + "."]
        found[own.prefix][0][finding.rule, frozenset(finding.event_ids)] += 1
        own.check_operands(finding)
    return found
