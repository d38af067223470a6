"""The backfills of a stack by name: each is a copy of a pattern, over topics that hold a finite stream.

A file for each, in the state folder. It keeps the whole pattern, so that the pattern file may change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millrace import project
from millrace.whole_files import write_whole


def names() -> list[str]:
    """The names of all backfills whose data is kept, sorted."""
    return sorted(path.stem for path in _folder().glob("*.json"))


def content(name: str) -> Mapping[str, Any] | None:
    """Its pattern, the pattern's name, and the source of its events; None if there is no such backfill."""
    try:
        found: Mapping[str, Any] = json.loads((_folder() / f"{name}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def keep(name: str, of: str, source: str, pattern: Mapping[str, Any]) -> None:
    """Record a backfill, before anything is created under its name."""
    write_whole(_folder() / f"{name}.json", json.dumps({"of": of, "from": source, "pattern": pattern}, indent=1))


def forget(name: str) -> None:
    """Remove the record, once the data is removed."""
    (_folder() / f"{name}.json").unlink(missing_ok=True)


def _folder() -> Path:
    return project.state() / "backfills"
