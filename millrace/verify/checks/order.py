"""Order: what is written of one key is in one partition, in the order of the raw messages that it comes from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import groupby
from typing import Any

from millrace.oracle import Origin, Record
from millrace.rules import ALERTS, DEAD_LETTERS, UseCase
from millrace.rules.outputs import FLAGS, LATE, REPLAYED
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import ENRICHED, Event, Messages, place_of

Source = Callable[[Event], Origin]
Written = tuple[Record, Hashable, Origin]
"""An output, what its writer keeps in order, and the raw message that it comes from."""


def order(case: Case) -> Found | Undecided:
    """The enriched events, and the alerts on single events, that came out behind a later one of their key.

    Between keys there is no order, but nothing comes long after what its task made of later messages.
    """
    found = judged(case.question.use, case.enriched, case.alerts, case.source)
    if isinstance(found, Found) and not found.offenders and (late := tuple(_long_after(case))):
        return Undecided("outputs came long after later ones: was the machine suspended?", found.figures, late)
    return found


def judged(
    use: UseCase, enriched: Messages, alerts: Messages, source: Source, before: Collection[Origin | str] = ()
) -> Found | Undecided:
    """The same of these messages; the events of the raw messages, and the alerts, in `before` came out already.

    Where partitions are added, a key moves to another one, and a writer with an old list of them may take it back.
    """
    events = ((record, event.get(use.enriched.key), source(event)) for record, event in enriched)
    new = [each for each in alerts if each[1]["alert_id"] not in before]
    overtaken = [
        f"{place_of(origin)} came out behind {place_of(later)}"
        for origin, later in _overtaken(events)
        if origin not in before
    ]
    overtaken += [
        f"the alert on {place_of(origin)} came out behind that on {place_of(later)}"
        for origin, later in _overtaken(alerted(use, enriched, new, source))
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


def _long_after(case: Case) -> Iterator[str]:
    """The raw messages whose first output came long after those of later messages of their partition.

    A task that reads a message again reads all that follow it again, and so repeats what it makes of them; at most once
    it makes nothing of what was in flight. A batch that an outage interrupts continues behind it, but no batch takes so
    long that a partition would count as idle.
    """
    places: dict[tuple[str, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    letters = case.outputs[DEAD_LETTERS.name].events
    outputs = [(record, case.source(event)) for record, event in case.enriched]
    outputs += [
        (record, case.letter_origin(each)) for record, each in letters if each["reason"] not in (LATE, REPLAYED)
    ]
    raw = {each.name for each in case.question.use.raw}
    for record, (kind, partition, offset) in outputs:
        if kind in raw:
            places[kind, partition][offset].append(record.ingest_ms)
    bounds = case.question.bounds
    for (kind, partition), own in places.items():
        least_ms, later_ms = math.inf, list[int]()
        for offset in sorted(own, reverse=True):
            if (until_ms := min(own[offset]) - bounds.held_ms) > least_ms + bounds.idle_ms:
                before_ms = max(ms for ms in later_ms if ms < until_ms)
                if before_ms > least_ms + bounds.idle_ms:
                    late_s = (min(own[offset]) - before_ms) / 1000
                    yield f"{place_of((kind, partition, offset))} came out {late_s:,.0f} s after later messages"
            later_ms.append(max(own[offset]))
            least_ms = min(least_ms, later_ms[-1])


def _visited(messages: Messages, column: str) -> Iterator[tuple[Any, list[int]]]:
    """For each key the partitions in which it was, one after the other: by rule, as each has writers of its own."""
    found: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for record, event in messages:
        found[event.get(column), str(event.get("rule"))].append((record.ingest_ms, record.partition))
    for (key, _), own in found.items():
        in_time = sorted(own) if len({partition for _, partition in own}) > 1 else own[:1]
        yield key, [partition for partition, _ in groupby(partition for _, partition in in_time)]


def alerted(use: UseCase, enriched: Messages, alerts: Messages, source: Source) -> Iterator[Written]:
    """The alerts on single events that all copies of these show: what is judged again may find otherwise."""
    found: dict[tuple[Any, str], list[tuple[Origin, set[str]]]] = defaultdict(list)
    for _, event in enriched:
        origin = source(event)
        identity = str(event.get(use.judged.id)) if use.judged.id else "-".join(map(str, origin[1:]))
        found[event.get(use.judged.key), identity].append((origin, set(event.get(FLAGS.name) or ())))
    for record, alert in alerts:
        rule, key, ids = alert["rule"], alert["key"], alert["event_ids"]
        copies = found.get((key, ids[0]), []) if alert["window_start_ms"] is None and len(ids) == 1 else []
        if len({origin for origin, _ in copies}) == 1 and all(rule in flags for _, flags in copies):
            yield record, (rule, alert["rule_version"], key), copies[0][0]


def _overtaken(outputs: Iterable[Written]) -> Iterator[tuple[Origin, Origin]]:
    """Each raw message whose first output is behind the last one of a later message of its partition, with that one.

    A restart repeats the end of what was written. A message that Kafka did not take before it may come out behind later
    ones, but these come again behind it.
    """
    places: dict[tuple[Any, ...], dict[int, tuple[int, int]]] = defaultdict(dict)
    for record, writer, (kind, partition, offset) in outputs:
        own = places[kind, partition, writer, record.partition]
        at = record.offset
        first, last = own.get(offset) or (at, at)
        own[offset] = (at if at < first else first), (at if at > last else last)
    for (kind, partition, *_), own in places.items():
        least: tuple[int, int] | None = None
        for offset in sorted(own, reverse=True):
            first, last = own[offset]
            if least is not None and least[0] < first:
                yield (kind, partition, offset), (kind, partition, least[1])
            if least is None or last <= least[0]:
                least = last, offset


CHECKER = Checker(
    "order",
    "Is what is written of one key in one partition, in the order of the raw messages?",
    order,
    needs=(ENRICHED, ALERTS.name),
    reads=(DEAD_LETTERS.name,),
    needs_inputs=False,
)
