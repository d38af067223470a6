"""The Python environments: one lock file, one environment for each engine, because the engines cannot share one.

Standard library only: `make setup` runs this before any environment exists.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from millrace.engines import registry
from millrace.errors import InfraError
from millrace.settings import PROJECT, Settings

UV_VERSION = "0.13.8"

_ENGINES = [engine.name for engine in registry.manifests() if engine.has_environment]
FOLDERS = {"cli": ".venv", **{name: f".venvs/{name}" for name in [*_ENGINES, "airflow"]}}


@dataclass(frozen=True)
class Installed:
    """What it took to make one environment."""

    environment: str
    seconds: float


def python(name: str) -> Path:
    """The interpreter of an environment: that of the command line, of an engine or of Airflow."""
    return PROJECT / FOLDERS[name] / "bin" / "python"


def site_packages(name: str) -> Path:
    """The installed packages of an environment."""
    return PROJECT / FOLDERS[name] / "lib" / "python3.11" / "site-packages"


def absent() -> list[str]:
    """Names the environments that are not there as the lock file wants them."""
    return [name for name in FOLDERS if _read_marker(name) != _marker()]


def ensure(settings: Settings, name: str) -> Installed | None:
    """Makes one environment exactly what the lock file says; nothing is done when it is already."""
    if name not in absent():
        return None
    started = time.monotonic()
    folder = PROJECT / FOLDERS[name]
    if (known := _read_marker(name)) and known.splitlines()[0] != str(PROJECT):
        shutil.rmtree(folder)  # a moved clone: the scripts of the environment name the old place
    extra = [] if name == "cli" else ["--no-default-groups", "--extra", name]
    command = [str(_uv(settings)), "sync", "--frozen", "--no-progress", "--python", str(_interpreter()), *extra]
    _run(f"the Python environment {name!r}", command, {"UV_PROJECT_ENVIRONMENT": FOLDERS[name]}, settings)
    (folder / ".made-from").write_text(_marker())
    return Installed(name, round(time.monotonic() - started, 1))


def with_tool(settings: Settings, group: str) -> list[str]:
    """The start of a command that runs with the programs of a dependency group, npm or go, first on its PATH."""
    words = ("run", "--isolated", "--frozen", "--no-progress", "--quiet", "--project", str(PROJECT))
    return [str(_uv(settings)), *words, "--python", str(_interpreter()), "--only-group", group, "--"]


def variables(settings: Settings) -> dict[str, str]:
    """The environment in which uv runs."""
    # All that is downloaded is in one place, unless UV_CACHE_DIR names a cache that others share.
    found = {"UV_CACHE_DIR": str(settings.home / "uv"), **os.environ}
    found.pop("VIRTUAL_ENV", None)
    return found


def _interpreter() -> Path:
    # The very interpreter that runs this: uv is not to download another one.
    return Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def pip_of_uv(settings: Settings) -> list[str]:
    """The start of the command that downloads uv; empty when it is there. Nothing is downloaded by making it."""
    folder = _uv_folder(settings)
    if (folder / "complete").exists():
        return []
    if not (folder / "bin" / "pip").exists():
        _run(f"uv {UV_VERSION}", [sys.executable, "-m", "venv", "--clear", str(folder)], {}, settings)
    return [str(folder / "bin" / "pip"), "install", "--quiet", f"uv=={UV_VERSION}"]


def _uv(settings: Settings) -> Path:
    """uv of the pinned version, in an environment of its own."""
    folder = _uv_folder(settings)
    if download := pip_of_uv(settings):
        _run(f"uv {UV_VERSION}", download, {}, settings)
        (folder / "complete").touch()
    return folder / "bin" / "uv"


def _uv_folder(settings: Settings) -> Path:
    return settings.home / f"uv-{UV_VERSION}"


def _run(what: str, command: list[str], more: dict[str, str], settings: Settings) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=variables(settings) | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        tail = "\n  ".join(done.stdout.strip().splitlines()[-12:])
        raise InfraError(f"{what} could not be installed; {' '.join(command)} said:\n  {tail}")


def _marker() -> str:
    digest = hashlib.sha256()
    for path in (PROJECT / "pyproject.toml", PROJECT / "uv.lock"):
        digest.update(path.read_bytes())
    return f"{PROJECT}\n{digest.hexdigest()}\n"


def _read_marker(name: str) -> str | None:
    try:
        return (PROJECT / FOLDERS[name] / ".made-from").read_text()
    except FileNotFoundError:
        return None
