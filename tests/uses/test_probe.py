"""A use in a project of its own: every window and every measure on each engine, judged by the command line."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from millrace import deployments
from millrace.engines.flink.engine import Flink
from millrace.machine import processes
from millrace.oracle import Record
from millrace.settings import PROJECT, Settings
from millrace.stores.topics import Tail
from millrace.target import Target
from tests.beside import beside
from tests.uses import tape
from tests.uses.team import Team

PATTERNS = ("probe-flink", "probe-spark", "probe-streams", "probe-storm")
EDITED = "now.Order > before.peak", "now.Order <= before.peak"
SEED = int(os.environ.get("MILLRACE_SEED", "20261123"))
SECONDS = 8

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def verdicts(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, dict[str, Any]]]:
    """What became of one random tape, by pattern."""
    print(f"MILLRACE_SEED={SEED}")
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(PROJECT / "tests/uses/probe", folder / "pipelines/probe")
    team, all_run = Team(stack, folder), Barrier(len(PATTERNS), timeout=300)
    rules = folder / "pipelines/probe/rules.py"

    def plan(pattern: str) -> Iterator[tape.Due]:
        all_run.wait()  # a pattern that is deployed later would be deployed as edited
        if pattern == PATTERNS[0]:
            restarts.append(meanwhile.submit(restart_while_a_rule_is_edited, team, stack, rules))
        return tape.plan(pattern, random.Random(SEED), SECONDS)

    with beside(stack, ["storm"]), ThreadPoolExecutor() as meanwhile:
        restarts: list[Future[None]] = []
        with team.proven(PATTERNS, plan, before_verdict=lambda: restarts[0].result()) as each:
            yield each


def restart_while_a_rule_is_edited(team: Team, stack: Settings, rules: Path) -> None:
    """Jobs die and are started again while the project declares a rule that nobody has deployed."""
    deployed, target = rules.read_text(encoding="utf-8"), Target.read(stack, {})
    with closing(Tail(target.bootstrap, {"enriched": f"{PATTERNS[0]}.enriched"})) as tail:
        judged: list[Record] = []

        def is_at_work() -> bool:
            judged.extend(tail.new())
            return len(judged) > SECONDS * tape.PER_S / 3

        assert processes.wait_until(is_at_work, within_s=60), len(judged)
    assert EDITED[0] in deployed
    rules.write_text(deployed.replace(*EDITED), encoding="utf-8")
    flink = target.engine("flink")
    assert isinstance(flink, Flink)
    flink._cancel(deployments.deployed(target, "probe-flink")["flink"])
    processes.kill(processes.records(stack.run)["job-probe-streams-streams"])
    started = {change["name"] for change in team.millrace("reconcile")["changes"] if change["action"] == "start"}
    assert started == {"probe-flink/flink generation 2", "probe-streams/streams generation 2"}
    rules.write_text(deployed, encoding="utf-8")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_window_and_measure_is_the_oracles(verdicts: Mapping[str, dict[str, Any]], pattern: str) -> None:
    verdict = verdicts[pattern]
    figures = {check["name"]: check["figures"] for check in verdict["checks"]}
    has_windows = pattern != "probe-storm"
    rules = ("higher", "hurried", "full", "beyond", *(("tumbling", "sliding", "session") if has_windows else ()))
    for rule in rules:
        assert figures[f"alerts: {rule}"]["expected"] > 0, f"the tape sets {rule} off"
    if not has_windows:
        return
    for summary in ("per-site", "moving", "by-value", "altogether"):
        assert figures[f"numbers: {summary}"]["due"] > 0
    if pattern != "probe-spark":  # Spark sees no event late that comes in one batch with those before it
        assert figures["lateness"]["late"] > 0
