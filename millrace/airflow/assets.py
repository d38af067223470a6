"""Assets: the verdict on each pattern; a DAG can be scheduled on it, whichever DAG produced it."""

from __future__ import annotations

from airflow.sdk import Asset


def verdict(pattern: str) -> Asset:
    """The verdict on a pattern; each of its events has the summary of one verdict."""
    return Asset(f"verdict-{pattern}", uri=f"x-millrace://verdict/{pattern}", group="verdict")
