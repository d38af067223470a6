"""The alerts of both flood rules: by a few lines of plain Python, and by the library's oracle as they are declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from millrace import oracle
from millrace.oracle import Record
from pipelines.flood import FLOOD
from pipelines.flood.rules import flood_group, flood_ip

KEYS = {"flood-ip": "ip", "flood-group": "group_id"}
SIZE_MS, DISORDER_MS = 3_000, 1_000


class Alert(NamedTuple):
    rule: str
    key: str
    window_ms: int


class Found(NamedTuple):
    requests: int
    refused: int
    last_ip: str


def is_late(event: Mapping[str, Any], newest_ms: int) -> bool:
    """Whether the window of a request was over when it arrived."""
    return bool(event["at_ms"] // SIZE_MS * SIZE_MS + SIZE_MS <= newest_ms - DISORDER_MS)


def in_time(arriving: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The requests that are not late."""
    newest_ms = 0
    for event in arriving:
        if not is_late(event, newest_ms):
            newest_ms = max(newest_ms, event["at_ms"])
            yield event


def alerts(arriving: Iterable[Mapping[str, Any]]) -> dict[Alert, Found]:
    """The alerts of both rules on accepted requests in the order of their arrival."""
    windows: dict[Alert, Found] = {}
    for event in in_time(arriving):
        for rule, key in KEYS.items():
            window = Alert(rule, event[key], event["at_ms"] - event["at_ms"] % SIZE_MS)
            found = windows.get(window, Found(0, 0, ""))
            refused = found.refused + (event["code"] in (401, 403))
            windows[window] = Found(found.requests + 1, refused, event["ip"])
    return {window: found for window, found in windows.items() if found.requests == found.refused > 30}


def declared_alerts(values: Iterable[bytes | None], ingest_ms: int) -> dict[Alert, Found]:
    """The alerts of the declared rules, by the oracle, on messages in the order of their arrival."""
    tape = (Record(FLOOD.judged.name, 0, n, ingest_ms, b"", value) for n, value in enumerate(values))
    judged = oracle.judge(FLOOD, FLOOD.rules, tape, {})
    counted = list(in_time(each.event for each in judged if each.event))
    return {
        Alert(rule.name, found.key, found.window_start_ms or 0): Found(
            found.operands["n"], found.operands["refused"], found.operands.get("ip", found.key)
        )
        for rule in (flood_ip, flood_group)
        for found in oracle.window_findings(rule, counted)
    }
