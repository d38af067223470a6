"""What no deployment has brought leaves the verdict unknown: an edit, and an earlier version that is made up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace import deployments, kept, project
from millrace.job import Job
from millrace.machine.processes import wait_until
from millrace.patterns import EnginePlan, Stores, Variant, engine_plans, load
from millrace.patterns.model import AT_LEAST_ONCE
from millrace.rules import UseCase
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs.undeployed import undeployed, unrecorded
from millrace.verify import judge
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, START_MS, short_run
from tests.pipelines.segmented import Ledger
from tests.pipelines.test_segments import LIMITS, STREAM, live

NAME, TABLE = "flink", "table of transactions"
PLAN = plan_for(TRAFFIC, 400, 20, seed=3, name="p", customers=60, frauds=0.1, edges=0.1, races=0.02)
CUTS_MS = range(START_MS, START_MS + 60_000, 10_000)
Edit = Callable[[Any], Any]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {"KAFKA_BOOTSTRAP": "nowhere"})


def plans(variant: Variant) -> list[EnginePlan]:
    return engine_plans(variant, 3, "kafka:9092", "hdfs://h/c", Stores("hdfs://h", "hbase", 9090, ""), {"slots": "2"})


def deploy(target: Target, variant: Variant, change: Edit = lambda plan: plan) -> None:
    for plan in plans(variant):
        deployments.record(target, variant.name, change(plan))


def found(target: Target, variant: Variant) -> list[str]:
    in_force, away_ms = deployments.in_force(target, variant.name), deployments.away_ms(target, variant.name)
    return undeployed(target, variant, in_force, away_ms)


def with_stages(variant: Variant, **changed: Any) -> Variant:
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": stages(variant, **changed)}))


def stages(variant: Variant, **changed: Any) -> Any:
    return variant.pattern.stages.model_copy(update=changed)


def use(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> UseCase:
    """Let the project declare the use so."""
    monkeypatch.setitem(project.uses(), "fraud", replace(FRAUD, **changed))
    return project.uses()["fraud"]


def await_later() -> None:
    """Two deployments have two moments."""
    now_ms = time.time_ns() // 1_000_000
    assert wait_until(lambda: time.time_ns() // 1_000_000 > now_ms, within_s=5)


class TestEdits:
    def test_what_is_deployed_is_no_edit(self, target: Target) -> None:
        variant = load(NAME)
        assert found(target, variant) == [], "it was never deployed"
        deploy(target, variant)
        assert found(target, variant) == []

    def test_a_pattern_without_its_store_is_named(self, target: Target) -> None:
        variant = load(NAME)
        deploy(target, variant)
        texts = found(target, with_stages(variant, persist=None))
        assert {text.partition(" is deployed")[0] for text in texts} == {
            "'rows in hdfs'",
            "'rows in hbase'",
            *(f"'table of {table.name}'" for table in FRAUD.tables),
        }
        remedy = "take the edit back, or run `millrace teardown flink`, then `millrace deploy flink`"
        assert all(text.endswith(remedy) for text in texts)

    def test_another_guarantee_is_named(self, target: Target) -> None:
        variant = load("storm-exactly-once")
        deploy(target, variant)
        promises = variant.pattern.promises.model_copy(update={"delivery": AT_LEAST_ONCE})
        edited = replace(variant, pattern=variant.pattern.model_copy(update={"promises": promises}))
        assert {text.partition(";")[0] for text in found(target, edited)} == {
            f"'delivery' is deployed as {variant.pattern.promises.delivery}, and declared as {AT_LEAST_ONCE}"
        }

    @pytest.mark.parametrize(
        ("name", "changed"),
        [
            ("limits", {"disorder_ms": FRAUD.disorder_ms // 2}),
            (TABLE, {"tables": FRAUD.tables[1:]}),
            ("table of customers", {"tables": tuple(replace(each, alerts=False) for each in FRAUD.tables)}),
        ],
    )
    def test_another_declaration_of_the_use_is_named(
        self, target: Target, monkeypatch: pytest.MonkeyPatch, name: str, changed: dict[str, Any]
    ) -> None:
        variant = load(NAME)
        deploy(target, variant)
        use(monkeypatch, canaries=None, **changed)
        assert found(target, variant) != []
        assert all(name in text for text in found(target, variant))
        deploy(target, variant)
        assert found(target, variant) == []

    def test_a_stage_on_another_engine_is_named(self, target: Target) -> None:
        variant = load(NAME)
        deploy(target, variant)
        elsewhere = variant.pattern.stages.windowing.model_copy(update={"engine": "streams"})
        texts = found(target, with_stages(variant, windows=elsewhere))
        assert any(text.startswith("a job of streams is declared, and none is deployed") for text in texts)

    def test_what_decides_no_verdict_is_no_edit(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        variant = load(NAME)
        deploy(target, variant)
        pattern = variant.pattern
        promises = pattern.promises.model_copy(update={"alert_latency_ms_p99": 7})
        events = pattern.stages.events.model_copy(update={"parallelism": 7})
        changed = {"retention_hours": 1, "promises": promises, "stages": stages(variant, events=events)}
        use(
            monkeypatch, tables=tuple(each if each.state else replace(each, retention_hours=9) for each in FRAUD.tables)
        )
        assert found(target, replace(variant, pattern=pattern.model_copy(update=changed))) == []

    def test_a_plan_of_an_earlier_version_of_the_library_is_no_edit(self, target: Target) -> None:
        variant = load(NAME)

        def older(plan: EnginePlan) -> EnginePlan:
            names = plan.versions.keys() - {"limits", "enrichment"}
            return replace(plan, tables={}, versions={name: plan.versions[name] for name in names})

        deploy(target, variant, older)
        assert found(target, variant) == []

    def test_an_engine_whose_work_others_do_is_no_edit(self, target: Target) -> None:
        """After a teardown its plan stays recorded."""
        variant = load(NAME)
        deploy(target, variant)
        deployments.record(target, NAME, replace(plans(variant)[1], engine="streams"))
        assert found(target, variant) == []


class TestLostRecord:
    LACKS = "the record of what is deployed, is missing; restore it, or run `millrace deploy flink`"

    def test_a_pattern_whose_plans_were_removed_is_named(self, target: Target) -> None:
        variant, file = load(NAME), deployments.deployed_file(target, NAME)
        deploy(target, variant)
        (file.with_suffix(".declared") / "copy").mkdir(parents=True)
        assert found(target, variant) == []
        for content in (None, "{}"):
            file.unlink() if content is None else file.write_text(content)
            without = with_stages(variant, persist=None)
            assert [*found(target, without), *unrecorded(target, without, {}, {})] == [f"{file}, {self.LACKS}"] * 2
        deployments.forget(target, NAME)
        assert found(target, variant) == []

    @pytest.mark.parametrize("mark", [".wanted", ".declared", ".upgrade", ".past", ".replaced", ".memories"])
    def test_each_trace_of_a_deployment_shows_it(self, target: Target, mark: str) -> None:
        variant, file = load(NAME), deployments.deployed_file(target, NAME).with_suffix(mark)
        (file / "copy").mkdir(parents=True) if mark == ".declared" else file.write_text(
            "{}" if mark == ".memories" else "[]"
        )
        assert len(found(target, variant)) == 1

    def test_a_first_deployment_that_is_under_way_is_none(self, target: Target) -> None:
        variant = load(NAME)
        with deployments.alone(target, NAME):
            deployments.want(target, NAME, "")
            assert found(target, variant) == []
        assert len(found(target, variant)) == 1, "it was interrupted, and has no job"
        deploy(target, variant)
        assert found(target, variant) == []


class TestEngines:
    """Which engines a pattern has changes with a deployment; the plans of others stay recorded, for what they left."""

    @pytest.fixture
    def up(self, monkeypatch: pytest.MonkeyPatch) -> set[str]:
        """The engines whose jobs run."""
        found = set[str]()

        def engine(_: Target, name: str) -> Any:
            return SimpleNamespace(job=lambda plan: Job("running" if name in found else "stopped"))

        monkeypatch.setattr(Target, "engine", engine)
        return found

    def deploy(self, target: Target, monkeypatch: pytest.MonkeyPatch, variant: Variant, *engines: str) -> None:
        monkeypatch.setattr(deployments, "load", lambda name: variant)
        content = variant.pattern.use, variant.pattern.model_dump_json()
        copy = kept.place(deployments.deployed_file(target, variant.name).with_suffix(".declared"), *content)
        kept.make(copy, *content)
        for plan in plans(variant):
            if not engines or plan.engine in engines:
                deployments.record(target, variant.name, replace(plan, declared=str(copy)))
        await_later()

    @pytest.fixture
    def apart(self) -> Variant:
        return load("flink-spark")

    @pytest.fixture
    def alone(self, apart: Variant) -> Variant:
        """The same without Spark: no store, and no summary."""
        own = load(NAME).pattern.stages
        windows = own.windowing.model_copy(update={"engine": "flink", "summaries": ()})
        return with_stages(apart, windows=windows, persist=None)

    def test_one_that_the_pattern_no_longer_has_is_over_with_its_deployment(
        self, target: Target, monkeypatch: pytest.MonkeyPatch, up: set[str], apart: Variant, alone: Variant
    ) -> None:
        self.deploy(target, monkeypatch, apart)
        assert any("'rows in hdfs' is deployed" in each for each in found(target, alone)), "an edit"
        self.deploy(target, monkeypatch, alone)
        assert found(target, alone) == []
        (name,) = apart.pattern.stages.windowing.summaries
        in_force = deployments.in_force(target, apart.name)
        assert [version for version, _ in in_force[name].past] == [FRAUD.summary(name).version]
        assert in_force.keys() == {name, *(f"table of {table.name}" for table in FRAUD.tables)}, "rules have moved"
        assert deployments.deployed(target, apart.name).keys() == {"flink", "spark"}
        self.deploy(target, monkeypatch, apart)
        assert found(target, apart) == []
        versions = [version for version, _ in deployments.in_force(target, apart.name)[name].past]
        assert versions == [FRAUD.summary(name).version, None]

    def test_one_whose_job_runs_or_whose_restart_comes_from_the_record_is_not_over(
        self, target: Target, monkeypatch: pytest.MonkeyPatch, up: set[str], apart: Variant, alone: Variant
    ) -> None:
        self.deploy(target, monkeypatch, apart)
        monkeypatch.setattr(deployments, "load", lambda name: alone)
        for plan in deployments.deployed(target, apart.name).values():
            deployments.record(target, apart.name, plan)
        assert found(target, apart) == []
        up.add("spark")
        self.deploy(target, monkeypatch, alone)
        assert any("'rows in hdfs' is deployed" in each for each in found(target, alone))
        assert deployments.in_force(target, apart.name) == {}
        up.clear()
        self.deploy(target, monkeypatch, alone)
        assert found(target, alone) == []


class TestEarlierVersions:
    def past(self, target: Target) -> list[dict[str, Any]]:
        file = deployments.deployed_file(target, NAME).with_suffix(".past")
        return list(json.loads(file.read_text())) if file.exists() else []

    def keep(self, target: Target, past: list[dict[str, Any]]) -> None:
        deployments.write_json(deployments.deployed_file(target, NAME).with_suffix(".past"), past)

    def changed(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> Variant:
        """The pattern after its tables, its limits and then a rule were changed and deployed."""
        variant = load(NAME)
        deploy(target, variant)
        tables = tuple(replace(each, alerts=False) for each in FRAUD.tables)
        use(monkeypatch, canaries=None, tables=tables, disorder_ms=FRAUD.disorder_ms + 1)
        deploy(target, variant)
        await_later()
        deploy(target, variant, lambda plan: replace(plan, versions={**plan.versions}, partitions=9))
        return variant

    def test_what_was_deployed_is_recorded(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        variant = self.changed(target, monkeypatch)
        assert {each["name"] for each in self.past(target)} == {"limits", "table of customers"}
        assert [each for each in found(target, variant) if "until" in each] == []

    def test_a_rule_that_came_and_went_is_recorded(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        variant = load(NAME)
        events = variant.pattern.stages.events
        without = with_stages(variant, events=events.model_copy(update={"rules": events.rules[:-1]}))
        for each in (without, variant, without, variant):
            deploy(target, each)
            await_later()
        assert [each["version"] is None for each in self.past(target)] == [True, False, True]
        assert found(target, variant) == []

    @pytest.mark.parametrize("name", [TABLE, "spend-per-minute", "enrichment", "spree"])
    @pytest.mark.parametrize("version", ["x", None])
    @pytest.mark.parametrize("is_at_a_change", [False, True])
    def test_a_version_that_nothing_had_is_named(
        self, target: Target, monkeypatch: pytest.MonkeyPatch, name: str, version: str | None, is_at_a_change: bool
    ) -> None:
        variant = self.changed(target, monkeypatch)
        own = self.past(target)
        until_ms = own[0]["until_ms"] if is_at_a_change else int(time.time() * 1000)
        self.keep(target, [*own, {"name": name, "version": version, "until_ms": until_ms}])
        (text,) = [each for each in found(target, variant) if "until" in each]
        assert f"'{name}'" in text
        assert str(until_ms) in text

    def test_a_version_that_did_not_end_with_a_change_is_named(
        self, target: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        variant = self.changed(target, monkeypatch)
        own = self.past(target)
        for name, version in (
            (TABLE, plans(variant)[1].tables["transactions"]),
            ("spree", FRAUD.rule("spree").version),
        ):
            for until_ms in {each["until_ms"] for each in own}:
                self.keep(target, [*own, {"name": name, "version": version, "until_ms": until_ms}])
                assert len([each for each in found(target, variant) if f"'{name}'" in each]) == 1

    def test_a_deployment_that_was_killed_while_it_was_recorded_and_repeated_is_recorded(
        self, target: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        variant, file = load(NAME), deployments.deployed_file(target, NAME)
        deploy(target, variant)
        before = file.read_text()
        use(monkeypatch, canaries=None, disorder_ms=FRAUD.disorder_ms + 1)
        deployments.record(target, NAME, plans(variant)[0])
        file.write_text(before)
        assert [each for each in found(target, variant) if "until" in each] != []
        with deployments.alone(target, NAME):
            assert [each for each in found(target, variant) if "until" in each] == [], "it is being recorded"
        await_later()
        deploy(target, variant)
        assert found(target, variant) == []

    def test_a_later_end_of_a_version_is_named(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        variant = self.changed(target, monkeypatch)
        own = self.past(target)
        self.keep(target, [{**each, "until_ms": each["until_ms"] + 1_000} for each in own])
        assert len([each for each in found(target, variant) if "until" in each]) == len(own)

    def test_what_ended_before_all_that_topics_keep_is_not_looked_for(self, target: Target) -> None:
        variant = load(NAME)
        deploy(target, variant)
        until_ms = int(time.time() * 1000) - variant.pattern.retention_hours * 3_600_000 - 1
        self.keep(target, [{"name": TABLE, "version": "x", "until_ms": until_ms}])
        assert found(target, variant) == []

    def test_a_damaged_record_is_named(self, target: Target) -> None:
        variant = load(NAME)
        deploy(target, variant)
        self.keep(target, [{"name": TABLE, "version": "x", "until_ms": int(time.time() * 1000)}])
        file = deployments.deployed_file(target, NAME).with_suffix(".replaced")
        file.write_text('[{"na')
        (text,) = found(target, variant)
        assert text.startswith(f"{file} is damaged (")


NEWEST, PREVIOUS = "max(transactions.at_ms)", "max(transactions.amount_cents)"
HOUR_MS = 3_600_000
HOURS_AGO = [time.time_ns() // 1_000_000 - hours * HOUR_MS for hours in (3, 2, 1)]
FIRST, SECOND, THIRD = HOURS_AGO


class TestMemories:
    def changed(self, target: Target, **plan: Any) -> Variant:
        """The pattern after a rule came, went and came again."""
        variant, file = load(NAME), deployments.deployed_file(target, NAME)
        events = variant.pattern.stages.events
        without = with_stages(variant, events=events.model_copy(update={"rules": events.rules[:-1]}))
        for each in (without, variant, without, variant):
            deploy(target, each, lambda own: replace(own, **{"declared": "gone", **plan}))
        replaced = json.loads(file.with_suffix(".replaced").read_text())
        moved = [{**each, "until_ms": at_ms} for each, at_ms in zip(replaced, HOURS_AGO, strict=True)]
        deployments.write_json(file.with_suffix(".replaced"), moved)
        file.with_suffix(".past").unlink()
        return variant

    def found(self, target: Target, variant: Variant, spans: list[tuple[int, int | None]], name: str) -> list[str]:
        deployments.write_json(deployments.deployed_file(target, NAME).with_suffix(".memories"), {name: spans})
        return found(target, variant)

    @pytest.mark.parametrize(
        "spans",
        [
            [(0, FIRST), (SECOND, THIRD)],
            [(SECOND, THIRD)],
            [(0, FIRST), (SECOND, None)],
            [(0, FIRST + 50_000), (SECOND + 900, THIRD + 900)],
            [(0, FIRST - 20 * HOUR_MS)],
        ],
        ids=["both", "the second", "away now", "noted a little later", "an older one"],
    )
    def test_a_memory_that_no_plan_had_was_away(self, target: Target, spans: list[tuple[int, int | None]]) -> None:
        assert self.found(target, self.changed(target), spans, NEWEST) == []

    @pytest.mark.parametrize(
        "span",
        [
            (0, FIRST + 61_000),
            (0, THIRD),
            (FIRST, SECOND),
            (SECOND - 1, THIRD),
            (THIRD + 61_000, THIRD + 61_009),
            (SECOND, 2**42),
        ],
    )
    def test_a_memory_that_a_plan_had_was_not_away(self, target: Target, span: tuple[int, int]) -> None:
        (text,) = self.found(target, self.changed(target), [span], NEWEST)
        assert f"'{NEWEST}'" in text
        assert text.endswith(("which is still to come", "had it meanwhile"))

    @pytest.mark.parametrize("span", [(0, 2**42), (0, THIRD), (SECOND, THIRD), (FIRST - 9, FIRST - 8)])
    def test_a_memory_that_every_plan_had_was_never_away(self, target: Target, span: tuple[int, int]) -> None:
        variant = self.changed(target)
        assert len(self.found(target, variant, [span], PREVIOUS)) == 1
        away_ms = deployments.away_ms(target, NAME)
        assert len([*unrecorded(target, variant, {}, away_ms)]) == 1, "a ledger reads the same"

    def test_plans_from_before_copies_show_no_memory(self, target: Target) -> None:
        assert self.found(target, self.changed(target, declared=""), [(0, THIRD)], PREVIOUS) == []

    def test_a_copy_that_was_altered_shows_no_memory(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        variant = self.changed(target)
        use(monkeypatch, canaries=None, rules=FRAUD.rules[1:])
        (text,) = [each for each in self.found(target, variant, [(0, FIRST)], NEWEST) if "as a memory" in each]
        assert "and nothing shows what" in text
        monkeypatch.setattr(kept, "is_whole", lambda _: True)
        assert [each for each in found(target, variant) if "as a memory" in each] == [], "only this library refuses it"


def test_the_verdict_and_each_segment_are_unknown() -> None:
    run = live(short_run(PLAN))
    assert judge(QUESTION, short_run(PLAN)).status == "ok"
    check = judge(replace(QUESTION, undeployed=["a", "b"]), short_run(PLAN)).check("declarations")
    assert (check.status, check.why, check.offenders) == ("unknown", "a; b", ("a", "b"))
    segments = Ledger(replace(STREAM, undeployed=["a"]), run, LIMITS).through(CUTS_MS)
    assert {segment.status for segment in segments} == {"unknown"}
