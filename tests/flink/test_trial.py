"""What a trial before an upgrade refuses, by the vertices of the running job and of the trial; without servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace import kernel
from millrace.engines.flink.engine import Flink
from millrace.engines.flink.tuning import IGNORE_UNCLAIMED
from millrace.job import EngineError, Job
from millrace.patterns import EnginePlan, Stores, engine_plans, load
from millrace.rules import LIMITS
from millrace.settings import Settings
from millrace.stores.files import Hdfs

RUNNING = engine_plans(load("flink"), 1, "kafka:9092", "hdfs://store/c", Stores("", "", 0, ""))[0]
TRIAL = replace(RUNNING, pattern="flink-rehearsal")
EDGES = {
    "76": "Source: default_catalog.default_database.arrivals<br/>+- [5]:Correlate(invocation=[look_up(...)])",
    "fc": "alerts[29]: Writer<br/>+- alerts[29]: Committer",
}
MEMORY = {"ee": "[8]:ProcessTableFunction(invocation=[remember(...)])<br/>:- [64]:LocalWindowAggregate(select=[...])"}
BURST = {"7e": "[26]:WindowAggregate(groupBy=[card])<br/>+- [27]:Calc(select=['burst' AS EXPR$1, 'a0' AS EXPR$2])"}
SPEND = {"94": "[66]:GlobalWindowAggregate(select=[...])<br/>+- [67]:Calc(select=['spend-per-minute' AS EXPR$0])"}
ALL = EDGES | MEMORY | BURST | SPEND


def other(*names: str) -> dict[str, str]:
    """Versions in which these rules have changed."""
    assert set(names) <= RUNNING.versions.keys()
    return {name: "other" if name in names else own for name, own in RUNNING.versions.items()}


@pytest.fixture
def flink(monkeypatch: pytest.MonkeyPatch) -> Flink:
    """A cluster on which every trial runs."""
    for verb in ("start", "discard"):
        monkeypatch.setattr(Flink, verb, lambda *_: None)
    monkeypatch.setattr(Flink, "_savepoint", lambda *_: "hdfs://store/s")
    monkeypatch.setattr(Flink, "job", lambda *_: Job("running", checkpoints=1))
    return a_flink(Path())


def a_flink(home: Path, jar: Path = Path("kernel.jar")) -> Flink:
    files = SimpleNamespace(remove=lambda *_: None)
    return Flink(Settings.read({}), "", cast(Hdfs, files), Path(), home, lambda: jar)


def tried(flink: Flink, monkeypatch: pytest.MonkeyPatch, changed: Iterable[str], vertices: Mapping[str, str]) -> None:
    wanted = replace(TRIAL, versions=other(*changed))
    shown = {RUNNING.job_id: ALL, wanted.job_id: vertices}

    def get(_: Flink, path: str) -> Any:
        nodes = shown[path.removeprefix("/jobs/")].items()
        return {"plan": {"nodes": [{"id": each, "description": text} for each, text in nodes]}}

    monkeypatch.setattr(Flink, "_get", get)
    flink.rehearse(RUNNING, wanted)


@pytest.mark.parametrize(
    ("changed", "vertices"),
    [
        ([], ALL),
        (["spree"], ALL),
        (["burst"], ALL),
        (["burst"], EDGES | MEMORY | SPEND),
        (["burst", "spend-per-minute"], EDGES | MEMORY | {"8a": BURST["7e"]}),
        (["spree"], BURST | SPEND | {"77": "another source", "ee": MEMORY["ee"]}),
        (["spree", "above-previous-max"], EDGES | BURST | SPEND),
    ],
    ids=["nothing", "a rule", "its condition", "its window", "two windows", "edges", "no memory is needed"],
)
def test_the_state_of_what_changed_may_be_dropped(
    flink: Flink, monkeypatch: pytest.MonkeyPatch, changed: list[str], vertices: Mapping[str, str]
) -> None:
    tried(flink, monkeypatch, changed, vertices)


@pytest.mark.parametrize(
    ("changed", "vertices", "lost"),
    [
        (["spree"], EDGES | MEMORY | SPEND, "burst"),
        (["spend-per-minute"], EDGES | MEMORY | SPEND, "burst"),
        (["burst"], EDGES | MEMORY | {"8a": BURST["7e"], "95": SPEND["94"]}, "spend-per-minute"),
        (["spree"], EDGES | {"ef": MEMORY["ee"]} | BURST | SPEND, "the memory of the per-event rules"),
    ],
    ids=["a window", "not its own window", "another window too", "the memory"],
)
def test_the_state_of_a_rule_that_stays_is_never_dropped_though_another_changed(
    flink: Flink, monkeypatch: pytest.MonkeyPatch, changed: list[str], vertices: Mapping[str, str], lost: str
) -> None:
    with pytest.raises(EngineError, match=f"the state of {lost} would be dropped, though only {changed[0]} changed"):
        tried(flink, monkeypatch, changed, vertices)


def test_a_window_without_a_name_is_nobodys_to_drop(flink: Flink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALL, "7e", BURST["7e"].replace("'burst'", "..."))
    with pytest.raises(EngineError, match="the state of a window would be dropped"):
        tried(flink, monkeypatch, ["burst"], EDGES | MEMORY | SPEND)


def test_without_a_change_flink_itself_refuses_to_drop_state(flink: Flink, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[EnginePlan] = []
    monkeypatch.setattr(Flink, "start", lambda _, plan, state: started.append(plan))
    tried(flink, monkeypatch, [LIMITS], ALL)
    tried(flink, monkeypatch, ["spree"], ALL)
    assert [plan.options.get(IGNORE_UNCLAIMED) for plan in started] == ["false", None]


def test_another_kernel_than_that_of_the_cluster_is_refused_before_a_job_is_stopped(tmp_path: Path) -> None:
    old, new, library = (tmp_path / name for name in ("old", "new", "lib"))
    for folder in (old, new, library):
        folder.mkdir()
        (folder / kernel.JAR).touch()
    assert a_flink(tmp_path / "elsewhere", new / kernel.JAR).refusal(TRIAL) == "", "a cluster that others run"
    (library / kernel.JAR).unlink()
    (library / kernel.JAR).symlink_to(old / kernel.JAR)
    assert a_flink(tmp_path, old / kernel.JAR).refusal(TRIAL) == ""
    flink = a_flink(tmp_path, new / kernel.JAR)
    assert flink.refusal(TRIAL).startswith("Flink was started with another build of the kernel than the one that is")
    with pytest.raises(EngineError, match="`millrace restart flink` and then `millrace reconcile`"):
        flink.start(TRIAL, None)
