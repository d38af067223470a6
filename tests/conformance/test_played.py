"""Without servers: what an engine claims is played, every rule has scenarios, and the oracle satisfies them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab import documents
from millrace import project, registry
from millrace.registry import SHAPES, Manifest
from millrace.settings import PROJECT
from millrace.testing import Scenario, played
from tests.conformance.moving import MOVING
from tests.conformance.played import ALL, OF_WINDOWS, elsewhere, plays, unplayed
from tests.conformance.test_scenarios import RUNS, Run

ENGINES = registry.manifests()
OF_SLIDING = (
    "tests/conformance/test_windows.py::test_it_satisfies"
    "[streams/at-least-once-with-ids/flood-streams-31 within a second are in all three windows of that second]"
)
NOT_SHOWN = "claimed, and shown by no test of the record"


@pytest.mark.parametrize("manifest", ENGINES, ids=lambda each: each.name)
def test_whatever_an_engine_claims_is_played(manifest: Manifest) -> None:
    assert unplayed(manifest) == []
    assert manifest.can | manifest.cannot.keys() == SHAPES.keys()


def test_a_claim_that_nothing_plays_is_found() -> None:
    bold = replace(registry.manifest("streams"), can=registry.manifest("streams").can | {"fold"})
    assert unplayed(bold) == ["fold"]


@pytest.mark.parametrize(
    ("shape", "passed", "cell"),
    [
        ("sliding", OF_SLIDING, "yes"),
        ("sliding", OF_SLIDING.replace("streams", "flink"), NOT_SHOWN),
        ("session", OF_SLIDING, NOT_SHOWN),
        ("exactly-once", "tests/conformance/test_scenarios.py::test_it_satisfies[streams/exactly-once-{fraud}]", "yes"),
        (
            "exactly-once",
            "tests/conformance/test_scenarios.py::test_it_satisfies[streams/at-least-once-with-ids-{fraud}]",
            NOT_SHOWN,
        ),
        ("summary", "tests/conformance/test_windows.py::test_the_last_numbers[streams/x/flood-streams]", "yes"),
        ("parallel", "tests/streams/test_instances.py::test_of_several", "yes"),
        ("parallel", "tests/streams/test_order.py::test_of_several", NOT_SHOWN),
    ],
)
def test_a_claim_is_a_yes_of_the_table_only_where_a_test_that_plays_it_passed(
    monkeypatch: pytest.MonkeyPatch, shape: str, passed: str, cell: str
) -> None:
    passed = passed.format(fraud=next(each.title for each in ALL if each.use.name == "fraud"))
    monkeypatch.setattr(documents, "manifests", lambda: (registry.manifest("streams"),))
    table = documents.shapes({"tests": {"figures": {"tests": {passed: {}}}}})
    (row,) = (line for line in table.splitlines() if line.startswith(f"| {SHAPES[shape]} |"))
    assert row == f"| {SHAPES[shape]} | {cell} |"


def test_every_use_of_the_project_has_scenarios_of_each_of_its_rules_and_so_has_the_one_with_moving_windows() -> None:
    wanted = {(name, rule.name) for name, use in project.uses().items() for rule in use.rules}
    wanted |= {(MOVING.name, rule.name) for rule in MOVING.rules}
    alerted = {(each.use.name, one.subject) for each in ALL for one in each.outcome if one.subject != "refused"}
    assert alerted == wanted


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_the_pattern_that_an_engine_is_played_with_has_all_that_it_claims_of_fraud(run: Run) -> None:
    stages = run.variant.pattern.stages
    assert {*stages.events.rules, *stages.windowing.rules} == run.rules
    assert {*stages.windowing.summaries} == run.summaries


@pytest.mark.parametrize("scenario", OF_WINDOWS, ids=str)
def test_the_oracle_satisfies_what_the_engines_must(scenario: Scenario) -> None:
    assert played(scenario) == scenario.expected


def test_what_is_played_elsewhere_is_in_a_suite_that_is_there() -> None:
    suites = {test for tests in elsewhere().values() for test in tests}
    assert {suite for suite in suites if not (PROJECT / suite.partition("::")[0]).is_file()} == set()


def test_scenarios_are_told_apart_by_the_shapes_of_their_alerts() -> None:
    assert "31 within a second are in all three windows of that second" in plays("flink", "sliding")
    assert "31 refused requests of one ip that is alone in its group" not in plays("flink", "sliding")
