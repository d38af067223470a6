"""Expected outputs: the oracle judges the raw topics in the order of their arrival.

That order is certain within a partition only. Where a rule reads another stream, an engine may have read the two topics
a little apart. Then what its enriched event shows of that stream must be one of the possible views, and all else follow
from this view.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from millrace.oracle import (
    Finding,
    Judged,
    Origin,
    Record,
    enriched_event,
    finding_of,
    identity_of,
    judge,
    refer,
    window_findings,
)
from millrace.rules import ENRICHMENT, EventRule, EventType, FoldRule, Last, Rule, UseCase, WindowRule
from millrace.rules.measures import Measure, outputs, signature
from millrace.rules.outputs import FLAGS
from millrace.verify.evidence import Bounds, Event, is_copy, is_same, place_of
from millrace.verify.lacking import REMEMBERED, Lacking

View = tuple[Event, tuple[Finding, ...]]
"""An enriched event and its findings, for one order of arrival."""
Arrived = tuple[int, Event]
"""An event of another stream, with its time of arrival."""


@dataclass
class Expected:
    """The expected outcome of every raw message."""

    views: Views
    refused: dict[Origin, str] = field(default_factory=dict)
    """The reasons, of judged events, other streams and reference data."""
    accepted: dict[Origin, Event] = field(default_factory=dict)
    """The enriched events that judged events must have become."""
    findings: dict[str, Finding] = field(default_factory=dict)
    """What per-event rules must have found, by alert id."""
    found_before: dict[str, list[Finding]] = field(default_factory=dict)
    """The same in earlier events with the same key and id, which came again when it was no longer remembered."""
    judged: dict[tuple[str, str], Judged] = field(default_factory=dict)
    """Accepted events by key and id, or place: the last of each."""
    judged_before: dict[tuple[str, str], list[Judged]] = field(default_factory=dict)
    """The earlier ones with the same key and id."""
    raced: int = 0
    """Events for which the engine read another stream a little earlier or later than the arrival times show."""
    wrong: list[str] = field(default_factory=list)
    """Enriched events that no possible view explains."""
    read_apart: dict[Origin, Collection[str]] = field(default_factory=dict)
    """For an accepted event the rules with a step of their own that may have read it, or an earlier one of its key, in
    another order with another stream's: no view shows what they found then."""
    doubtful: list[str] = field(default_factory=list)
    """Enriched events that differ only in the flags of such rules."""

    def take(self, origin: Origin, each: Settled) -> None:
        """Take in the form of an accepted event."""
        self.wrong += each.wrong
        self.doubtful += each.doubtful
        self.raced += each.raced
        self.accepted[origin] = each.event
        for finding in each.findings:
            if (earlier := self.findings.get(finding.alert_id)) is not None:
                self.found_before.setdefault(finding.alert_id, []).append(earlier)
            self.findings[finding.alert_id] = finding

    def without(self, origins: Collection[Origin]) -> Expected:
        """The same without the outcomes of these messages."""
        return replace(
            self,
            refused={origin: reason for origin, reason in self.refused.items() if origin not in origins},
            accepted={origin: event for origin, event in self.accepted.items() if origin not in origins},
            findings={i: each for i, each in self.findings.items() if not any(o in origins for o in each.origins)},
            found_before={
                i: [each for each in own if not any(o in origins for o in each.origins)]
                for i, own in self.found_before.items()
            },
        )

    def named(self, key: str, identity: str) -> list[Judged]:
        """The accepted events with this key and id, or place."""
        last = self.judged.get((key, identity))
        own = [] if last is None else [*self.judged_before.get((key, identity), ()), last]
        return [each for each in own if each.record.origin in self.accepted]

    def admissible(self, rule: str, key: str, identity: str) -> list[Finding]:
        """The findings of a per-event rule in an event, by all possible views of the other streams."""
        views = (view for each in self.named(key, identity) for view in self.views.of(each))
        return [finding for _, findings in views for finding in findings if finding.rule == rule]

    def shown(self, rule: str, each: Judged, copies: Sequence[Event], unjudged: Collection[str] = ()) -> list[Finding]:
        """The findings of a per-event rule in an event, by all views that some copy of it shows."""
        computed = self.views.use.enrichment.built
        views = [
            view
            for view in self.views.of(each)
            if any(not differences(view[0], it, computed, unjudged) for it in copies)
        ]
        return [finding for _, findings in views for finding in findings if finding.rule == rule]


def expect(
    use: UseCase,
    rules: Sequence[Rule],
    raw: Mapping[str, Sequence[Record]],
    enriched: Mapping[Origin, Sequence[Event]],
    bounds: Bounds,
    unjudged: Mapping[Origin, Collection[str]] | None = None,
    kept_since_ms: int = 0,
    lacking: Lacking = REMEMBERED,
) -> Expected:
    """Judge the raw topics; where several views are possible, `enriched` shows which one the engine had.

    `unjudged` names, for each event, the rules and fields whose present version came later. Reference data from before
    `kept_since_ms` may have been compacted.
    """
    references: dict[str, dict[str, Event]] = {reference.name: {} for reference in use.references}
    views = Views(use, [rule for rule in rules if isinstance(rule, EventRule)], bounds, lacking=lacking)
    expected = Expected(views)
    accepted: list[Judged] = []
    tape = tape_of(use, raw, references, expected.refused, Arrival(), kept_since_ms)
    for each in judge(use, rules, tape, references, lambda origin: origin not in enriched, lacking.of):
        record = each.record
        if each.reason is not None:
            expected.refused[record.origin] = each.reason
        elif each.event is not None and record.topic == use.judged.name:
            accepted.append(each)
            identity = each.event[use.judged.key], identity_of(use.judged, each.event, record)
            if (earlier := expected.judged.get(identity)) is not None:
                expected.judged_before.setdefault(identity, []).append(earlier)
            expected.judged[identity] = each
        elif each.event is not None:
            views.take(each)
    # Views need all events of the other streams, so this follows the tape.
    steps = with_other_streams(rules)
    by_key: dict[str, list[str]] = {}
    for each in accepted:
        origin = each.record.origin
        copies, later = enriched.get(origin, ()), (unjudged or {}).get(origin, ())
        if apart := read_apart(steps, each, views, by_key):
            expected.read_apart[origin] = apart
        expected.take(origin, settled(each, copies, later, views, apart))
    return expected


def with_other_streams(rules: Iterable[Rule]) -> list[FoldRule]:
    """The rules with a step that reads another stream."""
    return [rule for rule in rules if isinstance(rule, FoldRule) and rule.also]


def read_apart(
    rules: Sequence[FoldRule], each: Judged, views: Views, by_key: MutableMapping[str, list[str]]
) -> Sequence[str]:
    """The rules whose state may rest on another order of arrival, for the next accepted event of the tape.

    Those for an earlier event of its key are among them; `by_key` has these, and takes in the others.
    """
    if not rules:
        return ()
    assert each.event is not None
    key = each.event[views.use.judged.key]
    before = by_key.get(key, [])
    more = [rule.name for rule in rules if views.may_be_read_apart(each, rule.also)]
    if not set(before).issuperset(more):
        by_key[key] = sorted({*before, *more})
    return by_key.get(key, ())


def expected_windows(
    rule: WindowRule, accepted: Mapping[Origin, Event], late: set[Origin], settled_after_ms: int, idle_ms: int
) -> tuple[dict[str, Finding], dict[str, Finding]]:
    """The findings in windows that are closed, and those in windows that may still be open."""
    passed_ms = time_passed_ms(rule.on.time or "", accepted, settled_after_ms, idle_ms)
    closed: dict[str, Finding] = {}
    still_open: dict[str, Finding] = {}
    for finding in window_findings(rule, (event for origin, event in accepted.items() if origin not in late)):
        is_closed = rule.window.end_ms(finding.window_start_ms or 0, finding.at_ms) < passed_ms
        (closed if is_closed else still_open)[finding.alert_id] = finding
    return closed, still_open


def time_passed_ms(time: str, accepted: Mapping[Origin, Event], settled_after_ms: int, idle_ms: int) -> int:
    """The event time that every partition has passed, less the tolerance: windows before it must be reported.

    A partition without traffic for `idle_ms` holds back no window, in no engine.
    """
    passed = Passed()
    for (_, partition, _), event in accepted.items():
        passed.take(partition, min(event[time], event["ingest_ms"]), event["ingest_ms"])
    return passed.at_ms(idle_ms) - settled_after_ms


@dataclass
class Passed:
    """The event time that every partition has passed, as far as it was read."""

    newest_ms: dict[int, int] = field(default_factory=dict)
    came_ms: dict[int, int] = field(default_factory=dict)

    def take(self, partition: int, at_ms: int, came_ms: int) -> None:
        """Take in an event that came at that time."""
        self.newest_ms[partition] = max(at_ms, self.newest_ms.get(partition, 0))
        self.came_ms[partition] = max(came_ms, self.came_ms.get(partition, 0))

    def at_ms(self, idle_ms: int) -> int:
        active_since_ms = max(self.came_ms.values(), default=0) - idle_ms
        active = (at_ms for partition, at_ms in self.newest_ms.items() if self.came_ms[partition] >= active_since_ms)
        return min(active, default=0)


@dataclass
class Arrival:
    """How far the partitions of the raw topics have been read."""

    latest_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    """The newest time of arrival by topic and partition."""
    following: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next offset, as long as no message before it is missing."""


def tape_of(
    use: UseCase,
    raw: Mapping[str, Sequence[Record]],
    references: Mapping[str, dict[str, Event]],
    refused: dict[Origin, str],
    arrival: Arrival,
    kept_since_ms: int,
) -> Iterator[Record]:
    """The next raw messages in the order of their arrival; reference data takes effect as the tape passes it."""
    by_name = {reference.name: reference for reference in use.references}
    names = [*by_name, *(each.name for each in use.others), use.judged.name]
    arrivals = []
    met: set[tuple[str, bytes | None]] = set()
    for rank, name in enumerate(names):
        for record in raw[name]:
            at = name, record.partition
            # A broker's clock may be set back; the order of the partition stands.
            arrival.latest_ms[at] = max(record.ingest_ms, arrival.latest_ms.get(at, 0))
            is_whole = record.offset == arrival.following.get(at, 0)
            arrival.following[at] = record.offset + 1 if is_whole else -1
            # Compaction has taken messages that were here before this one. An old one's key may have been in them: the
            # first that is left of the key counts as known from the beginning.
            may_repeat = name in by_name and not is_whole and record.ingest_ms < kept_since_ms
            is_known = may_repeat and record.value is not None and (name, record.key) not in met
            met.add((name, record.key))
            arrived_ms = 0 if is_known else arrival.latest_ms[at]
            arrivals.append((arrived_ms, rank, record.partition, record.offset, record))
    arrivals.sort(key=lambda arrival: arrival[:4])
    for *_, record in arrivals:
        reference = by_name.get(record.topic)
        if reference is None:
            yield record
            continue
        reason = refer(reference, references[reference.name], record)
        if reason is not None:
            refused[record.origin] = reason


@dataclass
class Views:
    """The other streams' events by key, and the possible views of them at a moment."""

    use: UseCase
    rules: Sequence[EventRule]
    bounds: Bounds
    others: dict[tuple[str, str], list[Arrived]] = field(default_factory=lambda: defaultdict(list))
    lacking: Lacking = REMEMBERED

    def take(self, other: Judged) -> None:
        """Take in an accepted event of another stream."""
        assert other.event is not None
        key = next(each.key for each in self.use.others if each.name == other.record.topic)
        self.others[other.record.topic, other.event[key]].append((other.record.ingest_ms, other.event))

    def of(self, each: Judged) -> Iterator[View]:
        """Every possible view of an accepted event, first the one by arrival times."""
        use, record = self.use, each.record
        assert each.event is not None
        yield each.event, each.findings
        if not self._is_declared_so(each):
            return
        now = {f.name: each.event[f.name] for f in use.judged.readable}
        looked_up = {name: each.event[name] for lookup in use.enrichment.lookups for name in lookup.take}
        own = {rule.name for rule in self.rules}
        folded = tuple(finding for finding in each.findings if finding.rule not in own)
        remembers = {rule.name: rule.remembers for rule in self.rules} | {ENRICHMENT: use.enrichment.remembers}
        streams = [
            [(stream.name, last) for last in self._last(stream.name, now[use.judged.key], record.ingest_ms)]
            for stream in use.others
        ]
        # Around the moment from which on a memory is kept, it may lack a message or not.
        skews_ms = (self.bounds.skew_ms, -self.bounds.skew_ms) if self.lacking.edges else (0,)
        for last, skew_ms in product(product(*streams), skews_ms):
            seen = dict(last)
            before = {
                name: self._seeing(values, remembers[name], seen, skew_ms) for name, values in each.before.items()
            }
            found = (finding_of(rule, now, before[rule.name], record) for rule in self.rules)
            findings = (*(finding for finding in found if finding is not None), *folded)
            yield enriched_event(use, now, before[ENRICHMENT], record, looked_up, findings), findings

    def has_several(self, each: Judged) -> bool:
        """Whether an accepted event may have been seen beside several events of another stream."""
        return self._is_declared_so(each) and self.may_be_read_apart(each, self.use.others)

    def may_be_read_apart(self, each: Judged, streams: Iterable[EventType]) -> bool:
        """Whether an accepted event may have been read before or after an event of these streams."""
        assert each.event is not None
        key, at_ms = each.event[self.use.judged.key], each.record.ingest_ms
        return any(len(self._last(stream.name, key, at_ms)) > 1 for stream in streams)

    def may_lack(self, each: Judged) -> bool:
        """Whether a memory may lack what an accepted event was seen beside, or not: then another view is no race."""
        assert each.event is not None
        key, at_ms, skew_ms = each.event[self.use.judged.key], each.record.ingest_ms, self.bounds.skew_ms
        arrived = (last[0] for stream in self.use.others for last in self._last(stream.name, key, at_ms) if last)
        return any(
            self.lacking.lacks(name, at_ms, skew_ms) and not self.lacking.lacks(name, at_ms, -skew_ms)
            for at_ms in arrived
            for name in self.lacking.edges
        )

    def _is_declared_so(self, each: Judged) -> bool:
        """Whether an event was judged by declarations with these fields: of another one no other view can be made."""
        assert each.event is not None
        columns = {name: before.keys() for name, before in each.before.items()}
        return each.event.keys() == set(self.use.enriched.names) and columns == self._columns

    @cached_property
    def _columns(self) -> dict[str, set[str]]:
        """What the rules and the enrichment remember of earlier events."""
        remembers = {rule.name: rule.remembers for rule in self.rules} | {ENRICHMENT: self.use.enrichment.remembers}
        return {
            rule: {column for name, measure in own.items() for column in outputs(name, measure, self.use.judged)}
            for rule, own in remembers.items()
        }

    def _last(self, stream: str, key: str, at_ms: int) -> list[Arrived | None]:
        """The last event that was certainly read by then, and all that may have been."""
        certain: Arrived | None = None
        possible: list[Arrived | None] = []
        for each in self.others.get((stream, key), ()):
            arrived_ms, _ = each
            if arrived_ms < at_ms - self.bounds.skew_ms:
                certain = each
            elif arrived_ms <= at_ms + self.bounds.skew_ms:
                possible.append(each)
        return [certain, *possible]

    def _seeing(
        self, before: Event, remembers: Mapping[str, Measure], last: Mapping[str, Arrived | None], skew_ms: int
    ) -> dict[str, Any]:
        """The remembered values, with these as the last events of the other streams."""
        changed = dict(before)
        for name, measure in remembers.items():
            # Events of the judged stream are in one partition with this one: their order leaves no choice.
            if isinstance(measure, Last) and measure.stream in self.use.others:
                arrived_ms, event = last[measure.stream.name] or (0, None)
                if self.lacking.edges and self.lacking.lacks(signature(measure, self.use.judged), arrived_ms, skew_ms):
                    event = None
                changed |= {f"{name}_{f}": None if event is None else event[f] for f in measure.fields}
        return changed


@dataclass(frozen=True)
class Settled:
    """The expected form of one accepted event: the view of its last copy counts."""

    event: Event
    findings: tuple[Finding, ...]
    wrong: tuple[str, ...] = ()
    """The copies that no possible view explains."""
    raced: int = 0
    """The copies that another view explains than the one by arrival times."""
    doubtful: tuple[str, ...] = ()
    """The copies that differ only in the flags of rules that may have read the event apart from other streams."""


def settled(
    each: Judged, copies: Sequence[Event], unjudged: Collection[str], views: Views, apart: Collection[str] = ()
) -> Settled:
    """Decide the expected form of one accepted event; no view shows what the rules in `apart` find."""
    found = _settled(each, copies, unjudged, views)
    if not (apart and found.wrong):
        return found
    but_these = _settled(each, copies, {*unjudged, *apart}, views)
    return but_these if but_these.wrong else replace(but_these, doubtful=found.wrong)


def _settled(each: Judged, copies: Sequence[Event], unjudged: Collection[str], views: Views) -> Settled:
    """The same by all views alike."""
    assert each.event is not None
    event, findings, computed = each.event, each.findings, views.use.enrichment.built
    wrong: list[str] = []
    raced = 0
    for copy in copies:
        found = next((view for view in views.of(each) if not differences(view[0], copy, computed, unjudged)), None)
        if found is None:
            fields = [
                f"{name} is {copy.get(name)!r}, not {each.event[name]!r}"
                for name in differences(each.event, copy, computed, unjudged)
            ]
            wrong.append(f"{place_of(each.record.origin)}: {', '.join(fields)}")
        else:
            raced += found[0] is not each.event and not views.may_lack(each)
            event, findings = found
    return Settled(event, findings, tuple(wrong), raced)


def differences(expected: Event, got: Event, computed: Collection[str], unjudged: Collection[str] = ()) -> list[str]:
    """The fields in which an enriched event differs; flags have no order, the origin is compared elsewhere.

    Engines may differ in the last digits of what they compute.
    """

    def flags(event: Event) -> list[str] | None:
        found = event.get(FLAGS.name)
        return None if found is None else sorted(flag for flag in found if flag not in unjudged)

    def has(name: str) -> bool:
        if name == FLAGS.name:
            return flags(expected) == flags(got)
        return (is_same if name in computed else is_copy)(expected[name], got.get(name))

    others = [
        name
        for name, value in expected.items()
        if not ((kind := type(value)) in _PLAIN and type(other := got.get(name)) is kind and value == other)
    ]
    return [name for name in others if name != "source_topic" and name not in unjudged and not has(name)]


_PLAIN = {str, int, bool, type(None)}
"""Of values that are copies where they are equal and of one type."""
