"""pipelines/declared.json: what `millrace declare` writes is fresh, and the same on every machine."""

import json
from pathlib import Path

import pytest

from millrace.errors import UsageError
from millrace.patterns import load
from millrace.patterns.access import Access, access
from millrace.settings import PROJECT, Settings
from millrace.verbs.declare import FILE, declare, declared


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(PROJECT, tmp_path / "home", tmp_path / "state", 20000)


def test_the_file_of_this_project_is_fresh(settings: Settings):
    assert declare(settings, plan=True).action == "keep", f"{FILE} is stale: run .venv/bin/millrace declare"


def test_the_file_is_the_same_on_every_machine(tmp_path: Path, settings: Settings):
    elsewhere = Settings(PROJECT, tmp_path / "other home", tmp_path / "other state", 26000)
    text = json.dumps(declared(elsewhere))
    assert text == json.dumps(declared(settings))
    assert str(tmp_path) not in text


def test_patterns_outside_of_the_project_are_refused(settings: Settings):
    away = Settings(PROJECT, settings.home, settings.state, settings.port_base, patterns=Path("/away"))
    with pytest.raises(UsageError, match=r"MILLRACE_PATTERNS=/away.*unset it"):
        declared(away)


def test_jobs_the_edge_and_the_reader_have_access_to_their_topics_only():
    users = access(load("flink-spark"))
    flink, spark, reader = "flink-spark-flink", "flink-spark-spark", "flink-spark-reader"
    assert users["transactions"] == users["customers"] == Access(frozenset([flink]), frozenset(["flink-spark-edge"]))
    assert users["enriched"] == Access(frozenset([spark, reader]), frozenset([flink]))
    assert users["alerts"] == Access(frozenset([spark, reader]), frozenset([flink, spark]))
    assert users["dead-letters"] == Access(frozenset([reader]), frozenset([flink, spark]))
    assert users["windows"] == Access(frozenset([reader]), frozenset([spark]))
    assert users["hop"] == Access()
