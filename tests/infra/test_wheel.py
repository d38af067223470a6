"""The wheel, outside of the clone: what is in it, and a stack that it starts for a folder with nothing in it."""

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from millrace import stack as stacks
from millrace.machine import environments
from millrace.settings import PROJECT, Settings
from tests.infra.test_stack_life import what_runs

pytestmark = pytest.mark.builds

REAL = Settings.read(os.environ)


def uv(*words: object, **variables: str) -> str:
    done = subprocess.run(
        [environments.uv(REAL), *map(str, words)],
        cwd=PROJECT,
        env=environments.variables(REAL) | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--quiet", "--out-dir", folder)
    (built,) = folder.glob("*.whl")
    return built


def sources_in(folder: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.splitlines() if (PROJECT / name).is_file()]


def test_its_only_package_is_millrace_with_all_that_is_no_python(wheel: Path) -> None:
    sources = set(sources_in("millrace"))
    starter = PROJECT / "millrace/starter"
    for link in starter.rglob("*"):
        if link.is_symlink():  # of a folder: a use's DAG files and Terraform root are the clone's
            sources |= {f"millrace/starter/{name}" for name in sources_in(str(link.relative_to(starter)))}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == sources
    for wanted in (
        *("machine/lock/uv.lock", "machine/jars/lock.json", "kernel/java/millrace/kernel/Measures.java"),
        *("starter/dags/patterns.py", "starter/terraform/modules/verb/main.tf", "starter/gitignore"),
        *("starter/docs/runbook/lag-grows.md", "starter/infra/prometheus/rules.yml"),
        "starter/infra/grafana/millrace.json",
    ):
        assert f"millrace/{wanted}" in packed
    with zipfile.ZipFile(wheel) as opened:
        assert opened.read("millrace/machine/lock/uv.lock") == (PROJECT / "uv.lock").read_bytes()


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, and a folder with nothing in it."""

    environment: Path
    folder: Path
    port_base: int

    def run(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        kept = ("PATH", "HOME", "JDK_JAVA_OPTIONS", "TMPDIR")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        return subprocess.run(
            [self.environment / "bin/millrace", *words],
            cwd=self.folder,
            env=environ | {"MILLRACE_HOME": str(REAL.home), "NO_COLOR": "1"} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    @property
    def package(self) -> Path:
        return self.environment / "lib/python3.11/site-packages/millrace"

    def changed(self) -> list[str]:
        """The installed files that are not what the wheel brought."""
        (record,) = self.environment.glob("lib/*/site-packages/millrace-*.dist-info/RECORD")
        place, found = record.parent.parent, []
        with record.open() as lines:
            for name, digest, _ in csv.reader(lines):
                algorithm, _, value = digest.partition("=")
                if algorithm:
                    now = hashlib.new(algorithm, (place / name).read_bytes()).digest()
                    if base64.urlsafe_b64encode(now).rstrip(b"=").decode() != value:
                        found.append(name)
        return found

    def strangers(self) -> list[str]:
        """What lies beside the package's own files, but what Python compiled."""
        package = self.package
        (record,) = package.parent.glob("millrace-*.dist-info/RECORD")
        with record.open() as lines:
            known = {package.parent / name for name, *_ in csv.reader(lines)}
        return [
            str(path) for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc" and path not in known
        ]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory, test_port_base: int) -> Iterator[Installed]:
    place = tmp_path_factory.mktemp("installed")
    environment, folder = place / "environment", place / "an empty folder Ω"
    folder.mkdir()
    # With pytest, for the test of a use.
    not_wanted = ("--no-install-package", "playwright", "--no-install-package", "mypy")
    locked = ("--frozen", *not_wanted, "--no-install-project", "--python", environments.python(REAL, "cli"))
    uv("sync", *locked, UV_PROJECT_ENVIRONMENT=str(environment))
    uv("pip", "install", "--quiet", "--no-deps", "--offline", "--python", environment, wheel)
    uv("pip", "check", "--python", environment)  # that the locked packages are what the wheel asks for
    yield Installed(environment, folder, test_port_base + 400)
    stacks.down(Settings(folder, REAL.home, folder / ".millrace", test_port_base + 400))


def test_outside_of_a_clone_its_version_has_no_commit_and_it_names_how_to_come_to_patterns(
    installed: Installed,
) -> None:
    assert installed.run("--version").stdout == "millrace 0.1.0\n"
    refused = installed.run("patterns")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"millrace: {installed.folder} has no pipelines/<use>/patterns; ")
    assert "MILLRACE_PROJECT" in refused.stderr
    assert list(installed.folder.iterdir()) == []


def test_in_a_project_its_patterns_are_listed_and_an_engine_imports_them_beside_its_own_packages(
    installed: Installed, tmp_path: Path
) -> None:
    team = replace(installed, folder=tmp_path)
    shutil.copytree(PROJECT / "pipelines/fraud", tmp_path / "pipelines/fraud")
    patterns = [line.split("\t")[0] for line in team.run("patterns").stdout.splitlines()]
    assert patterns == sorted(path.stem for path in (PROJECT / "pipelines/fraud/patterns").glob("*.yaml"))
    settings = Settings(tmp_path, REAL.home, tmp_path / ".millrace", 20000, package=team.package)
    code = "import millrace, pipelines.fraud, pyarrow; print(millrace.__file__, pyarrow.__file__, sep='\\n')"
    done = subprocess.run(
        [environments.python(settings, "spark"), "-c", code],
        cwd=tmp_path,
        env=environments.variables_of_python(settings),
        capture_output=True,
        text=True,
    )
    own = environments.site_packages(settings, "spark")
    assert done.stdout.splitlines() == [
        f"{environments.python_path(settings)}/millrace/__init__.py",
        f"{own}/pyarrow/__init__.py",
    ], done.stderr


def test_in_an_empty_folder_init_makes_a_use_whose_test_passes(installed: Installed, tmp_path: Path) -> None:
    team = replace(installed, folder=tmp_path)
    begun = team.run("init", "my-use", "--json")
    assert begun.returncode == 0, begun.stderr
    written = {change["name"] for change in json.loads(begun.stdout)["changes"]}
    assert {"pipelines/my_use/rules.py", "dags/patterns.py", "terraform/modules/verb/main.tf"} <= written
    assert team.run("patterns").stdout.split("\t")[0] == "my-use"
    assert team.run("declare", "--plan").returncode == 0
    tested = subprocess.run(
        [team.environment / "bin/pytest", "-q"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
    )
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout
    assert team.changed() == []


@pytest.mark.stack
def test_a_server_runs_for_an_empty_folder_and_leaves_nothing_but_its_records(installed: Installed) -> None:
    up = installed.run("up", "kafka", "--port-base", str(installed.port_base), "--json")
    assert up.returncode == 0, up.stderr
    status = json.loads(installed.run("status", "--json").stdout)
    assert {one["name"]: one["state"] for one in status["servers"] if one["state"] != "stopped"} == {
        "kafka-1": "running"
    }
    assert status["watch"]["state"] == "running"
    assert [path.name for path in installed.folder.iterdir()] == [".millrace"]
    assert installed.run("doctor").returncode == 0
    down = installed.run("down", "--purge", "--yes")
    assert down.returncode == 0, down.stderr
    settings = Settings(installed.folder, REAL.home, installed.folder / ".millrace", installed.port_base)
    assert what_runs(settings) == []
    assert {path.name for path in settings.state.iterdir()} <= {"records", "lock"}
    assert (installed.changed(), installed.strangers()) == ([], [])


@pytest.mark.stack
@pytest.mark.drill
def test_a_use_that_init_wrote_is_proven_on_real_servers(installed: Installed, tmp_path: Path) -> None:
    team = replace(installed, folder=tmp_path)
    assert team.run("init", "my-use").returncode == 0
    proven = team.run("demo", "my-use", "--seconds", "10", "--rate", "200", MILLRACE_PORT_BASE=str(team.port_base))
    assert proven.returncode == 0, proven.stdout + proven.stderr
    for checked in ("alerts: overheated", "labels", "refusals"):
        assert re.search(rf"^{checked} +ok ", proven.stdout, re.M), proven.stdout
    assert what_runs(Settings(tmp_path, REAL.home, tmp_path / ".millrace", team.port_base)) == []
    assert team.changed() == []
