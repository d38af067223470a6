"""What judging one segment works with: its messages, the state before it, and what is due in it."""

from __future__ import annotations

import json
import math
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from millrace import oracle
from millrace.oracle import Finding, Judged, Origin, Record
from millrace.rules import ENRICHMENT, LIMITS, EventRule, WindowRule, read_by_windows
from millrace.rules.layout import Forgotten
from millrace.rules.outputs import ALERTS, DEAD_LETTERS, FLAGS, INGEST_MS, PROVENANCE, WINDOWS_TOPIC, names
from millrace.traffic.labels import Labels
from millrace.verify.case import Question
from millrace.verify.checks.substance import holes
from millrace.verify.declared import events_since_ms, undeclared
from millrace.verify.evidence import ENRICHED, Event, Evidence, kinds_of, table_key
from millrace.verify.expected import Expected, Views
from millrace.verify.ledger.case import SegmentCase
from millrace.verify.ledger.state import Counted, Done, Output, State

OUTPUTS = (ENRICHED, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)
LOST, ENRICHED_TAG, LETTER_TAG, NOTHING = 1, 1 << 62, 2 << 62, 3 << 62
"""What came out of a judged message: the upper two bits of its digest. ENRICHED_TAG alone is an event in any form."""
HALF, EVENT_BITS = 0x7FFF_FFFF, NOTHING | 0xFFFF << 46
"""Of what an event shows of other streams, and of what its raw message decides; between them is what it looks up."""
REALS_DIFFER = 1e-9
"""Engines compute a real number with so much of a difference at most."""
ROWS_FORM = 4
"""Another one lets the audit take over what the folders hold, once: their sums have other digests from then on."""
_UNCERTAIN = (FLAGS.name, "source_topic")


@dataclass(frozen=True)
class Limits:
    """How long a ledger waits, in the time of the topics."""

    outstanding_ms: int = 600_000
    """An output that is not there so long after its cause is missing."""
    grace_ms: int = 60_000
    """A window is judged so long after its last event: an event in it may still be called late."""
    copies_ms: int = 900_000
    """For so long a later copy of a judged output is compared with it."""
    forms: int = 1_000
    """Of about so many events of a segment it is kept in which ways they may be seen beside the other streams."""
    segments_of_races: int = 60
    """Races are counted over so many segments."""
    rows_most: int = 50_000
    """So many waiting rows of a table are read in a segment; it is unknown while more wait."""
    audited_rows: int = 5_000
    """So many rows of each table are compared in a segment, whatever happened to them."""
    audited_file_rows: int = 10_000
    """So many rows of files are read again in a segment."""


@dataclass(frozen=True)
class Labelled:
    """A run of labelled traffic that has ended, and the alerts that came since it began."""

    name: str
    """No other run has it."""
    until_ms: int
    """When its last message was due."""
    labels: Labels | str
    """Or why they do not hold."""
    alerts: Sequence[Record] = ()
    since_ms: int = 0
    """When its first message was due."""
    acknowledged: Mapping[str, int] = field(default_factory=dict)
    """How many of its messages Kafka acknowledged, by kind; empty where they are not compared."""


@dataclass(frozen=True)
class Slice:
    """Rows of the files of an hour, read again."""

    folder: str
    listing: str
    """A digest of the names, sizes and times of its files."""
    rows: Sequence[Event]
    is_first: bool
    """Whether it begins with the first file of the folder."""
    following: tuple[str, int] | None
    """The file and the row with which the next slice begins; None at the end."""
    foreign: Sequence[str] = ()
    """Complaints about other files of a folder that is new to the ledger."""


Cells = Mapping[bytes, bytes]


class UnreadError(Exception):
    """A store does not answer, or its answer is damaged."""


class Tables(Protocol):
    """The tables of HBase, as they are now; raises UnreadError where they do not answer."""

    def forgotten(self) -> Forgotten: ...
    def rows(self, table: str, rows: Sequence[bytes]) -> Mapping[bytes, Cells]: ...
    def scan(self, table: str, start: bytes, stop: bytes, limit: int | None) -> Sequence[tuple[bytes, Cells]]:
        """The rows from one on, and before another; without an end if it is empty."""

    def now(self) -> tuple[int, Mapping[str, Mapping[int, int]]]:
        """The time, and the ends of the intermediate topic and of the alerts, by kind and partition."""


@dataclass(frozen=True)
class Inputs:
    """The messages of one segment: those that the topics had at its cut, and not at the cut before."""

    raw: Mapping[str, Sequence[Record]]
    outputs: Mapping[str, Sequence[Record]]
    kinds: Mapping[str, str]
    """Full topic name -> kind of event, to find the origin of outputs."""
    rows: Sequence[Event] = ()
    """Of the files that were written meanwhile."""
    rewritten: Sequence[Event] = ()
    """Of files that a compaction wrote: what they hold was in other files before."""
    wrong_files: Sequence[str] = ()
    """What is wrong with whole files."""
    slice: Slice | None = None
    """Of the files that were read before."""
    unread: Sequence[str] = ()
    """Why folders are not read again though nothing writes to them."""
    labelled: Sequence[Labelled] | str = ()
    """The runs that ended before the cut and are not judged, or why their record cannot be read."""
    tables: Tables | None = None
    """None where they are not judged."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many the raw topics have, and the topics of outputs unless those are not judged, by kind."""
    hiding: Sequence[str] = ()
    """Why messages of before the cut are not among these."""


class Step:
    """The judging of one segment, as far as it has come."""

    case: SegmentCase
    """Of what is due, once the outputs are beside their messages."""

    def __init__(
        self, state: State, question: Question, inputs: Inputs, cut_ms: int, limits: Limits, is_last: bool
    ) -> None:
        self.state, self.question, self.inputs = state, question, inputs
        self.since_ms, self.cut_ms, self.limits, self.is_last = state.cut_ms, cut_ms, limits, is_last
        self.horizon_ms = math.inf if is_last else cut_ms - limits.grace_ms
        """Windows count what arrived until then."""
        self.overdue_before_ms = -math.inf
        """Windows that ended earlier should be over."""
        self.use, self.bounds = question.use, question.bounds
        self.rules = {rule.name: rule for rule in question.rules}
        self.event_rules = [rule for rule in question.rules if isinstance(rule, EventRule)]
        self.window_rules = [rule for rule in question.rules if isinstance(rule, WindowRule)]
        self.windows = [*(rule.name for rule in self.window_rules), *(each.name for each in question.summaries)]
        self.kept = list(dict.fromkeys([*names(PROVENANCE), *read_by_windows(self.window_rules, question.summaries)]))
        self.time = self.use.judged.time or ""
        self.not_built = [
            name for name in self.use.enriched.names if name not in self.use.enrichment.built and name not in _UNCERTAIN
        ]
        """The fields of an event that no other stream decides."""
        self.looked_up = [name for name in self.not_built if name in self.use.enrichment.names]
        self.of_event = [name for name in self.not_built if name not in self.use.enrichment.names]
        self.reals = [name for name, kind in kinds_of(self.use.enriched.fields).items() if kind == "real"]
        self.raw: dict[str, list[Record]] = {each.name: [] for each in (*self.use.raw, *self.use.references)}
        self.due: dict[str, list[Output]] = {kind: [] for kind in OUTPUTS}
        self.offenders: dict[str, list[str]] = defaultdict(list)
        """By check: later copies that differ from what was judged."""
        self.unknown: dict[str, str] = {}
        """By check: why it cannot be decided."""
        self.unlabelled_ms: list[int] = []
        """The ends of labelled runs that lack an alert."""
        self.open_rows: set[tuple[Any, ...]] = set()
        """The rows of summaries whose windows are not judged yet."""
        self.by_text: dict[str, list[Counted]] = defaultdict(list)
        """The events that windows count, by what alerts of earlier versions name as their keys and subjects."""
        self.copies = self.rows = self.old_rows = self.audited = self.taken_over = 0
        self.raced = self.uncompared = 0
        self.holes = holes({each.name: inputs.raw.get(each.name, ()) for each in self.use.raw}, state.read_to)
        self.shown_ms = 0
        """How far outputs of the windows show that these are."""
        self.views = Views(self.use, self.event_rules, self.bounds, state.views)
        self.expected = Expected(self.views)
        outputs = dict.fromkeys(OUTPUTS, ())
        self.evidence = Evidence(self.raw, outputs, kinds=inputs.kinds, partitions=inputs.partitions)

    def is_over(self, since_ms: int) -> bool:
        """Whether what waits since then has waited too long."""
        return self.is_last or since_ms + self.limits.outstanding_ms <= self.cut_ms

    def cut_before(self, cut_ms: int) -> int:
        """The cut before one of the last cuts."""
        at = bisect_left(self.state.cuts, cut_ms, key=lambda each: each[0])
        return self.state.cuts[at - 1][0] if at else cut_ms - (self.cut_ms - self.since_ms)

    def judge_alerts(self, identities: Iterable[str]) -> None:
        """Judge waiting alerts with these ids."""
        for identity in identities:
            for _, output in self.state.alerts.pop(identity, ()):
                self.due[ALERTS.name].append(output)
                self.state.done_alerts[identity] = alert_digest(output[1]), self.cut_ms

    @cached_property
    def waiting(self) -> set[tuple[str, str]]:
        """The keys and ids of the events that waited for their outputs when those of this segment came."""
        judged = self.use.judged
        own = [(each.judged.event, each.judged.record) for each in self.state.units.values()]
        return {(event[judged.key], oracle.identity_of(judged, event, record)) for event, record in own if event}

    @cached_property
    def redeclared(self) -> set[str]:
        """The rules that changed, or are gone, while events waited for their outputs."""
        return {rule for rule, _, _ in self.state.undecided}

    def is_undecided(self, rule: str, each: Judged) -> bool:
        """Whether a rule changed while an event waited for its outputs."""
        if not self.state.undecided or each.event is None:
            return False
        judged = self.use.judged
        identity = oracle.identity_of(judged, each.event, each.record)
        return (rule, each.event[judged.key], identity) in self.state.undecided

    def repeat(self, output: str) -> None:
        """Note a later copy of a judged output: a fault where nothing may be there twice."""
        if self.question.is_once:
            self.offenders["repetitions"].append(f"{output} came again")

    def is_alerted(self, finding: Finding) -> bool:
        return finding.alert_id in self.state.alerts or finding.alert_id in self.state.done_alerts

    def done(self, origin: Origin, digest: int) -> None:
        """Remember what came out of a message."""
        kind, partition, offset = origin
        if (kind, partition) not in self.state.done:
            self.state.done[kind, partition] = Done(offset)
        self.state.done[kind, partition].put(offset, digest)

    def unstored(self, place: tuple[str, int], before: int) -> Iterator[int]:
        """The judged events of a partition before an offset whose rows must be in the files, and are in none."""
        done, since = self.state.done.get(place), (self.state.stored_since or {}).get(place, 0)
        if done is not None and place[0] == self.use.judged.name:
            for offset, digest in done.unstored(before):
                if offset >= since and digest & NOTHING == ENRICHED_TAG:
                    yield offset

    def digest_of(self, event: Event) -> int:
        """What a later copy of an enriched event is compared with: first what no other stream decides."""
        values = {**event, **{name: _as_real(event.get(name)) for name in self.reals}}
        of_event, looked_up = (_crc(list(map(values.get, own))) for own in (self.of_event, self.looked_up))
        other = [*map(values.get, self.use.enrichment.built)], _sorted(event.get(FLAGS.name))
        return ENRICHED_TAG | (of_event & 0xFFFF) << 46 | (looked_up & 0x7FFF) << 31 | (_crc(other) & HALF)

    def row_digest(self, row: Event) -> int:
        """What a row of a file is compared with when it is read again: also what an enriched event has elsewhere."""
        return self.digest_of(row) + _crc([row.get("source_topic"), self.undeclared(row)])

    def undeclared(self, row: Event) -> list[str]:
        """The columns of a row that are not declared; one from before a change of the fields may have others."""
        arrived_ms, since_ms = row.get(INGEST_MS.name), events_since_ms(self.question.in_force, self.bounds.clocks_ms)
        if isinstance(arrived_ms, int) and arrived_ms < since_ms:
            return []
        # A column of other rows of its file is null.
        return undeclared({name: value for name, value in row.items() if value is not None}, self.use.enriched.names)

    def digests_of_views(self, each: Judged) -> list[int]:
        """What an event may show of other streams; a computed number may be off in its last digits."""
        views = [event for event, _ in self.views.of(each)]
        off = (1 - REALS_DIFFER, 1 + REALS_DIFFER)
        return list(dict.fromkeys(self.shown(event, factor) for event in views for factor in off))

    def shown(self, event: Event, factor: float = 1.0) -> int:
        """A digest of what an event shows of other streams."""
        built = self.use.enrichment.built
        values = {name: event.get(name) for name in built}
        rounded = {name: _rounded(values[name], factor) for name in self.reals if name in built}
        return _crc([list({**values, **rounded}.values()), _sorted(event.get(FLAGS.name))])

    def may_show(self, origin: Origin, event: Event, apart: Collection[str] = ()) -> bool:
        """Whether a copy of a judged event may show this of other streams, but for the flags of rules in `apart`."""
        forms = self.state.forms.get(origin)
        if forms is None:
            return self.state.sampled_ms >= self.cut_ms - self.limits.copies_ms
        return any(self.shown(each) in forms[1:] for each in self._by_other_rules(origin, event, apart))

    def is_by_other_rules(self, origin: Origin, event: Event, digest: int, apart: Collection[str] = ()) -> bool:
        """Whether a copy of a judged event is the same but for the flags of rules that have changed, and of others."""
        known = (digest, *self.state.varied.get(origin, [0])[1:])
        return any(self.digest_of(each) in known for each in self._by_other_rules(origin, event, apart))

    def _by_other_rules(self, origin: Origin, event: Event, apart: Collection[str]) -> Iterator[Event]:
        """A copy of a judged event as it is, and with what it showed before of the rules that have changed since."""
        yield event
        flags, changed = event.get(FLAGS.name) or (), self._changed_since(event).union(apart)
        others = [flag for flag in flags if flag not in changed]
        for before in self.state.flags.get(origin, [0, []])[1:] if len(set(flags)) == len(flags) else ():
            yield {**event, FLAGS.name: [*others, *(flag for flag in before if flag in changed)]}

    def _changed_since(self, event: Event) -> set[str]:
        """The rules on events that may have judged an event by an earlier version."""
        arrived_ms = event.get(INGEST_MS.name) or 0
        return {name for name, since_ms in self._rules_changed if arrived_ms < since_ms + self.bounds.clocks_ms}

    def may_be_of_change(self, origin: Origin, event: Event, digest: int, apart: Collection[str]) -> bool:
        """Whether only what the enrichment or the limits decide differs in a copy of a judged event.

        The limits also decide what rules remember, and so their flags; the enrichment decides none.
        """
        if digest == ENRICHED_TAG:
            return True
        if (self.digest_of(event) ^ digest) & EVENT_BITS:
            return False
        is_unsampled = origin not in self.state.forms and self.may_show(origin, event)
        if is_unsampled or self._is_recent(self.case.versions(LIMITS).since_ms):
            return True
        flags, changed = event.get(FLAGS.name) or (), self._changed_since(event).union(apart)
        others = sorted(flag for flag in flags if flag not in changed)
        shown = self.state.flags.get(origin, [0, []])[1:]
        return any(others == [flag for flag in before if flag not in changed] for before in shown)

    def keep_flags(self, origin: Origin, forms: Iterable[Event]) -> None:
        """Keep which rules the forms of a judged event show, if they show any."""
        flags = {tuple(sorted(form.get(FLAGS.name) or ())) for form in forms}
        if any(flags):
            self.state.flags[origin] = [self.cut_ms, *sorted(map(list, flags))]

    @cached_property
    def _rules_changed(self) -> list[tuple[str, int]]:
        """The rules on events that changed while outputs came with which a later copy may be compared."""
        others = {ENRICHMENT, LIMITS}
        return [
            (name, versions.since_ms)
            for name, versions in self.question.in_force.items()
            if self._is_recent(versions.since_ms)
            and name not in {*others, *self.windows}
            and not name.startswith(table_key(""))
        ]

    def _is_recent(self, changed_ms: int) -> bool:
        """Whether outputs came before a change with which a later copy may be compared."""
        return changed_ms > self.cut_ms - self.limits.copies_ms - self.limits.outstanding_ms

    def is_of_change(self, event: Event, digest: int) -> bool:
        """Whether an event may have come out by an earlier declaration of its fields, and again by the present one."""
        if not digest & ~EVENT_BITS:
            return True
        arrived_ms, since_ms = event.get(INGEST_MS.name), events_since_ms(self.question.in_force, self.bounds.clocks_ms)
        kept_ms = self.limits.copies_ms + self.limits.outstanding_ms
        return isinstance(arrived_ms, int) and since_ms - kept_ms <= arrived_ms < since_ms

    @property
    def version_of_rows(self) -> str:
        """What the digest of a row depends on: first that of what its raw message alone decides.

        The digests of ROWS_FORM 1 were those of enriched events; beside those of 2 no flags were kept, and 3 did not
        keep apart what an event looks up.
        """
        of_event = [ROWS_FORM, self.of_event, [name for name in self.reals if name in self.of_event]]
        names = [self.use.enriched.names, sorted(self.use.enrichment.built), self.reals]
        return f"{_crc(of_event):08x}{_crc(names):08x}"

    def source(self, event: Event) -> Origin:
        return self.evidence.origin(event["source_topic"], event["source_partition"], event["source_offset"])

    def letter_origin(self, letter: Event) -> Origin:
        return self.evidence.origin(letter["topic"], letter["partition"], letter["offset"])


def _sorted(words: Any) -> Any:
    return sorted(words, key=str) if isinstance(words, list | tuple) else words


def _as_real(value: Any) -> Any:
    """The number that a file holds, where a message may show it as a whole one."""
    return float(value) if isinstance(value, int) else value


def _rounded(value: Any, factor: float) -> Any:
    """A real number without its last digits."""
    return float(f"{value * factor:.8g}") if isinstance(value, int | float) else value


_AS_JSON = json.JSONEncoder(separators=(",", ":"), default=str)


def _crc(content: Any) -> int:
    return zlib.crc32(_AS_JSON.encode(content).encode())


def letter_digest(letter: Event) -> int:
    return LETTER_TAG | _crc([letter.get(name) for name in ("reason", "stage", "value_base64", "ingest_ms")])


def late_digests(letter: Event) -> list[int]:
    """Of the facts of a late dead letter, and of the message that it carries, if any."""
    carried = letter.get("value_base64")
    return [_crc([letter.get(name) for name in ("reason", "stage", "ingest_ms")]), _crc(carried) if carried else 0]


def alert_digest(alert: Event) -> int:
    return _crc(sorted((name, value) for name, value in alert.items() if name != "emit_ms"))
