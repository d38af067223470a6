"""Keys: raw messages whose key in Kafka is not the one that their body has."""

from __future__ import annotations

import json
from collections.abc import Iterator

from millrace.oracle import Record
from millrace.rules import EventType, card_numbers
from millrace.verify.case import Case
from millrace.verify.evidence import place

SHOWN_MOST = 5


def notes(case: Case) -> Iterator[str]:
    """A line for each topic that has them, with the first ones.

    They are no fault of the pattern, so no check fails for them alone: its outputs are compared as they are. But order,
    and the state of some engines, are of a partition, and compaction is by the key in Kafka.
    """
    if case.unread:
        return
    use = case.question.use
    for kind in (*use.raw, *use.references):
        if found := list(_foreign(case, kind)):
            shown = "; ".join(found[:SHOWN_MOST])
            harm = (
                "compaction keeps the last message of each key in Kafka"
                if kind in use.references
                else "among the messages of a key in other partitions they have no order"
            )
            what = f"{len(found)} message(s) with another key in Kafka than their '{kind.key}'"
            yield f"{kind.name}: {what}: {shown}; {harm}"


def _foreign(case: Case, kind: EventType) -> Iterator[str]:
    for record in case.raw[kind.name]:
        if record.value and record.origin not in case.expected.refused:
            key = _key_of(case, kind, record)
            if record.key != key.encode(errors="replace"):
                given = "no key" if record.key is None else f"the key {card_numbers.masked(record.key)!r}"
                yield f"{place(record)} has {given}, not {key!r}"


def _key_of(case: Case, kind: EventType, record: Record) -> str:
    event = case.expected.accepted.get(record.origin) or json.loads(record.value or b"")
    return str(event[kind.key])
