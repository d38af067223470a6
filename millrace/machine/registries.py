"""Whether the package registries answer their own clients, with their own configuration; a few kilobytes each.

Standard library only: `make setup` checks before it downloads anything.
"""

import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millrace.machine import environments, jars, npm
from millrace.machine.prerequisites import Finding
from millrace.settings import Settings

WITHIN_S = 60

# Maven fetches what a pom imports before it does anything else; this one is a file of 6 kB, and no plugin runs.
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>millrace</groupId>
  <artifactId>reach</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.junit</groupId><artifactId>junit-bom</artifactId><version>5.10.0</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
</project>
"""


def reached(settings: Settings, tests: bool) -> list[Finding]:
    """Check the registries from which something must be downloaded."""
    with ThreadPoolExecutor() as workers:
        checks = []
        if pip := environments.pip_of_uv(settings):
            checks.append(workers.submit(_pip, pip))
        if jars.absent(settings, jars.components(settings)):
            checks.append(workers.submit(_maven))
        # Where npm is not yet there, it comes with the Python packages, and names an error itself.
        if npm.absent(settings, npm.components(tests)) and shutil.which("npm"):
            checks.append(workers.submit(_npm))
        return [each.result() for each in checks]


def _pip(download: list[str]) -> Finding:
    remedy = "connect this machine, or set a mirror (PIP_INDEX_URL, pip.conf) or a proxy (HTTPS_PROXY)"
    # A dry run reads the index, not the package.
    return _reached("Python packages", [*download, "--dry-run", "--no-deps", "--retries", "0"], remedy)


def _maven() -> Finding:
    remedy = "connect this machine, or set a mirror or a proxy in ~/.m2/settings.xml"
    with tempfile.TemporaryDirectory() as place:
        pom = Path(place) / "pom.xml"
        pom.write_text(POM)
        words = (
            "--batch-mode",
            "--quiet",
            "-Dstyle.color=never",
            "--file",
            str(pom),
            f"-Dmaven.repo.local={place}/repository",
        )
        return _reached("jars", ["mvn", *words, "validate"], remedy)


def _npm() -> Finding:
    remedy = "connect this machine, or set a mirror (`npm config set registry`) or a proxy (HTTPS_PROXY)"
    return _reached("npm packages", ["npm", "view", "--fetch-retries", "0", "uplot", "version"], remedy)


def _reached(name: str, command: list[str], remedy: str) -> Finding:
    client = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        return Finding(f"registry of {name}", False, f"{client} had no answer within {WITHIN_S} s", remedy)
    except FileNotFoundError:
        return Finding(f"registry of {name}", False, f"no {client} on PATH to check it", remedy)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error" in line.lower()] or [str(done.returncode)]
        reason = next((line for line in errors if "Could not" in line or "reason: " in line), errors[0])
        return Finding(f"registry of {name}", False, f"{client}: {reason}", remedy)
    return Finding(f"registry of {name}", True, f"answers {client}")
