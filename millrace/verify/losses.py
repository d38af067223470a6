"""At most once: the messages that restarts lost, and those of them that the state remembers nevertheless.

A message is lost if it was in flight at a restart and has no output. A job writes its state before the outputs, both in
the order of arrival. Of what a restart had in flight for one key, the next worker therefore remembers the first few
messages, or none, or all, and at least those before the last that came out: the number that explains every output of
this key. The rest of the tape is judged as usual.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from millrace.oracle import Finding, Origin, Record
from millrace.patterns.loss import InFlight
from millrace.rules import UseCase
from millrace.rules.outputs import DUPLICATE
from millrace.verify.evidence import Event, Evidence, is_text_of
from millrace.verify.expected import Expected

Raw = Mapping[str, Sequence[Record]]
TRIED_MOST = 64
"""So many numbers of remembered messages are tried for one key."""
IN_FLIGHT_MOST = 3_000
"""A worker holds so many messages of a partition at most: it emits 200 at a time into a queue of 256, and what comes
out of 1,000 is written while 1,000 are judged."""
APART_MS = 2_000
"""Of two moments that brokers wrote, the one is surely before the other if they are so far apart."""


@dataclass(frozen=True)
class Outputs:
    """What came out of each raw message."""

    enriched: Mapping[Origin, Sequence[Event]]
    refused: Mapping[Origin, set[str]]
    alerts: Mapping[str, Sequence[Event]]
    """By id."""


@dataclass(frozen=True)
class Losses:
    """What was lost at the restarts of a run."""

    in_flight: frozenset[Origin] = frozenset()
    lost: frozenset[Origin] = frozenset()
    forgotten: frozenset[Origin] = frozenset()
    """What the state does not remember, also of other streams, whose accepted messages have no output."""
    whole: Expected | None = None
    """The outcome of every raw message, had nothing been lost."""
    untried: tuple[str, ...] = ()
    """Keys of which so much was in flight that nothing shows what the state remembers."""
    by_restart: Mapping[InFlight, Sequence[Record]] = field(default_factory=dict)
    """The messages that each restart had in flight in a partition, in their order."""


@dataclass
class _Search:
    """What the state may remember of one key, and what then must have come out."""

    judged: str
    raw: Raw
    outputs: Outputs
    expect: Callable[[Raw], Expected]
    groups: Sequence[Sequence[Origin]]
    """What was in flight, by restart, in the order of arrival."""

    def forgotten(self) -> frozenset[Origin] | None:
        """What the state does not remember; None if no number that was tried explains the outputs."""
        ways = product(*(range(len(group) + 1) for group in self.groups))
        for remembered in islice(ways, TRIED_MOST):
            pairs = zip(self.groups, remembered, strict=True)
            forgotten = frozenset(origin for group, count in pairs for origin in group[count:])
            if self.explains(forgotten):
                return forgotten
        return None

    def explains(self, forgotten: frozenset[Origin]) -> bool:
        """Whether all that came out of the key is right, if these messages are forgotten."""
        expected = self.expect(without(self.raw, forgotten))
        if expected.wrong:
            return False
        for record in self.raw[self.judged]:
            origin = record.origin
            if origin in self.outputs.enriched and origin not in expected.accepted:
                return False
            reason = expected.refused.get(origin)
            if (found := self.outputs.refused.get(origin)) and found != {reason}:
                return False
        return all(
            any(shows(each, alert) for each in (finding, *expected.found_before.get(identity, ())))
            for identity, finding in expected.findings.items()
            for alert in self.outputs.alerts.get(identity, ())
        )


def find(
    use: UseCase,
    evidence: Evidence,
    outputs: Outputs,
    restarts: Sequence[InFlight],
    clocks_ms: int,
    expect: Callable[[Raw], Expected],
) -> Losses:
    """Find what was lost; `expect` judges raw topics with the outputs at hand."""
    raw: Raw = {kind: records or () for kind, records in evidence.raw.items()}
    by_restart = _in_flight(evidence, raw, restarts, clocks_ms)
    at_ms: dict[Origin, int] = {}
    """The messages in flight, each with the restart that may have lost it."""
    for each, records in by_restart.items():
        for record in records:
            at_ms.setdefault(record.origin, each.at_ms)
    whole = expect(raw)
    out = {*outputs.enriched, *outputs.refused, *_alerted(outputs, whole)}
    judged, streams = use.judged.name, {each.name for each in use.raw}
    lost = frozenset(
        origin for origin in at_ms if origin not in out and (origin[0] == judged or origin in whole.refused)
    )
    doubtful = {
        origin: restart_ms
        for origin, restart_ms in at_ms.items()
        if origin[0] in streams and whole.refused.get(origin, DUPLICATE) == DUPLICATE
    }
    forgotten: set[Origin] = set()
    untried = []
    for key, own, groups in _by_key(use, raw, doubtful, out):
        search = _Search(judged, own, outputs, expect, groups)
        if (found := search.forgotten()) is None:
            if math.prod(len(group) + 1 for group in groups) > TRIED_MOST:
                untried.append(key.decode(errors="replace"))
            found = frozenset(origin for group in groups for origin in group)
        forgotten |= found
    return Losses(frozenset(at_ms), lost, frozenset(forgotten), whole, tuple(untried), by_restart)


def is_legible(restart: InFlight) -> bool:
    """Whether a line of the record of restarts is one that a worker wrote, and not damaged."""
    numbers = restart.partition, restart.first, restart.end, restart.at_ms
    return isinstance(restart.topic, str) and all(type(each) is int and each >= 0 for each in numbers)


def doubts(
    losses: Losses, excused: Collection[Origin], out_ms: Mapping[Origin, int], writer: Callable[[Event], Hashable]
) -> Iterator[str]:
    """Why no restart can have had in flight what is excused so.

    `out_ms` has when events came out, by the clock of what they come from; `writer` gives what is written in order: a
    key, or a partition.
    """
    lines = losses.by_restart
    whys = {each: list(_doubts(losses, records, out_ms, writer)) for each, records in lines.items()}
    for each, other in _overlapping(lines):
        whys[each].append(f"another worker began at offset {other.end}")
        whys[other].append(f"another worker began at offset {each.end}")
    believed = {record.origin for each, own in whys.items() if not own for record in lines[each]}
    for each, own in whys.items():
        if own and any(record.origin in excused and record.origin not in believed for record in lines[each]):
            yield f"{each.topic}[{each.partition}], offsets {each.first} to {each.end - 1}: {'; '.join(own)}"


def _doubts(
    losses: Losses, records: Sequence[Record], out_ms: Mapping[Origin, int], writer: Callable[[Event], Hashable]
) -> Iterator[str]:
    """Why one worker cannot have had these messages in flight."""
    accepted = losses.whole.accepted if losses.whole else {}
    if len(records) > IN_FLIGHT_MOST:
        yield f"{len(records)} messages are more than a worker holds"
    if _were_complete(records, out_ms):
        yield "outputs of the first were complete before the last arrived"
    gone: set[Hashable] = set()
    overtaken = 0
    for record in records:
        if (event := accepted.get(record.origin)) is not None:
            overtaken += record.origin in out_ms and writer(event) in gone
            gone |= {writer(event)} if record.origin in losses.lost else set()
    if overtaken:
        yield f"{overtaken} came out behind some that are lost"


def _were_complete(records: Sequence[Record], out_ms: Mapping[Origin, int]) -> bool:
    """Whether a message arrived when a worker had noted that all outputs of another one were there.

    It notes this before it writes the outputs of what it judges next. So a message came out, then one that arrived
    behind this, and then another arrived.
    """
    since_ms = -math.inf
    for _ in range(2):
        came_ms = (out_ms[each.origin] for each in records if each.origin in out_ms and each.ingest_ms > since_ms)
        since_ms = min(came_ms, default=math.inf) + APART_MS
    return any(each.ingest_ms > since_ms for each in records)


def _overlapping(lines: Mapping[InFlight, Sequence[Record]]) -> set[tuple[InFlight, InFlight]]:
    """The restarts that had messages in flight which were so at an earlier one: the next worker begins behind these.

    A worker that ends before it commits leaves the same line once more. A topic may have been created anew meanwhile.
    """
    found: set[tuple[InFlight, InFlight]] = set()
    claimed: dict[Origin, InFlight] = {}
    for each in sorted(lines, key=lambda each: each.at_ms):
        for record in lines[each]:
            other = claimed.setdefault(record.origin, each)
            if (other.first, other.end) != (each.first, each.end) and record.ingest_ms <= other.at_ms:
                found.add((each, other))
            claimed[record.origin] = each
    return found


def without(raw: Raw, gone: frozenset[Origin]) -> dict[str, Sequence[Record]]:
    """The raw topics without these messages."""
    return {kind: [record for record in records if record.origin not in gone] for kind, records in raw.items()}


def shows(finding: Finding, alert: Event) -> bool:
    """Whether an alert has the operands of a finding."""
    shown = alert.get("operands") or {}
    return all(is_text_of(shown.get(name), value) for name, value in finding.operands.items())


def _in_flight(
    evidence: Evidence, raw: Raw, restarts: Sequence[InFlight], clocks_ms: int
) -> dict[InFlight, list[Record]]:
    """The messages that each restart had in flight in a partition, in their order."""
    found: dict[InFlight, list[Record]] = {each: [] for each in restarts}
    by_place: dict[tuple[str, int], list[InFlight]] = defaultdict(list)
    for each in found:
        kind, partition, _ = evidence.origin(each.topic, each.partition, each.first)
        by_place[kind, partition].append(each)
    for records in raw.values():
        for record in records:
            for each in by_place.get((record.topic, record.partition), ()):
                # Of a topic that was created anew, nothing had come by then.
                if each.first <= record.offset < each.end and record.ingest_ms <= each.at_ms + clocks_ms:
                    found[each].append(record)
    return found


def _alerted(outputs: Outputs, whole: Expected) -> Iterator[Origin]:
    for copies in outputs.alerts.values():
        for alert in copies:
            for identity in alert["event_ids"]:
                if (each := whole.judged.get((alert["key"], identity))) is not None:
                    yield each.record.origin


def _by_key(
    use: UseCase, raw: Raw, doubtful: Mapping[Origin, int], out: Collection[Origin]
) -> Iterator[tuple[bytes, Raw, list[list[Origin]]]]:
    """For each key with doubtful messages its raw messages, all reference data, and the doubtful ones by restart."""
    ranks = {each.name: rank for rank, each in enumerate((*use.others, use.judged))}
    references = {each.name: raw[each.name] for each in use.references}
    by_key: dict[bytes, dict[str, list[Record]]] = {
        record.key: {each: [] for each in ranks}
        for kind in ranks
        for record in raw[kind]
        if record.origin in doubtful and record.key is not None
    }
    for kind in ranks:
        for record in raw[kind]:
            if record.key in by_key:
                by_key[record.key][kind].append(record)
    for key, own in by_key.items():
        groups: dict[int, list[Origin]] = defaultdict(list)
        in_flight = (record for records in own.values() for record in records if record.origin in doubtful)
        for record in sorted(in_flight, key=lambda record: (record.ingest_ms, ranks[record.topic], record.offset)):
            group = groups[doubtful[record.origin]]
            if record.origin in out:
                group.clear()  # what came out is remembered, and so is all of its key before it
            else:
                group.append(record.origin)
        if any(groups.values()):
            yield key, {**references, **own}, [groups[at_ms] for at_ms in sorted(groups) if groups[at_ms]]
