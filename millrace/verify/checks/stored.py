"""How a stored event is compared: with what the oracle expects, and with every copy that the topic had."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.oracle import Origin
from millrace.rules.outputs import FLAGS, SOURCE
from millrace.verify.case import Case
from millrace.verify.evidence import Event, is_copy, is_same

TOPIC = SOURCE[0].name


def least_wrong(case: Case, origin: Origin, differing: Callable[[Event], list[str]]) -> list[str]:
    """What is wrong with a stored event; nothing if it equals one of the copies on the topic."""
    wrong = differing(case.expected.accepted[origin])
    return [] if wrong and not all(map(differing, case.copies.get(origin, ()))) else wrong


def differing(case: Case, row: Event, event: Event) -> list[str]:
    """The fields that a stored row has otherwise than an event: those that are declared, and all that the row has.

    A field that an event lacks is null. So is a column that only other rows of a compacted file have.
    """
    columns = dict.fromkeys((*case.question.use.enriched.names, *row))
    return [
        f"{name} is {row.get(name)!r}, not {event.get(name)!r}"
        for name in columns
        if not _is_stored(case, name, event.get(name), row.get(name))
    ]


def differing_cells(case: Case, cells: Mapping[str, bytes], columns: Sequence[str], event: Event) -> list[str]:
    """The same of a row with these columns, whose cells are text; no other cell is in it."""
    wrong = [
        f"{name} is {cells.get(name)!r}, not {event.get(name)!r}"
        for name in columns
        if not _is_cell_of(case, name, event.get(name), cells.get(name))
    ]
    return wrong + [f"{name} is no column of the table" for name in cells if name not in columns]


def value_in(cell: bytes) -> Any:
    """The value of a cell of JSON; raises ValueError where the writer would have written other bytes."""
    value = json.loads(cell.decode())
    if json.dumps(value).encode() != cell:
        raise ValueError("other bytes than a writer's")
    return value


def _is_stored(case: Case, name: str, value: Any, stored: Any) -> bool:
    if name == TOPIC:
        # The oracle has the kind of event, a store the name of the topic.
        return isinstance(stored, str) and _kind(case, value) == case.evidence.origin(stored, 0, 0)[0]
    if name == FLAGS.name and isinstance(stored, list):
        return sorted(value or (), key=str) == sorted(stored, key=str)
    return (is_same if name in case.question.use.enrichment.built else is_copy)(value, stored)


def _kind(case: Case, topic: Any) -> Any:
    return case.evidence.kinds.get(topic, topic) if isinstance(topic, str) else topic


def _is_cell_of(case: Case, name: str, value: Any, cell: bytes | None) -> bool:
    if value is None or cell is None:
        return cell is None and value is None
    try:
        return _is_stored(case, name, value, cell.decode() if isinstance(value, str) else value_in(cell))
    except (ValueError, RecursionError):
        return False
