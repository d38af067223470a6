"""What `deploy --plan` lists of a declaration that was edited since it was deployed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from millrace import deployments, kept, project
from millrace.cli.changes import difference
from millrace.errors import InfraError
from millrace.patterns import load
from millrace.settings import PROJECT, Settings
from millrace.target import Target
from millrace.verbs.deploy import deploy
from millrace.verbs.meaning import Meaning, meaning
from tests.infra.conftest import Millrace
from tests.infra.test_lifecycle import Engine
from tests.patterns import own_patterns

PATTERN = "flink"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(Target, "engine", lambda *_: engine)
    monkeypatch.setattr("millrace.verbs.deploy.require_provisioned", lambda *_: None)
    monkeypatch.setattr("millrace.verbs.deploy.require_contracts_and_stores", lambda *_: None)
    monkeypatch.setattr("millrace.stores.topics.committed", lambda *_: {"flink.transactions": {1: 1300, 0: 1234}})
    return engine


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path / "state")}), {})


class Project:
    """A project with the use `fraud` that may be edited; what it declares now is what its files hold."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.top, self._patch = top, monkeypatch
        shutil.copytree(PROJECT / "pipelines", top, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(project, "code", lambda use: project.Code(f"pipelines.{use}", top))

    def edit(self, file: str, before: str, after: str) -> None:
        path = self.top / "fraud" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, (file, before, text.count(before))
        path.write_text(text.replace(before, after), encoding="utf-8")
        at = kept.place(self.top.parent, "fraud", "{}")
        kept.make(at, "fraud", "{}")
        self._patch.setitem(project.uses(), "fraud", kept.use_of(str(at), "fraud"))
        shutil.rmtree(at)


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path / "pipelines", monkeypatch)


def planned(target: Target, pattern: str = PATTERN, **options: bool) -> list[Meaning]:
    return meaning(target, pattern, deploy(target, pattern, plan=True, **options), **options)


def rows(found: Meaning) -> list[tuple[str, ...]]:
    return [(each.action, each.kind, each.name, difference(each)) for each in found.changes]


def test_before_the_first_deployment_and_without_an_edit_nothing_changes_in_meaning(
    target: Target, engine: Engine, declared: Project
) -> None:
    assert planned(target) == []
    deploy(target, PATTERN)
    assert planned(target) == []
    engine.jobs.clear()
    assert planned(target) == [], "it starts again as it was"


def test_a_changed_threshold_is_listed_with_both_versions_and_the_offsets(
    target: Target, engine: Engine, declared: Project
) -> None:
    deploy(target, PATTERN)
    old = load(PATTERN).use.rule("spree")
    declared.edit("rules.py", "before.other_merchants >= 4", "before.other_merchants >= 3")
    new = load(PATTERN).use.rule("spree")
    (found,) = planned(target)
    assert rows(found) == [
        ("change", "rule", "spree", f"version: {old.version} -> {new.version}"),
        ("change", "rule", "spree", f"alert_when: {old.expression()} -> {new.expression()}"),
    ]
    assert (found.job, found.since) == ("flink/flink generation 2", "from where flink/flink generation 1 stops")
    assert found.offsets == {"flink.transactions": {0: 1234, 1: 1300}}
    restarted = deploy(target, PATTERN, plan=True, only_missing=True)
    assert {change.action for change in restarted} == {"keep"}, "`reconcile` runs what was deployed"
    deploy(target, PATTERN)
    assert planned(target) == []


@pytest.mark.parametrize(
    ("file", "before", "after", "listed"),
    [
        (
            "rules.py",
            "window=Session(gap_ms=BURST_GAP_MS)",
            "window=Session(gap_ms=20_000)",
            ("rule", "burst", "window: Session(gap_ms=10000) -> Session(gap_ms=20000)"),
        ),
        (
            "rules.py",
            '"total_cents": Sum("amount_cents"), "largest_cents": Max("amount_cents")}',
            '"total_cents": Sum("amount_cents")}',
            ("summary", "spend-per-minute", "measures.largest_cents: Max(field='amount_cents') -> none"),
        ),
        (
            "rules.py",
            "within_ms=2 * MINUTE_MS",
            "within_ms=3 * MINUTE_MS",
            (
                "rule",
                "spree",
                "remembers.other_merchants: others(transactions.merchant,120000) "
                "-> others(transactions.merchant,180000)",
            ),
        ),
        (
            "rules.py",
            '        "phone_at_ms": lambda now, before: before.phone.at_ms,\n',
            '        "phone_at_ms": lambda now, before: before.phone.at_ms + 1,\n',
            ("enrichment", "fraud", "adds.phone_at_ms: before.phone_at_ms -> before.phone_at_ms + 1"),
        ),
        (
            "events.py",
            "most=1_000_000_00",
            "most=2_000_000_00",
            ("limits", "transactions", "amount_cents.most: 100000000 -> 200000000"),
        ),
        (
            "__init__.py",
            "    judged=transactions,",
            "    judged=transactions,\n    disorder_ms=9_000,",
            ("limits", "fraud", "disorder_ms: 5000 -> 9000"),
        ),
    ],
    ids=["window", "measure", "memory", "enrichment", "limit", "disorder"],
)
def test_each_kind_of_field_is_listed_as_it_was_and_as_it_is(
    target: Target,
    engine: Engine,
    declared: Project,
    file: str,
    before: str,
    after: str,
    listed: tuple[str, ...],
) -> None:
    deploy(target, PATTERN)
    declared.edit(file, before, after)
    found = planned(target)[0]
    assert [row for row in rows(found) if "version: " not in row[3]] == [("change", *listed)]
    assert any(each.field == "version" and each.old and each.new for each in found.changes)


def test_a_rule_that_the_pattern_adds_or_drops_is_listed_with_its_condition(
    target: Target, engine: Engine, declared: Project, tmp_path: Path
) -> None:
    fewer = {"events": {"engine": "flink", "rules": ["above-previous-max", "away-from-phone", "burst-at-once"]}}
    (tmp_path / "own").mkdir()
    deploy(target, PATTERN)
    with own_patterns(tmp_path / "own", {PATTERN: {"of": PATTERN, "stages": fewer}}):
        (dropped,) = planned(target)
        deploy(target, PATTERN)
    condition = f"alert_when: {load(PATTERN).use.rule('spree').expression()}"
    assert ("remove", "rule", "spree", condition) in rows(dropped)
    assert ("create", "rule", "spree", condition) in rows(planned(target)[0])


def test_what_a_pattern_has_of_its_job_is_listed(
    target: Target, engine: Engine, declared: Project, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    deploy(target, PATTERN)
    stages = {"events": {**load(PATTERN).pattern.model_dump(mode="json")["stages"]["events"], "parallelism": 2}}
    with own_patterns(tmp_path / "own", {PATTERN: {"of": PATTERN, "stages": stages}}):
        assert ("change", "job", "flink/flink", "parallelism: 1 -> 2") in rows(planned(target)[0])


def test_a_job_that_does_not_run_continues_from_its_newest_state_and_a_fresh_one_from_none(
    target: Target, engine: Engine, declared: Project
) -> None:
    deploy(target, PATTERN)
    declared.edit("rules.py", "before.other_merchants >= 4", "before.other_merchants >= 3")
    engine.jobs.clear()
    assert planned(target)[0].since == "from the newest savepoint or checkpoint"
    (fresh,) = planned(target, fresh=True)
    assert (fresh.since, fresh.offsets) == ("without earlier state", {})


def test_a_fresh_job_of_an_engine_that_keeps_its_state_continues_from_it(
    target: Target, engine: Engine, declared: Project
) -> None:
    deploy(target, "streams")
    declared.edit("rules.py", "before.other_merchants >= 4", "before.other_merchants >= 3")
    engine.jobs.clear()
    assert [each.since for each in planned(target, "streams", fresh=True)] == [
        "from the newest savepoint or checkpoint"
    ]


def test_where_the_deployed_declarations_are_not_kept_or_kafka_is_away_versions_remain(
    target: Target, engine: Engine, declared: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise InfraError("Kafka at 127.0.0.1:1 refuses connections")

    deploy(target, PATTERN)
    shutil.rmtree(deployments._copies(target, PATTERN))
    declared.edit("rules.py", "before.other_merchants >= 4", "before.other_merchants >= 3")
    monkeypatch.setattr("millrace.stores.topics.committed", away)
    (found,) = planned(target)
    assert [each.field for each in found.changes] == ["version"]
    assert found.note == (
        "the deployed declarations cannot be read: only versions are compared; the committed offsets could not be "
        "read: Kafka at 127.0.0.1:1 refuses connections"
    )


def test_the_command_prints_it_in_words_and_as_json_and_ends_with_three(
    millrace: Millrace, engine: Engine, declared: Project, tmp_path: Path
) -> None:
    assert millrace(tmp_path, "deploy", PATTERN).returncode == 0
    assert millrace(tmp_path, "deploy", PATTERN, "--plan").returncode == 0
    declared.edit("events.py", 'Text("merchant"),\n        Whole', 'Text("merchant", "[A-Z]+"),\n        Whole')
    done = millrace(tmp_path, "deploy", PATTERN, "--plan")
    lines = done.stdout.splitlines()
    assert done.returncode == 3
    assert sum("merchant.pattern: " in line and line.endswith("-> [A-Z]+") for line in lines) == 1, "once for two jobs"
    assert (
        "since\tjob\tflink/flink generation 2\tfrom where flink/flink generation 1 stops; committed now: "
        "flink.transactions 0: 1234, 1: 1300"
    ) in lines
    done = millrace(tmp_path, "deploy", PATTERN, "--plan", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 3
    assert [each["job"] for each in answer["meaning"]] == [change["name"] for change in answer["changes"]]
    (limit,) = [each for each in answer["meaning"][0]["changes"] if each["field"] == "merchant.pattern"]
    assert (limit["kind"], limit["name"], limit["new"]) == ("limits", "transactions", "[A-Z]+")
    assert answer["meaning"][0]["offsets"] == {"flink.transactions": {"0": 1234, "1": 1300}}
