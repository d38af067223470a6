"""npm packages: locked per component, installed once into a folder named by its content.

A component is a folder beside this file: `package.json`, `package-lock.json`, and what its script `unpack` needs. npm
compares each package with the hash in the lock. Scripts of packages do not run; `unpack` is ours. npm itself is in the
dependency group `npm`, whatever the machine has.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from millrace.errors import InfraError
from millrace.machine import environments
from millrace.settings import Settings

HERE = Path(__file__).resolve().parent


def components(tests: bool) -> tuple[str, ...]:
    """What a set-up installs, and what tests need beside it."""
    return ("dashboard", "browser") if tests else ("dashboard",)


def folder(settings: Settings, component: str) -> Path:
    """Where a component is installed, its packages in `node_modules`."""
    digest = hashlib.sha256()
    for path in _sources(component):
        digest.update(f"{path.name}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return settings.home / "npm" / component / digest.hexdigest()


def absent(settings: Settings, names: Iterable[str]) -> list[str]:
    """Which of the named components must be downloaded."""
    return [name for name in names if not folder(settings, name).exists()]


def ensure(settings: Settings, component: str) -> Path:
    """Makes a component present as locked."""
    place = folder(settings, component)
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _install(settings, component, place)
    return place


def _install(settings: Settings, component: str, place: Path) -> None:
    arriving = place.with_name(".arriving")
    shutil.rmtree(arriving, ignore_errors=True)
    arriving.mkdir()
    for path in _sources(component):
        shutil.copyfile(path, arriving / path.name)
    _npm(settings, component, arriving, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    _npm(settings, component, arriving, "run", "--if-present", "unpack")
    shutil.rmtree(arriving / ".npm", ignore_errors=True)
    arriving.rename(place)


def _npm(settings: Settings, component: str, where: Path, *words: str) -> None:
    done = subprocess.run(
        [*environments.with_tool(settings, "npm"), "npm", *words],
        cwd=where,
        # A cache of its own, dropped at the end: no package is stored twice.
        env=environments.variables(settings) | {"npm_config_cache": str(where / ".npm")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        lines = [line for line in done.stdout.strip().splitlines() if not line.startswith("npm warn")]
        raise InfraError(
            f"the npm packages of {component!r} could not be installed by {os.fspath(HERE / component)}; "
            f"`npm {' '.join(words)}` printed:\n  " + "\n  ".join(lines[:12])
        )


def _sources(component: str) -> list[Path]:
    return sorted(path for path in (HERE / component).iterdir() if path.is_file())
