"""Deadlines of runs, and the alarm when one is missed."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference

log = logging.getLogger(__name__)


async def late(minutes: float, context: dict[str, Any] | None = None, **_: Any) -> None:
    """Log in the triggerer that a run has missed its deadline; attach your notifier here."""
    run = (context or {}).get("dag_run", {})
    log.error("run %s of %s is not done after %.0f minutes", run.get("dag_run_id"), run.get("dag_id"), minutes)


def within(span: timedelta) -> DeadlineAlert:
    """The alarm of a DAG whose runs must end within this time after they were queued."""
    minutes = span / timedelta(minutes=1)
    return DeadlineAlert(
        name=f"within {minutes:.0f} minutes",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=span,
        callback=AsyncCallback(late, kwargs={"minutes": minutes}),
    )
