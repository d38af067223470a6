"""Prerequisites of the machine, with a remedy for each that is missing.

Standard library only: `make setup` checks before any environment exists, `up` before anything is downloaded.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import InfraError
from millrace.machine import npm
from millrace.machine import postgresql as postgres_programs
from millrace.settings import PORTS, Settings

GB = 1_000_000_000

# Measured (docs/records): environments, jars and their caches come to some 3 GB, archives of classes to 0.6 GB for each
# build of the kernel; the rest is room for data.
DISK_FREE_GB_MIN = 5.0
MEMORY_GB_MIN = 4.0

JDK_LEAST, JDK_NEWEST_TRIED = 17, 17
JDK_PACKAGE = f"openjdk-{JDK_LEAST}-jdk-headless"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = True  # False: optional, and the remedy names what does not work without it
    package: str = ""  # Debian's package for it


def check(settings: Settings, environ: Mapping[str, str], ours: Collection[int] = ()) -> list[Finding]:
    """Check everything, needed or not; `ours` are the ports on which the stack of these settings listens."""
    return [
        *essential(settings, environ),
        python(environ),
        *makes(settings, environ),
        memory(),
        ports(settings, ours),
        terraform(environ),
    ]


def for_setup(settings: Settings, environ: Mapping[str, str], *, tests: bool) -> list[Finding]:
    """Check what the set-up needs, and with `tests` what the tests need."""
    found = [python(environ), *essential(settings, environ)]
    return [*found, memory(), *for_tests(settings, environ), terraform(environ)] if tests else found


def for_tests(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Check what tests need and a stack does not."""
    needed = [*makes(settings, environ), git(environ), promtool(environ), disk_for_tests(environ)]
    return [*needed, postgresql(settings), browser(settings)]


def makes(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Check make, which a clone has verbs for."""
    return [make(environ)] if (settings.package.parent / "Makefile").exists() else []


def essential(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Check what every stack needs."""
    return [java(environ), javac(environ), maven(environ), *disks(settings, environ)]


def require(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise an error that lists each missing prerequisite with its remedy."""
    refuse(essential(settings, environ), environ)


def refuse(findings: list[Finding], environ: Mapping[str, str]) -> None:
    """Raise one error for all findings that are needed and missing."""
    if not (lacking := lacks(findings)):
        return
    lines = [f"{finding.name}: {finding.found}\n    {finding.remedy}" for finding in lacking]
    if (wanted := packages(lacking)) and _which("apt-get", environ):
        lines.append(f"one command installs {', '.join(wanted)}; as root:\n    {' && '.join(apt(wanted))}")
    raise InfraError("this machine lacks prerequisites; nothing was downloaded or started\n  " + "\n  ".join(lines))


def lacks(findings: list[Finding]) -> list[Finding]:
    """The findings that are needed and missing."""
    return [finding for finding in findings if finding.needed and not finding.ok]


def install(findings: list[Finding], environ: Mapping[str, str]) -> bool:
    """Install the packages of what is missing, if that is allowed and enough; False if nothing was installed."""
    lacking = lacks(findings)
    wanted = packages(lacking)
    become_root = as_root(environ)
    if not wanted or not all(finding.package for finding in lacking) or become_root is None:
        return False
    print(f"installing {', '.join(wanted)}; MILLRACE_INSTALL=no forbids it", file=sys.stderr, flush=True)
    # dpkg refuses a PATH without the folders of root's programs.
    path = f"{environ.get('PATH', '')}:/usr/sbin:/sbin"
    for command in apt(wanted):
        words = [*become_root, "env", "DEBIAN_FRONTEND=noninteractive", f"PATH={path}", *command.split()]
        done = subprocess.run(words, env=dict(environ), stdin=subprocess.DEVNULL, stdout=sys.stderr)
        if done.returncode:
            raise InfraError(f"`{command}` failed with {done.returncode}; its messages are above")
    return True


def as_root(environ: Mapping[str, str]) -> list[str] | None:
    """The start of a command that root runs; None where packages may not or cannot be installed."""
    if environ.get("MILLRACE_INSTALL") == "no" or not _which("apt-get", environ):
        return None
    if os.getuid() == 0:
        return []
    sudo = _which("sudo", environ)
    if sudo and not subprocess.run([sudo, "-n", "true"], env=dict(environ), capture_output=True).returncode:
        return [sudo, "-n"]
    return None


def packages(findings: list[Finding]) -> list[str]:
    """Debian's packages for what was not found."""
    return sorted({finding.package for finding in findings if finding.package})


def apt(wanted: list[str]) -> list[str]:
    """The commands that install packages."""
    return ["apt-get update", f"apt-get install --yes --no-install-recommends {' '.join(wanted)}"]


def java(environ: Mapping[str, str]) -> Finding:
    """The Java that runs the servers."""
    remedy = f"Debian: apt install {JDK_PACKAGE}; elsewhere: any JDK {JDK_LEAST}, its bin folder on PATH"
    path = _which("java", environ)
    if not path:
        return Finding("JDK", False, "no java on PATH", remedy, package=JDK_PACKAGE)
    version_line = _first_line([path, "-version"], environ)
    version = re.search(r'"(?:1\.)?(\d+)[^"]*"', version_line)
    found = f"{version_line} at {path}"
    if home := environ.get("JAVA_HOME"):
        found += f", JAVA_HOME={home}"
        if not (Path(home) / "bin" / "java").exists():
            return Finding("JDK", False, f"{found}, which has no bin/java", "unset JAVA_HOME or point it at a JDK")
    if not version or int(version[1]) < JDK_LEAST:
        return Finding("JDK", False, f"{found}: older than {JDK_LEAST}", remedy, package=JDK_PACKAGE)
    if int(version[1]) > JDK_NEWEST_TRIED:
        found += f" (tried with {JDK_NEWEST_TRIED} only)"
    return Finding("JDK", True, found)


def javac(environ: Mapping[str, str]) -> Finding:
    """The compiler of the kernel: a run-time environment alone does not have it."""
    remedy = f"Debian: apt install {JDK_PACKAGE}; elsewhere: a JDK, not only a JRE, on PATH"
    return _on_path("Java compiler", "javac", remedy, JDK_PACKAGE, environ)


def maven(environ: Mapping[str, str]) -> Finding:
    """Maven, which downloads the jars."""
    remedy = "Debian: apt install maven; elsewhere: Apache Maven 3.8 or newer, its bin folder on PATH"
    return _on_path("Maven", "mvn", remedy, "maven", environ)


def make(environ: Mapping[str, str]) -> Finding:
    """make, for the verbs of a clone's Makefile."""
    return _on_path("make", "make", "Debian: apt install make", "make", environ)


def git(environ: Mapping[str, str]) -> Finding:
    """git: records contain their commit, and tests compare it."""
    return _on_path("git", "git", "Debian: apt install git; elsewhere: git on PATH", "git", environ)


def python(environ: Mapping[str, str]) -> Finding:
    """The Python from which every environment is made."""
    remedy = "Debian: apt install python3.11 python3.11-venv; elsewhere: CPython 3.11 as python3.11 on PATH"
    path = _which("python3.11", environ)
    if not path:
        return Finding("Python 3.11", False, "no python3.11 on PATH", remedy)
    version = _first_line([path, "-c", "import ensurepip, platform; print(platform.python_version())"], environ)
    if not version.startswith("3.11."):
        found = f"{path}: {version or 'cannot make environments (no ensurepip)'}"
        return Finding("Python 3.11", False, found, remedy, package="" if version else "python3.11-venv")
    return Finding("Python 3.11", True, f"{version} at {path}")


def disks(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Room where the downloads go and where the stack keeps its data."""
    least = float(environ.get("MILLRACE_DISK_FREE_GB_MIN") or DISK_FREE_GB_MIN)
    places = {"downloads": (settings.home, "MILLRACE_HOME"), "data": (settings.state, "MILLRACE_STATE")}
    return [disk(f"disk for {what}", path, least, variable) for what, (path, variable) in places.items()]


def disk(name: str, folder: Path, least_gb: float, variable: str) -> Finding:
    """Room on the disk that holds, or will hold, a folder."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free / GB
    found = f"{free:.1f} GB free at {folder}"
    if free >= least_gb:
        return Finding(name, True, found)
    remedy = (
        f"free some, or point {variable} at a disk with more; "
        "MILLRACE_DISK_FREE_GB_MIN lowers the limit, at your own risk"
    )
    return Finding(name, False, f"{found}, {least_gb:g} GB are needed", remedy)


def disk_for_tests(environ: Mapping[str, str]) -> Finding:
    """Room for the stacks of the tests, which are in the folder for temporary files."""
    least = float(environ.get("MILLRACE_DISK_FREE_GB_MIN") or DISK_FREE_GB_MIN)
    return disk("disk for tests", Path(environ.get("TMPDIR") or tempfile.gettempdir()), least, "TMPDIR")


def memory() -> Finding:
    """Memory for the idle stack and one job on each engine."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GB
    ok = total >= MEMORY_GB_MIN
    remedy = "" if ok else f"{MEMORY_GB_MIN:g} GB carry the default stack; with less start some servers alone"
    return Finding("memory", ok, f"{total:.1f} GB", remedy)


def ports(settings: Settings, ours: Collection[int] = ()) -> Finding:
    """The stack's ports, free or its own."""
    doors = {settings.port(door): door for door in PORTS}
    taken = [port for port in doors if port not in ours and not _is_free(port)]
    if not taken:
        own = sum(port in ours for port in doors)
        return Finding("ports", True, f"{settings.port_base} to {max(doors)}: {len(doors) - own} free, {own} ours")
    held = ", ".join(f"{port} ({doors[port]})" for port in taken)
    remedy = f"stop their processes, or choose other ports: `millrace up --port-base {settings.port_base + 100}`"
    return Finding("ports", False, f"in use by others: {held}", remedy)


def terraform(environ: Mapping[str, str]) -> Finding:
    """Terraform: optional, unless MILLRACE_REQUIRE_TERRAFORM demands its tests."""
    path = _which("terraform", environ)
    is_needed = bool(environ.get("MILLRACE_REQUIRE_TERRAFORM"))
    remedy = (
        f"{'' if is_needed else 'optional: '}without it nothing under terraform/ can be planned, applied or tested; "
        "1.9 or newer from https://developer.hashicorp.com/terraform/install, on PATH"
    )
    return Finding("terraform", bool(path), path or "not on PATH", "" if path else remedy, needed=is_needed)


def postgresql(settings: Settings) -> Finding:
    """PostgreSQL, which comes in a jar where Debian's is not installed."""
    found = postgres_programs.debian("postgres") or postgres_programs.unpacked(settings)
    return Finding(
        "PostgreSQL", True, str(found) if found.exists() else "not installed; the set-up downloads it as a jar"
    )


def browser(settings: Settings) -> Finding:
    """The browser of the tests, an npm package."""
    place = npm.folder(settings, "browser")
    return Finding("browser", True, str(place) if place.exists() else "not there yet; `make test` installs it by npm")


def promtool(environ: Mapping[str, str]) -> Finding:
    """Prometheus, with its checker of alert rules: one package has both."""
    remedy = "Debian: apt install prometheus; elsewhere: prometheus and promtool, 2.42 or newer, on PATH"
    return _on_path("promtool", "promtool", remedy, "prometheus", environ)


def _on_path(name: str, program: str, remedy: str, package: str, environ: Mapping[str, str]) -> Finding:
    if path := _which(program, environ):
        return Finding(name, True, path)
    return Finding(name, False, f"no {program} on PATH", remedy, package=package)


def _which(program: str, environ: Mapping[str, str]) -> str:
    return shutil.which(program, path=environ.get("PATH", "")) or ""


def _first_line(command: list[str], environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("Picked up ", "NOTE: Picked up "))]
    return lines[0] if lines and not done.returncode else ""


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: TIME_WAIT holds no port
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
