import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.engines.flink import libraries as flink
from millrace.engines.spark import libraries as spark
from millrace.errors import InfraError
from millrace.machine import environments
from millrace.settings import PACKAGE, PROJECT, Settings

REAL = Settings.read(os.environ)
NAMES = (environments.CLI, *environments.SHARED)


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_has_the_python_that_all_are_made_from(name: str) -> None:
    python = environments.python(REAL, name)
    assert subprocess.run([python, "--version"], check=True, capture_output=True, text=True).stdout.startswith(
        "Python 3.11."
    )


def test_engines_are_where_their_servers_look_for_them() -> None:
    assert list((flink.package(REAL) / "lib").glob("flink-dist-*.jar"))
    assert list((spark.package(REAL) / "jars").glob("spark-core_*.jar"))


def test_each_engine_is_in_its_own_environment_only() -> None:
    engines = ("pyflink", "pyspark", "airflow")
    found = {
        name: [engine for engine in engines if (environments.site_packages(REAL, name) / engine).exists()]
        for name in NAMES
    }
    assert found == {"cli": [], "flink": ["pyflink"], "spark": ["pyspark"], "airflow": ["airflow"]}


def test_set_up_begins_with_the_standard_library_alone() -> None:
    bare = Path(sys.base_prefix) / "bin/python3.11"
    code = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import millrace.machine.setup"
    done = subprocess.run([bare, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("name", environments.SHARED)
def test_a_shared_environment_imports_millrace_and_the_project_but_nothing_of_the_tests(
    name: str, tmp_path: Path
) -> None:
    settings = replace(REAL, state=tmp_path / "a state")
    variables = environments.variables_of_python(settings)
    code = (
        "import millrace.oracle, pipelines.fraud, importlib.util; from importlib import metadata;"
        "print(metadata.version('millrace'), importlib.util.find_spec('pytest'))"
    )
    done = subprocess.run(
        [environments.python(settings, name), "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("0.1.0 None\n", "")


def test_the_links_follow_the_project_and_the_package(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "old", tmp_path / "home", tmp_path / "state", 20000)
    environments.link(settings)
    stale = environments.python_path(settings) / "millrace-0.0.1.dist-info"
    stale.symlink_to(tmp_path)
    moved = replace(settings, project=tmp_path / "new", package=tmp_path / "millrace")
    environments.link(moved)
    links = {path.name: path.readlink() for path in environments.python_path(settings).iterdir()}
    assert links["pipelines"] == tmp_path / "new" / "pipelines"
    assert links["millrace"] == tmp_path / "millrace"
    assert len(links) == 3, "and the metadata of today's version, by which Airflow finds the plugin"


@pytest.fixture
def fake(tmp_path: Path) -> Settings:
    """A home whose uv makes folders of its own kind, and fails when there is a file `broken`."""
    settings = Settings(tmp_path, tmp_path / "home", tmp_path / "state", 20000)
    uv = settings.home / f"uv-{environments.UV_VERSION}"
    (uv / "bin").mkdir(parents=True)
    (uv / "complete").touch()
    (uv / "bin/uv").write_text(
        f"#!/bin/sh\n"
        f'[ "$1" = sync ] && echo "$*" >> {tmp_path}/calls && [ -e {tmp_path}/broken ] && echo no space left '
        "&& exit 2\n"
        f'[ "$1" = venv ] && for place; do :; done && mkdir "$place"\nexit 0\n'
    )
    (uv / "bin/uv").chmod(0o755)
    return settings


def test_an_environment_that_cannot_be_made_names_what_failed_and_is_not_there(fake: Settings, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(InfraError, match=r"the Python environment 'flink' could not be installed; .*\n  no space left"):
        environments.ensure(fake, "flink")
    assert "flink" in environments.absent(fake)
    (tmp_path / "broken").unlink()
    assert environments.ensure(fake, "flink")
    assert "flink" not in environments.absent(fake)
    left = sorted(path.name for path in (fake.home / "environments").iterdir())
    assert left == [environments.folder(fake, "flink").name, f"{environments.folder(fake, 'flink').name}.lock"]


def test_two_at_once_make_an_environment_once(fake: Settings, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as workers:
        both = [workers.submit(environments.ensure, fake, "spark") for _ in range(2)]
        assert sorted(one.result() is None for one in both) == [False, True]
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_another_lock_is_another_environment_and_another_clone_is_not(tmp_path: Path) -> None:
    clones = []
    for name, lock in (("one", "a"), ("two", "a"), ("three", "b")):
        package = tmp_path / name / "millrace"
        (package / "machine/lock").mkdir(parents=True)
        (package / "machine/lock/uv.lock").write_text(lock)
        clones.append(environments.folder(replace(REAL, package=package), "spark"))
    assert clones[0] == clones[1] != clones[2]


def test_the_lock_in_the_package_is_that_of_the_clone() -> None:
    for name in ("pyproject.toml", "uv.lock"):
        assert (PACKAGE / "machine/lock" / name).resolve() == PROJECT / name


def test_the_command_line_of_an_installed_package_is_beside_its_python(tmp_path: Path) -> None:
    installed = replace(REAL, package=tmp_path / "lib/python3.11/site-packages/millrace")
    assert environments.command(installed) == tmp_path / "bin/millrace"
    assert environments.command(REAL) == PROJECT / ".venv/bin/millrace"
