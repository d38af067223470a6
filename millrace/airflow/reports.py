"""Reports of runs, stored by DAG and run in a place that the report tab can read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from airflow.sdk import ObjectStoragePath

from millrace.settings import Settings

VARIABLE = "MILLRACE_REPORTS"
"""A folder or an object store's URL that workers and the api-server share; without it, beside the stack's records."""


def keep(report: str, dag_id: str, run_id: str) -> str:
    """Copy a report to the place where the report tab reads it; return that place."""
    place = _place(dag_id, run_id)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(Path(report).read_text(encoding="utf-8"))
    return str(place)


def find(dag_id: str, run_id: str) -> str | None:
    """The report of a run; None if it has none (yet)."""
    place = _place(dag_id, run_id)
    return place.read_text() if place.exists() else None


def _place(dag_id: str, run_id: str) -> ObjectStoragePath:
    folder = os.environ.get(VARIABLE) or (Settings.read(os.environ).state / "reports").as_uri()
    # A user who triggers a run chooses its id: as a hash it cannot lead to another folder.
    name = hashlib.sha256(f"{dag_id}\0{run_id}".encode()).hexdigest()[:32]
    return ObjectStoragePath(folder) / f"{name}.html"
