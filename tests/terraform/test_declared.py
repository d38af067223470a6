"""pipelines/declared.json: what `millrace declare` writes is Terraform's only input about patterns and servers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.errors import UsageError
from millrace.patterns import load
from millrace.patterns.access import Access, access
from millrace.settings import PROJECT, Settings
from millrace.verbs.declare import FILE, VERSION, declare, declared
from tests.shop import write_shop
from tests.terraform.conftest import TERRAFORM, Terraform, resources


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(PROJECT, tmp_path / "home", tmp_path / "state", 20000)


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A project with a use and a pattern that this clone does not have, and the Terraform of this clone."""
    write_shop(tmp_path / "team")
    add_pattern(tmp_path / "team", "till")
    shutil.copytree(TERRAFORM, tmp_path / "team/terraform", ignore=shutil.ignore_patterns(".terraform*", "*tfstate*"))
    return tmp_path / "team"


def add_pattern(team: Path, name: str) -> None:
    text = (PROJECT / "pipelines/fraud/patterns/flink-spark.yaml").read_text()
    made_up = text.replace("use: fraud", "use: shop").replace("partitions: 2", "partitions: 5")
    (team / f"pipelines/shop/patterns/{name}.yaml").write_text(made_up)


def run_declare(team: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    command = [sys.executable, "-m", "millrace.cli", "declare", *words]
    return subprocess.run(command, cwd=team, env=environ, capture_output=True, text=True)


def refusal(local: Terraform) -> str:
    said = local.run("plan", "-no-color", "-input=false", '-var=patterns=["till"]', codes=(1,))
    return " ".join(said.replace("│", "").split())


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


def test_a_pattern_names_its_services_and_the_transactions_of_its_jobs(settings: Settings):
    patterns = declared(settings)["patterns"]
    assert patterns["storm-spark"]["services"] == ["hbase", "hdfs", "kafka", "spark", "storm"]
    assert patterns["flood-streams"]["services"] == ["hdfs", "kafka", "streams"]
    assert {name: each["transactional_ids"] for name, each in patterns.items() if each["transactional_ids"]} == {
        "flood-streams": {"flood-streams-streams": "flood-streams-"},
        "storm-exactly-once": {"storm-exactly-once-storm": "storm-exactly-once-"},
    }


@pytest.mark.builds
def test_a_pattern_of_another_use_is_planned_without_a_change_of_terraform(terraform_in, team: Path):
    assert run_declare(team, "--plan").returncode == 3
    assert not (team / FILE).exists()
    assert run_declare(team).stdout.endswith(f"create\tfile\t{FILE}\t\n")
    local = terraform_in(team / "terraform/local")
    planned = local.planned('-var=patterns=["till"]')
    topics = {each["name"]: each["partitions"] for each in resources(planned, "topic")}
    assert topics["till.transactions"] == 5
    assert all(name.startswith("till.") for name in topics)
    assert {(each["pattern"], each["engine"]) for each in resources(planned, "job")} == {
        ("till", "flink"),
        ("till", "spark"),
    }

    add_pattern(team, "counter")
    assert f"{team / FILE} does not fit shop/patterns/counter.yaml: run `millrace declare` in {team}." in refusal(local)
    assert run_declare(team).stdout.endswith(f"change\tfile\t{FILE}\t\n")
    both = local.planned('-var=patterns=["till", "counter"]')
    assert {each["pattern"] for each in resources(both, "job")} == {"till", "counter"}


@pytest.mark.builds
def test_a_project_that_init_began_is_planned(terraform_in, tmp_path: Path):
    team = tmp_path / "team"
    team.mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    subprocess.run([sys.executable, "-m", "millrace.cli", "init", "my-use"], cwd=team, env=environ, check=True)
    planned = terraform_in(team / "terraform/local").planned()
    assert {each["name"] for each in resources(planned, "topic")} >= {"my-use.readings", "my-use.alerts"}
    assert {(each["pattern"], each["engine"]) for each in resources(planned, "job")} == {("my-use", "flink")}


@pytest.mark.builds
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "is absent"),
        ("{", f"has version 0, not {VERSION}"),
        (json.dumps({"version": VERSION + 1}), f"has version {VERSION + 1}, not {VERSION}"),
    ],
    ids=["absent", "broken", "newer"],
)
def test_without_the_file_in_its_version_a_plan_names_the_command(terraform_in, team: Path, content, problem):
    if content:
        (team / FILE).write_text(content)
    said = refusal(terraform_in(team / "terraform/local"))
    assert f"{team / FILE} {problem}: run `millrace declare` in {team}." in said
    assert said.count("Error:") == 1, said
