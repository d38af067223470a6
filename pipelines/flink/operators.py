"""Operator ids that outlive a change of the plan, so that a savepoint of the old job restores into the new one.

Flink's Table API numbers operators as it meets them, so one more rule would give nearly all of them another id. Here an
operator that keeps state is named for what it is: a source and a sink for its table, the memory by the uid of its call,
a window for its own definition. Whatever keeps no state is named for its definition and its inputs.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

_NUMBER = re.compile(r"\[\d+\](?::)?")  # `Calc[13]`, and `[13]:Calc(...)` in a description


def ensure_stable_ids(transformations: list[Any]) -> dict[str, str]:
    """Give every operator its id; returns them with the operators' names."""
    given: dict[int, str] = {}
    names: dict[str, str] = {}
    for transformation in transformations:
        _name(transformation, given, names)
    return names


def _name(transformation: Any, given: dict[int, str], names: dict[str, str]) -> str:
    number = transformation.getId()
    if number in given:
        return given[number]
    inputs = [_name(each, given, names) for each in transformation.getInputs()]
    given[number] = uid = transformation.getUid() or _uid(transformation, inputs)
    if _is_operator(transformation):
        if uid in names:
            raise ValueError(f"two operators would have the id '{uid}': {names[uid]} and {transformation.getName()}")
        names[uid] = transformation.getName()
        transformation.setUid(uid)
    return uid


def _uid(transformation: Any, inputs: list[str]) -> str:
    kind = transformation.getClass().getSimpleName()
    name = _NUMBER.sub("", transformation.getName())
    if kind in ("SourceTransformation", "SinkTransformation"):
        return f"{kind.removesuffix('Transformation').lower()} {name.rpartition('.')[2]}"
    definition = _NUMBER.sub("", transformation.getDescription() or name)
    if "WindowAggregate" in name:
        return f"{name} {_digest(definition)}"
    return f"{name} {_digest(definition, *inputs)}"


def _is_operator(transformation: Any) -> bool:
    # Exchanges and unions are edges of the graph and take no id.
    return transformation.getClass().getSimpleName() not in ("PartitionTransformation", "UnionTransformation")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
