"""The contract of a topic: the JSON Schema of what it carries, and which changes of it readers survive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millrace import project
from millrace.rules import ALERTS, DEAD_LETTERS, EventType, UseCase, WindowSummary
from millrace.rules.rules import window_kinds

Schema = Mapping[str, Any]
_TYPES = {"whole": "integer", "real": "number", "text": "string", "flag": "boolean"}


def contracts() -> dict[str, dict[str, Schema]]:
    """Every topic's schema, by use and kind of event."""
    return {use.name: contracts_of(use) for use in project.uses().values()}


def contracts_of(use: UseCase) -> dict[str, Schema]:
    """The schemas of all topics of a use, by kind of event."""
    carried: list[EventType] = [*use.raw, *use.references, use.enriched, ALERTS, DEAD_LETTERS]
    return {each.name: each.json_schema() for each in carried} | {"windows": windows_schema(use)}


def windows_schema(use: UseCase) -> Schema:
    """What a window result looks like: which summary, which window, its keys and its numbers."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "windows",
        "description": "Numbers over a window, for charts.",
        "oneOf": [_summary_schema(summary) for summary in use.summaries],
    }


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Why readers and writers of the old contract would not survive the new one; empty when they would.

    Both must hold on a topic that keeps old messages: new readers accept old messages, old readers accept new ones.
    """
    if "oneOf" in old or "oneOf" in new:
        return _breaking_among(old, new)
    before, after = old.get("properties", {}), new.get("properties", {})
    was_required, is_required = set(old.get("required", ())), set(new.get("required", ()))
    found = [f"'{name}' is gone; keep it, or write to a new topic" for name in before if name not in after]
    found += [
        f"'{name}' is new and required; make it optional"
        for name in after
        if name not in before and name in is_required
    ]
    for name in before.keys() & after.keys():
        found += [f"'{name}' {why}" for why in _narrowed(before[name], after[name])]
        if name in was_required and name not in is_required:
            found.append(f"'{name}' was required and is optional now; old readers count on it")
        if name not in was_required and name in is_required:
            found.append(f"'{name}' was optional and is required now; old messages may lack it")
    return sorted(found)


def contracts_folder(use: str) -> Path:
    """Where the generated contracts of a use are kept."""
    return project.use_folder(use) / "contracts"


def _breaking_among(old: Schema, new: Schema) -> list[str]:
    after = {each["title"]: each for each in new.get("oneOf", ())}
    found = []
    for each in old.get("oneOf", ()):
        if each["title"] not in after:
            found.append(f"'{each['title']}' is gone; keep it, or write to a new topic")
        else:
            found += [f"{each['title']}: {why}" for why in breaking_changes(each, after[each["title"]])]
    return found


def _narrowed(old: Schema, new: Schema) -> list[str]:
    found = []
    if old.get("type") != new.get("type"):
        found.append(f"changed its type from {old.get('type')} to {new.get('type')}")
    if old.get("pattern") != new.get("pattern"):
        found.append(f"changed its pattern from {old.get('pattern')} to {new.get('pattern')}")
    for limit, sign in (("minimum", 1), ("maximum", -1), ("maxLength", -1)):
        if limit in old and limit in new and sign * new[limit] > sign * old[limit]:
            found.append(f"has a tighter {limit}: {new[limit]} in place of {old[limit]}; old messages may break it")
    return found


def _summary_schema(summary: WindowSummary) -> Schema:
    kinds = {key: summary.on.kind(key) for key in summary.keys} | window_kinds(summary.measures, summary.on)
    properties: dict[str, Any] = {
        "summary": {"const": summary.name},
        "window_start_ms": {"type": "integer"},
        "window_end_ms": {"type": "integer"},
        **{name: {"type": _TYPES[kind]} for name, kind in kinds.items()},
        "emit_ms": {"type": "integer"},
    }
    return {
        "title": summary.name,
        "description": summary.doc,
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
