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

from infra.errors import InfraError
from infra.settings import PROJECT, Settings

UV_VERSION = "0.13.8"

FOLDERS = {"cli": ".venv", "flink": ".venvs/flink", "spark": ".venvs/spark", "airflow": ".venvs/airflow"}


@dataclass(frozen=True)
class Installed:
    """What it took to make one environment."""

    environment: str
    seconds: float


def python(name: str) -> Path:
    """The interpreter of an environment: cli, flink, spark or airflow."""
    return PROJECT / FOLDERS[name] / "bin" / "python"


def flink_package() -> Path:
    """Where Flink's own files are: bin/, conf/, lib/ and opt/, as its wheel brings them."""
    return _site_packages("flink") / "pyflink"


def spark_package() -> Path:
    """Where Spark's own files are: bin/, jars/ and sbin/, as its wheel brings them."""
    return _site_packages("spark") / "pyspark"


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
    # The very interpreter that runs this: uv is not to download another one.
    interpreter = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    command = [str(_uv(settings)), "sync", "--frozen", "--no-progress", "--python", str(interpreter), *extra]
    _run(f"the Python environment {name!r}", command, {"UV_PROJECT_ENVIRONMENT": FOLDERS[name]}, settings)
    (folder / ".made-from").write_text(_marker())
    return Installed(name, round(time.monotonic() - started, 1))


def _uv(settings: Settings) -> Path:
    """uv of the pinned version, in an environment of its own."""
    folder = settings.home / f"uv-{UV_VERSION}"
    if not (folder / "complete").exists():
        what = f"uv {UV_VERSION}"
        _run(what, [sys.executable, "-m", "venv", "--clear", str(folder)], {}, settings)
        _run(what, [str(folder / "bin" / "pip"), "install", "--quiet", f"uv=={UV_VERSION}"], {}, settings)
        (folder / "complete").touch()
    return folder / "bin" / "uv"


def _run(what: str, command: list[str], variables: dict[str, str], settings: Settings) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    # All that is downloaded is in one place; whoever shares a uv cache already says so with UV_CACHE_DIR.
    environment = {"UV_CACHE_DIR": str(settings.home / "uv"), **os.environ, **variables}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        tail = "\n  ".join(done.stdout.strip().splitlines()[-12:])
        raise InfraError(f"{what} could not be installed; {' '.join(command)} said:\n  {tail}")


def _site_packages(name: str) -> Path:
    return PROJECT / FOLDERS[name] / "lib" / "python3.11" / "site-packages"


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
