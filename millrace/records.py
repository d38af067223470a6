"""Records of measurements: a JSON file each, with everything needed to check or repeat the number.

Standard library only: `make setup` writes one while it makes the environments.
"""

import json
import os
import platform
import subprocess
import timeit
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from millrace.settings import Settings
from millrace.whole_files import write_whole


def append(settings: Settings, kind: str, figures: Mapping[str, Any], seed: int | None = None) -> Path:
    """Write a record to `<state>/records`; `python -m lab.records` copies those that documents cite."""
    now = datetime.now(UTC)
    record = {
        "kind": kind,
        "at": now.isoformat(timespec="seconds"),
        "commit": commit(settings.project),
        "seed": seed,
        "machine": machine(),
        "load_average": os.getloadavg(),
        "figures": figures,
    }
    path = settings.state / "records" / f"{now:%Y%m%dT%H%M%S.%f}-{kind}.json"
    write_whole(path, json.dumps(record, indent=1) + "\n")
    return path


def read(settings: Settings, kind: str) -> list[dict[str, Any]]:
    """Every record of a kind, oldest first."""
    return [json.loads(path.read_text()) for path in sorted((settings.state / "records").glob(f"*-{kind}.json"))]


def commit(project: Path) -> str | None:
    """The commit of the project, with `+changes` when the work tree differs from it."""
    try:
        name = _git(project, "rev-parse", "HEAD")
        return f"{name}+changes" if _git(project, "status", "--porcelain") else name
    except (OSError, subprocess.CalledProcessError):
        return None  # not a clone, or no git


def machine() -> dict[str, Any]:
    """The machine on which the number was measured."""
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "jvm_options": os.environ.get("JDK_JAVA_OPTIONS", ""),
        "million_steps_ms": million_steps_ms(),
    }


def million_steps_ms() -> float:
    """How fast a core is: the shortest of three loops of a million steps. Virtual machines of one kind differ."""
    return round(min(timeit.repeat("for _ in range(1_000_000): pass", number=1, repeat=3)) * 1000, 1)


def _git(project: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", project, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()
