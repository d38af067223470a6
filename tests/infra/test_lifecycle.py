"""Whose a deployment is, and how long it may take."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace import deployments
from millrace.cli.roll_back import roll_back
from millrace.deployments import CANARIES
from millrace.errors import InfraError
from millrace.job import EngineError, Job, UsedUpError
from millrace.patterns import EnginePlan, Variant, load
from millrace.patterns.contracts import contracts_of
from millrace.patterns.loss import Loss
from millrace.settings import Settings
from millrace.stores.changes import Change
from millrace.stores.files import Hdfs
from millrace.stores.tables import HBase
from millrace.target import Target
from millrace.verbs import companions
from millrace.verbs import deploy as deploying
from millrace.verbs import reconcile as reconciling
from millrace.verbs import rehearsal as rehearsing
from millrace.verbs import upgrade as upgrading
from millrace.verbs.deploy import LostError, await_healthy, deploy
from millrace.verbs.provision import _ensure_stores, require_provisioned
from millrace.verbs.teardown import _remove_local_state, _remove_tables, teardown

GAP = Loss("spark.transactions", 0, 2, 5, 10, "id", "id", "events")
PATTERN, RUN = "spark", "manual__2026-01-01T00:00:00+00:00"


@dataclass
class Engine:
    """An engine without a server."""

    jobs: dict[str, Job] = field(default_factory=dict)
    states: list[str | None] = field(default_factory=list)
    """What the jobs continued from."""
    kept: list[Collection[str]] = field(default_factory=list)
    """What was kept of earlier generations."""
    short: str = ""
    folder: Path | None = None
    """Of its state on this machine."""

    def refusal(self, plan: EnginePlan) -> str:
        return self.short

    def job(self, plan: EnginePlan) -> Job:
        return self.jobs.get(plan.job_id, Job("absent"))

    def start(self, plan: EnginePlan, state_from: str | None) -> None:
        self.jobs[plan.job_id] = Job("running", checkpoints=1)
        self.states.append(state_from)

    def request_checkpoint(self, plan: EnginePlan) -> bool:
        return True

    def stop(self, plan: EnginePlan) -> None:
        self.jobs[plan.job_id] = Job("stopped")

    def latest_state(self, plan: EnginePlan) -> str | None:
        """Each generation of the plan's line has left state, unless its own is the first."""
        return f"of {plan.generation - 1}" if plan.generation > plan.since else None

    def local_state(self, plan: EnginePlan) -> Path | None:
        return self.folder

    def rehearse(self, running: EnginePlan, rehearsal: EnginePlan) -> None:
        self.start(rehearsal, None)
        raise KeyboardInterrupt  # a process that is killed runs no handler, either: its record is written before

    def discard(self, plan: EnginePlan) -> None:
        del self.jobs[plan.job_id]

    def discard_earlier(self, plan: EnginePlan, kept: Collection[str]) -> None:
        assert self.job(plan).checkpoints, "the state of earlier generations is still needed"
        self.kept.append(kept)

    @property
    def is_up(self) -> bool:
        return any(job.is_up for job in self.jobs.values())


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(Target, "engine", lambda *_: engine)
    monkeypatch.setattr("millrace.verbs.deploy.require_provisioned", lambda *_: None)
    monkeypatch.setattr("millrace.verbs.deploy.require_contracts_and_stores", lambda *_: None)
    return engine


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})


def test_a_damaged_file_of_a_deployment_is_named(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN)
    file = deployments.deployed_file(target, PATTERN)
    file.write_text(file.read_text()[:-20])
    with pytest.raises(InfraError, match=rf"{file} is damaged \(.*\); restore it, or delete it"):
        deployments.deployed(target, PATTERN)


@pytest.mark.parametrize(
    "content", ["[]", "0", '{"flink": null}', '[{"name": "burst"}]', '{"a": [[1]]}', "[" * 100_000]
)
@pytest.mark.parametrize(
    ("suffix", "read"),
    [
        (".json", deployments.deployed),
        (".past", deployments.in_force),
        (".replaced", lambda target, name: deployments.earlier(target, name, 0)),
        (".memories", deployments.away_ms),
        (".losses", deployments.losses),
        (".upgrade", deployments.upgrade_gap_ms),
    ],
)
def test_a_file_of_a_deployment_with_another_shape_is_named(
    target: Target, suffix: str, read: Callable[[Target, str], object], content: str
) -> None:
    file = deployments.deployed_file(target, PATTERN).with_suffix(suffix)
    file.write_text(content)
    if content == "[]" and suffix in (".past", ".replaced", ".losses"):
        assert not read(target, PATTERN)
        return
    with pytest.raises(InfraError, match=rf"{file} is damaged \(.*\); restore it, or delete it"):
        read(target, PATTERN)


def test_a_consumer_group_in_use_is_refused_while_none_of_the_patterns_jobs_runs(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.stores.topics.ensure", lambda *_, **__: [])
    monkeypatch.setattr("millrace.stores.topics.members", lambda *_: ["somebody at 10.0.0.7"])
    engine, in_use = Engine(), r"spark: the consumer group spark, .*, is in use by somebody at 10.0.0.7; end"
    monkeypatch.setattr(Target, "engine", lambda *_: engine)
    with pytest.raises(InfraError, match=in_use):
        deploy(target, PATTERN)
    assert not deployments.is_wanted(target, PATTERN)
    (plan,) = deployments.plans(target, load(PATTERN))
    deployments.record(target, PATTERN, plan)
    engine.start(plan, None)
    require_provisioned(target, load(PATTERN))  # its own jobs read as the group, also after half a teardown
    deployments.want(target, PATTERN, "")
    engine.jobs[plan.job_id] = Job("failed")
    require_provisioned(target, load(PATTERN))  # Kafka still counts a killed job as a member
    engine.start(plan, None)
    teardown(target, PATTERN)  # which keeps the data
    with pytest.raises(InfraError, match=in_use):
        deploy(target, PATTERN)


class Agreed:
    """What `provision` has left of a pattern: its contracts, folder and tables."""

    def __init__(self, variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
        schemas = {variant.topic(kind): schema for kind, schema in contracts_of(variant.use).items()}
        self.contracts: dict[str, dict[str, Any]] = json.loads(json.dumps(schemas))
        self.tables = [Change("table", f"{variant.name}.{each.name}", "keep") for each in variant.use.tables]
        monkeypatch.setattr(HBase, "ensure", lambda *_, plan: self.tables)
        monkeypatch.setattr(Hdfs, "ensure_folder", lambda _, path, *, plan: Change("folder", path, "keep"))
        monkeypatch.setattr("millrace.stores.topics.contracts", lambda _: self.contracts)
        monkeypatch.setattr("millrace.stores.topics.ensure", lambda *_, **__: [])
        monkeypatch.setattr("millrace.stores.topics.members", lambda *_: [])


@pytest.mark.parametrize("verb", ["deploy", "upgrade"])
@pytest.mark.parametrize("lacks", ["a contract", "what a contract has", "a table"])
def test_what_breaks_a_contract_or_lacks_a_table_is_refused_before_a_job_is_touched(
    target: Target, monkeypatch: pytest.MonkeyPatch, verb: str, lacks: str
) -> None:
    engine, variant = Engine(), load(PATTERN)
    monkeypatch.setattr(Target, "engine", lambda *_: engine)
    monkeypatch.setattr(engine, "rehearse", lambda *_: pytest.fail("a trial was started"))
    agreed = Agreed(variant, monkeypatch)
    deploy(target, PATTERN)
    before = dict(engine.jobs), deployments.deployed(target, PATTERN)
    topic = variant.topic(variant.use.judged)
    if lacks == "a contract":
        del agreed.contracts[topic]
        refused = rf"^spark is not provisioned \(no contract {topic}\); run `millrace provision spark` first$"
    elif lacks == "what a contract has":
        agreed.contracts[topic]["properties"]["terminal"] = {"type": "string"}
        refused = rf"^topic {topic}: its contract would break .* 'terminal' is gone; .*: give the pattern a new name"
    else:
        agreed.tables = [Change(each.kind, each.name, "create") for each in agreed.tables]
        refused = (
            r"^spark is not provisioned \(no table spark.transactions, no table spark.customers\); run `millrace "
            "provision spark` first$"
        )
    assert actions(deploy(target, PATTERN)) == ["keep"], "it runs as declared, and needs no store for that"
    changed = [replace(plan, options={"other": "1"}) for plan in deployments.plans(target, variant)]
    monkeypatch.setattr(deployments, "plans", lambda *_: changed)
    monkeypatch.setattr(upgrading, "plans", lambda *_: changed)
    with pytest.raises(InfraError, match=refused):
        deploy(target, PATTERN) if verb == "deploy" else upgrading.upgrade(target, variant, "v2")
    assert (engine.jobs, deployments.deployed(target, PATTERN)) == before
    engine.jobs.clear()
    assert actions(deploy(target, PATTERN, only_missing=True)) == ["start"], "a watcher restarts what was deployed"


@pytest.mark.parametrize(("state", "since"), [("savepoint-1", 1), (None, 2)])
def test_an_id_that_is_used_up_gives_up_no_state(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch, state: str | None, since: int
) -> None:
    deploy(target, PATTERN)
    engine.jobs.clear()
    started = engine.start

    def start(plan: EnginePlan, state_from: str | None) -> None:
        if plan.generation == 1:
            raise UsedUpError("a job with this id has ended")
        started(plan, state_from)

    monkeypatch.setattr(engine, "start", start)
    monkeypatch.setattr(engine, "latest_state", lambda _: state)
    deploy(target, PATTERN)
    (plan,) = deployments.deployed(target, PATTERN).values()
    assert (plan.generation, plan.since, engine.states[-1]) == (2, since, state)


@pytest.mark.parametrize("verb", ["deploy", "plan", "upgrade"])
def test_a_pattern_that_leaves_an_engine_is_refused_while_its_job_runs_there(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    deploy(target, PATTERN)
    (old,) = deployments.deployed(target, PATTERN).values()
    elsewhere = [replace(old, engine="flink")]
    monkeypatch.setattr(deployments, "plans", lambda *_: elsewhere)
    monkeypatch.setattr(upgrading, "plans", lambda *_: elsewhere)
    before = dict(engine.jobs), deployments.deployed(target, PATTERN)
    called = {
        "deploy": lambda: deploy(target, PATTERN),
        "plan": lambda: deploy(target, PATTERN, plan=True),
        "upgrade": lambda: upgrading.upgrade(target, load(PATTERN), "moved"),
    }
    with pytest.raises(EngineError, match=r"no stage on spark any more, .*`millrace teardown spark --data` first$"):
        called[verb]()
    assert (engine.jobs, deployments.deployed(target, PATTERN)) == before


def test_an_engine_without_room_is_refused_before_anything_is_changed(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = {"flink": Engine(), "spark": Engine(short="0 of 4 slots are free; stop another job")}
    monkeypatch.setattr(Target, "engine", lambda _, name: engines[name])
    monkeypatch.setattr("millrace.verbs.deploy.require_provisioned", lambda *_: None)
    monkeypatch.setattr("millrace.verbs.deploy.require_contracts_and_stores", lambda *_: None)
    with pytest.raises(
        EngineError, match=r"^flink-spark: nothing was changed: spark: 0 of 4 slots are free; stop another job$"
    ):
        deploy(target, "flink-spark")
    assert [engine.jobs for engine in engines.values()] == [{}, {}]
    assert not deployments.is_wanted(target, "flink-spark")
    assert [path.name for path in (target.settings.state / "patterns").iterdir()] == ["flink-spark.lock"]
    assert deploy(target, "flink-spark", plan=True), "a plan lists the jobs all the same"
    deploy(target, "flink-spark", engines=["flink"])
    assert (engines["flink"].is_up, engines["spark"].is_up) == (True, False)
    deploy(target, "flink-spark", only_missing=True)  # a watcher restarts what it can
    assert engines["spark"].jobs == {}


def test_a_pattern_that_cannot_be_repaired_keeps_no_other_one_from_it(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away_for_flink(target: Target, name: str, **options: Any) -> list[Change]:
        if name == "flink":
            raise EngineError("flink: Flink does not answer")
        return deploy(target, name, **options)

    for name in ("flink", "spark"):
        deploy(target, name)
    engine.jobs.clear()
    monkeypatch.setattr(reconciling, "deploy", away_for_flink)
    with pytest.raises(InfraError, match=r"^flink: Flink does not answer$"):
        reconciling.reconcile(target)
    assert [plan.pattern for plan in deployments.deployed(target, "spark").values() if engine.job(plan).is_up]


def test_an_upgrade_is_not_rolled_back_behind_what_kafka_keeps_nor_under_a_pattern_that_was_torn_down(
    target: Target, engine: Engine
) -> None:
    deploy(target, PATTERN)
    before = upgrading.Before("one", 0, deployments.deployed(target, PATTERN), {"spark": "state"}, {"spark": 1})
    upgrading._write(target, PATTERN, before)
    with pytest.raises(InfraError, match=r"spark: the upgrade began at 1970-01-01 00:00 UTC, and topics keep messages"):
        upgrading.roll_back(target, PATTERN)
    assert engine.is_up, "its state is not discarded"
    teardown(target, PATTERN)
    with pytest.raises(InfraError, match="spark was torn down; run `millrace deploy spark`, then roll"):
        upgrading.roll_back(target, PATTERN)
    assert not engine.is_up


def complete(target: Target, upgrade_id: str) -> upgrading.Before:
    """The record of an upgrade that is complete, of which the deployed job is the second generation."""
    running = deployments.deployed(target, PATTERN)["spark"]
    deployments.record(target, PATTERN, replace(running, generation=2))
    target.engine("spark").start(replace(running, generation=2), "state of 1")
    before = upgrading.Before(upgrade_id, 0, {"spark": running}, {"spark": "state of 1"}, {"spark": 2}, gap_ms=5)
    upgrading._write(target, PATTERN, before)
    return before


def test_a_complete_upgrade_is_not_begun_again_under_its_id(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    complete(target, "v2")
    started, record = len(engine.states), deployments.upgrade_file(target, PATTERN).read_text()
    done = upgrading.upgrade(target, load(PATTERN), "v2")
    assert (done.gap_ms, len(engine.states)) == (5, started), "nothing has changed, and nothing is started"
    changed = [replace(plan, options={"other": "1"}) for plan in deployments.plans(target, load(PATTERN))]
    monkeypatch.setattr(upgrading, "plans", lambda *_: changed)
    refused = r"spark: the upgrade 'v2' is complete, and spark/spark generation 2 is not .*; give another id"
    with pytest.raises(InfraError, match=refused):
        upgrading.upgrade(target, load(PATTERN), "v2")
    assert len(engine.states) == started
    assert engine.job(deployments.deployed(target, PATTERN)["spark"]).is_up
    assert deployments.upgrade_file(target, PATTERN).read_text() == record, "the way back stays"


def test_a_roll_back_with_an_id_undoes_that_upgrade_and_no_other(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN)
    nothing = [Change("upgrade", "v2", "keep", "nothing to undo: it is not the last upgrade of spark")]
    assert upgrading.roll_back(target, PATTERN, "v2") == nothing, "there was none yet"
    before = complete(target, "v1")
    upgrading._write(target, PATTERN, replace(before, began_ms=int(time.time() * 1000)))
    jobs, record = dict(engine.jobs), deployments.upgrade_file(target, PATTERN).read_text()
    assert upgrading.roll_back(target, PATTERN, "v2") == nothing, "it was refused"
    assert (engine.jobs, deployments.upgrade_file(target, PATTERN).read_text()) == (jobs, record)
    (change,) = upgrading.roll_back(target, PATTERN, "v1")
    assert (change.action, change.detail) == ("change", "generation 1 again")
    assert engine.states[-1] == "state of 1"
    assert upgrading.roll_back(target, PATTERN, "v1")[0].action == "keep", "it is undone once"


def test_a_roll_back_restarts_a_job_that_was_stopped_but_not_replaced(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN)
    running = deployments.deployed(target, PATTERN)["spark"]
    upgrading._write(target, PATTERN, upgrading.Before("v2", int(time.time() * 1000), {"spark": running}, {}))
    engine.stop(running)
    upgrading.roll_back(target, PATTERN, "v2")
    assert engine.job(deployments.deployed(target, PATTERN)["spark"]).is_up
    assert engine.states[-1] == "of 1"
    assert not deployments.upgrade_file(target, PATTERN).exists()


def test_a_roll_back_that_was_killed_replaces_the_upgraded_job_that_was_restarted_meanwhile(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, PATTERN)
    old = deployments.deployed(target, PATTERN)["spark"]
    upgrading._write(target, PATTERN, replace(complete(target, "v2"), began_ms=int(time.time() * 1000)))
    upgraded = replace(deployments.deployed(target, PATTERN)["spark"], options={"other": "1"})
    deployments.record(target, PATTERN, upgraded)

    def killed(plan: EnginePlan) -> None:
        engine.stop(plan)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(engine, "discard", killed)
        with pytest.raises(KeyboardInterrupt):
            upgrading.roll_back(target, PATTERN)
    deploy(target, PATTERN, only_missing=True)
    assert deployments.deployed(target, PATTERN)["spark"].is_same_as(upgraded)
    upgrading.roll_back(target, PATTERN)
    assert deployments.deployed(target, PATTERN)["spark"].is_same_as(old)
    assert engine.states[-1] == "state of 1"


def test_what_earlier_generations_left_is_deleted_once_the_job_is_healthy_but_for_the_way_back(
    target: Target, engine: Engine
) -> None:
    deploy(target, PATTERN, wait=False)
    assert engine.kept == []
    await_healthy(target, PATTERN)
    assert engine.kept == [()]
    complete(target, "v2")
    deploy(target, PATTERN)
    assert engine.kept == [(), ("state of 1",)]


def test_a_job_is_deployed_though_what_earlier_generations_left_cannot_be_deleted(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(plan: EnginePlan, kept: Collection[str]) -> None:
        raise InfraError("HDFS refused the request")

    lines: list[str] = []
    monkeypatch.setattr(engine, "discard_earlier", denied)
    assert actions(deploy(target, PATTERN, report=lines.append)) == ["start"]
    assert (
        lines[-1]
        == "spark/spark generation 1: the state of earlier generations is still there: HDFS refused the request"
    )


def test_the_command_line_prints_that_there_is_nothing_to_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    roll_back(PATTERN, "v2")
    assert capsys.readouterr().out == "keep\tupgrade\tv2\tnothing to undo: it is not the last upgrade of spark\n"
    roll_back(PATTERN, "v2", json=True)
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["detail"] == "nothing to undo: it is not the last upgrade of spark"


def test_a_job_of_earlier_code_is_replaced_and_one_of_unknown_code_is_kept(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.kernel.code", lambda *_: "")
    deploy(target, PATTERN)
    monkeypatch.setattr("millrace.kernel.code", lambda *_: "first")
    assert actions(deploy(target, PATTERN, plan=True)) == ["keep"], "its record is older than that of code"
    engine.jobs.clear()
    deploy(target, PATTERN, only_missing=True)
    assert actions(deploy(target, PATTERN)) == ["keep"]
    monkeypatch.setattr("millrace.kernel.code", lambda *_: "second")
    assert deploy(target, PATTERN, only_missing=True)[0].action == "keep", "a watcher restarts what is down"
    (change,) = deploy(target, PATTERN, plan=True)
    assert (change.action, change.detail) == (
        "change",
        "code changed: stop generation 1 with its state, continue as 2",
    )
    deploy(target, PATTERN)
    assert engine.states[-1] == "of 1"
    assert actions(deploy(target, PATTERN)) == ["keep"]


def actions(changes: Sequence[Change]) -> list[str]:
    return [change.action for change in changes]


def test_a_run_tears_down_what_it_deployed(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN, for_run=RUN)
    deploy(target, PATTERN, for_run=RUN)  # as a task does that was killed and tried again
    teardown(target, PATTERN, for_run=RUN)
    assert (engine.is_up, deployments.is_wanted(target, PATTERN)) == (False, False)


def test_a_teardown_names_a_sender_that_was_started_by_hand(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN)
    with companions.only_one(companions.lock_of(target, PATTERN, CANARIES), ""):
        found = [each for each in teardown(target, PATTERN) if each.kind == "process"]
    (change,) = found
    assert (change.name, change.action) == (f"millrace canaries {PATTERN}", "keep")
    assert f"process {os.getpid()} still runs" in change.detail
    deploy(target, PATTERN)
    assert "process" not in {each.kind for each in teardown(target, PATTERN)}


@pytest.mark.parametrize("deployed_for", ["", "another run"], ids=["deployed for good", "kept by another run"])
def test_a_run_leaves_a_pattern_that_ran_before_it(target: Target, engine: Engine, deployed_for: str) -> None:
    deploy(target, PATTERN, for_run=deployed_for)
    deploy(target, PATTERN, for_run=RUN)
    (change,) = teardown(target, PATTERN, data=True, for_run=RUN)
    assert (change.action, change.detail) == ("keep", "not deployed by this run: it keeps running")
    assert (engine.is_up, deployments.is_wanted(target, PATTERN)) == (True, True)


def test_a_pattern_that_is_deployed_for_good_while_a_run_uses_it_stays(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN, for_run=RUN)
    deploy(target, PATTERN)
    teardown(target, PATTERN, for_run=RUN)
    assert engine.is_up


def test_a_job_that_is_restarted_still_belongs_to_its_run(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN, for_run=RUN)
    engine.jobs.clear()
    deploy(target, PATTERN, only_missing=True)
    assert engine.is_up
    teardown(target, PATTERN, for_run=RUN)
    assert not engine.is_up


def test_what_is_missing_of_a_job_is_started_again_in_the_same_generation(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN)
    job_id = deployments.deployed(target, PATTERN)["spark"].job_id
    engine.jobs[job_id] = Job("degraded", problem="instance 2 of 2: it has ended", missing=1)
    (change,) = deploy(target, PATTERN, only_missing=True, plan=True)
    assert (change.action, change.detail) == ("start", "instance 2 of 2: it has ended")
    with pytest.raises(EngineError, match="generation 1 runs; `millrace teardown spark` first"):
        deploy(target, PATTERN, fresh=True)
    deploy(target, PATTERN)
    assert deployments.deployed(target, PATTERN)["spark"].generation == 1
    assert engine.jobs[job_id].is_whole
    engine.jobs[job_id] = Job("degraded", missing=1)
    teardown(target, PATTERN)
    assert not engine.is_up


def test_state_that_was_given_up_does_not_come_back_after_a_crash(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN)
    teardown(target, PATTERN)
    deploy(target, PATTERN)
    teardown(target, PATTERN)
    deploy(target, PATTERN, fresh=True)
    began = deployments.deployed(target, PATTERN)["spark"]
    engine.jobs.clear()  # before its first checkpoint
    deploy(target, PATTERN)
    deploy(target, PATTERN, only_missing=True)
    assert engine.states == [None, "of 1", None, None]
    assert (began.generation, began.since) == (3, 3)
    teardown(target, PATTERN)
    deploy(target, PATTERN)
    assert engine.states[-1] == "of 3"


@pytest.mark.parametrize("moment", ["before any job", "at the first job"])
@pytest.mark.parametrize("again", ["deploy", "watcher", "fresh"])
def test_state_that_was_given_up_does_not_come_back_after_a_fresh_start_that_was_killed(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch, moment: str, again: str
) -> None:
    engines = {"flink": engine, "spark": Engine()}
    monkeypatch.setattr(Target, "engine", lambda _, name: engines[name])
    deploy(target, "flink-spark")
    teardown(target, "flink-spark")
    want = deployments.want

    def killed(*given: Any) -> None:
        if moment == "before any job":
            want(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*((deployments, "want") if moment == "before any job" else (engine, "start")), killed)
        with pytest.raises(KeyboardInterrupt):
            deploy(target, "flink-spark", fresh=True)
    deploy(target, "flink-spark", only_missing=again == "watcher", fresh=again == "fresh")
    assert [each.states for each in engines.values()] == [[None, None]] * 2


def test_a_teardown_without_a_run_stops_all_jobs(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN, for_run=RUN)
    teardown(target, PATTERN)
    assert not engine.is_up


def test_the_topics_in_which_an_engine_keeps_state_are_removed_with_the_data(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(target, "streams-spark")
    store = SimpleNamespace(remove=lambda path, *, plan: Change("folder", str(path), "remove"))
    monkeypatch.setattr(Target, "hdfs", store)
    monkeypatch.setattr(Target, "hbase", SimpleNamespace(remove=lambda names, *, plan: []))
    removed: list[str] = []
    monkeypatch.setattr("millrace.stores.topics.remove", lambda _, names, *, plan: removed.extend(names) or [])
    engine.folder = target.settings.state / "of-the-engine"
    engine.folder.mkdir()
    changes = teardown(target, "streams-spark", data=True, plan=True)
    assert Change("folder", str(engine.folder), "remove") in changes
    assert engine.folder.exists(), "it is a plan"
    assert "streams-spark.alerts" in removed
    assert removed.count("streams-spark-memory-changelog") == 1
    assert "streams-spark-windows-changelog" not in removed


def test_what_ended_jobs_have_left_on_this_machine_is_removed_with_the_data(target: Target, engine: Engine) -> None:
    deploy(target, PATTERN)
    jobs = deployments.deployed(target, PATTERN).values()
    assert _remove_local_state(target, jobs, plan=False) == []
    engine.folder = target.settings.state / "of-the-engine"
    assert _remove_local_state(target, jobs, plan=False) == []
    (engine.folder / "1").mkdir(parents=True)
    (engine.folder / "1" / "rows").write_text("anna 100")
    assert len(_remove_local_state(target, jobs, plan=False)) == 1
    assert not engine.folder.exists()


def test_the_trial_of_a_killed_upgrade_is_ended_by_the_next_verb(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr("millrace.stores.topics.ensure", lambda _, wanted: [])
    monkeypatch.setattr("millrace.stores.topics.remove", lambda _, names: removed.extend(names) or [])
    monkeypatch.setattr(Target, "hdfs", SimpleNamespace(remove=removed.append))
    (running,) = deployments.plans(target, load(PATTERN))
    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            rehearsing.rehearse(target, running, running)
    (trial,) = engine.jobs
    assert trial != running.job_id
    removed.clear()
    teardown(target, PATTERN)
    assert engine.jobs == {}
    assert removed == ["/millrace/rehearsals/spark", "spark.rehearsal"]
    teardown(target, PATTERN)
    assert len(removed) == 2, "nothing is left to end"


class Away:
    """A store whose servers do not run."""

    def __getattr__(self, name: str) -> Any:
        raise InfraError("it does not answer")


def test_a_pattern_that_persists_nothing_needs_no_store(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "hdfs", Away())
    monkeypatch.setattr(Target, "hbase", Away())
    assert _ensure_stores(target, without_stores("flink"), plan=False) == []
    with pytest.raises(InfraError):
        _ensure_stores(target, load("flink"), plan=False)


def test_tables_of_an_earlier_pattern_are_looked_for_only_where_hbase_runs(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = SimpleNamespace(remove=lambda names, *, plan: [Change("table", name, "remove") for name in names])
    monkeypatch.setattr(Target, "hbase", removed)
    changes = _remove_tables(target, without_stores("flink"), (), plan=False)
    assert {each.name for each in changes} == {"flink.transactions", "flink.customers", "flink.forgotten"}
    monkeypatch.setattr(Target, "hbase", Away())
    changes = _remove_tables(target, without_stores("flink"), (), plan=False)
    assert {(each.action, each.detail) for each in changes} == {("keep", "not looked for: it does not answer")}
    with pytest.raises(InfraError):
        _remove_tables(target, load("flink"), (), plan=False)


def without_stores(name: str) -> Variant:
    variant = load(name)
    stages = variant.pattern.stages.model_copy(update={"persist": None})
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": stages}))


def test_two_jobs_share_the_time_that_a_deployment_has(
    target: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    for module in ("millrace.verbs.deploy", "millrace.machine.processes"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr(engine, "start", lambda plan, _: engine.jobs.update({plan.job_id: Job("starting")}))
    deploy(target, "flink-spark", wait=False)
    first, second = deployments.deployed(target, "flink-spark").values()

    def job(plan: EnginePlan) -> Job:
        is_first_done = plan == first and clock[0] > deploying.DEPLOY_WITHIN_S * 0.9
        return Job("running", checkpoints=1) if is_first_done else Job("starting")

    monkeypatch.setattr(engine, "job", job)
    with pytest.raises(EngineError, match=rf"{deployments.job_name(second)} was starting"):
        await_healthy(target, "flink-spark")
    assert clock[0] < deploying.DEPLOY_WITHIN_S + 1


@pytest.fixture
def lossy(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine whose job meets one gap, and a second one behind it."""
    gaps = (GAP, replace(GAP, wanted=7, first=9))

    def start(plan: EnginePlan, _: object) -> None:
        left = [gap for gap in gaps if gap not in plan.accepted and plan.accepted[-1:] != (gaps[1],)]
        failed = Job("failed", problem="lost", lost=tuple(left[:1]))
        engine.jobs[plan.job_id] = failed if left else Job("running", checkpoints=1)

    monkeypatch.setattr(engine, "start", start)
    return engine


def test_a_job_that_lost_messages_fails_the_deployment_and_is_not_restarted(target: Target, lossy: Engine) -> None:
    with pytest.raises(LostError, match="spark/spark generation 1 is failed: lost"):
        deploy(target, PATTERN)
    (change,) = deploy(target, PATTERN, only_missing=True, wait=False)
    assert (change.action, change.detail) == ("keep", "lost")
    assert deployments.losses(target, PATTERN) == {}


def test_every_loss_that_is_accepted_is_recorded_until_the_data_is_removed(target: Target, lossy: Engine) -> None:
    deploy(target, PATTERN, accept_loss=True)
    assert lossy.is_up
    assert [gap.first for gap in deployments.losses(target, PATTERN)["spark"]] == [5, 9]
    (plan,) = deployments.plans(target, load(PATTERN))
    assert [gap.first for gap in plan.accepted] == [9], "a reader is in one place of a partition only"
    assert plan.is_same_as(replace(plan, accepted=())), "what was accepted makes no other job"
    assert deployments.deployed(target, PATTERN)["spark"].accepted == plan.accepted
    teardown(target, PATTERN)
    assert deployments.losses(target, PATTERN)


def test_a_loss_is_accepted_only_with_the_option(target: Target, lossy: Engine) -> None:
    for _ in range(2):
        with pytest.raises(LostError):
            deploy(target, PATTERN)
    deploy(target, PATTERN, accept_loss=True)
    (change,) = deploy(target, PATTERN)
    assert change.action == "keep"
