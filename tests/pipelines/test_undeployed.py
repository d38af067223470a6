"""What no deployment has brought leaves the verdict unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import deployments, project
from millrace.patterns import EnginePlan, Stores, Variant, engine_plans, load
from millrace.patterns.model import AT_LEAST_ONCE
from millrace.rules import UseCase
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs.undeployed import undeployed
from millrace.verify import judge
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, short_run

NAME, TABLE = "flink", "table of transactions"
PLAN = plan_for(TRAFFIC, 400, 20, seed=3, name="p", customers=60, frauds=0.1, edges=0.1, races=0.02)
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
    return [*undeployed(target, variant)]


def with_stages(variant: Variant, **changed: Any) -> Variant:
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": stages(variant, **changed)}))


def stages(variant: Variant, **changed: Any) -> Any:
    return variant.pattern.stages.model_copy(update=changed)


def use(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> UseCase:
    """Let the project declare the use so."""
    monkeypatch.setitem(project.uses(), "fraud", replace(FRAUD, **changed))
    return project.uses()["fraud"]


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
        assert all(text.endswith("take the edit back, or run `millrace teardown flink --data`") for text in texts)

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


def test_the_verdict_is_unknown() -> None:
    assert judge(QUESTION, short_run(PLAN)).status == "ok"
    check = judge(replace(QUESTION, undeployed=["a", "b"]), short_run(PLAN)).check("declarations")
    assert (check.status, check.why, check.offenders) == ("unknown", "a; b", ("a", "b"))
