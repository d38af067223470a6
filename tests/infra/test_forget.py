"""What `forget` names of a key that stays, and until when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.cli.app import run
from millrace.errors import UsageError
from millrace.patterns import backfills, load
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import forget
from millrace.verbs.forget import Gone

REMOVED = "until `millrace teardown {} --data` removes all of it"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})


def test_what_stays_of_a_key_is_named_and_until_when(target: Target) -> None:
    found = forget.kept(target, load("flink-spark"), "customer")
    (topics,) = [until for what, until in found.items() if what.startswith("the topics flink-spark.transactions, ")]
    assert topics == "each message for about 24 hours"
    reference = found["the old message in flink-spark.customers"]
    assert reference == "until Kafka compacts it, after 24 hours at the earliest"
    assert not any("customers" in what for what in found if what.startswith("the topics"))
    marks = "the topic flink-spark.dispositions, if a note there names the key"
    for what in ("the Parquet files in /millrace/data/flink-spark", "the state and the checkpoints of the jobs", marks):
        assert found[what] == REMOVED.format("flink-spark")


def test_a_pattern_without_files_names_none(target: Target) -> None:
    assert not any("Parquet" in what for what in forget.kept(target, load("storm"), "customer"))


def test_the_verb_prints_what_stays(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    gone = Gone("customer", 1, {"transactions": 2}, (), {"the topics a, b": "each message for about 24 hours"})
    monkeypatch.setattr(forget, "forget", lambda *_, **__: gone)
    monkeypatch.setattr(Target, "read", lambda *_: None)
    run(["forget", "flink", "anna", "--yes"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "flink: customer anna is forgotten in these; it is still in",
        "  the topics a, b: each message for about 24 hours",
    ]
    run(["forget", "flink", "anna", "--yes", "--json"])
    assert json.loads(capsys.readouterr().out)["kept"] == gone.kept


@pytest.fixture
def june(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backfill of flink-spark."""
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    backfills.keep("june", "flink-spark", "log.jsonl", load("flink-spark").pattern.model_dump(mode="json"))


def test_a_key_is_forgotten_of_a_backfill_by_its_name(
    june: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    monkeypatch.setattr(
        forget, "forget", lambda _, name, key, **__: asked.append(name) or Gone("customer", 1, {}, (), {})
    )
    assert run(["forget", "june", "anna", "--yes", "--json"]) == 0
    assert (asked, json.loads(capsys.readouterr().out)["pattern"]) == (["june"], "june")
    with pytest.raises(UsageError, match="there is no pattern 'july'"):
        run(["forget", "july", "anna", "--yes"])


def test_what_stays_of_a_key_in_a_backfill_is_there_until_all_of_it_is_removed(june: None, target: Target) -> None:
    found = forget.kept(target, load("june"), "customer")
    assert found.pop("the reports and records of verdicts, if an offender there is the key")
    assert set(found.values()) == {REMOVED.format("june")}, "none of its topics is compacted, or deleted by age"
    assert found["the old message in june.customers"]
    assert not any("verdicts" in what or "dispositions" in what for what in found), "it has no such topic"
