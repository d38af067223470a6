"""What `forget` names of a key that stays, and until when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.cli.app import run
from millrace.patterns import load
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
