"""How a stored event is compared: with what the oracle expects, and with every copy that the topic had."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.oracle import Origin
from millrace.rules.outputs import FLAGS
from millrace.verify.case import Case
from millrace.verify.evidence import Event, is_same

NOT_COMPARED = ("source_topic", FLAGS.name)
"""The topic's name has the pattern's prefix; flags have an order of their own, and are compared on the topic."""


def least_wrong(case: Case, origin: Origin, differing: Callable[[Event], list[str]]) -> list[str]:
    """What is wrong with a stored event; nothing if it equals one of the copies on the topic."""
    wrong = differing(case.expected.accepted[origin])
    return [] if wrong and not all(map(differing, case.copies.get(origin, ()))) else wrong


def differing(row: Event, event: Event) -> list[str]:
    """The fields of an event that a stored row has otherwise."""
    return [
        f"{name} is {row.get(name)!r}, not {value!r}"
        for name, value in event.items()
        if name not in NOT_COMPARED and not is_same(value, row.get(name))
    ]


def differing_cells(cells: Mapping[str, bytes], columns: Sequence[str], event: Event) -> list[str]:
    """The same of a row with these columns, whose cells are text."""
    return [
        f"{name} is {cells.get(name)!r}, not {value!r}"
        for name, value in event.items()
        if name in columns and name not in NOT_COMPARED and not _is_cell_of(cells.get(name), value)
    ]


def _is_cell_of(cell: bytes | None, value: Any) -> bool:
    if value is None or cell is None:
        return cell is None and value is None
    if isinstance(value, str):
        return cell.decode() == value
    try:
        return is_same(float(value), float(cell)) if isinstance(value, float) else int(cell) == value
    except ValueError:
        return False
