"""What judges the events is killed in the middle of a tape: each engine keeps each guarantee that it claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import registry
from millrace.machine.processes import wait_until
from millrace.patterns import load
from millrace.patterns.model import AT_LEAST_ONCE, EXACTLY_ONCE
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs.deploy import await_healthy, deploy
from millrace.verbs.provision import provision
from millrace.verbs.reconcile import reconcile
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import validate
from millrace.verify import Verdict
from millrace.verify.closing import closing_ms
from tests.beside import beside
from tests.conformance.test_scenarios import RUNS, Run
from tests.patterns import Sender, counts, own_patterns, problems
from tests.test_long_runs import kill_the_worker

SECONDS, KILLED_AFTER, KILLED_WITHIN_S = 20, 300, 300
"""Of 2,000 messages, half of which may be places of phones; the kill is after so many accepted events."""
FALSE = replace(next(run for run in RUNS if run.engine == "flink"), guarantee=EXACTLY_ONCE)
"""What that engine does not claim: it sends outputs before its checkpoints, and a restart repeats them."""

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def target(stack: Settings) -> Iterator[Target]:
    more = {run.engine for run in RUNS if not registry.manifest(run.engine).is_default}
    with beside(stack, sorted(more)):
        yield Target.read(stack, {})


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_an_engine_keeps_its_guarantee_though_it_was_killed_in_mid_tape(
    target: Target, tmp_path: Path, run: Run
) -> None:
    assert broken(run, verdict_of(target, tmp_path, run)) == []


def test_a_guarantee_that_an_engine_claims_and_does_not_keep_is_found(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = registry.manifests()
    bold = [replace(each, can=each.can | {FALSE.guarantee}) if each.name == FALSE.engine else each for each in honest]
    monkeypatch.setattr(registry, "manifests", lambda: tuple(bold))
    found = broken(FALSE, verdict_of(target, tmp_path, FALSE))
    assert any(each.startswith("repetitions failed") for each in found), found


def verdict_of(target: Target, folder: Path, run: Run) -> Verdict:
    """The verdict on a run of an engine that does everything, with a guarantee, and is killed."""
    name = f"killed-{run}".replace("/", "-")
    changes = {"of": run.variant.name, "stages": {"persist": None}, "promises": {"delivery": run.guarantee}}
    with own_patterns(folder, {name: changes}):
        try:
            return killed(target, name)
        finally:
            teardown(target, name, data=True)


def killed(target: Target, name: str) -> Verdict:
    variant = load(name)
    accepted = {"accepted": variant.topic(variant.use.enriched.name)}
    provision(target, name)
    deploy(target, name, report=print)
    sender = Sender(target, name, f"{name}-t", SECONDS, closing_ms(variant.use))
    assert wait_until(
        lambda: topics.lengths(target.bootstrap, accepted)["accepted"] > KILLED_AFTER, KILLED_WITHIN_S, every_s=0.2
    )
    kill_the_worker(target, variant)
    reconcile(target, report=print)  # as the watcher does
    await_healthy(target, name)
    sender.end()
    return validate(target, name, settled_after_s=30, within_s=600, report=print).verdict


def broken(run: Run, verdict: Verdict) -> list[str]:
    """What the verdict found, and copies where there may be none; at most once, a loss of what was in flight is ok."""
    counted = counts(verdict)
    print(run, verdict.status, counted)
    copies = [f"{counted['copies']} copies"] if counted["copies"] and run.guarantee != AT_LEAST_ONCE else []
    return [*problems(verdict), *copies]
