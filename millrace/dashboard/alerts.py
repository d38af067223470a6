"""An alert as the page shows it: a row of its list, and what the drawer adds to that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.alerts import why
from millrace.dashboard.latencies import late_by_ms
from millrace.dashboard.shown import identity, text
from millrace.oracle import Record
from millrace.rules.rules import Rule


def row(alert: Mapping[str, Any], record: Record, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """What the list shows of an alert."""
    return {
        "id": str(alert["alert_id"]),
        "rule": str(alert["rule"]),
        "key": text(alert["key"]),
        "key_id": identity(alert["key"]),
        "subject": text(alert["subject"]),
        "subject_id": identity(alert["subject"]),
        "sentence": text(why(alert, rules)),
        "at_ms": alert["at_ms"],
        "arrived_ms": record.ingest_ms,
        "latency_ms": late_by_ms(alert, record.ingest_ms, rules),
    }


def details(row: Mapping[str, Any], alert: Mapping[str, Any], record: Record, topic: str) -> dict[str, Any]:
    """A row with what the drawer shows besides; `full_subject` is for the server alone."""
    return {
        **row,
        "rule_version": alert["rule_version"],
        "operands": {name: text(value) for name, value in (alert["operands"] or {}).items()},
        "event_ids": alert["event_ids"],
        "full_subject": alert["subject"],
        "place": {"topic": topic, "partition": record.partition, "offset": record.offset},
    }
