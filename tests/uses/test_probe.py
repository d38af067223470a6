"""A use in a project of its own: every window and every measure on each engine, judged by the command line."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from millrace.settings import PROJECT, Settings
from tests.uses import tape
from tests.uses.team import Team

PATTERNS = ("probe-flink", "probe-spark", "probe-streams")
SEED = int(os.environ.get("MILLRACE_SEED", "20261123"))
SECONDS = 8

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def verdicts(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, dict[str, Any]]]:
    """What became of one random tape, by pattern."""
    print(f"MILLRACE_SEED={SEED}")
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(PROJECT / "tests/uses/probe", folder / "pipelines/probe")
    with Team(stack, folder).proven(PATTERNS, lambda pattern: tape.plan(pattern, random.Random(SEED), SECONDS)) as each:
        yield each


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_window_and_measure_is_the_oracles(verdicts: Mapping[str, dict[str, Any]], pattern: str) -> None:
    verdict = verdicts[pattern]
    figures = {check["name"]: check["figures"] for check in verdict["checks"]}
    for rule in ("higher", "hurried", "full", "beyond", "tumbling", "sliding", "session"):
        assert figures[f"alerts: {rule}"]["expected"] > 0, f"the tape sets {rule} off"
    for summary in ("per-site", "moving", "by-value", "altogether"):
        assert figures[f"numbers: {summary}"]["due"] > 0
    if pattern != "probe-spark":  # Spark sees no event late that comes in one batch with those before it
        assert figures["lateness"]["late"] > 0
