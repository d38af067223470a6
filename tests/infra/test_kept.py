"""A job runs with the declarations that it was deployed with, whatever the project declares since."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace import deployments, kept, project
from millrace.engines.flink.folds import fold_of
from millrace.errors import InfraError
from millrace.patterns import EnginePlan, load
from millrace.patterns.plan import OtherRulesError
from millrace.rules import RuleError, UseCase
from millrace.settings import PROJECT, Settings
from millrace.target import Target
from millrace.verbs import deploy as deploying
from millrace.verbs.deploy import deploy
from millrace.verbs.teardown import teardown
from millrace.verbs.undeployed import unrecorded
from millrace.verbs.upgrade import Before, _write
from millrace.verify import Versions
from tests.infra.test_lifecycle import Engine

PATTERN = "spark"
MORE_MERCHANTS = "before.other_merchants >= 4", "before.other_merchants >= 3"
LESS_BURSTS = "w.n >= 2", "w.n >= 3"
LONGER = "within_ms=2 * MINUTE_MS", "within_ms=10 * MINUTE_MS"


class Compiled(Engine):
    """An engine without a server that compiles the rules of each job that it starts."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: list[str] = []

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        self.versions.append(EnginePlan.read(plan.to_json()).use.rule("spree").version)
        super().start(plan, state_from)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Compiled:
    engine = Compiled()
    monkeypatch.setattr(Target, "engine", lambda *_: engine)
    monkeypatch.setattr(deploying, "require_provisioned", lambda *_: None)
    monkeypatch.setattr(deploying, "require_contracts_and_stores", lambda *_: None)
    return engine


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path / "state")}), {})


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The rules of the use `fraud` in a project that may be edited."""
    top = tmp_path / "pipelines"
    shutil.copytree(PROJECT / "pipelines", top, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(project, "code", lambda use: project.Code(f"pipelines.{use}", top))
    return top / "fraud/rules.py"


def edit(rules: Path, change: tuple[str, str] = MORE_MERCHANTS) -> None:
    before = rules.read_text(encoding="utf-8")
    assert before.count(change[0]) == 1
    rules.write_text(before.replace(*change), encoding="utf-8")


def as_declared_now(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have the use as its files declare it, as a new one would."""
    at = kept.place(rules.parent, "fraud", "{}")
    kept.make(at, "fraud", "{}")
    monkeypatch.setitem(project.uses(), "fraud", kept.use_of(str(at), "fraud"))
    shutil.rmtree(at)


def copies(target: Target) -> list[Path]:
    return [*deployments._copies(target, PATTERN).glob("*")]


def test_a_dead_job_runs_again_with_the_rules_that_were_deployed(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    edit(rules)
    as_declared_now(rules, monkeypatch)
    engine.jobs.clear()
    (change,) = deploy(target, PATTERN, only_missing=True)
    assert (change.action, engine.versions[0]) == ("start", engine.versions[1])
    deploy(target, PATTERN)
    assert engine.versions[2] != engine.versions[0]
    assert len(copies(target)) == 2, "a ledger may be behind, and judges by the first one"
    kept_s = load(PATTERN).pattern.retention_hours * 3_600
    monkeypatch.setattr(deployments, "time", SimpleNamespace(time=lambda: time.time() + kept_s))
    edit(rules, LONGER)
    as_declared_now(rules, monkeypatch)
    deploy(target, PATTERN)
    assert len(copies(target)) == 2, "what the first one judged is deleted"


def test_what_was_deployed_at_a_moment_is_kept_until_when(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    for change in (MORE_MERCHANTS, LONGER):
        edit(rules, change)
        as_declared_now(rules, monkeypatch)
        deploy(target, PATTERN)
    ends_ms = [each["until_ms"] for each in json.loads(replaced(target).read_text())]
    found = [deployments.earlier(target, PATTERN, end_ms) for end_ms in ends_ms]
    assert [each and each.versions["spree"] for each in found] == engine.versions[:2]
    assert [each and each.variant.use.rule("spree").version for each in found] == engine.versions[:2]
    assert [len(deployments.in_force(target, PATTERN, end_ms).get("spree", Versions()).past) for end_ms in ends_ms] == [
        0,
        1,
    ]
    assert deployments.earlier(target, PATTERN, ends_ms[-1] + 1) is None
    for copy in copies(target):
        shutil.rmtree(copy)
    with pytest.raises(InfraError, match=f"the declarations of {PATTERN} until {ends_ms[0]} are gone"):
        deployments.earlier(target, PATTERN, ends_ms[0])


def test_the_rules_on_windows_of_replaced_plans_are_known_as_long_as_their_copies_can_be_read(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    before = load(PATTERN).use.rule("burst")
    assert deployments.earlier_windows(target, PATTERN) == {}
    edit(rules, LESS_BURSTS)
    as_declared_now(rules, monkeypatch)
    deploy(target, PATTERN)
    assert load(PATTERN).use.rule("burst").version != before.version
    found = deployments.earlier_windows(target, PATTERN)
    assert {each: rule.version for each, rule in found.items()} == {("burst", before.version): before.version}
    damaged = replaced(target).read_text()
    replaced(target).write_text("{")
    assert deployments.earlier_windows(target, PATTERN) == {}
    replaced(target).write_text(damaged)
    for copy in copies(target):
        shutil.rmtree(copy)
    assert deployments.earlier_windows(target, PATTERN) == {}


def replaced(target: Target) -> Path:
    return deployments.deployed_file(target, PATTERN).with_suffix(".replaced")


def test_a_dead_job_runs_again_though_the_project_cannot_be_read(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)

    def broken(name: str) -> None:
        raise project.ProjectError("rules.py, line 1: SyntaxError")

    monkeypatch.setattr(deployments, "load", broken)
    monkeypatch.setattr(deploying, "load", broken)
    engine.jobs.clear()
    deploy(target, PATTERN, only_missing=True)
    assert engine.is_up
    with pytest.raises(project.ProjectError):
        deploy(target, PATTERN)


def test_a_pattern_is_what_the_project_declares_until_that_differs_from_what_is_deployed(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert deployments.as_deployed(target, PATTERN) == load(PATTERN)
    deploy(target, PATTERN)
    assert deployments.as_deployed(target, PATTERN) == load(PATTERN)
    edit(rules)
    as_declared_now(rules, monkeypatch)
    found = deployments.as_deployed(target, PATTERN)
    assert found.declared != ""
    assert found.pattern == load(PATTERN).pattern
    assert found.use.rule("spree").version == engine.versions[0] != load(PATTERN).use.rule("spree").version
    deploy(target, PATTERN)
    assert deployments.as_deployed(target, PATTERN) == load(PATTERN)


def test_a_job_without_a_copy_does_not_run_other_rules_than_those_of_its_plan(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    shutil.rmtree(deployments._copies(target, PATTERN))
    engine.jobs.clear()
    deploy(target, PATTERN, only_missing=True)  # the project declares the same
    edit(rules)
    as_declared_now(rules, monkeypatch)
    engine.jobs.clear()
    with pytest.raises(OtherRulesError, match=r"'spree' is deployed in version .* and declared in version .*; run"):
        deploy(target, PATTERN, only_missing=True)
    monkeypatch.setitem(project.uses(), "fraud", replace(project.uses()["fraud"], rules=(), canaries=None))
    with pytest.raises(OtherRulesError, match="declared no more"):
        deployments.deployed(target, PATTERN)["spark"].refuse_other_rules()


def test_when_a_job_lacked_a_memory_is_noted(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    edit(rules)
    as_declared_now(rules, monkeypatch)
    deploy(target, PATTERN)
    assert deployments.away_ms(target, PATTERN) == {}, "the rule remembers what it did before"
    edit(rules, LONGER)
    as_declared_now(rules, monkeypatch)
    deploy(target, PATTERN)
    ((name, spans),) = deployments.away_ms(target, PATTERN).items()
    ((since, began_ms),) = spans
    assert (name, since) == ("others(transactions.merchant,600000)", 0)
    edit(rules, (LONGER[1], LONGER[0]))
    as_declared_now(rules, monkeypatch)
    deploy(target, PATTERN)
    ((ended_ms, back_ms),) = deployments.away_ms(target, PATTERN)["others(transactions.merchant,120000)"]
    assert began_ms == ended_ms < back_ms
    assert [each["until_ms"] for each in json.loads(replaced(target).read_text())][1:] == [began_ms, back_ms]
    assert [*unrecorded(target, load(PATTERN), {}, deployments.away_ms(target, PATTERN))] == []
    assert all(kept.is_whole(copy) for copy in copies(target))
    (copies(target)[0] / kept.PATTERN).write_text("{}", encoding="utf-8")
    assert not kept.is_whole(copies(target)[0])
    deployments.forget(target, PATTERN)
    assert deployments.away_ms(target, PATTERN) == {}


def test_a_copy_that_this_library_refuses_holds_up_no_deployment(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    (before,) = copies(target)
    edit(rules)
    as_declared_now(rules, monkeypatch)
    read = kept.use_of

    def use_of(place: str, *given: str) -> UseCase:
        if Path(place).name == before.name:
            raise RuleError("the version of 'transactions' is refused since")
        return read(place, *given)

    monkeypatch.setattr(kept, "use_of", use_of)
    deploy(target, PATTERN)
    assert engine.is_up
    assert len({*engine.versions}) == 2


def test_files_that_change_during_a_deployment_are_not_deployed(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = kept.place(rules.parent, "fraud", "{}")
    edit(rules)
    with pytest.raises(kept.ChangedError, match="has changed during the deployment"):
        kept.make(place, "fraud", "{}")
    assert not place.exists()


def test_copies_stay_while_a_job_or_a_roll_back_needs_them(
    target: Target, engine: Compiled, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    _write(target, PATTERN, Before("one", 0, deployments.deployed(target, PATTERN), {}))
    edit(rules)
    as_declared_now(rules, monkeypatch)
    deploy(target, PATTERN)
    assert len(copies(target)) == 2
    teardown(target, PATTERN)
    assert len(copies(target)) == 2, "its data stays, and with it what made them"
    deployments.forget(target, PATTERN)
    assert copies(target) == []


def test_a_copy_is_imported_beside_what_the_process_has_imported(rules: Path, tmp_path: Path) -> None:
    imported = {name: module for name, module in sys.modules.items() if name.startswith("pipelines")}
    edit(rules)
    at = kept.place(tmp_path / "copies", "fraud", "{}")
    kept.make(at, "fraud", "{}")
    (rules.parent / "__pycache__").mkdir(exist_ok=True)
    (rules.parent / "__pycache__/rules.pyc").write_bytes(b"")
    assert kept.place(tmp_path / "copies", "fraud", "{}") == at, "caches are no declaration"
    use = kept.use_of(str(at), "fraud")
    assert use.rule("spree").version != project.uses()["fraud"].rule("spree").version
    assert {name: module for name, module in sys.modules.items() if name.startswith("pipelines")} == imported
    assert str(at) not in sys.path


def test_a_worker_runs_the_step_that_was_deployed(rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, more = rules.parent / "steps.py", rules.parent / "more.py"
    steps.write_text("from pipelines.fraud.more import FOUND\n\ndef step(state, event, stream):\n    return 1, FOUND\n")
    more.write_text("FOUND = {'which': 'deployed'}\n")
    at = kept.place(tmp_path / "copies", "fraud", "{}")
    kept.make(at, "fraud", "{}")
    more.write_text("FOUND = {'which': 'edited'}\n")
    each = {"state": "r 1", "module": "pipelines.fraud.steps", "step": "step", "streams": ["s"], "declared": str(at)}
    assert json.loads(fold_of(json.dumps([each]))(None, "{}", "s"))["found"] == [{"which": "deployed"}]
