"""`millrace init`: a use that works as it is written, and names that are refused before anything is."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from millrace.cli.app import app
from millrace.settings import PROJECT
from tests.infra.conftest import Millrace
from tests.infra.test_project import run


def files_of(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("an empty folder Ω")
    done = run(folder, "init", "hot-water", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert (answer["use"], answer["project"]) == ("hot-water", str(folder))
    assert {change["action"] for change in answer["changes"]} == {"create"}
    assert sorted(change["name"] for change in answer["changes"]) == sorted(files_of(folder))
    return folder


def test_an_empty_folder_becomes_a_project_with_nothing_of_the_clone(project: Path) -> None:
    written = files_of(project)
    assert {place.partition("/")[0] for place in written} == {
        *("pipelines", "tests", "dags", "terraform", "docs", "infra", "README.md", ".gitignore"),
    }
    assert [place for place in written if "my_use" in place or "my-use" in place] == []
    assert [place for place, text in written.items() if "my_use" in text or "MY_USE" in text] == []
    assert written["terraform/local/main.tf"] == (PROJECT / "terraform/local/main.tf").read_text()
    assert written["dags/patterns.py"] == (PROJECT / "dags/patterns.py").read_text()
    for folder in ("docs/runbook", "infra/prometheus", "infra/grafana"):
        there = {
            f"{folder}/{name}": text.partition("\n## Outcome\n")[0] for name, text in files_of(PROJECT / folder).items()
        }
        assert {place: text for place, text in written.items() if place.startswith(folder)} == there
    assert [place for place in written if place.endswith((".tfstate", ".tftest.hcl"))] == []


def test_the_links_of_its_runbook_lead_to_what_the_project_has(project: Path) -> None:
    pages = sorted((project / "docs" / "runbook").glob("*.md"))
    assert len(pages) > 10
    for page in pages:
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        assert [each for each in links if not (page.parent / each).exists()] == [], page.name
        assert page.read_text(encoding="utf-8").endswith("\n")


def test_its_pattern_is_valid_and_its_contracts_are_as_declared(project: Path) -> None:
    shown = run(project, "patterns", "hot-water", "--json")
    assert json.loads(shown.stdout)["patterns"][0]["declared_rules"][0]["name"] == "overheated"
    assert run(project, "declare", "--plan").returncode == 0


def pytest_of(project: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfs", "-p", "no:cacheprovider"],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.builds
def test_its_tests_pass_and_fail_with_another_threshold(project: Path) -> None:
    rules = project / "pipelines/hot_water/rules.py"
    declared = rules.read_text()
    try:
        for threshold, failed in (("80", []), ("90", ["test_scenario", "test_the_labels_of_its_traffic_are_true"])):
            rules.write_text(declared.replace("> 80", f"> {threshold}"))
            done = pytest_of(project)
            assert re.findall(r"^FAILED .*::(\w+)", done.stdout, re.MULTILINE) == failed, done.stdout
    finally:
        rules.write_text(declared)


WITH_TRAFFIC = ("from .traffic import TRAFFIC\n", "    traffic=TRAFFIC,\n")


@pytest.fixture
def without_traffic(project: Path) -> Iterator[Path]:
    use = project / "pipelines/hot_water/__init__.py"
    declared = use.read_text()
    assert all(line in declared for line in WITH_TRAFFIC)
    use.write_text("".join(line for line in declared.splitlines(keepends=True) if line not in WITH_TRAFFIC))
    yield project
    use.write_text(declared)


@pytest.mark.builds
def test_without_traffic_the_test_of_its_labels_is_skipped(without_traffic: Path) -> None:
    done = pytest_of(without_traffic)
    assert done.stdout.splitlines()[-1].startswith("1 passed, 1 skipped")
    assert re.findall(r"^SKIPPED .*: (.*)", done.stdout, re.MULTILINE) == ["hot-water declares no traffic"]


def test_a_demo_without_traffic_is_refused_with_a_remedy_that_there_is(without_traffic: Path) -> None:
    refused = run(without_traffic, "demo", "hot-water")
    assert (refused.returncode, refused.stderr) == (
        1,
        "millrace: the use 'hot-water' declares no traffic; declare it, or deploy a pattern of the use and send a "
        "file: `millrace traffic PATTERN --from FILE`\n",
    )
    assert not (without_traffic / ".millrace").exists()


def test_another_use_joins_the_project_and_overwrites_nothing(project: Path) -> None:
    readme = project / "README.md"
    readme.write_text("Ours.\n")
    (project / "dags/upkeep.py").unlink()
    before = files_of(project)
    before.pop("pipelines/declared.json")
    done = run(project / "pipelines/hot_water", "init", "cold-water", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    after = files_of(project)
    assert "cold-water.readings" in after.pop("pipelines/declared.json")
    assert {place: after[place] for place in before} == before
    assert {place.rpartition("/")[0] for place in after.keys() - before.keys()} == {
        *("tests", "pipelines/cold_water", "pipelines/cold_water/contracts"),
        *("pipelines/cold_water/patterns", "pipelines/cold_water/scenarios"),
    }
    assert run(project, "patterns").stdout.split("\n")[0].startswith("cold-water\t")
    again = run(project, "init", "cold-water")
    assert (again.returncode, again.stderr) == (
        1,
        f"millrace: {project}/pipelines/cold_water exists; choose another name than 'cold-water', or move it away\n",
    )


@pytest.mark.parametrize("name", ["Water", "hot_water", "1st", "-", "a--b", "a-", "class", "../a", "", "a" * 65])
def test_a_name_that_no_use_can_have_is_refused_with_one_that_can(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = millrace(tmp_path / "state", "init", "--", name)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"millrace: '{name}' cannot name a use: write small letters, ")
    assert refused.stderr.endswith(", 64 characters at most, a letter first, as in my-use, and no keyword of Python\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("taken", "complaint"),
    [
        ("pipelines/cold/patterns/lake.yaml", "lake.yaml is a pattern 'lake'; choose another name"),
        ("__init__.py", "pipelines/cold has a use 'lake'; choose another name"),
        ("tests/test_lake.py", "tests/test_lake.py exists; choose another name than 'lake', or move it away"),
    ],
)
def test_a_name_that_is_taken_is_refused_with_its_place(tmp_path: Path, taken: str, complaint: str) -> None:
    shutil.copytree(PROJECT / "millrace/starter/pipelines/my_use", tmp_path / "pipelines/cold")
    package = tmp_path / "pipelines/cold/__init__.py"
    package.write_text(package.read_text().replace("my-use", "lake" if taken == "__init__.py" else "cold"))
    if taken != "__init__.py":
        (tmp_path / taken).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / taken).touch()
    before = files_of(tmp_path)
    refused = run(tmp_path, "init", "lake")
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"{complaint}\n")
    assert files_of(tmp_path) == before


def test_each_command_of_the_steps_is_a_verb_with_these_options() -> None:
    (steps,) = re.findall(r"^## A use of your own\n(.*?)^## ", (PROJECT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    commands = [line.partition("#")[0].split()[1:] for line in re.findall(r"^ +(millrace .*)", steps, re.M)]
    assert len(commands) > 10
    for words in commands:
        command = get_command(app)
        while isinstance(command, TyperGroup):
            command = command.commands[words.pop(0)]
        options = {option for each in command.params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= options, command.name
