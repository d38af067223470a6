"""One run to judge: the question about it, and its evidence, read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import combinations
from typing import Any

from millrace.oracle import (
    Finding,
    Origin,
    Record,
    Refusal,
    accept,
    identity_of,
    measured,
    summary_events,
    summary_rows,
    window_findings,
    windows,
)
from millrace.patterns.loss import InFlight, Loss
from millrace.rules import ENRICHMENT, LIMITS, Rule, Session, UseCase, WindowRule, WindowSummary
from millrace.rules.events import WHOLE_MOST
from millrace.rules.outputs import (
    ALERT_FACTS,
    ALERTS,
    DEAD_LETTERS,
    DUPLICATE,
    LATE,
    LETTER_IDENTITY,
    REPLAYED,
    SOURCE,
    names,
)
from millrace.rules.outputs import WINDOWS_TOPIC as WINDOWS
from millrace.rules.tokens import Secrets
from millrace.traffic.runs import Run, Span, is_within
from millrace.verify.behind import Moved, Newest, Place
from millrace.verify.declared import CHANGES_OF_EVENTS, Faults, faults_of
from millrace.verify.evidence import (
    ENRICHED,
    Bounds,
    Event,
    Evidence,
    Messages,
    Read,
    Versions,
    kinds_of,
    misfit,
    place,
    read,
    table_key,
)
from millrace.verify.expected import Expected, Passed, expect, expected_windows, time_passed_ms
from millrace.verify.lacking import REMEMBERED, Lacking, edges
from millrace.verify.losses import Losses, Outputs, find, is_legible, without
from millrace.verify.planned import Planned, planned

RowKey = tuple[Any, ...]
"""Of a summary's row: the start of its window, then its keys."""
REFUSED_LATER = (DUPLICATE, "unknown:")
"""The reasons of refusals that need more than the message itself."""
READ_AGAIN_MOST = 3
"""Of the late events of one key that came out twice, so many at most are tried together."""


@dataclass(frozen=True)
class Question:
    """The object of a verdict: the rules, summaries, stores and promises of a pattern."""

    pattern: str
    use: UseCase
    rules: Sequence[Rule]
    summaries: Sequence[WindowSummary] = ()
    stores: Sequence[str] = ()
    promises: Mapping[str, float] | None = None
    warm_after_ms: int = 0
    """The promises do not apply for this long after traffic began."""
    began_ms: Sequence[int] = ()
    """When each tape of traffic began; empty if unknown, then it was with the first alert."""
    uncounted_ms: Sequence[Span] = ()
    """When the sender of the traffic was late: no latency of that time counts."""
    notes: Sequence[str] = ()
    """What the verdict must mention besides its checks."""
    kept_since_ms: int = 0
    """Older dead letters may have been deleted, and older reference data that was sent again compacted."""
    bounds: Bounds = field(default_factory=Bounds)
    in_force: Mapping[str, Versions] = field(default_factory=dict)
    """Rules and summaries that have had another version, also those that the pattern no longer runs."""
    earlier: Mapping[tuple[str, str], WindowRule] = field(default_factory=dict)
    """The rules on windows of earlier versions, by name and version, as far as their declarations are kept."""
    away_ms: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """When the job lacked a memory that a rule needs now, because none needed it then; by its name."""
    undeployed: Sequence[str] = ()
    """What of the declarations, or of `in_force`, no deployment has brought."""
    lost: Sequence[Loss] = ()
    """Messages that were deleted before an engine read them, and accepted as lost."""
    runs: Sequence[Run] = ()
    """The recorded runs of traffic."""
    unrecorded: Sequence[str] = ()
    """Where lines of that record are missing."""
    secrets: Secrets | None = None
    """The tokens with which they were made; None if a key is not there."""
    is_once: bool = False
    """Whether no output may be there twice."""
    is_at_most_once: bool = False
    """Whether what was in flight at a restart may be absent."""
    in_flight: Sequence[InFlight] = ()
    """What the restarts had in flight."""
    is_finite: bool = False
    """Whether the topics hold all that they ever will: all windows are closed, and no latency means anything."""
    counts_late: bool = True
    """Whether rows of summaries may count events that are called late."""
    follows_enriched: bool = True
    """Whether the windows read the intermediate topic, so that its order makes events late."""


@dataclass(frozen=True)
class Rows:
    """The rows of one summary that the oracle expects."""

    over: Mapping[RowKey, Mapping[str, Any]]
    """Of the windows that are over, with all events in time."""
    with_late: Mapping[RowKey, Mapping[str, Any]]
    """The same with the late events, also of windows that are not over."""
    began_ms: Mapping[RowKey, int]
    """When the first event of each row arrived."""
    events: Mapping[RowKey, Sequence[Event]]
    """All events of each row, also the late ones."""
    still_open: Mapping[RowKey, Mapping[str, Any]] = field(default_factory=dict)
    """Of the windows that may still be open."""
    from_before: Collection[RowKey] = ()
    """Of the windows with an event from before the summary's present version, which began all its windows anew."""
    late: Mapping[RowKey, Sequence[Event]] = field(default_factory=dict)
    """The late events of each row that has some."""

    def apart(self, key: RowKey) -> tuple[Sequence[Event], Sequence[Event]]:
        """The late events of a row, and the others."""
        late = self.late.get(key, ())
        return late, [event for event in self.events.get(key, ()) if event not in late] if late else self.events[key]


class Case:
    """The inputs of all checks of one run; each part is computed once."""

    is_whole = True
    """Whether it holds the whole run, and not one segment of it."""
    losses = Losses()

    def __init__(self, question: Question, evidence: Evidence, like: Case | None = None) -> None:
        """`like` is a case already judged, with which this one shares most of its evidence."""
        self.question, self.evidence = question, evidence
        self.unjudged_windows = Counter[str]()
        """Of a segment, by rule: windows that hold an event from before it changed, and alerts of such windows."""
        inputs = [each.name for each in (*question.use.raw, *question.use.references)]
        self.raw: dict[str, Sequence[Record]] = {kind: evidence.raw.get(kind) or () for kind in inputs}
        self.unread = [kind for kind in inputs if evidence.raw.get(kind) is None]
        """The incomplete inputs: without them no output can be judged."""
        self.unread += [f"the first {kind}, older than what the pattern retains" for kind in evidence.deleted]
        if question.lost:
            self.unread.append("messages that were deleted before they were read (see the check 'loss')")
        if not all(map(is_legible, question.in_flight)):
            self.unread.append("what restarts had in flight: a line of their record is damaged")
        if since := self._other_limits():
            self.unread.append(f"messages from before {since}, which the pattern judged by other limits")
        faults = faults_in(question)
        self.outputs: dict[str, Read] = {
            kind: like.outputs[kind]
            if like and evidence.outputs.get(kind) is like.evidence.outputs.get(kind)
            else read(evidence.outputs.get(kind) or (), problem, faults[kind])
            for kind, problem in problems(question).items()
        }
        if like and self.has_same_events(like):
            self.expected, self.planned = like.expected, like.planned
            if evidence.outputs.get(DEAD_LETTERS.name) is like.evidence.outputs.get(DEAD_LETTERS.name):
                self.raced_late, self.doubtfully_late = like.raced_late, like.doubtfully_late
        if question.in_flight and not self.unread:
            self.losses = self._lost()
            self.raw = without(self.raw, self.losses.lost)

    def has_same_events(self, other: Case) -> bool:
        """Whether both have the same question, raw messages and enriched events, and so the same expected outputs."""
        own, its = self.evidence, other.evidence
        is_same = own.raw is its.raw and own.outputs.get(ENRICHED) is its.outputs.get(ENRICHED)
        return is_same and self.question is other.question and not self.question.in_flight

    @cached_property
    def planned(self) -> Planned:
        """What the plans of the recorded runs give, beside the raw topics."""
        raw = {kind: self.evidence.raw.get(kind) or () for kind in self.raw}
        asked, counts = self.question, self.evidence.partitions
        return planned(asked.use, asked.runs, asked.secrets, raw, counts, asked.kept_since_ms)

    @property
    def has_lost_input(self) -> bool:
        """Whether raw messages are gone for good, so that no check that needs them is ever ok."""
        return bool(self.evidence.deleted or self.question.lost)

    @property
    def judged(self) -> Sequence[Record]:
        """The raw messages that the rules judge."""
        return self.raw[self.question.use.judged.name]

    @property
    def settled_after_ms(self) -> int:
        """How far behind the newest event a moment is settled: no event in time comes before it any more."""
        if self.question.is_finite:
            return -WHOLE_MOST
        return self.question.use.disorder_ms + self.question.bounds.closing_ms

    @property
    def enriched(self) -> Messages:
        return self.outputs[ENRICHED].events

    @property
    def alerts(self) -> Messages:
        return self.outputs[ALERTS.name].events

    @property
    def windows(self) -> Messages:
        return self.outputs[WINDOWS].events

    @cached_property
    def copies(self) -> dict[Origin, list[Event]]:
        """The enriched events by raw message: after a failure more than one, and not always the same."""
        copies: dict[Origin, list[Event]] = defaultdict(list)
        for _, event in self.enriched:
            copies[self.source(event)].append(event)
        return copies

    @cached_property
    def is_judged_once(self) -> bool:
        """Whether no output is there twice, so that no restart has judged a message again."""
        letters = [letter for _, letter in self.outputs[DEAD_LETTERS.name].events if letter["reason"] != REPLAYED]
        outputs, found = (self.enriched, self.alerts, letters), (self.copies, self._alert_ids, self.letters)
        return self.question.is_once or [*map(len, outputs)] == [*map(len, found)]

    @cached_property
    def _alert_ids(self) -> set[str]:
        return {alert["alert_id"] for _, alert in self.alerts}

    @cached_property
    def came_out_ms(self) -> dict[Origin, int]:
        """When the last copy of each enriched event reached its topic."""
        found: dict[Origin, int] = {}
        for record, event in self.enriched:
            origin = self.source(event)
            found[origin] = max(record.ingest_ms, found.get(origin, 0))
        return found

    @cached_property
    def first_out_ms(self) -> dict[Origin, int]:
        """When the first copy of each enriched event reached its topic."""
        found: dict[Origin, int] = {}
        for record, event in self.enriched:
            origin = self.source(event)
            found[origin] = min(record.ingest_ms, found.get(origin, record.ingest_ms))
        return found

    def ahead(self, records: Iterable[Record]) -> list[str]:
        """The complaints about messages that their topic had after they were read, if it is known when that was."""
        read_ms = self.evidence.read_ms
        latest_ms = read_ms + self.question.bounds.clocks_ms
        return [
            f"{place(each)}: its topic had it at {each.ingest_ms}, and it was read at {read_ms}"
            for each in (records if read_ms else ())
            if each.ingest_ms > latest_ms
        ]

    def implausible(self, record: Record, message: Event, caused_ms: int) -> list[str]:
        """The complaint about a message that was made before its cause, or after its topic had it."""
        emit_ms, clocks_ms = message.get("emit_ms"), self.question.bounds.clocks_ms
        if emit_ms is None:
            return ["emit_ms is None"]
        if emit_ms < caused_ms - clocks_ms:
            return [f"emit_ms is {emit_ms}, before its cause, which arrived at {caused_ms}"]
        if emit_ms > record.ingest_ms + clocks_ms:
            return [f"emit_ms is {emit_ms}, after its topic had it, at {record.ingest_ms}"]
        return []

    def held(self, messages: Messages) -> tuple[list[str], list[str]]:
        """The messages of one writer that reached their topic long after they were made: wrong ones, and doubtful ones.

        A machine that is suspended may explain one, unless the same writer wrote others meanwhile.
        """
        bounds = self.question.bounds
        times = [(record, int(each.get("emit_ms") or record.ingest_ms)) for record, each in messages]
        late = [(record, emit_ms) for record, emit_ms in times if emit_ms < record.ingest_ms - bounds.held_ms]
        prompt_ms = [record.ingest_ms for record, emit_ms in times if record.ingest_ms <= emit_ms + bounds.clocks_ms]
        wrong: list[str] = []
        doubtful: list[str] = []
        for record, emit_ms in late:
            between = range(emit_ms + bounds.clocks_ms, record.ingest_ms - bounds.clocks_ms)
            found = wrong if any(at_ms in between for at_ms in prompt_ms) else doubtful
            found.append(f"{place(record)} came {(record.ingest_ms - emit_ms) / 1000:,.0f} s after its emit_ms")
        return wrong, doubtful

    @cached_property
    def letters(self) -> dict[tuple[Origin, str], Event]:
        """Dead letters by raw message and reason, each once."""
        return {
            (self.letter_origin(letter), letter["reason"]): letter
            for _, letter in self.outputs[DEAD_LETTERS.name].events
            if letter["reason"] != REPLAYED
        }

    def has_letter(self, origin: Origin) -> bool:
        """Whether a message has a dead letter that can be replayed, or is so old that it may have been deleted."""
        kind, partition, offset = origin
        if (record := self.records.get(origin)) is not None:
            return origin in self._refused or record.ingest_ms < self.question.kept_since_ms
        is_kept = kind in {each.name for each in self.question.use.raw}
        return not is_kept and offset < self.ends.get((kind, partition), offset + 1)

    @cached_property
    def _refused(self) -> set[Origin]:
        return {origin for origin, reason in self.letters if reason not in (LATE, DUPLICATE)}

    @cached_property
    def ends(self) -> Mapping[tuple[str, int], int]:
        """The offset behind the last raw message by kind and partition."""
        found: dict[tuple[str, int], int] = {}
        for kind, records in self.raw.items():
            for record in records:
                found[kind, record.partition] = max(record.offset + 1, found.get((kind, record.partition), 0))
        return found

    @cached_property
    def late(self) -> set[Origin]:
        """The raw messages that no window counts."""
        return {origin for origin, reason in self.letters if reason == LATE}

    @cached_property
    def expected(self) -> Expected:
        """The oracle's outcome for every raw message, but for those that a restart lost."""
        if not self.losses.lost and not self.losses.forgotten:
            return self._expect(self.raw)
        raw = {kind: self.evidence.raw.get(kind) or () for kind in self.raw}
        return self._expect(without(raw, self.losses.forgotten)).without(self.losses.lost)

    @cached_property
    def absent_alerts(self) -> dict[str, Finding]:
        """The alerts that are absent because of what restarts lost: their events, or the state that they rest on."""
        if self.losses.whole is None:
            return {}
        found = {alert["alert_id"] for _, alert in self.alerts}
        return {
            identity: each
            for identity, each in {**self.losses.whole.findings, **self.expected.findings}.items()
            if identity not in found
            and (identity not in self.expected.findings or self.losses.in_flight.issuperset(each.origins))
        }

    def has_events(self, alert: Event) -> bool:
        """Whether the pattern has had the events that an alert names, whatever version of its rule judged them."""
        known = [self._by_identity.get(identity, ()) for identity in alert["event_ids"]]
        if all(known):
            # An alert on very many events names none.
            values = _texts(event for own in known for event in own) if known else self._texts
            return alert["key"] in values or ENRICHMENT in self.question.in_force
        # What is refused now may have been accepted then.
        return all(
            identity in self._identities for identity, own in zip(alert["event_ids"], known, strict=True) if not own
        )

    def events_of(self, alert: Event) -> Sequence[Event]:
        """The events that an alert of an earlier version may rest on: of a window, those with its key in any field.

        There are none if events may have been declared otherwise.
        """
        if self.declares_events_otherwise:
            return ()
        if alert["window_start_ms"] is not None:
            return self._by_key.get(alert["key"], ())
        key = self.question.use.judged.key
        named = (event for identity in alert["event_ids"] for event in self._by_identity.get(identity, ()))
        return [event for event in named if event[key] == alert["key"]]

    @property
    def declares_events_otherwise(self) -> bool:
        """Whether the fields or the limits of events have changed."""
        return not self.question.in_force.keys().isdisjoint(CHANGES_OF_EVENTS)

    @cached_property
    def _by_key(self) -> dict[str, list[Event]]:
        """For the key of each alert on a window, of an earlier version, the events that have it in a field."""
        keys = {
            alert["key"] for _, alert in self.alerts if alert["window_start_ms"] is not None and self.is_earlier(alert)
        }
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.expected.accepted.values():
            for value in {each for each in event.values() if isinstance(each, str)} & keys:
                found[value].append(event)
        return found

    @cached_property
    def _by_identity(self) -> dict[str, list[Event]]:
        """The accepted events by their id, or place; ids of different keys may be the same."""
        judged, found = self.question.use.judged, defaultdict[str, list[Event]](list)
        for (_, partition, offset), event in self.expected.accepted.items():
            found[str(event[judged.id]) if judged.id else f"{partition}-{offset}"].append(event)
        return found

    @cached_property
    def _texts(self) -> set[str]:
        return _texts(self.expected.accepted.values())

    @cached_property
    def _identities(self) -> set[str]:
        """The ids, or places, of all raw messages that can be read."""
        judged, found = self.question.use.judged, set()
        for record in self.evidence.raw.get(judged.name) or ():
            event = accept(judged, record.value, record.ingest_ms)
            if not isinstance(event, Refusal):
                found.add(identity_of(judged, event, record))
        return found

    def windows_of(self, rule: WindowRule) -> tuple[dict[str, Finding], dict[str, Finding]]:
        """A rule's findings in windows that are closed, and those in windows that may still be open."""
        idle_ms = self.question.bounds.idle_ms
        return expected_windows(rule, self.expected.accepted, self.late, self.settled_after_ms, idle_ms)

    @cached_property
    def windows_changed_ms(self) -> int:
        """When a rule on windows came, changed or went: an engine with one query for all reads its topic anew then."""
        use, question = self.question.use, self.question
        others = {each.name for each in (*use.rules, *question.rules) if not isinstance(each, WindowRule)}
        others |= {ENRICHMENT, LIMITS, *(each.name for each in (*use.summaries, *question.summaries))}
        of_tables = {table_key(table.name) for table in use.tables}
        changes = (each.since_ms for name, each in question.in_force.items() if name not in others | of_tables)
        return max(changes, default=0)

    def from_before(self, rule: WindowRule, key: str, start_ms: int, since_ms: int) -> Sequence[Event]:
        """All events of the window that begins or continues there, if one came out before that moment."""
        time, is_session = rule.on.time or "", isinstance(rule.window, Session)
        for first_ms, among in self._with_late[rule.name].get(key, ()) if since_ms else ():
            is_it = first_ms <= start_ms <= among[-1][time] if is_session else first_ms == start_ms
            if is_it and any(self.came_out_ms.get(_origin_of(each), since_ms) < since_ms for each in among):
                return among
        return ()

    def is_late(self, event: Event) -> bool:
        """Whether no window counts an accepted event."""
        return _origin_of(event) in self.late

    @cached_property
    def _with_late(self) -> dict[str, dict[str, list[tuple[int, list[Event]]]]]:
        """The windows of each rule by key, with the late events."""
        found: dict[str, dict[str, list[tuple[int, list[Event]]]]] = {}
        for rule in self.question.rules:
            if isinstance(rule, WindowRule):
                by_key: dict[str, list[Event]] = defaultdict(list)
                for event in self.expected.accepted.values():
                    by_key[event[rule.key]].append(event)
                time = rule.on.time or ""
                found[rule.name] = {key: list(windows(rule.window, time, own)) for key, own in by_key.items()}
        return found

    def before_a_restart(self, rule: WindowRule, key: str) -> Iterator[Finding]:
        """What a rule found in windows of a key if it counted events that were late when they were read again.

        A job that restarts from an older state reads the partitions in another order. An event that came out twice was
        read twice, and the windows that counted it may have been reported before.
        """
        own = {origin: event for origin, event in self.expected.accepted.items() if event[rule.key] == key}
        again = [origin for origin in own if origin in self.late and len(self.copies.get(origin, ())) > 1]
        in_time = [event for origin, event in own.items() if origin not in self.late]
        yield from findings_with(rule, in_time, [own[origin] for origin in again])

    def accepted(self, origin: Origin) -> Event:
        """The enriched event that an accepted raw message must have become."""
        return self.expected.accepted[origin]

    @cached_property
    def records(self) -> dict[Origin, Record]:
        """The raw messages by their place."""
        return {record.origin: record for records in self.raw.values() for record in records}

    @cached_property
    def behind_ms(self) -> Mapping[Origin, int]:
        """How far each late event that was accepted is behind the newest event that may have been read before it."""
        found, out_ms = self._behind_ms(self.question.bounds.ahead_ms), self._out_behind_ms
        return {origin: max(ms, self.surely_behind_ms[origin], out_ms.get(origin, 0)) for origin, ms in found.items()}

    @cached_property
    def surely_behind_ms(self) -> Mapping[Origin, int]:
        """The same by the order of arrival, or by that in which the events came out, if windows read that topic."""
        out_ms = self._out_behind_ms if self.question.follows_enriched else {}
        return {origin: max(ms, out_ms.get(origin, ms)) for origin, ms in self.arrived_behind_ms.items()}

    @cached_property
    def arrived_behind_ms(self) -> Mapping[Origin, int]:
        """The same by the order of arrival alone."""
        return self._behind_ms(0)

    @cached_property
    def raced_late(self) -> set[Origin]:
        """The events that are late only if another partition was read ahead of theirs."""
        own, disorder_ms = self.surely_behind_ms, self.question.use.disorder_ms
        return {origin for origin, ms in own.items() if ms <= disorder_ms < self.behind_ms[origin]}

    @cached_property
    def doubtfully_late(self) -> set[Origin]:
        """The same, and the events that are late only by the order in which they came out, as behind a stalled task."""
        own, disorder_ms = self.arrived_behind_ms, self.question.use.disorder_ms
        return {origin for origin, ms in own.items() if ms <= disorder_ms < self.behind_ms[origin]}

    def resting_on_races(self, rule: WindowRule) -> Iterator[Finding]:
        """What a rule finds only if windows count the events that may not be late, and only if they do not."""
        accepted, raced, in_time = self.expected.accepted, defaultdict[str, list[Event]](list), []
        for origin in self.doubtfully_late:
            raced[accepted[origin][rule.key]].append(accepted[origin])
        if raced:
            own = (event for origin, event in accepted.items() if origin not in self.late)
            in_time = [event for event in own if event[rule.key] in raced]
        return resting_on(rule, in_time, [event for late in raced.values() for event in late])

    @cached_property
    def _out_behind_ms(self) -> Mapping[Origin, int]:
        """How far each late event that was accepted is behind what came out before it."""
        accepted, time = self.expected.accepted, self.question.use.judged.time or ""
        first = first_copies(self.enriched, self.source, self.late & accepted.keys())
        newest = Newest(moved_by(self.enriched, time), {})
        return {origin: newest.before(*at) - accepted[origin][time] for origin, at in first.items()}

    @cached_property
    def unaccounted(self) -> Sequence[Origin]:
        """The events that came out long after their windows were over, and are neither called late nor in an alert."""
        rules = [rule for rule in self.question.rules if isinstance(rule, WindowRule)]
        found = set(self._behind_windows(rules)) - self.late if rules and not self.question.is_finite else set()
        alerted = {alert["alert_id"] for _, alert in self.alerts} if found else set()
        for rule in rules if found else ():
            for each in (finding for own in self.windows_of(rule) for finding in own.values()):
                found -= set(each.origins) if each.alert_id in alerted else set()
        return sorted(found)

    def _behind_windows(self, rules: Sequence[WindowRule]) -> Iterator[Origin]:
        """The events that came out when all partitions had passed them for long, and so had the windows, or by far.

        Soon after a backlog, or a change of a rule, nothing shows how far the windows are.
        """
        accepted, bounds, time = self.expected.accepted, self.question.bounds, self.question.use.judged.time or ""
        changed_ms = max(self.versions(rule.name).since_ms for rule in rules)
        unknown_until_ms = changed_ms + 2 * bounds.overdue_ms
        first = [(at[0], origin) for origin, at in first_copies(self.enriched, self.source, accepted).items()]
        shown = sorted(each for each in self._shown_by_windows(rules) if each[0] >= changed_ms)
        still = list(self._stood_still(rules))
        passed, position, reached_ms, taken = Passed(), 0, 0, 0
        for out_ms, origin in first:
            event = accepted[origin]
            while first[position][0] <= out_ms - bounds.overdue_ms:
                came_ms, (_, partition, _) = first[position]
                before = accepted[first[position][1]]
                passed.take(partition, min(before[time], before["ingest_ms"]), came_ms)
                position += 1
            while taken < len(shown) and shown[taken][0] <= out_ms - bounds.clocks_ms:
                reached_ms, taken = max(shown[taken][1], reached_ms), taken + 1
            by_events_ms = passed.at_ms(bounds.idle_ms)
            passed_ms, by_far_ms = min(by_events_ms, reached_ms), by_events_ms - bounds.held_ms
            # So far behind, an event is late unless outputs show that the windows stood still.
            if event[time] < by_far_ms and not any(since_ms < out_ms < until_ms for since_ms, until_ms in still):
                passed_ms = max(passed_ms, by_far_ms)
            passed_ms -= self.settled_after_ms
            if out_ms - event["ingest_ms"] > bounds.idle_ms:
                unknown_until_ms = max(unknown_until_ms, out_ms + 2 * bounds.overdue_ms)
            elif out_ms > unknown_until_ms and event[time] < passed_ms:
                yield origin

    def _stood_still(self, rules: Sequence[WindowRule]) -> Iterator[Span]:
        """From when until when an alert was due on a window and not there, for longer than windows may take."""
        by_name, waits_ms = {rule.name: rule for rule in rules}, self.question.bounds.overdue_ms
        for record, alert in self.alerts:
            rule, start_ms = by_name.get(alert["rule"]), alert.get("window_start_ms")
            if rule is not None and start_ms is not None:
                since_ms = max(rule.window.end_ms(start_ms, alert["at_ms"]), alert.get("ingest_ms") or 0) + waits_ms
                if since_ms < record.ingest_ms:
                    yield since_ms, record.ingest_ms

    def _shown_by_windows(self, rules: Sequence[WindowRule]) -> Iterator[tuple[int, int]]:
        """When an output showed that the windows had reached a moment: they may stand still while events come out.

        Rows of summaries show nothing: Spark writes them while their windows grow.
        """
        accepted, by_name = self.expected.accepted, {rule.name: rule for rule in rules}
        for record, alert in self.alerts:
            rule, start_ms = by_name.get(alert["rule"]), alert.get("window_start_ms")
            if rule is not None and alert["rule_version"] == rule.version and start_ms is not None:
                yield record.ingest_ms, rule.window.end_ms(start_ms, alert["at_ms"])
        for record, letter in self.outputs[DEAD_LETTERS.name].events:
            origin = self.letter_origin(letter)
            if letter["reason"] == LATE and origin in accepted:
                yield record.ingest_ms, accepted[origin][self.question.use.judged.time or ""]

    def _behind_ms(self, ahead_ms: int) -> dict[Origin, int]:
        """How far each late event is behind what arrived before it, or in other partitions so long after it."""
        accepted, time = self.expected.accepted, self.question.use.judged.time or ""
        newest, arrived_ms = Newest(self._moved, {}), self._arrived_ms
        return {
            origin: newest.before(arrived_ms[origin[1:]], *origin[1:], ahead_ms) - accepted[origin][time]
            for origin in self.late & accepted.keys()
        }

    @cached_property
    def _moved(self) -> Sequence[Moved]:
        """The raw messages that move time."""
        return [
            Moved(record.ingest_ms, record.partition, record.offset, at_ms)
            for record in self.judged
            for at_ms in self._moment_ms(record)
        ]

    @cached_property
    def _arrived_ms(self) -> dict[Place, int]:
        """When each raw message arrived; where a clock was set back, when those before it did."""
        latest_ms: dict[int, int] = {}
        found: dict[Place, int] = {}
        for record in sorted(self.judged, key=lambda record: record.offset):
            latest_ms[record.partition] = max(record.ingest_ms, latest_ms.get(record.partition, 0))
            found[record.partition, record.offset] = latest_ms[record.partition]
        return found

    def _expect(self, raw: Mapping[str, Sequence[Record]]) -> Expected:
        question = self.question
        return expect(
            question.use,
            question.rules,
            raw,
            self.copies,
            question.bounds,
            self.not_yet_in_force,
            question.kept_since_ms,
            self._lacking,
        )

    @cached_property
    def _lacking(self) -> Lacking:
        """What the job did not remember of each message."""
        away_ms = self.question.away_ms
        if not away_ms:
            return REMEMBERED
        arrived_ms = {record.origin: record.ingest_ms for record in self.judged}
        read = ((out_ms, arrived_ms[origin]) for origin, out_ms in self.came_out_ms.items() if origin in arrived_ms)
        return Lacking(self.question.use.judged.name, away_ms, self.came_out_ms, edges=edges(away_ms, read))

    def _lost(self) -> Losses:
        """What the restarts lost."""
        refused: dict[Origin, set[str]] = defaultdict(set)
        for origin, reason in self.letters:
            if reason != LATE:
                refused[origin].add(reason)
        alerts: dict[str, list[Event]] = defaultdict(list)
        for _, alert in self.alerts:
            alerts[alert["alert_id"]].append(alert)
        question, outputs = self.question, Outputs(self.copies, refused, alerts)
        return find(question.use, self.evidence, outputs, question.in_flight, question.bounds.clocks_ms, self._expect)

    def _moment_ms(self, record: Record) -> Iterator[int]:
        """The time to which a raw message moves time, if it does: all that can be read, even if refused later."""
        judged, origin = self.question.use.judged, record.origin
        event: Event | Refusal | None = self.expected.accepted.get(origin)
        if event is None and self.expected.refused.get(origin, "").startswith(REFUSED_LATER):
            event = accept(judged, record.value, record.ingest_ms)
        if event is not None and not isinstance(event, Refusal):
            yield moment_ms(event[judged.time or ""], record)

    def parts_of(self, summary: WindowSummary) -> dict[RowKey, list[list[Event]]]:
        """The events of each row by partition of the intermediate topic, in its order.

        Late events are left out: any of them may be counted. Rows are left out that have another event which came out
        twice: of it nothing shows when it was counted.
        """
        accepted = self.expected.accepted
        first = first_copies(self.enriched, self.source, accepted.keys() - self.late)
        by_partition: dict[int, list[Event]] = defaultdict(list)
        for origin in sorted(first, key=lambda origin: first[origin][1:]):
            by_partition[first[origin][1]].append(accepted[origin])
        unsure = [
            event
            for origin, event in accepted.items()
            if origin not in self.late and len(self.copies.get(origin, ())) != 1
        ]
        left_out = summary_events(summary, unsure).keys()
        found: dict[RowKey, list[list[Event]]] = defaultdict(list)
        for events in by_partition.values():
            for key, own in summary_events(summary, events).items():
                if key not in left_out:
                    found[key].append(own)
        return found

    def rows_of(self, summary: WindowSummary) -> Rows:
        """The rows of a summary, of windows that are over and of those that may still be open."""
        accepted = self.expected.accepted
        in_time = {origin: event for origin, event in accepted.items() if origin not in self.late}
        passed_ms = time_passed_ms(summary.on.time or "", in_time, self.settled_after_ms, self.question.bounds.idle_ms)
        wanted = summary_rows(summary, in_time.values())
        ends_ms = {key: summary.window.end_ms(key[0], key[0]) for key in wanted}
        counted = {origin: event for origin, event in accepted.items() if self._may_be_counted(origin)}
        events = summary_events(summary, counted.values())
        since_ms, out_ms = self.versions(summary.name).since_ms, self.came_out_ms if self.question.in_force else {}
        return Rows(
            {key: values for key, values in wanted.items() if ends_ms[key] < passed_ms},
            {key: measured(summary, own) for key, own in events.items()},
            {key: min(event["ingest_ms"] for event in own) for key, own in events.items()},
            events,
            {key: values for key, values in wanted.items() if ends_ms[key] >= passed_ms},
            {key for key, own in events.items() if any(out_ms.get(_origin_of(e), since_ms) < since_ms for e in own)},
            summary_events(summary, (event for origin, event in counted.items() if origin in self.late)),
        )

    def _may_be_counted(self, origin: Origin) -> bool:
        """Whether a row may count an event: a late one if it was read twice, or where charts do not go by that."""
        return origin not in self.late or self.question.counts_late or len(self.copies.get(origin, ())) > 1

    def overdue(self, ends_ms: Iterable[int]) -> str:
        """Why windows with these ends cannot be judged though they should have closed; empty if none is overdue."""
        overdue = [end_ms for end_ms in ends_ms if end_ms < self.overdue_before_ms]
        if not overdue:
            return ""
        oldest_s = (self.newest_ms - min(overdue)) / 1000
        return (
            f"{len(overdue)} windows may still be open though the oldest ended {oldest_s:,.0f} s before the newest "
            "arrival: event time stands still in a partition"
        )

    @property
    def overdue_before_ms(self) -> int:
        """A window that ended earlier should have closed."""
        return self.newest_ms - self.question.use.disorder_ms - self.question.bounds.overdue_ms

    @property
    def newest_ms(self) -> int:
        """When the newest of the events arrived that windows may count."""
        return max((event["ingest_ms"] for event in self.expected.accepted.values()), default=0)

    @property
    def races_most(self) -> float:
        """For so many events chance explains another order than they arrived in."""
        return max(self.question.bounds.races_most, self.question.bounds.races_share * len(self.expected.accepted))

    def too_many_races(self, raced: int, of: str) -> list[str]:
        """The complaint that a check met another order of arrival more often than chance explains."""
        bounds, judged = self.question.bounds, len(self.expected.accepted)
        if raced <= self.races_most:
            return []
        return [
            f"{raced} of {judged} events were judged in another order than they arrived in; chance explains "
            f"{bounds.races_share:.1%}"
        ]

    def is_timed(self, at_ms: int | None) -> bool:
        """Whether what was due or happened then has a latency that counts."""
        return at_ms is not None and not is_within(self.question.uncounted_ms, at_ms)

    def versions(self, name: str) -> Versions:
        """The earlier versions of a rule or summary, and since when it has the present one."""
        return self.question.in_force.get(name, Versions())

    def is_earlier(self, alert: Event) -> bool:
        """Whether an earlier version of its rule raised an alert."""
        rule, version = alert["rule"], alert["rule_version"]
        return version != self._present.get(rule) and any(self.versions(rule).spans_ms(version))

    def is_alerted(self, rule: str, key: str, identity: str) -> bool:
        """Whether any version of a rule alerted an event."""
        return (rule, key, identity) in self._alerted

    @cached_property
    def _alerted(self) -> set[tuple[str, str, str]]:
        """Rule, key and event of each alert on a single event."""
        return {
            (alert["rule"], alert["key"], identity)
            for _, alert in self.alerts
            if alert["window_start_ms"] is None
            for identity in alert["event_ids"]
        }

    @cached_property
    def _present(self) -> Mapping[str, str]:
        """The present version of each rule."""
        return {rule.name: rule.version for rule in self.question.rules}

    def _other_limits(self) -> str:
        """When the present limits of the events came into force, if messages are older; or nothing."""
        limits = self.versions(LIMITS)
        first_ms = min((record.ingest_ms for record in self.judged), default=limits.since_ms)
        if not any(version for version, _ in limits.past) or first_ms >= limits.since_ms:
            return ""
        return datetime.fromtimestamp(limits.since_ms / 1000, UTC).isoformat(" ", "seconds")

    @cached_property
    def not_yet_in_force(self) -> dict[Origin, set[str]]:
        """For each event the flags and fields whose present version came after the event."""
        changes = sorted((versions.since_ms, name) for name, versions in self.question.in_force.items())
        return {
            origin: {each for since_ms, name in changes if since_ms > at_ms for each in self.written_by(name)}
            for origin, at_ms in self.first_out_ms.items()
        }

    def written_by(self, name: str) -> Collection[str]:
        """The flags and fields of an enriched event that a rule, or the enrichment, decides."""
        return self.question.use.enrichment.names if name == ENRICHMENT else (name,)

    def source(self, event: Event) -> Origin:
        """The raw message that an enriched event comes from."""
        return self.evidence.origin(*_origin_of(event))

    def letter_origin(self, letter: Event) -> Origin:
        """The raw message that a dead letter names."""
        return self.evidence.origin(letter["topic"], letter["partition"], letter["offset"])


def _origin_of(event: Event) -> Origin:
    return event["source_topic"], event["source_partition"], event["source_offset"]


def _texts(events: Iterable[Event]) -> set[str]:
    """The texts in the fields of events: the keys of all versions of rules are among them."""
    return {value for event in events for value in event.values() if isinstance(value, str)}


def findings_with(rule: WindowRule, in_time: Sequence[Event], again: Sequence[Event]) -> Iterator[Finding]:
    """What a rule finds in windows that count one or more of the late events that came out twice."""
    for size in range(1, min(len(again), READ_AGAIN_MOST) + 1):
        for counted in combinations(again, size):
            yield from window_findings(rule, [*in_time, *counted])


def resting_on(rule: WindowRule, in_time: Sequence[Event], late: Sequence[Event]) -> Iterator[Finding]:
    """What a rule finds in windows on which it finds nothing without all late events, and the other way around."""
    without, with_late = window_findings(rule, in_time), window_findings(rule, [*in_time, *late])
    yield from _elsewhere(rule, with_late, without)
    yield from _elsewhere(rule, without, with_late)


def _elsewhere(rule: WindowRule, found: Iterable[Finding], others: Collection[Finding]) -> Iterator[Finding]:
    """The findings on windows that none of the others is on; a session has another start if its first event is late."""
    known = {each.alert_id for each in others}
    origins = {origin for each in others for origin in each.origins} if isinstance(rule.window, Session) else set()
    return (each for each in found if each.alert_id not in known and origins.isdisjoint(each.origins))


def moment_ms(at_ms: int, record: Record) -> int:
    """The moment to which an event moves time: as in the engines, a clock that is ahead moves no other event's."""
    return min(at_ms, record.ingest_ms)


def first_copies(
    enriched: Messages, source: Callable[[Event], Origin], among: Collection[Origin]
) -> dict[Origin, tuple[int, int, int]]:
    """When and where these events came out first."""
    found: dict[Origin, tuple[int, int, int]] = {}
    for record, event in sorted(enriched, key=lambda each: (each[0].ingest_ms, each[0].offset)):
        if (origin := source(event)) in among:
            found.setdefault(origin, (record.ingest_ms, record.partition, record.offset))
    return found


def moved_by(enriched: Messages, time: str) -> list[Moved]:
    """The moments to which enriched events move the time of who reads their topic."""
    return [
        Moved(record.ingest_ms, record.partition, record.offset, min(event[time], event["ingest_ms"]))
        for record, event in enriched
        if isinstance(event.get(time), int) and isinstance(event.get("ingest_ms"), int)
    ]


def faults_in(question: Question) -> Mapping[str, Faults]:
    """For each output the function that finds what of a message is not as declared."""
    clocks_ms = question.bounds.clocks_ms
    # The inputs of a backfill have the times of their events.
    differ_ms = WHOLE_MOST if question.is_finite else clocks_ms
    return faults_of(question.use, question.summaries, question.in_force, clocks_ms, differ_ms)


def _declared_no_more(question: Question) -> set[str]:
    """The names that an earlier summary may have had: what has had a version, and is nothing else."""
    others = {ENRICHMENT, LIMITS, *(each.name for each in (*question.use.rules, *question.rules))}
    return {name for name in question.in_force.keys() - others if not name.startswith(table_key(""))}


def problems(question: Question) -> dict[str, Callable[[Event], str | None]]:
    """For each output the function that finds why its readers cannot use a message."""
    summaries = {each.name: each.columns for each in question.summaries}
    optional = [each.name for each in ALERT_FACTS if not each.required]
    earlier = _declared_no_more(question)

    def of_summary(row: Event) -> str | None:
        identity = {"summary": "text", "window_start_ms": "whole"}
        name = row.get("summary")
        if (why := misfit(identity, identity.keys(), row)) is not None:
            return why
        if name not in summaries and name not in earlier:
            return f"there is no summary '{name}' in this pattern"
        return misfit(summaries.get(str(name), {}), (), row)

    return {
        ENRICHED: partial(misfit, kinds_of(question.use.enriched.fields), names(SOURCE)),
        ALERTS.name: partial(misfit, kinds_of(ALERTS.fields), names(ALERT_FACTS), nullable=optional),
        DEAD_LETTERS.name: partial(misfit, kinds_of(DEAD_LETTERS.fields), names(LETTER_IDENTITY)),
        WINDOWS: of_summary,
    }
