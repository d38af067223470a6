"""What the raw topics hold of the messages that the plans of the recorded runs give."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from millrace.oracle import Record
from millrace.rules import UseCase
from millrace.rules.tokens import Secrets
from millrace.rules.traffic import CLOSING, Message
from millrace.traffic.planned import KEYS, REFERENCES_MS, Content, made_again, partition_of, plan_of
from millrace.traffic.runs import Run

HOPS_MS = 1_000
"""Bare hops continue for so long after the last message."""
MADE_MOST = 100
"""A plan that gives so many times more messages than the raw topics hold is not made again."""
Raw = Mapping[str, Sequence[Record]]
Place = tuple[str, bytes | None]
"""A kind of message, and its key."""
_NO_PLAN = (ArithmeticError, LookupError, TypeError, ValueError)
"""What the traffic of a use raises for a plan, or for keys, that it never had."""


@dataclass(frozen=True)
class Planned:
    """What differs, and of how many runs it is known."""

    compared: int = 0
    offenders: Sequence[str] = ()
    others: Mapping[int, int] | None = None
    """How often each message is there besides, by what identifies it; None unless all runs were compared."""
    references: Sequence[Place] = ()
    """The reference data of these runs that must be there."""


class _Order:
    """Whether the messages of a run are in their partitions in the order of its plan; others may be between them."""

    def __init__(self, marks: Mapping[tuple[str, int], array[int]], placed: Mapping[str, int]) -> None:
        self._marks, self._placed = marks, placed
        self._reached = dict.fromkeys(marks, 0)

    def continues(self, message: Message, mark: int) -> bool:
        """Whether one that is there is behind those before it; of each partition the first that is not is named."""
        count = self._placed.get(message.topic)
        if count is None or not message.key:
            return True
        place = message.topic, partition_of(message.key, count)
        if place not in self._reached:
            return True
        try:
            self._reached[place] = self._marks[place].index(mark, self._reached[place]) + 1
        except ValueError:
            del self._reached[place]
            return False
        return True


class _UnmadeError(Exception):
    """The record of a run gives other messages now, none, or far more than there are."""


def planned(
    use: UseCase,
    runs: Sequence[Run],
    secrets: Secrets | None,
    raw: Raw,
    partitions: Mapping[str, int],
    kept_since_ms: int = 0,
) -> Planned:
    """Each run that can be made again to the last byte, beside the raw topics; the plan is never held whole.

    Where a topic has as many partitions as the judged one had in all these runs, each message must be in that of its
    key, in the order of the plan: all of them were made with as many. Reference data from before `kept_since_ms` may
    have been compacted.
    """
    if secrets is None or not (again := [run for run in runs if run.content]):
        return Planned()
    counts = {len(run.about.get(KEYS, ())) for run in again}
    placed = {kind: count for kind, count in partitions.items() if count and counts == {count}}

    def is_elsewhere(record: Record) -> bool:
        count = placed.get(record.topic)
        return count is not None and bool(record.key) and record.partition != partition_of(record.key or b"", count)

    there = Counter[int]()
    marks: dict[tuple[str, int], array[int]] = defaultdict(partial(array, "q"))
    for own in raw.values():
        for each in sorted(own, key=attrgetter("offset")):
            if not is_elsewhere(each):
                mark = identified(each.topic, each.key, each.value)
                there[mark] += 1
                if each.topic in placed:
                    marks[each.topic, each.partition].append(mark)
    newest_ms = {
        (each.name, record.key): record.ingest_ms
        for each in use.references
        for record in sorted(raw[each.name], key=lambda record: record.ingest_ms)
    }
    made_most = MADE_MOST * max(1, sum(map(len, raw.values())))
    found = list[Planned]()
    for run in again:
        with suppress(_UnmadeError):
            order = _Order(marks, placed)
            found.append(_compared(use, run, secrets, there, order, newest_ms, raw.keys(), made_most, kept_since_ms))
    others = there if len(found) == len(runs) else None
    offenders = [each for own in found for each in own.offenders]
    return Planned(len(found), offenders, others, [each for own in found for each in own.references])


def _compared(
    use: UseCase,
    run: Run,
    secrets: Secrets,
    there: Counter[int],
    order: _Order,
    newest_ms: Mapping[Place, int],
    kinds: Iterable[str],
    made_most: int,
    kept_since_ms: int,
) -> Planned:
    """What of a run is not as its plan gives it, and what of its reference data must be there."""
    content, references, messages = _made(use, run, secrets, made_most)
    acknowledged = {kind: run.by_topic[kind] for kind in kinds if run.by_topic.get(kind)}
    most = sum(acknowledged.values())
    found, given, sent, total, last_ms = list[str](), Counter[str](), 0, 0, 0
    # Of a key, only the last message is kept; one that came after the run's own is of somebody else. A key is gone only
    # where it was deleted, and that was compacted, too.
    sent_ms = run.about[REFERENCES_MS]
    is_kept = sent_ms >= kept_since_ms
    absent_ms = 0 if is_kept else math.inf
    own = {each[1:3]: each for each in references}
    own = {place: each for place, each in own.items() if newest_ms.get(place, absent_ms) <= sent_ms}
    for message in own.values():
        if not there[identified(message.topic, message.key, message.value)]:
            found.append(_altered(run, message))
    for total, message in enumerate(messages, 1):
        last_ms = message.due_ms
        if total <= most:
            given[message.topic] += 1
            sent += message.label.kind != CLOSING
            mark = identified(message.topic, message.key, message.value)
            if there[mark] > 0:
                there[mark] -= 1
                if not order.continues(message, mark):
                    found.append(_altered(run, message, "in the order in which"))
            else:
                found.append(_altered(run, message))
    if content.hex != run.content:
        raise _UnmadeError
    if given != acknowledged or sent < run.sent or (run.is_complete and total != given.total()):
        planned = "all that its plan gives" if run.is_complete else "what its plan gives first"
        found.append(f"the record of the run '{run.name}' is not of {planned}: {run.sent} sent, {acknowledged}")
    if not 0 <= run.until_ms - run.start_ms - last_ms <= HOPS_MS:
        found.append(f"the record of the run '{run.name}' ends at {run.until_ms}, its plan at {run.start_ms + last_ms}")
    return Planned(1, found, None, list(own) if is_kept else ())


def _made(use: UseCase, run: Run, secrets: Secrets, most: int) -> tuple[Content, Iterator[Message], Iterator[Message]]:
    """As `made_again`, of a record that may have been altered."""
    try:
        plan = plan_of(run)
        made = made_again(use, run, secrets) if plan is not None and plan.events <= most else None
    except _NO_PLAN as error:
        raise _UnmadeError from error
    if made is None:
        raise _UnmadeError
    content, references, messages = made
    return content, _at_most(most, references), _at_most(most, messages)


def _at_most(most: int, messages: Iterable[Message]) -> Iterator[Message]:
    try:
        for total, message in enumerate(messages):
            if total >= most:
                raise _UnmadeError
            yield message
    except _NO_PLAN as error:
        raise _UnmadeError from error


def identified(topic: str, key: bytes | None, value: bytes | None) -> int:
    """What identifies a message within this process."""
    return hash((topic, key or b"", value or b""))


def _altered(run: Run, message: Message, how: str = "as") -> str:
    key = (message.key or b"").decode(errors="replace")
    return f"{message.topic}: a message of {key} that the run '{run.name}' sent is not there {how} it was sent"
