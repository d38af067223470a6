"""The declaration of a job, as Main.java reads it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from millrace.engines.streams.tuning import IDLE_MS, settings_of
from millrace.patterns import EnginePlan
from millrace.rules.stage import stage_data, windows_data

MAIN = "millrace.streams.Main"
MEMBER = "main.consumer.group.instance.id"


def declaration(plan: EnginePlan, folder: Path, instance: int = 1, instances: int = 1) -> dict[str, Any]:
    """What one process of a plan runs; local state goes to the folder.

    The tasks of a job that is one process share its threads; of several, each has one.
    """
    use = plan.use
    windows = windows_data(use, plan.window_rules, plan.window_summaries)
    return {
        "pattern": plan.pattern,
        "name": f"{plan.pattern} (generation {plan.generation})",
        "bootstrap": plan.bootstrap,
        "topics": dict(plan.topics),
        # Of the same millisecond, side streams come before the judged event.
        "raw": [*(each.name for each in use.others), use.judged.name],
        "judged": use.judged.name,
        "enriched": use.enriched.name,
        "references": [
            {"name": each.name, "event": json.dumps(each.reader()), "key": each.key} for each in use.references
        ],
        "stage": json.dumps(stage_data(use, plan.event_rules)),
        "windows": json.dumps(windows) if plan.window_rules or plan.window_summaries else None,
        "delivery": plan.delivery,
        "threads": plan.parallelism if instances == 1 else 1,
        "instances": instances,
        "instance": instance,
        "disorder_ms": use.disorder_ms,
        "idle_ms": IDLE_MS,
        "live_ms": use.disorder_ms // 2,
        "finite": plan.finite,
        "folder": str(folder),
        "accepted": [each.plain() for each in plan.accepted],
        "settings": settings_of(plan.delivery) | {MEMBER: _member(plan, instance)} | dict(plan.options),
    }


def _member(plan: EnginePlan, instance: int) -> str:
    """The name of the process in its consumer group.

    One that is started anew takes over at once what its dead predecessor read, if it reads the same.
    """
    use = plan.use
    read = [*(plan.topics[each.name] for each in (*use.raw, *use.references)), plan.partitions, bool(plan.windows)]
    reads = hashlib.sha256(json.dumps([*read, bool(plan.summaries)]).encode()).hexdigest()[:8]
    return reads if instance == 1 else f"{reads}-{instance}"
