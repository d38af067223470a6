"""At most once: the messages that restarts lost, and those of them that the state remembers nevertheless.

A message is lost if it was in flight at a restart and has no output. A job writes its state before the outputs, both in
the order of arrival. Of what a restart had in flight for one key, the next worker therefore remembers the first few
messages, or none, or all, and at least those before the last that came out: the number that explains every output of
this key. The rest of the tape is judged as usual.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
            shows(finding, alert)
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
    at_ms = _in_flight(evidence, raw, restarts, clocks_ms)
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
    return Losses(frozenset(at_ms), lost, frozenset(forgotten), whole, tuple(untried))


def without(raw: Raw, gone: frozenset[Origin]) -> dict[str, Sequence[Record]]:
    """The raw topics without these messages."""
    return {kind: [record for record in records if record.origin not in gone] for kind, records in raw.items()}


def shows(finding: Finding, alert: Event) -> bool:
    """Whether an alert has the operands of a finding."""
    shown = alert.get("operands") or {}
    return all(is_text_of(shown.get(name), value) for name, value in finding.operands.items())


def _in_flight(evidence: Evidence, raw: Raw, restarts: Sequence[InFlight], clocks_ms: int) -> dict[Origin, int]:
    """The messages in flight, each with the restart that may have lost it."""
    found: dict[Origin, int] = {}
    by_place: dict[tuple[str, int], list[InFlight]] = defaultdict(list)
    for each in restarts:
        kind, partition, _ = evidence.origin(each.topic, each.partition, each.first)
        by_place[kind, partition].append(each)
    for records in raw.values():
        for record in records:
            for each in by_place.get((record.topic, record.partition), ()):
                # Of a topic that was created anew, nothing had come by then.
                if each.first <= record.offset < each.end and record.ingest_ms <= each.at_ms + clocks_ms:
                    found.setdefault(record.origin, each.at_ms)
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
