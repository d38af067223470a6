"""Where the project is, and that its uses are found there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace import project
from millrace.settings import PROJECT, Settings
from tests.shop import write_shop


def test_the_nearest_folder_upwards_with_pipelines_is_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "team" / "below" / "deeper"
    inner.mkdir(parents=True)
    (tmp_path / "team/pipelines").mkdir()
    monkeypatch.chdir(inner)
    assert project.root({}) == tmp_path / "team"
    assert Settings.read({"HOME": "/h"}).state == tmp_path / "team/.millrace"


def test_a_variable_names_it_from_anywhere(tmp_path: Path) -> None:
    assert project.root({"MILLRACE_PROJECT": str(tmp_path)}) == tmp_path


def test_a_clone_is_its_own_project_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert project.root({}) == PROJECT


def test_without_any_the_working_directory_is_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(project, "AROUND_PACKAGE", Path("/nowhere"))
    assert project.root({}) == tmp_path


def test_what_is_started_for_a_stack_works_for_the_same_project() -> None:
    settings = Settings.read(os.environ)
    assert Settings.read({"HOME": "/h", **settings.environment()}) == settings


def test_the_command_line_works_on_the_project_of_the_working_directory_and_not_on_the_clone_that_it_is_of(
    tmp_path: Path,
) -> None:
    use = write_shop(tmp_path)
    pattern = (PROJECT / "pipelines/fraud/patterns/flink.yaml").read_text()
    (use / "patterns/till.yaml").write_text(pattern.replace("use: fraud", "use: shop"))
    (tmp_path / "json").mkdir()  # a folder of the project hides no package
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    done = subprocess.run(
        [sys.executable, "-m", "millrace.cli", "patterns"], cwd=use, env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["till"]


def test_a_project_without_a_use_gets_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    for words, code in ((["patterns"], 1), (["patterns", "fraud"], 1), (["deploy", "fraud"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "millrace.cli", *words],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code
        assert done.stderr == (
            f"millrace: {tmp_path} has no pipelines/<use>/patterns; "
            "run this in a project that has, or name one in MILLRACE_PROJECT\n"
        )
