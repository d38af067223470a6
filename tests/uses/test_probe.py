"""A use in a project of its own: every window and every measure on each engine, judged by the command line."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from millrace import stack as stacks
from millrace.machine.environments import command
from millrace.settings import PROJECT, Settings
from tests.uses import tape

PATTERNS = ("probe-flink", "probe-spark", "probe-streams")
SEED = int(os.environ.get("MILLRACE_SEED", "20261123"))
SECONDS = 8

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


class Team:
    """A project beside the clone, whose patterns run on the tests' stack."""

    def __init__(self, stack: Settings, folder: Path) -> None:
        self.environ = {**os.environ, **stack.environment(), "MILLRACE_PROJECT": str(folder)}
        self.command = str(command(stack))
        self.bootstrap = stacks.addresses(stack)["KAFKA_BOOTSTRAP"]

    def millrace(self, *words: str, exits: int = 0) -> dict[str, Any]:
        done = subprocess.run([self.command, *words, "--json"], env=self.environ, capture_output=True, text=True)
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
        checks = answer.get("checks", ())
        assert done.returncode == exits, (words, [each for each in checks if each["status"] != "ok"], done.stderr)
        return answer


@pytest.fixture(scope="module")
def verdicts(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, dict[str, Any]]]:
    """What became of one random tape, by pattern."""
    print(f"MILLRACE_SEED={SEED}")
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(PROJECT / "tests/uses/probe", folder / "pipelines/probe")
    team = Team(stack, folder)

    def proven(pattern: str) -> dict[str, Any]:
        team.millrace("provision", pattern)
        team.millrace("deploy", pattern)
        tape.send(team.bootstrap, pattern, random.Random(SEED), SECONDS)
        return team.millrace("validate", pattern)

    try:
        with ThreadPoolExecutor() as all_at_once:
            yield dict(zip(PATTERNS, all_at_once.map(proven, PATTERNS), strict=True))
    finally:
        for pattern in PATTERNS:
            team.millrace("teardown", pattern, "--data", "--yes")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_window_and_measure_is_the_oracles(verdicts: Mapping[str, dict[str, Any]], pattern: str) -> None:
    verdict = verdicts[pattern]
    figures = {check["name"]: check["figures"] for check in verdict["checks"]}
    for rule in ("higher", "hurried", "full", "tumbling", "sliding", "session"):
        assert figures[f"alerts: {rule}"]["expected"] > 0, f"the tape sets {rule} off"
    for summary in ("per-site", "moving", "by-value", "altogether"):
        assert figures[f"numbers: {summary}"]["due"] > 0
    if pattern != "probe-spark":  # Spark sees no event late that comes in one batch with those before it
        assert figures["lateness"]["late"] > 0
