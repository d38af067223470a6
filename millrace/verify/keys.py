"""Keys: raw messages whose key in Kafka is not the one that their body has, or not one of their partition."""

from __future__ import annotations

import json
from collections.abc import Iterator

from millrace.oracle import Record
from millrace.rules import EventType, card_numbers
from millrace.traffic.planned import partition_of
from millrace.verify.case import Case
from millrace.verify.evidence import place

SHOWN_MOST = 5
UNORDERED = "among the messages of a key in other partitions they have no order"


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
            is_compacted = kind in use.references
            harm = "compaction keeps the last message of each key in Kafka" if is_compacted else UNORDERED
            what = f"{len(found)} message(s) with another key in Kafka than their '{kind.key}'"
            yield f"{kind.name}: {what}: {shown}; {harm}"
    for kind in use.raw:
        if found := list(_elsewhere(case, kind)):
            shown = "; ".join(found[:SHOWN_MOST])
            what = f"{len(found)} message(s) in another partition than Kafka's default partitioner gives their key"
            yield f"{kind.name}: {what}: {shown}; {UNORDERED}"


def counts(case: Case) -> dict[str, int]:
    """How many there are of each topic, of a case without notes."""
    found = {}
    for kind in case.question.use.raw:
        found[f"{kind.name}: under another key"] = sum(1 for _ in _foreign(case, kind))
        found[f"{kind.name}: in another partition"] = sum(1 for _ in _elsewhere(case, kind))
    return {name: count for name, count in found.items() if count}


def _foreign(case: Case, kind: EventType) -> Iterator[str]:
    for record, key in _keyed(case, kind):
        if record.key != key.encode(errors="replace"):
            given = "no key" if record.key is None else f"the key {card_numbers.masked(record.key)!r}"
            yield f"{place(record)} has {given}, not {key!r}"


def _elsewhere(case: Case, kind: EventType) -> Iterator[str]:
    """Of those under their own key."""
    partitions = case.evidence.partitions.get(kind.name, 0)
    for record, key in _keyed(case, kind) if partitions else ():
        own = partition_of(record.key or b"", partitions)
        if record.key == key.encode(errors="replace") and record.partition != own:
            yield f"{place(record)} has the key {key!r}, of partition {own}"


def _keyed(case: Case, kind: EventType) -> Iterator[tuple[Record, str]]:
    """The valid messages, each with the key that its body has."""
    for record in case.raw[kind.name]:
        if record.value and record.origin not in case.expected.refused:
            event = case.expected.accepted.get(record.origin) or json.loads(record.value)
            yield record, str(event[kind.key])
