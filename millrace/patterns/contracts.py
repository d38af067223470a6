"""Contracts: the JSON Schema of each topic, and which changes of it are compatible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from millrace.rules import (
    ALERTS,
    DEAD_LETTERS,
    EventType,
    Last,
    Max,
    Min,
    Sum,
    Text,
    UseCase,
    WindowRule,
    WindowSummary,
)
from millrace.rules.outputs import DISPOSITIONS, VERDICTS_TOPIC, WINDOWS_TOPIC

Schema = Mapping[str, Any]
_TYPES = {"whole": "integer", "real": "number", "text": "string", "flag": "boolean"}


def contracts_of(use: UseCase) -> dict[str, Schema]:
    """The schemas of all topics of a use, by kind of event."""
    carried: list[EventType] = [*use.raw, *use.references, use.enriched, alerts_of(use), DEAD_LETTERS]
    return {each.name: each.json_schema() for each in carried} | {
        WINDOWS_TOPIC: windows_schema(use),
        VERDICTS_TOPIC: verdicts_schema(),
        DISPOSITIONS.name: DISPOSITIONS.json_schema(),
    }


def alerts_of(use: UseCase) -> EventType:
    """The type of a use's alerts: their keys and subjects are as wide as the fields that they are taken from."""
    keys = {rule.key for rule in use.rules if isinstance(rule, WindowRule)}
    sources = [field for field in use.enriched.fields if isinstance(field, Text) and field.name in keys]
    subjects = [field for field in use.judged.fields if isinstance(field, Text) and field.name == use.judged.key]
    wide = {"key": [*sources, *subjects], "subject": subjects}
    fields = (
        _as_wide_as(field, wide[field.name]) if isinstance(field, Text) and wide.get(field.name) else field
        for field in ALERTS.fields
    )
    return replace(ALERTS, fields=tuple(fields))


def windows_schema(use: UseCase) -> Schema:
    """The schema of window results: one alternative for each summary; without any, the topic stays empty."""
    alternatives = [_summary_schema(summary) for summary in use.summaries]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": WINDOWS_TOPIC,
        "description": "Numbers over a window, for charts.",
        **({"oneOf": alternatives} if alternatives else {"not": {}}),  # JSON Schema has no empty oneOf
    }


def verdicts_schema() -> Schema:
    """The schema of a ledger's entries."""
    number, text, some = {"type": "integer"}, {"type": "string"}, {"type": "object"}
    properties: dict[str, Any] = {
        "number": {"type": "integer", "minimum": 1},
        **dict.fromkeys(("since_ms", "cut_ms"), number),
        "status": {"type": "string", "enum": ["ok", "assumed", "failed", "unknown"]},
        "offsets": some,
        **dict.fromkeys(("messages", "whole_until_ms"), number),
        "figures": some,
        "causes": {"type": "array", "items": text},
        **dict.fromkeys(("pending", "versions"), some),
        **dict.fromkeys(("state", "before"), text),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": VERDICTS_TOPIC,
        "description": "The verdict on one segment of the pattern's messages; each has the digest of the one before.",
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Why the new contract is incompatible with the old one; empty if it is compatible.

    A topic keeps old messages, so new readers must accept old messages, and old readers new ones.
    """
    if "oneOf" in old or "oneOf" in new:
        return _breaking_among(old, new)
    before, after = old.get("properties", {}), new.get("properties", {})
    was_required, is_required = set(old.get("required", ())), set(new.get("required", ()))
    found = [f"'{name}' is gone; keep it, or write to a new topic" for name in before if name not in after]
    if new.get("version", 1) < (newest := old.get("version", 1)):
        found.append(f"the version goes back from {newest} to {new.get('version', 1)}; give it {newest + 1}")
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


def _as_wide_as(field: Text, sources: Iterable[Text]) -> Text:
    limits = [Text(source.name) if source.token_of else source for source in sources]  # every token is a plain name
    patterns = list(dict.fromkeys(each.pattern for each in limits))
    pattern = patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})"
    return replace(field, pattern=pattern, max_length=max(each.max_length for each in limits))


def _breaking_among(old: Schema, new: Schema) -> list[str]:
    after = {each["title"]: each for each in new.get("oneOf", ())}
    found = []
    for each in old.get("oneOf", ()):
        if each["title"] not in after:
            found.append(f"'{each['title']}' is gone; keep it, or write to a new topic")
        else:
            now = after[each["title"]]
            found += [f"{each['title']}: {why}" for why in breaking_changes(_with_nulls_of(now, each), now)]
    return found


def _with_nulls_of(new: Schema, old: Schema) -> Schema:
    """The old contract of a summary with the nulls that its rows have had: earlier versions did not declare them."""
    before, after = old.get("properties", {}), new.get("properties", {})
    nullable = {
        name: after[name]
        for name in before.keys() & after.keys()
        if after[name].get("type") == [before[name].get("type"), "null"]
    }
    return {**old, "properties": {**before, **nullable}}


def _narrowed(old: Schema, new: Schema) -> list[str]:
    found = []
    if old.get("type") != new.get("type"):
        found.append(f"changed its type from {old.get('type')} to {new.get('type')}")
    if _ungrouped(old.get("pattern")) != _ungrouped(new.get("pattern")):
        found.append(f"changed its pattern from {old.get('pattern')} to {new.get('pattern')}")
    for limit, sign in (("minimum", 1), ("maximum", -1), ("maxLength", -1)):
        if limit in old and limit in new and sign * new[limit] > sign * old[limit]:
            found.append(f"has a tighter {limit}: {new[limit]} in place of {old[limit]}; old messages may break it")
    return found


def _ungrouped(pattern: str | None) -> str | None:
    """A pattern of a contract without the group around its alternatives, which earlier versions left out."""
    return pattern and re.sub(r"^\^\(\?:(.*)\)\$$", r"^\1$", pattern)


def _summary_schema(summary: WindowSummary) -> Schema:
    nullable = set(_nullable_columns(summary))
    properties: dict[str, Any] = {
        name: {"type": [_TYPES[kind], "null"] if name in nullable else _TYPES[kind]}
        for name, kind in summary.columns.items()
    }
    properties["summary"] = {"const": summary.name}
    return {
        "title": summary.name,
        "description": summary.doc,
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _nullable_columns(summary: WindowSummary) -> Iterator[str]:
    """Optional keys, and measures of optional fields: without a value in a window, all but a count are null."""
    optional = {field.name for field in summary.on.readable if not field.required}
    yield from optional.intersection(summary.keys)
    for name, measure in summary.measures.items():
        match measure:
            case Last(fields=(field,)) | Max(field=field) | Min(field=field) | Sum(field=field) if field in optional:
                yield name
