import json
import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from millrace.errors import InfraError
from millrace.machine import environments, prerequisites
from millrace.machine.environments import command, python
from millrace.machine.prerequisites import Finding
from millrace.settings import PROJECT, Settings


@pytest.fixture
def settings(tmp_path: Path, free_port_base: int) -> Settings:
    return Settings(PROJECT, tmp_path / "not" / "yet" / "there", tmp_path / "state", free_port_base)


def machine(tmp_path: Path, **programs: str) -> dict[str, str]:
    """A machine on whose PATH are only these programs: a name and its script."""
    for name, says in programs.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": str(tmp_path / "bin")}


def says(version: str) -> str:
    picked_up = "echo 'Picked up JAVA_TOOL_OPTIONS: -Da=b' >&2; echo 'NOTE: Picked up JDK_JAVA_OPTIONS: -Dc=d' >&2"
    return f"{picked_up}; echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.2", "25-ea"])
def test_a_jdk_from_17_on_will_do(tmp_path: Path, version: str) -> None:
    assert prerequisites.java(machine(tmp_path, java=says(version))).ok


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_an_older_jdk_will_not(tmp_path: Path, version: str) -> None:
    finding = prerequisites.java(machine(tmp_path, java=says(version)))
    assert not finding.ok
    assert finding.found == f'openjdk version "{version}" 2025-04-15 at {tmp_path}/bin/java: older than 17'


def test_a_jdk_that_does_not_run_is_missing(tmp_path: Path) -> None:
    assert not prerequisites.java(machine(tmp_path, java="exit 1")).ok


def test_a_wrong_java_home_is_reported(tmp_path: Path) -> None:
    finding = prerequisites.java({**machine(tmp_path, java=says("17.0.15")), "JAVA_HOME": "/nowhere"})
    assert (finding.ok, finding.remedy) == (False, "unset JAVA_HOME or point it at a JDK")


def test_all_that_is_needed_is_named_at_once_with_its_remedy(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(InfraError) as refusal:
        prerequisites.require(settings, {"PATH": str(tmp_path), "MILLRACE_DISK_FREE_GB_MIN": "9e9"})
    text = str(refusal.value)
    for name in ("JDK", "Java compiler", "Maven", "disk for downloads", "disk for data"):
        assert f"  {name}: " in text
    for remedy in ("apt install openjdk-17-jdk-headless", "apt install maven", "point MILLRACE_HOME at a disk"):
        assert remedy in text
    assert not settings.home.exists()


def test_what_is_optional_refuses_nothing() -> None:
    prerequisites.refuse([Finding("terraform", False, "not on PATH", "optional", needed=False)], os.environ)


def test_a_disk_is_judged_by_the_nearest_folder_that_exists(settings: Settings) -> None:
    assert prerequisites.disk("disk", settings.home, 0.0, "MILLRACE_HOME").ok
    lacking = prerequisites.disk("disk", settings.home, 9e9, "MILLRACE_HOME")
    assert not lacking.ok
    assert lacking.found.endswith(f"GB free at {settings.home}, 9e+09 GB are needed")


def test_a_port_that_another_holds_is_named_and_one_of_ours_is_not(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", settings.port("kafka"))):
        finding = prerequisites.ports(settings)
        assert (finding.ok, finding.found) == (False, f"in use by others: {settings.port('kafka')} (kafka-1)")
        assert f"millrace up --port-base {settings.port_base + 100}" in finding.remedy
        assert prerequisites.ports(settings, {settings.port("kafka")}).ok


def millrace(*words: str, environ: dict[str, str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    places = {"MILLRACE_HOME": str(tmp_path / "höme"), "MILLRACE_STATE": str(tmp_path / "state")}
    places |= {"MILLRACE_PORT_BASE": "32600", "LC_ALL": "C.UTF-8"}  # no other stack of this machine is there
    program = str(command(Settings.read(os.environ)))
    return subprocess.run([program, *words], env={**environ, **places}, capture_output=True, text=True, timeout=60)


def test_doctor_lists_what_is_missing_and_fails(tmp_path: Path) -> None:
    done = millrace("doctor", environ={"PATH": str(tmp_path)}, tmp_path=tmp_path)
    assert done.returncode == 1
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert {row[1] for row in rows if row[0] == "missing"} == {"JDK", "Java compiler", "Maven", "Python 3.11", "make"}
    assert {row[1] for row in rows if row[0] == "absent"} == {"terraform"}
    assert "developer.hashicorp.com" in next(row[3] for row in rows if row[1] == "terraform")


def test_doctor_lists_what_the_tests_need(tmp_path: Path) -> None:
    done = millrace("doctor", "--tests", environ={"PATH": str(tmp_path)}, tmp_path=tmp_path)
    rows = {row[1]: row for row in (line.split("\t") for line in done.stdout.splitlines())}
    assert rows["git"][0] == "missing"
    assert {"disk for tests", "PostgreSQL", "browser"} <= rows.keys()
    assert "installs it" in rows["browser"][2]


def test_doctor_prints_json(tmp_path: Path) -> None:
    done = millrace("doctor", "--json", environ=dict(os.environ), tmp_path=tmp_path)
    said = json.loads(done.stdout)
    assert (said["version"], said["verb"]) == (1, "doctor")
    assert said["ok"] == (done.returncode == 0) == all(one["ok"] for one in said["findings"] if one["needed"])


@pytest.mark.parametrize("lack", [{"PATH": "/nonexistent"}, {"MILLRACE_DISK_FREE_GB_MIN": "9e9"}])
def test_up_refuses_before_anything_is_downloaded(tmp_path: Path, lack: dict[str, str]) -> None:
    done = millrace("up", "kafka", environ={**os.environ, **lack}, tmp_path=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("millrace: this machine lacks prerequisites")
    assert not (tmp_path / "höme").exists()


def set_up(*words: str, environ: dict[str, str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """What `make setup` or `make test` runs first, in a clone whose environments are there and with an empty home."""
    places = {"MILLRACE_HOME": str(tmp_path / "höme"), "MILLRACE_STATE": str(tmp_path / "state"), "LC_ALL": "C.UTF-8"}
    command = [str(python(Settings.read(os.environ), "cli")), "-m", "millrace.machine.setup", *words]
    places["MILLRACE_INSTALL"] = "no"  # root runs these tests, too
    return subprocess.run(command, env=environ | places, cwd=PROJECT, capture_output=True, text=True, timeout=120)


PROGRAMS = {
    "java": says("17.0.15"),
    "javac": "",
    "mvn": "exit 1",
    "make": "",
    "git": "",
    "promtool": "",
    "python3.11": "echo 3.11.9",
    "apt-get": "",
    "terraform": "",
}
PACKAGES = {
    "java": "openjdk-17-jdk-headless",
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "make": "make",
    "git": "git",
    "promtool": "prometheus",
}


@pytest.mark.parametrize("absent", PACKAGES)
def test_one_command_that_installs_what_is_missing_ends_make_test(tmp_path: Path, absent: str) -> None:
    environ = machine(tmp_path, **{name: text for name, text in PROGRAMS.items() if name != absent})
    done = set_up("--tests", environ=environ, tmp_path=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1].strip()
    assert last == f"apt-get update && apt-get install --yes --no-install-recommends {PACKAGES[absent]}"
    assert not (tmp_path / "höme").exists()


def test_one_command_installs_all_that_is_missing(tmp_path: Path) -> None:
    done = set_up("--tests", environ=machine(tmp_path, **{"apt-get": "", "python3.11": "exit 1"}), tmp_path=tmp_path)
    wanted = "git make maven openjdk-17-jdk-headless prometheus python3.11-venv"
    assert done.stderr.splitlines()[-1].endswith(f"apt-get install --yes --no-install-recommends {wanted}")


def test_without_apt_the_names_alone_are_printed(tmp_path: Path) -> None:
    done = set_up("--tests", environ=machine(tmp_path, java=says("17.0.15")), tmp_path=tmp_path)
    assert done.returncode == 1
    assert "  git: no git on PATH\n" in done.stderr
    assert "apt-get" not in done.stderr


def test_a_full_disk_is_named_before_the_first_download(tmp_path: Path) -> None:
    environ = machine(tmp_path, **PROGRAMS) | {"MILLRACE_DISK_FREE_GB_MIN": "9e9"}
    done = set_up("--tests", environ=environ, tmp_path=tmp_path)
    assert done.returncode == 1
    for name in ("disk for downloads", "disk for data", "disk for tests"):
        assert f"  {name}: " in done.stderr
    assert not (tmp_path / "höme").exists()


def test_terraform_may_be_absent_unless_it_is_required(tmp_path: Path) -> None:
    environ = machine(tmp_path, **{name: text for name, text in PROGRAMS.items() if name != "terraform"})
    settings = Settings(PROJECT, tmp_path / "home", tmp_path / "state", 29000)
    for required in ("", "1"):
        findings = prerequisites.for_setup(settings, environ | {"MILLRACE_REQUIRE_TERRAFORM": required}, tests=True)
        assert ("terraform" in {finding.name for finding in prerequisites.lacks(findings)}) == bool(required)


def test_registries_that_do_not_answer_are_named_before_the_first_download(tmp_path: Path) -> None:
    machine(tmp_path, pip='[ "$4" = --dry-run ] && echo "ERROR: Could not find a version"; exit 1')
    programs = {"mvn": "echo '[ERROR] Unknown host repository.test'; exit 1"}
    programs |= {"npm": "echo 'npm error code E'; echo 'npm error request failed, reason: no host npm.test'; exit 1"}
    environ = machine(tmp_path, **PROGRAMS | programs)
    pip = tmp_path / "höme" / f"uv-{environments.UV_VERSION}" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    pip.symlink_to(tmp_path / "bin" / "pip")  # the real one is made in seconds
    done = set_up("--tests", environ=environ, tmp_path=tmp_path)
    assert done.returncode == 1
    assert "  registry of Python packages: pip: ERROR: Could not find a version\n" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert "  registry of jars: mvn: [ERROR] Unknown host repository.test\n" in done.stderr
    assert "  registry of npm packages: npm: npm error request failed, reason: no host npm.test\n" in done.stderr
    assert [path for path in (tmp_path / "höme").rglob("*") if not path.is_dir()] == [pip]


def test_packages_are_installed_by_root_and_by_who_may_become_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    lacking = [Finding("Maven", False, "no mvn", package="maven"), Finding("fine", True, "", package="")]
    environ = machine(
        tmp_path, **{"apt-get": f'echo "$1 $DEBIAN_FRONTEND" >> {installed}', "env": 'exec /usr/bin/env "$@"'}
    )
    assert prerequisites.install(lacking, environ | {"MILLRACE_INSTALL": "no"}) is False
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert prerequisites.install([*lacking, Finding("disk", False, "")], environ) is False, "it would not be enough"
    assert not installed.exists()
    assert prerequisites.install(lacking, environ) is True
    assert installed.read_text() == "update noninteractive\ninstall noninteractive\n"
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert prerequisites.install(lacking, environ) is False
    assert prerequisites.install(lacking, environ | machine(tmp_path, sudo="exit 1")) is False
    assert prerequisites.install(lacking, environ | machine(tmp_path, sudo='shift; exec "$@"', true="")) is True
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert prerequisites.install([Finding("Maven", True, "", package="maven")], environ) is False
