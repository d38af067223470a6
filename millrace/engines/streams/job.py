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


def declaration(plan: EnginePlan, folder: Path, instance: int = 1, instances: int = 1) -> dict[str, Any]:
    """What one process of a plan runs; local state goes to the folder.

    The tasks of a job that is one process share its threads; of several, each has one.
    """
    settings = settings_of(plan.delivery) | {MEMBER: _member(plan, instance)}
    name = f"{plan.pattern} (generation {plan.generation})"
    threads = plan.parallelism if instances == 1 else 1
    own = {"threads": threads, "instances": instances}
    return kafka_job.declaration(plan, folder, name, IDLE_MS, settings) | own


def _member(plan: EnginePlan, instance: int) -> str:
    """The name of the process in its consumer group.

    One that is started anew takes over at once what its dead predecessor read, if it reads the same.
    """
    use = plan.use
    read = [*(plan.topics[each.name] for each in (*use.raw, *use.references)), plan.partitions, bool(plan.windows)]
    reads = hashlib.sha256(json.dumps([*read, bool(plan.summaries)]).encode()).hexdigest()[:8]
    return reads if instance == 1 else f"{reads}-{instance}"
