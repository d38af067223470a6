"""What is played of each shape that an engine claims: scenarios, or tests of patterns with a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import get_args

from millrace.patterns import load_all
from millrace.patterns.model import Promises, shape_of
from millrace.registry import PERSIST, Manifest
from millrace.testing import Scenario, read, scenarios
from pipelines.fraud import FRAUD
from tests.conformance.moving import MOVING
from tests.test_variants import ELSEWHERE
from tests.together import SCENARIOS

GUARANTEES: tuple[str, ...] = get_args(Promises.model_fields["delivery"].annotation)
OF_WINDOWS: Sequence[Scenario] = (*scenarios("flood"), *read(MOVING, Path(__file__).parent / "moving/moving.scenario"))
"""Played by test_windows.py, those of fraud by test_scenarios.py."""
ALL: Sequence[Scenario] = (*(own.scenario for own in SCENARIOS), *OF_WINDOWS)
VARIANTS = "tests/test_variants.py"
OWN = {
    ("flink", "fold"): ["tests/flink/test_folds.py"],
    ("flink", "parallel"): ["tests/conformance/test_scenarios.py"],
    ("storm", "parallel"): ["tests/storm/test_verdict.py"],
    ("streams", "parallel"): [
        "tests/kernel/test_java.py::test_java[millrace.streams.TwoProcessesTest]",
        "tests/streams/test_instances.py",  # a drill
    ],
}
"""Tests of what one engine or another has for itself."""


def plays(engine: str, shape: str) -> Sequence[str]:
    """The scenarios and numbers that play a shape on an engine that claims it, or the tests that do."""
    if shape in GUARANTEES:
        return [each.title for each in ALL if each.use is FRAUD]  # with every guarantee that an engine claims
    if shape == "summary":
        return [summary.name for use in (FRAUD, MOVING) for summary in use.summaries]
    return [each.title for each in ALL if shape in shapes_of(each)] or elsewhere().get((engine, shape), [])


def shown(engine: str, shape: str, passed: Iterable[str]) -> list[str]:
    """Of tests that passed, those that play a shape on an engine, with its guarantee if the shape is one."""
    played, own = plays(engine, shape), f"[{engine}/"
    if shape == "summary":
        return [test for test in passed if "::test_the_last_numbers" in test and own in test]
    own += f"{shape}" if shape in GUARANTEES else ""
    files, titles = tuple(played), tuple(f"-{each}]" for each in played)
    return [
        test
        for test in passed
        if test.startswith(files) or ("::test_it_satisfies" in test and own in test and test.endswith(titles))
    ]


def unplayed(manifest: Manifest) -> list[str]:
    """The shapes that an engine claims and nothing plays."""
    return sorted(shape for shape in manifest.can if not plays(manifest.name, shape))


def shapes_of(scenario: Scenario) -> set[str]:
    """The shapes of the rules that alert in a scenario."""
    return {shape_of(scenario.use.rule(each.subject)) for each in scenario.outcome if each.subject != "refused"}


@cache
def elsewhere() -> Mapping[tuple[str, str], list[str]]:
    """By engine and shape: the tests of the patterns that have it, whose verdict is ok, and the engines' own."""
    found = defaultdict[tuple[str, str], list[str]](list, {place: [*tests] for place, tests in OWN.items()})
    for variant in load_all():
        stages, test = variant.pattern.stages, ELSEWHERE.get(variant.name, VARIANTS)
        if stages.windowing.engine != stages.events.engine:
            found[stages.events.engine, "windows-elsewhere"].append(test)
            found[stages.windowing.engine, "events-elsewhere"].append(test)
        if stages.events.real_time:
            found[stages.events.engine, "real-time"].append(test)
        if stages.persist:
            for store in stages.persist.to:
                found[stages.persist.engine, f"{PERSIST}{store}"].append(test)
    return found
