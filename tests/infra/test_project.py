"""Where the project is, and that its uses are found there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace import project
from millrace.machine import environments
from millrace.settings import PROJECT, Settings
from tests.shop import copy_of_fraud


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


def run(folder: Path, *words: str, path: Path | None = None) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **({"PYTHONPATH": str(path)} if path else {})}
    return subprocess.run(
        [sys.executable, "-m", "millrace.cli", *words], cwd=folder, env=environ, capture_output=True, text=True
    )


def installed_shop(site_packages: Path, entry: str = "acme_shop:FRAUD") -> Path:
    """An installed package that brings the use `shop`."""
    copy_of_fraud(site_packages / "acme_shop", "acme_shop", "till")
    about = site_packages / "acme_shop-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-shop\nVersion: 1.0\n")
    (about / "RECORD").write_text("acme_shop-1.0.dist-info/METADATA,,\n")
    (about / "entry_points.txt").write_text(f"[millrace.uses]\nshop = {entry}\n")
    return site_packages


def listed(done: "subprocess.CompletedProcess[str]") -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def test_the_command_line_works_on_the_project_of_the_working_directory_and_not_on_the_clone_that_it_is_of(
    tmp_path: Path,
) -> None:
    copy_of_fraud(tmp_path / "pipelines/shop", "pipelines.shop", "till")
    (tmp_path / "json").mkdir()  # a folder of the project hides no package
    assert listed(run(tmp_path / "pipelines/shop", "patterns")) == ["till"]


def test_the_list_of_patterns_shows_no_engine_for_windows_that_a_pattern_does_not_have() -> None:
    rows = [line.split("\t") for line in run(PROJECT, "patterns").stdout.splitlines()]
    engines = {name: (events, windows) for name, events, windows, _ in rows}
    assert (engines["storm"], engines["storm-spark"]) == (("storm", "-"), ("storm", "spark"))


@pytest.mark.builds
def test_an_installed_package_brings_a_use_and_its_patterns(tmp_path: Path) -> None:
    (tmp_path / "team/pipelines").mkdir(parents=True)
    packages = installed_shop(tmp_path / "packages")
    assert listed(run(tmp_path / "team", "patterns", path=packages)) == ["till"]
    copy_of_fraud(tmp_path / "team/pipelines/other", "pipelines.other", "counter", use="other")
    assert listed(run(tmp_path / "team", "patterns", path=packages)) == ["counter", "till"]
    # What it brings is its own: only the files of the project's own use are written.
    assert run(tmp_path / "team", "declare", path=packages).returncode == 0
    assert not (packages / "acme_shop/contracts").exists()
    declared = json.loads((tmp_path / "team/pipelines/declared.json").read_text())
    assert (list(declared["files"]), list(declared["patterns"])) == (
        ["other/patterns/counter.yaml"],
        ["counter", "till"],
    )


def test_the_patterns_are_read_with_one_search_of_the_installed_packages() -> None:
    script = """
from importlib import metadata
search, searched = metadata.entry_points, []
metadata.entry_points = lambda **wanted: searched.append(wanted["group"]) or search(**wanted)
from millrace.patterns import readable
print(len(readable()) > 1, searched.count("millrace.uses"))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, check=True, capture_output=True, text=True)
    assert done.stdout == "True 1\n"


def test_two_uses_of_one_name_are_refused_with_both_places(tmp_path: Path) -> None:
    copy_of_fraud(tmp_path / "team/pipelines/shop", "pipelines.shop", "counter")
    packages = installed_shop(tmp_path / "packages")
    refused = run(tmp_path / "team", "patterns", "counter", path=packages)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"millrace: two uses are called 'shop': {tmp_path}/team/pipelines/shop and entry point 'shop' of the package "
        "acme-shop; rename one\n"
    )


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("def (", ", line 1: SyntaxError: invalid syntax (__init__.py, line 1); repair this use"),
        (
            "import nothing_of_this_name",
            ", line 1: ModuleNotFoundError: No module named 'nothing_of_this_name'; repair",
        ),
        ("from millrace.rules import DistinctOthers\nDistinctOthers('f')", ", line 2: TypeError: "),
    ],
)
def test_an_error_in_the_code_of_a_use_names_the_line(tmp_path: Path, written: str, complaint: str) -> None:
    module = copy_of_fraud(tmp_path / "pipelines/odd", "pipelines.odd", "till", use="odd") / "__init__.py"
    module.write_text(written)
    refused = run(tmp_path, "patterns", "till")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"millrace: {module}{complaint}")
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("acme_shop:MALL", "cannot be loaded: AttributeError: module 'acme_shop' has no attribute 'MALL'"),
        ("acme_shop.rules:burst", "is WindowRule, not a UseCase"),
        ("acme_mall:MALL", "there is no package 'acme_mall'"),
    ],
)
def test_an_entry_point_that_gives_no_use_is_named(tmp_path: Path, entry: str, complaint: str) -> None:
    packages = installed_shop(tmp_path / "packages", entry)
    refused = run(tmp_path, "patterns", "till", path=packages)
    assert refused.returncode == 1
    assert refused.stderr.startswith("millrace: entry point 'shop' of the package acme-shop")
    assert complaint in refused.stderr


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError: invalid syntax (__init__.py, line 1)"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_package_that_cannot_be_imported_is_named_with_its_error(tmp_path: Path, written: str, error: str) -> None:
    packages = installed_shop(tmp_path / "packages")
    (packages / "acme_shop/__init__.py").write_text(written)
    refused = run(tmp_path, "patterns", "till", path=packages)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"millrace: entry point 'shop' of the package acme-shop cannot be loaded: {error}; repair or uninstall the "
        "package\n"
    )


def test_an_engine_imports_what_a_package_brings_and_forgets_what_is_uninstalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(tmp_path / "team", tmp_path / "home", tmp_path / "state", 20000)
    monkeypatch.syspath_prepend(installed_shop(tmp_path / "packages"))
    environments.link(settings)
    place = environments.python_path(settings)
    assert (place / "acme_shop").readlink() == tmp_path / "packages/acme_shop"
    assert (place / "acme_shop-1.0.dist-info").readlink() == tmp_path / "packages/acme_shop-1.0.dist-info"
    done = subprocess.run(
        [
            environments.python(Settings.read(os.environ), "spark"),
            "-c",
            "from millrace import project; print(*project.uses())",
        ],
        cwd=tmp_path,
        env=settings.environment() | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("shop\n", "")
    monkeypatch.undo()
    environments.link(settings)
    assert not [path.name for path in place.iterdir() if path.name.startswith("acme")]


def test_a_project_without_a_use_gets_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    for words, code in ((["patterns"], 1), (["patterns", "fraud"], 2), (["deploy", "fraud"], 2)):
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
            "run this in a project that has, name one in MILLRACE_PROJECT, or make one with `millrace init my-use`\n"
        )


@pytest.mark.builds
@pytest.mark.builds
def test_contracts_are_written_as_declared_and_what_breaks_readers_is_listed(tmp_path: Path) -> None:
    use = tmp_path / "pipelines/shop"
    copy_of_fraud(use, "pipelines.shop", "till")
    missing = run(tmp_path, "declare", "--plan")
    assert missing.returncode == 3
    assert "create\tcontract\tpipelines/shop/contracts/alerts.json\t\n" in missing.stdout
    assert not (use / "contracts").exists()
    assert run(tmp_path, "declare").returncode == 0
    fresh = run(tmp_path, "declare", "--plan")
    assert (fresh.returncode, {line.split("\t")[0] for line in fresh.stdout.splitlines()}) == (0, {"keep"})
    merchants = use / "contracts/merchants.json"
    assert merchants.read_text() == (PROJECT / "pipelines/fraud/contracts/merchants.json").read_text()
    merchants.write_text(merchants.read_text().replace("category", "branch"))
    (use / "contracts/rumours.json").write_text("{}")
    stale = run(tmp_path, "declare", "--plan")
    differing = [line for line in stale.stdout.splitlines() if not line.startswith("keep")]
    assert (stale.returncode, differing) == (
        3,
        [
            "change\tcontract\tpipelines/shop/contracts/merchants.json\t'branch' is gone; keep it, or write to a new "
            "topic; 'category' is new and required; make it optional",
            "remove\tcontract\tpipelines/shop/contracts/rumours.json\tno topic has it",
        ],
    )
    assert run(tmp_path, "declare").returncode == 0
    assert run(tmp_path, "declare", "--plan").returncode == 0
    assert not (use / "contracts/rumours.json").exists()
