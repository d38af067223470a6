"""Order: what is written of one key is in one partition, in the order of the raw messages that it comes from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import Any

from millrace.oracle import Origin
from millrace.rules import ALERTS, UseCase
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import ENRICHED, Event, Messages, place_of

Source = Callable[[Event], Origin]


def order(case: Case) -> Found | Undecided:
    """The enriched events that came out behind a later one of their key."""
    return judged(case.question.use, case.enriched, case.alerts, case.source)


def judged(
    use: UseCase, enriched: Messages, alerts: Messages, source: Source, before: Collection[Origin] = ()
) -> Found | Undecided:
    """The same of these messages; those of the raw messages in `before` came out already.

    Where partitions are added, a key moves to another one, and a writer with an old list of them may take it back.
    """
    overtaken = [
        f"{place_of(origin)} came out behind {place_of(later)}"
        for origin, later in _overtaken(enriched, use.enriched.key, source)
        if origin not in before
    ]
    visited = {
        (kind, key): partitions
        for kind, messages, column in ((ENRICHED, enriched, use.enriched.key), (ALERTS.name, alerts, ALERTS.key))
        for key, partitions in _visited(messages, column)
    }
    back = [
        f"{kind}: {key!r} was in the partitions {', '.join(map(str, partitions))}, in this order"
        for (kind, key), partitions in visited.items()
        if len(partitions) > len(set(partitions))
    ]
    moved = sum(len(partitions) > 1 for partitions in visited.values())
    figures = {"outputs": len(enriched) + len(alerts), "keys that moved": moved}
    if back and not overtaken:
        return Undecided("a key came back to a partition: were partitions added just then?", figures, tuple(back))
    return Found(figures, overtaken)


def _visited(messages: Messages, column: str) -> Iterator[tuple[Any, list[int]]]:
    """For each key the partitions in which it was, one after the other: by rule, as each has writers of its own."""
    found: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for record, event in messages:
        found[event.get(column), str(event.get("rule"))].append((record.ingest_ms, record.partition))
    for (key, _), own in found.items():
        yield key, [partition for partition, _ in groupby(partition for _, partition in sorted(own))]


def _overtaken(messages: Messages, key: str, source: Source) -> Iterator[tuple[Origin, Origin]]:
    """Each event whose first copy is behind the last copy of a later one of its key and raw partition, with that one.

    A restart repeats the end of what was written. A message that Kafka did not take before it may come out behind later
    ones, but these come again behind it.
    """
    places: dict[tuple[Any, ...], dict[int, tuple[int, int]]] = defaultdict(dict)
    for record, event in messages:
        kind, partition, offset = source(event)
        own = places[kind, partition, event.get(key), record.partition]
        first, last = own.get(offset, (record.offset, record.offset))
        own[offset] = min(first, record.offset), max(last, record.offset)
    for (kind, partition, *_), own in places.items():
        least: tuple[int, int] | None = None
        for offset in sorted(own, reverse=True):
            first, last = own[offset]
            if least is not None and least[0] < first:
                yield (kind, partition, offset), (kind, partition, least[1])
            least = min(least or (last, offset), (last, offset))


CHECKER = Checker(
    "order",
    "Is what is written of one key in one partition, in the order of the raw messages?",
    order,
    needs=(ENRICHED, ALERTS.name),
    needs_inputs=False,
)
