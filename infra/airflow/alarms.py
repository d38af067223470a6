"""What happens when a run is late."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference

log = logging.getLogger(__name__)


async def late(minutes: int, context: dict[str, Any] | None = None, **_: Any) -> None:
    """Say in the triggerer's log that a run is not done in its time; attach a notifier here for your own alarms."""
    run = (context or {}).get("dag_run", {})
    log.error("run %s of %s is not done after %s minutes", run.get("dag_run_id"), run.get("dag_id"), minutes)


def within(minutes: int) -> DeadlineAlert:
    """The alarm of a DAG whose runs must be done so many minutes after they were asked for."""
    return DeadlineAlert(
        name=f"within {minutes} minutes",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=minutes),
        callback=AsyncCallback(late, kwargs={"minutes": minutes}),
    )
