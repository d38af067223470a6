"""Keys: raw messages whose key in Kafka is not the one that their body has, or not one of their partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from millrace.oracle import Record, Refusal, accept
from millrace.rules import EventType, card_numbers
from millrace.traffic.planned import partition_of
from millrace.verify.case import Case
from millrace.verify.evidence import place
from millrace.verify.verdict import Figure

SHOWN_MOST = 5
UNDER, IN, AT = "under another key", "in another partition", ", the first"
"""The figures of a segment: their number, and where they are."""
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
        if found := list(_foreign(_keyed(case, kind))):
            shown = "; ".join(found[:SHOWN_MOST])
            is_compacted = kind in use.references
            harm = "compaction keeps the last message of each key in Kafka" if is_compacted else UNORDERED
            what = f"{len(found)} message(s) with another key in Kafka than their '{kind.key}'"
            yield f"{kind.name}: {what}: {shown}; {harm}"
    for kind in use.raw:
        if found := list(_elsewhere(case, kind, _keyed(case, kind))):
            shown = "; ".join(found[:SHOWN_MOST])
            what = f"{len(found)} message(s) in another partition than Kafka's default partitioner gives their key"
            yield f"{kind.name}: {what}: {shown}; {UNORDERED}"


def figures(case: Case) -> dict[str, Figure]:
    """How many there are of each topic, and where the first ones are, of a case without notes."""
    found: dict[str, Figure] = {}
    for kind in case.question.use.raw:
        keyed = list(_keyed(case, kind))
        for how, own in ((UNDER, list(_foreign(keyed))), (IN, list(_elsewhere(case, kind, keyed)))):
            if own:
                places = (each.partition(" ")[0] for each in own[:SHOWN_MOST])
                found |= {f"{kind.name}: {how}": len(own), f"{kind.name}: {how}{AT}": ", ".join(places)}
    return found


def notes_of(figures: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each topic that had them in several segments, with the first places."""
    counts, places = Counter[str](), defaultdict[str, list[str]](list)
    for own in figures:
        for name, count in own.items():
            if isinstance(count, int) and isinstance(first := own.get(name + AT), str):
                counts[name] += count
                places[name] += first.split(", ")
    for name, count in counts.items():
        kind, _, how = name.partition(": ")
        yield f"{kind}: {count} message(s) {how}: {', '.join(places[name][:SHOWN_MOST])}; {UNORDERED}"


def _foreign(keyed: Iterable[tuple[Record, str]]) -> Iterator[str]:
    for record, key in keyed:
        if record.key != key.encode(errors="replace"):
            given = "no key" if record.key is None else f"the key {card_numbers.masked(record.key)!r}"
            yield f"{place(record)} has {given}, not {key!r}"


def _elsewhere(case: Case, kind: EventType, keyed: Iterable[tuple[Record, str]]) -> Iterator[str]:
    """Of those under their own key."""
    partitions = case.evidence.partitions.get(kind.name, 0)
    for record, key in keyed if partitions else ():
        own = partition_of(record.key or b"", partitions)
        if record.key == key.encode(errors="replace") and record.partition != own:
            yield f"{place(record)} has the key {key!r}, of partition {own}"


def _keyed(case: Case, kind: EventType) -> Iterator[tuple[Record, str]]:
    """The valid messages, each with the key that its body has, as the oracle reads it."""
    accepted, refused = case.expected.accepted, case.expected.refused
    for record in case.raw[kind.name]:
        if record.value and (origin := record.origin) not in refused:
            event = accepted.get(origin) or accept(kind, record.value, record.ingest_ms)
            if not isinstance(event, Refusal):
                yield record, str(event[kind.key])
