"""The declaration of a job on Kafka's own clients, as kernel/kafka/Job.java reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millrace.patterns.plan import EnginePlan
from millrace.rules.stage import stage_data, windows_data


def declaration(plan: EnginePlan, folder: Path, name: str, idle_ms: int, settings: Mapping[str, str]) -> dict[str, Any]:
    """The job of a plan; local state goes to the folder."""
    use = plan.use
    windows = windows_data(use, plan.window_rules, plan.window_summaries)
    return {
        "pattern": plan.pattern,
        "name": name,
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
        "threads": plan.parallelism,
        "instances": 1,
        "disorder_ms": use.disorder_ms,
        "idle_ms": idle_ms,
        "live_ms": use.disorder_ms // 2,
        "finite": plan.finite,
        "folder": str(folder),
        "accepted": [each.plain() for each in plan.accepted],
        "settings": {**settings, **plan.options},
    }
