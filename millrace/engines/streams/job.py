"""The declaration of a job, as Main.java reads it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from millrace.engines.streams.tuning import IDLE_MS, settings_of
from millrace.patterns import EnginePlan, kafka_job

MAIN = "millrace.streams.Main"
MEMBER = "main.consumer.group.instance.id"


def declaration(plan: EnginePlan, folder: Path) -> dict[str, Any]:
    """The job of a plan; local state goes to the folder."""
    settings = settings_of(plan.delivery) | {MEMBER: _member(plan)}
    return kafka_job.declaration(plan, folder, f"{plan.pattern} (generation {plan.generation})", IDLE_MS, settings)


def _member(plan: EnginePlan) -> str:
    """The name of the process in its consumer group.

    One that is started anew takes over at once what its dead predecessor read, if it reads the same.
    """
    use = plan.use
    read = [*(plan.topics[each.name] for each in (*use.raw, *use.references)), plan.partitions, bool(plan.windows)]
    return hashlib.sha256(json.dumps([*read, bool(plan.summaries)]).encode()).hexdigest()[:8]
