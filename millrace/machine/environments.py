"""The Python environments: one lock file, one environment for each engine, because the engines cannot share one.

Those of the engines and of Airflow are shared by all projects of a user (decision 0035). They hold no millrace: their
processes find it in `python_path`.

Standard library only: `make setup` runs this before any environment exists.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from uuid import uuid4

from millrace import project, registry
from millrace.errors import InfraError
from millrace.settings import Settings

UV_VERSION = "0.13.8"

CLI = "cli"
"""Of a clone: the command line and the tests."""
SHARED = (*(engine.name for engine in registry.manifests() if engine.has_environment), "airflow")

Report = Callable[[str], None]


@dataclass(frozen=True)
class Installed:
    """The cost of making one environment."""

    environment: str
    seconds: float


def python(settings: Settings, name: str) -> Path:
    """The interpreter of an environment: that of the command line, of an engine or of Airflow."""
    return folder(settings, name) / "bin" / "python"


def folder(settings: Settings, name: str) -> Path:
    """Where an environment is: a clone's own in the clone, another in MILLRACE_HOME, named by what it is made from."""
    if name == CLI:
        return settings.package.parent / ".venv"
    digest = hashlib.sha256((_lock(settings) / "uv.lock").read_bytes())
    digest.update(str(_interpreter()).encode())
    return settings.home / "environments" / f"{name}-{digest.hexdigest()[:16]}"


def command(settings: Settings) -> Path:
    """The command line that belongs to this package, from any environment."""
    if not settings.package.parent.name.endswith("-packages"):
        return python(settings, CLI).with_name("millrace")
    # <environment>/lib/python3.11/site-packages/millrace
    return settings.package.parents[3] / "bin" / "millrace"


def site_packages(settings: Settings, name: str) -> Path:
    return folder(settings, name) / "lib" / "python3.11" / "site-packages"


def absent(settings: Settings, names: Iterable[str] = SHARED) -> list[str]:
    """The environments that are missing or differ from the lock file."""
    return [name for name in names if not _is_there(settings, name)]


def ensure(settings: Settings, name: str, report: Report = lambda _: None) -> Installed | None:
    """Make one environment as the lock file declares; one that is up to date stays as it is."""
    if _is_there(settings, name):
        return None
    started = time.monotonic()
    if name == CLI:
        _make_of_clone(settings)
    else:
        with _only_one(folder(settings, name)):
            if _is_there(settings, name):
                return None
            report(f"making the Python environment of {name}, once for all projects")
            _make_shared(settings, name)
    return Installed(name, round(time.monotonic() - started, 1))


def python_path(settings: Settings) -> Path:
    """The PYTHONPATH from which processes of all environments import millrace and the project's pipelines."""
    return settings.state / "python"


def variables_of_python(settings: Settings) -> dict[str, str]:
    """The variables of a Python process of this stack, in any environment."""
    link(settings)
    return settings.environment() | {"PYTHONPATH": str(python_path(settings))}


def link(settings: Settings) -> None:
    """Fills the PYTHONPATH with links: beside an installed package lie those of the command line, in other versions."""
    brought = [path for each in project.installed() for path in (each.top, *_metadata(each.distribution))]
    own = (settings.package, settings.project / project.FOLDER, *_metadata(_distribution()))
    links = {path.name: path for path in (*brought, *own)}
    place = python_path(settings)
    place.mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        link = place / name
        if not link.is_symlink() or link.readlink() != target:
            arriving = place / f".{name}-{uuid4().hex}"
            arriving.symlink_to(target)
            arriving.replace(link)
    for link in place.glob("[!.]*"):
        if link.name not in links:
            link.unlink(missing_ok=True)  # of an earlier version, or of a package that is uninstalled


def with_tool(settings: Settings, group: str) -> list[str]:
    """The start of a command that runs with the programs of a dependency group, npm or go, first on its PATH."""
    words = ("run", "--isolated", "--frozen", "--no-progress", "--quiet", "--project", str(_lock(settings)))
    return [str(uv(settings)), *words, "--python", str(_interpreter()), "--only-group", group, "--"]


def variables(settings: Settings) -> dict[str, str]:
    """The environment in which uv runs, and programs that it installs."""
    # uv and Node come with certificate authorities of their own; they trust those of the machine, too, as Maven does.
    trusting = {"UV_SYSTEM_CERTS": "true", "NODE_USE_SYSTEM_CA": "1"}
    # All that is downloaded is in one place, unless UV_CACHE_DIR names a cache that others share.
    found = {"UV_CACHE_DIR": str(settings.home / "uv"), **trusting, **os.environ}
    found.pop("VIRTUAL_ENV", None)
    return found


def pip_of_uv(settings: Settings) -> list[str]:
    """The start of the command that downloads uv; empty when it is there. Nothing is downloaded by making it."""
    folder = _uv_folder(settings)
    if (folder / "complete").exists():
        return []
    if not (folder / "bin" / "pip").exists():
        _run(f"uv {UV_VERSION}", [sys.executable, "-m", "venv", "--clear", str(folder)], {}, settings)
    return [str(folder / "bin" / "pip"), "install", "--quiet", f"uv=={UV_VERSION}"]


def _make_of_clone(settings: Settings) -> None:
    place = folder(settings, CLI)
    if (known := _read_marker(settings)) and known.splitlines()[0] != str(place.parent):
        shutil.rmtree(place)  # a moved clone: the scripts of the environment name the old place
    _sync(settings, CLI, place.parent, place)
    (place / ".made-from").write_text(_marker(settings))


def _make_shared(settings: Settings, name: str) -> None:
    """Make an environment in another folder and rename it, so that it is complete or absent."""
    place = folder(settings, name)
    arriving = place.with_name(f"{place.name}.arriving")
    shutil.rmtree(arriving, ignore_errors=True)
    # Relocatable: its scripts do not name the folder in which it was made.
    venv = [str(uv(settings)), "venv", "--quiet", "--relocatable", "--python", str(_interpreter()), str(arriving)]
    _run(f"the Python environment {name!r}", venv, {}, settings)
    extra = ("--no-default-groups", "--no-install-project", "--extra", name)
    _sync(settings, name, _lock(settings), arriving, *extra)
    arriving.rename(place)


def _sync(settings: Settings, name: str, source: Path, place: Path, *more: str) -> None:
    words = ("sync", "--frozen", "--no-progress", "--project", str(source), "--python", str(_interpreter()), *more)
    made = {"UV_PROJECT_ENVIRONMENT": str(place)}
    _run(f"the Python environment {name!r}", [str(uv(settings)), *words], made, settings)


def _is_there(settings: Settings, name: str) -> bool:
    return _read_marker(settings) == _marker(settings) if name == CLI else folder(settings, name).is_dir()


@contextmanager
def _only_one(place: Path) -> Iterator[None]:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _interpreter() -> Path:
    # The interpreter that runs this: uv would download another one.
    return Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def _lock(settings: Settings) -> Path:
    """The folder of uv.lock and of the pyproject.toml that it belongs to."""
    return settings.package / "machine" / "lock"


def _distribution() -> metadata.Distribution | None:
    """The installed package; None before the first set-up."""
    try:
        return metadata.distribution("millrace")
    except metadata.PackageNotFoundError:
        return None


def _metadata(distribution: metadata.Distribution | None) -> list[Path]:
    """The metadata of an installed package, by which others find its entry points."""
    files = distribution.files if distribution else None
    return [Path(str(file.locate())).parent.resolve() for file in files or () if file.name == "METADATA"]


def uv(settings: Settings) -> Path:
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
        cwd=settings.home,
        env=variables(settings) | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        tail = "\n  ".join(done.stdout.strip().splitlines()[-12:])
        raise InfraError(f"{what} could not be installed; {' '.join(command)} printed:\n  {tail}")


def _marker(settings: Settings) -> str:
    clone = settings.package.parent
    digest = hashlib.sha256()
    for path in (clone / "pyproject.toml", clone / "uv.lock"):
        digest.update(path.read_bytes())
    return f"{clone}\n{digest.hexdigest()}\n"


def _read_marker(settings: Settings) -> str | None:
    try:
        return (folder(settings, CLI) / ".made-from").read_text()
    except FileNotFoundError:
        return None
