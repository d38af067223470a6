"""What the machine must offer, and what to do where it does not.

Standard library only: `make setup` asks before any environment exists, `up` before anything is downloaded.
"""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.errors import InfraError
from infra.settings import PORTS, Settings

GB = 1_000_000_000

# Measured (docs/records): environments, jars and their caches come to some 3 GB; the rest is room for what flows.
DISK_FREE_GB_MIN = 5.0
MEMORY_GB_MIN = 4.0

JDK_LEAST, JDK_NEWEST_TRIED = 17, 17


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = True  # False: something works without it, and the remedy says what does not


def check(settings: Settings, environ: Mapping[str, str], ours: Collection[int] = ()) -> list[Finding]:
    """Looks at everything, needed or not; `ours` are the ports that a stack of these settings listens on already."""
    return [
        *essential(settings, environ),
        python(environ),
        make(environ),
        memory(),
        ports(settings, ours),
        terraform(environ),
        browser(environ),
    ]


def essential(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Looks at what a stack cannot do without."""
    return [java(environ), javac(environ), maven(environ), *disks(settings, environ)]


def require(settings: Settings, environ: Mapping[str, str]) -> None:
    """Refuses to go on, naming every lack and its remedy, where the machine cannot carry a stack."""
    refuse(essential(settings, environ))


def refuse(findings: list[Finding]) -> None:
    """Raises one error for all that is needed and not there."""
    lacking = [finding for finding in findings if finding.needed and not finding.ok]
    if lacking:
        lines = [f"{finding.name}: {finding.found}\n    {finding.remedy}" for finding in lacking]
        raise InfraError(
            "this machine lacks what is needed; nothing was downloaded or started\n  " + "\n  ".join(lines)
        )


def java(environ: Mapping[str, str]) -> Finding:
    """The Java that runs the servers."""
    remedy = (
        f"Debian: apt install openjdk-{JDK_LEAST}-jdk-headless; elsewhere: any JDK {JDK_LEAST}, its bin folder on PATH"
    )
    path = _which("java", environ)
    if not path:
        return Finding("JDK", False, "no java on PATH", remedy)
    said = _first_line([path, "-version"], environ)
    version = re.search(r'"(?:1\.)?(\d+)[^"]*"', said)
    found = f"{said} at {path}"
    if home := environ.get("JAVA_HOME"):
        found += f", JAVA_HOME={home}"
        if not (Path(home) / "bin" / "java").exists():
            return Finding("JDK", False, f"{found}, which has no bin/java", "unset JAVA_HOME or point it at a JDK")
    if not version or int(version[1]) < JDK_LEAST:
        return Finding("JDK", False, f"{found}: older than {JDK_LEAST}", remedy)
    if int(version[1]) > JDK_NEWEST_TRIED:
        found += f" (tried with {JDK_NEWEST_TRIED} only)"
    return Finding("JDK", True, found)


def javac(environ: Mapping[str, str]) -> Finding:
    """The compiler of the kernel: a run-time environment alone does not have it."""
    remedy = f"Debian: apt install openjdk-{JDK_LEAST}-jdk-headless; elsewhere: a JDK, not only a JRE, on PATH"
    path = _which("javac", environ)
    return Finding("Java compiler", bool(path), path or "no javac on PATH", "" if path else remedy)


def maven(environ: Mapping[str, str]) -> Finding:
    """Maven, which brings the jars."""
    remedy = "Debian: apt install maven; elsewhere: Apache Maven 3.8 or newer, its bin folder on PATH"
    path = _which("mvn", environ)
    return Finding("Maven", bool(path), path or "no mvn on PATH", "" if path else remedy)


def make(environ: Mapping[str, str]) -> Finding:
    """make, for the verbs of the Makefile."""
    path = _which("make", environ)
    return Finding("make", bool(path), path or "no make on PATH", "" if path else "Debian: apt install make")


def python(environ: Mapping[str, str]) -> Finding:
    """The Python from which every environment is made."""
    remedy = "Debian: apt install python3.11 python3.11-venv; elsewhere: CPython 3.11 as python3.11 on PATH"
    path = _which("python3.11", environ)
    if not path:
        return Finding("Python 3.11", False, "no python3.11 on PATH", remedy)
    said = _first_line([path, "-c", "import ensurepip, platform; print(platform.python_version())"], environ)
    if not said.startswith("3.11."):
        return Finding("Python 3.11", False, f"{path}: {said or 'cannot make environments (no ensurepip)'}", remedy)
    return Finding("Python 3.11", True, f"{said} at {path}")


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
        "MILLRACE_DISK_FREE_GB_MIN changes how much is asked for, at your own risk"
    )
    return Finding(name, False, f"{found}, {least_gb:g} GB are needed", remedy)


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
    remedy = f"stop who holds them, or move the whole stack: `millrace up --port-base {settings.port_base + 100}`"
    return Finding("ports", False, f"in use by others: {held}", remedy)


def terraform(environ: Mapping[str, str]) -> Finding:
    """Terraform, for whoever provisions by it."""
    path = _which("terraform", environ)
    remedy = (
        "optional: without it nothing under terraform/ can be planned, applied or tested; "
        "1.9 or newer from https://developer.hashicorp.com/terraform/install, on PATH"
    )
    return Finding("terraform", bool(path), path or "not on PATH", "" if path else remedy, needed=False)


def browser(environ: Mapping[str, str]) -> Finding:
    """A browser, for the tests of web pages."""
    path = next(filter(None, (_which(name, environ) for name in ("chromium", "chromium-browser", "google-chrome"))), "")
    remedy = "" if path else "optional: without it no screenshots of the web pages are taken"
    return Finding("chromium", bool(path), path or "not on PATH", remedy, needed=False)


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
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Picked up ")]
    return lines[0] if lines and not done.returncode else ""


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: TIME_WAIT is no holder
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
