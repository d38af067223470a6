"""One segment of a stream: its messages are judged from the state of all earlier ones.

All topics are cut at one moment, by the times at which they had their messages. So a segment is the same whenever it is
judged. A raw message whose outputs are not all there waits for the next segments, and so do outputs without a raw
message, windows that may still grow and windows without their results. What is right is judged at once; what is not is
judged when its bound has passed, and then the checks of a whole run find it.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

from millrace import oracle
from millrace.oracle import Finding, Judged, Origin, Record, Seen
from millrace.rules import Count, EventRule, FoldRule, Last, Rule, Session, Sliding, WindowRule, WindowSummary
from millrace.rules.expressions import fields_of
from millrace.rules.outputs import ALERTS, DEAD_LETTERS, FLAGS, LATE, PROVENANCE, REPLAYED, SOURCE, WINDOWS_TOPIC, names
from millrace.verify.case import REFUSED_LATER, Case, Question, RowKey, Rows, began_ms, moment_ms, problems
from millrace.verify.checking import Checker, Found
from millrace.verify.checks import alert_ids, alerts, conservation, enrichment, lateness, numbers, readable, refusals
from millrace.verify.evidence import (
    ENRICHED,
    FILES,
    Event,
    Evidence,
    Read,
    Versions,
    kinds_of,
    misfit,
    place_of,
    read,
)
from millrace.verify.expected import Expected, Settled, Views, settled, tape_of
from millrace.verify.ledger.state import Counted, Done, Output, State, Unit
from millrace.verify.verdict import OFFENDERS_MOST, Check, Status, together

OUTPUTS = (ENRICHED, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)
LOST, ENRICHED_TAG, LETTER_TAG, NOTHING = 1, 1 << 62, 2 << 62, 3 << 62
"""What came out of a judged message: the upper two bits of its digest."""
HALF = 0x7FFF_FFFF
NOWHERE = Record(FILES, 0, 0, 0, None, None)
"""In place of the message, of a row in a file."""
IDS_LONGER_MS = 3_600_000
"""An id is kept for so much longer than it is remembered: an engine forgets a little later than it may."""
GAP_MOST = 1_000_000
"""More messages in a row that are not there: what came out of earlier ones is forgotten."""


@dataclass(frozen=True)
class Limits:
    """How long a ledger waits, in the time of the topics."""

    outstanding_ms: int = 600_000
    """An output that is not there so long after its cause is missing."""
    grace_ms: int = 60_000
    """A window is judged so long after its last event: an event in it may still be called late."""
    copies_ms: int = 900_000
    """For so long a later copy of a judged output is compared with it."""
    segments_of_races: int = 60
    """Races are counted over so many segments."""


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
    """The places of rows of files that a compaction wrote: what they hold was there before."""


@dataclass(frozen=True)
class Segment:
    """The result of judging one segment."""

    number: int
    since_ms: int
    cut_ms: int
    checks: tuple[Check, ...]
    messages: int
    """The raw messages that arrived."""
    pending: Mapping[str, int]
    """How much is not judged yet, by what it waits for."""
    whole_until_ms: int
    """Every raw message that arrived before is judged."""

    @property
    def status(self) -> Status:
        return together(check.status for check in self.checks)


def advance(
    state: State,
    question: Question,
    inputs: Inputs,
    cut_ms: int,
    limits: Limits | None = None,
    *,
    is_last: bool = False,
) -> Segment:
    """Judge one segment; the state becomes that of the next one. After the last one nothing more is to come."""
    return _Step(state, question, inputs, cut_ms, limits or Limits(), is_last).judged()


def anchored(
    question: Question, since_ms: int, first: Mapping[str, Mapping[int, int]], ids: Seen | None = None
) -> State:
    """The state before the first segment: topics are read from these offsets, by kind and partition."""
    known = oracle.State({each.name: {} for each in question.use.references}, seen_ms={} if ids is None else ids)
    state = State(known, cut_ms=since_ms)
    state.read = {kind: dict(offsets) for kind, offsets in first.items()}
    for each in (*question.use.raw, *question.use.references):
        for partition, offset in first.get(each.name, {}).items():
            state.done[each.name, partition] = Done(offset)
            state.read_to[each.name, partition] = offset
            state.arrival.following[each.name, partition] = offset
    return state


class SegmentCase(Case):
    """What is judged with one segment, as the checks of a whole run read it."""

    is_whole = False

    def __init__(
        self,
        question: Question,
        evidence: Evidence,
        outputs: Mapping[str, Read],
        expected: Expected,
        state: State,
        races_before: Mapping[str, int],
    ) -> None:
        self.question, self.evidence, self.expected = question, evidence, expected
        self.raw = {kind: () if records is None else records for kind, records in evidence.raw.items()}
        self.outputs = dict(outputs)
        since = self._other_limits()
        self.unread = [f"messages from before {since}, which the pattern judged by other limits"] if since else []
        self.counted = state.counted
        self.found: dict[str, tuple[dict[str, Finding], dict[str, Finding]]] = {}
        self.rows: dict[str, Rows] = {}
        self.events: dict[Origin, Event] = {}
        """The events of the windows that are judged."""
        self.out_ms: dict[Origin, int] = {}
        self.of_late: dict[Origin, Counted] = {}
        self.races_before = races_before
        self.raced: dict[str, int] = {}

    def accepted(self, origin: Origin) -> Event:
        return self.events[origin] if origin in self.events else self.expected.accepted[origin]

    @cached_property
    def records(self) -> dict[Origin, Record]:
        kept = {origin: each.record for origin, each in self.of_late.items() if each.record is not None}
        return kept | {record.origin: record for records in self.raw.values() for record in records}

    @cached_property
    def behind_ms(self) -> Mapping[Origin, int]:
        return {origin: each.behind_ms or 0 for origin, each in self.of_late.items()}

    @cached_property
    def came_out_ms(self) -> dict[Origin, int]:
        found = dict(self.out_ms)
        for record, event in self.enriched:
            origin = self.source(event)
            found[origin] = max(record.ingest_ms, found.get(origin, 0))
        return found

    def windows_of(self, rule: WindowRule) -> tuple[dict[str, Finding], dict[str, Finding]]:
        return self.found[rule.name]

    def rows_of(self, summary: WindowSummary) -> Rows:
        return self.rows[summary.name]

    def too_many_races(self, raced: int, of: str) -> list[str]:
        """The same over the last segments."""
        bounds = self.question.bounds
        self.raced[of] = raced
        judged = self.races_before.get("judged", 0) + len(self.expected.accepted)
        most = max(bounds.races_most, bounds.races_share * judged)
        total = self.races_before.get(of, 0) + raced
        if not raced or total <= most:
            return []
        return [f"{total} of {judged} events were judged in another order across topics than they arrived in"]


class _Step:
    """The judging of one segment."""

    def __init__(
        self, state: State, question: Question, inputs: Inputs, cut_ms: int, limits: Limits, is_last: bool
    ) -> None:
        self.state, self.question, self.inputs = state, question, inputs
        self.cut_ms, self.limits, self.is_last = cut_ms, limits, is_last
        self.use, self.bounds = question.use, question.bounds
        self.rules = {rule.name: rule for rule in question.rules}
        self.event_rules = [rule for rule in question.rules if isinstance(rule, EventRule)]
        self.window_rules = [rule for rule in question.rules if isinstance(rule, WindowRule)]
        self.windows = [*(rule.name for rule in self.window_rules), *(each.name for each in question.summaries)]
        self.kept = _read_by_windows(self.window_rules, list(question.summaries))
        self.time = self.use.judged.time or ""
        self.reals = [name for name, kind in kinds_of(self.use.enriched.fields).items() if kind == "real"]
        self.raw: dict[str, list[Record]] = {each.name: [] for each in (*self.use.raw, *self.use.references)}
        self.due: dict[str, list[Output]] = {kind: [] for kind in OUTPUTS}
        self.offenders: dict[str, list[str]] = defaultdict(list)
        """By check: later copies that differ from what was judged."""
        self.unknown: dict[str, str] = {}
        """By check: why it cannot be decided."""
        self.copies = self.rows = self.old_rows = 0
        self.raced = 0
        self.views = Views(self.use, self.event_rules, self.bounds, state.views)
        self.expected = Expected(self.views)
        self.evidence = Evidence(raw=self.raw, outputs=dict.fromkeys(OUTPUTS, ()), kinds=inputs.kinds)

    def judged(self) -> Segment:
        since_ms, messages = self.state.cut_ms, sum(map(len, self.inputs.raw.values()))
        parsed = {
            kind: read(self.inputs.outputs.get(kind, ()), problem) for kind, problem in problems(self.question).items()
        }
        self.judge_raw(parsed[ENRICHED])
        self.attribute(parsed)
        self.case = SegmentCase(
            self.question, self.evidence, {}, self.expected, self.state, _together(self.state.races)
        )
        self.judge_late_letters()
        self.judge_units()
        self.judge_rows()
        self.judge_windows()
        self.judge_foreign()
        self.case.outputs = {kind: Read(tuple(self.due[kind]), parsed[kind].unreadable) for kind in OUTPUTS}
        self.unstored = list(self.find_unstored()) if "hdfs" in self.question.stores else []
        checks = tuple(self.check(each) for each in self.checkers())
        self.forget()
        return Segment(
            self.state.number, since_ms, self.cut_ms, checks, messages, self.pending(), self.whole_until_ms()
        )

    def checkers(self) -> Iterator[Checker]:
        yield from (readable.CHECKER, conservation.CHECKER, refusals.CHECKER, enrichment.CHECKER, lateness.CHECKER)
        yield from map(alerts.checker, self.question.rules)
        yield alert_ids.CHECKER
        yield from map(numbers.checker, self.question.summaries)
        if FILES in self.question.stores or "hdfs" in self.question.stores:
            yield Checker(FILES, "Do the files hold every accepted event exactly once?", self.stored)

    def stored(self, case: Case) -> Found:
        """The rows that were compared, and those that are missing; the others are found while they are compared."""
        figures = {"accepted": len(self.expected.accepted), "rows": self.rows}
        return Found(figures | ({"of earlier events": self.old_rows} if self.old_rows else {}), self.unstored)

    def check(self, checker: Checker) -> Check:
        """The check of what is judged, and of the later copies of what was."""
        found, more = checker.check(self.case), self.offenders.get(checker.name, [])
        figures = dict(found.figures)
        if checker is conservation.CHECKER:
            figures["copies"] = int(figures.get("copies") or 0) + self.copies
        if more:
            figures["offenders"] = int(figures.get("offenders") or 0) + len(more)
            found = replace(found, status="failed", offenders=(*found.offenders, *more)[:OFFENDERS_MOST], why="")
        if found.status == "failed" and self.is_assumed(checker):
            return replace(found, status="unknown", figures=figures, why=f"assumed: {self.state.assumed}")
        if found.status == "ok" and checker.name in self.unknown:
            return replace(found, status="unknown", figures=figures, why=self.unknown[checker.name])
        return replace(found, figures=figures)

    def is_assumed(self, checker: Checker) -> bool:
        """Whether an offender of the check may come from messages that the oracle has not seen."""
        state, rule = self.state, self.rules.get(checker.name.removeprefix("alerts: "))
        if not state.assumed:
            return False
        is_of_memory = checker.name in (enrichment.CHECKER.name, refusals.CHECKER.name)
        is_of_memory |= rule is not None and not isinstance(rule, WindowRule)
        # An output of a message that it lacks may come so late, and is judged so much later.
        waits_ms = 2 * (self.limits.outstanding_ms + self.limits.grace_ms)
        return is_of_memory or self.cut_ms <= state.assumed_since_ms + waits_ms

    # Raw messages.

    def judge_raw(self, enriched: Read) -> None:
        """What the oracle makes of the raw messages."""
        state, use = self.state, self.use
        out = {self.source(event) for _, event in enriched.events}
        out |= {self.source(event) for kind, _, (_, event) in state.outputs if kind == ENRICHED}
        oldest_ms = min((each.judged.record.ingest_ms for each in state.units.values()), default=state.cut_ms)
        refused: dict[Origin, str] = {}
        references = {each.name for each in use.references}
        raw = {kind: self.inputs.raw.get(kind, ()) for kind in self.raw}
        for kind, records in raw.items():
            if kind in references or state.assumed_since_ms == self.cut_ms:
                self.note_gaps(kind, records)
            state.read_to |= {(kind, record.partition): record.offset + 1 for record in records}
        tape = tape_of(use, raw, state.oracle.references, refused, state.arrival, self.question.kept_since_ms)
        moments: list[tuple[int, int]] = []
        for each in oracle.advance(use, self.question.rules, state.oracle, tape, lambda origin: origin not in out):
            record = each.record
            if record.topic == use.judged.name:
                state.units[record.origin] = Unit(self.cut_ms, each)
                moments += self.moment_of(each)
                if each.event is not None:
                    self.count(record, each.event)
            elif each.reason is not None:
                state.units[record.origin] = Unit(self.cut_ms, each)
            else:
                self.views.take(each)
                _forget_views(self.views, each, oldest_ms - self.bounds.skew_ms)
                self.done(record.origin, NOTHING)
        for kind in references:
            for record in raw[kind]:
                if record.origin in refused:
                    state.units[record.origin] = Unit(self.cut_ms, Judged(record, refused[record.origin]))
                else:
                    self.done(record.origin, NOTHING)
        self.find_behind(moments)

    def note_gaps(self, kind: str, records: Iterable[Record]) -> None:
        """Note the places without a message: compaction or retention took it, and an output of it is not compared."""
        state = self.state
        for record in records:
            expected = state.read_to.get((kind, record.partition))
            if expected is not None and record.offset > expected + GAP_MOST:
                state.done[kind, record.partition] = Done(record.offset)
            elif expected is not None:
                for offset in range(expected, record.offset):
                    self.done((kind, record.partition, offset), LOST)
            state.read_to[kind, record.partition] = record.offset + 1

    def moment_of(self, each: Judged) -> Iterator[tuple[int, int]]:
        """When a raw message arrived, and to which moment it moves time, if it does."""
        record, event = each.record, each.event
        if event is None and (each.reason or "").startswith(REFUSED_LATER):
            again = oracle.accept(self.use.judged, record.value, record.ingest_ms)
            event = None if isinstance(again, oracle.Refusal) else again
        if event is not None:
            yield record.ingest_ms, moment_ms(event[self.time], record)

    def find_behind(self, moments: list[tuple[int, int]]) -> None:
        """How far each accepted event is behind the newest one that may have been read before it."""
        moments.sort()
        accepted = (each for each in self.state.units.values() if each.judged.event is not None)
        waiting = (each for each in accepted if each.behind_ms is None)
        position, newest_ms = 0, self.state.newest_ms
        for unit in sorted(waiting, key=lambda each: each.judged.record.ingest_ms):
            until_ms = unit.judged.record.ingest_ms + self.bounds.ahead_ms
            while position < len(moments) and moments[position][0] <= until_ms:
                newest_ms = max(newest_ms, moments[position][1])
                position += 1
            if until_ms > self.cut_ms and not self.is_last:
                break
            assert unit.judged.event is not None
            unit.behind_ms = newest_ms - unit.judged.event[self.time]
            if (counted := self.state.counted.get(unit.judged.record.origin)) is not None:
                counted.behind_ms = unit.behind_ms
                if unit.behind_ms > self.use.disorder_ms:
                    counted.record = unit.judged.record
        self.state.newest_ms = max((newest_ms, *(moment for _, moment in moments[position:])))

    def count(self, record: Record, event: Event) -> None:
        """Let the windows count an accepted event, if those that it is in are not judged yet."""
        if not self.windows:
            return
        is_behind = event[self.time] < self.state.passed_ms
        if is_behind:
            self.state.behind[record.origin] = self.cut_ms
        compact = {name: event[name] for name in self.kept}
        self.state.counted[record.origin] = Counted(compact, windows=[] if is_behind else list(self.windows))

    # Outputs.

    def attribute(self, parsed: Mapping[str, Read]) -> None:
        """Put each output beside its raw message; what has none yet waits."""
        state = self.state
        waiting, state.outputs = state.outputs, []
        for kind, since_ms, output in waiting:
            if kind == FILES:
                state.outputs.append((kind, since_ms, output))
            else:
                self.put(kind, since_ms, output)
        for kind in (ENRICHED, DEAD_LETTERS.name):
            for output in parsed[kind].events:
                self.put(kind, self.cut_ms, output)
        for output in parsed[ALERTS.name].events:
            self.put_alert(output)
        for output in parsed[WINDOWS_TOPIC].events:
            self.put_row(output)

    def judge_rows(self) -> None:
        """Compare the rows of files with the events that are judged; the others wait for theirs."""
        waiting, self.state.outputs = self.state.outputs, []
        for kind, since_ms, output in waiting:
            if kind == FILES:
                self.put(kind, since_ms, output)
            else:
                self.state.outputs.append((kind, since_ms, output))
        for row in self.inputs.rows:
            if misfit(kinds_of(SOURCE), names(SOURCE), row) is None:
                self.put(FILES, self.cut_ms, (NOWHERE, row))
            else:
                self.offenders[FILES].append("a row does not name the raw message that it comes from")
        for row in self.inputs.rewritten:
            kind, partition, offset = self.source(row)
            done = self.state.done.get((kind, partition))
            if done is not None and done.get(offset) is not None and not done.stored[offset - done.base]:
                done.store(offset)

    def put(self, kind: str, since_ms: int, output: Output) -> None:
        """Put one enriched event or dead letter beside its raw message."""
        _, event = output
        is_letter = kind == DEAD_LETTERS.name
        if is_letter and event["reason"] == REPLAYED:
            self.due[kind].append(output)
            return
        origin = self.letter_origin(event) if is_letter else self.source(event)
        if is_letter and (event["reason"] == LATE or origin[0] not in self.raw):
            # A late one is judged by the windows, whether its message is judged or not.
            self.state.outputs.append((kind, since_ms, output))
            return
        unit = self.state.units.get(origin)
        if unit is not None and kind == FILES:
            self.state.outputs.append((kind, since_ms, output))
            return
        if unit is not None:
            (unit.letters if is_letter else unit.copies).append(output)
            return
        done = self.state.done.get(origin[:2])
        digest = None if done is None else done.get(origin[2])
        if digest is not None:
            if kind == FILES:
                self.compare_row(origin, digest, event)
            else:
                self.compare(kind, origin, digest, event)
        elif kind == FILES and done is not None and origin[2] < done.base:
            self.old_rows += 1
        elif done is not None and origin[2] < done.base and origin[0] in {each.name for each in self.use.raw}:
            self.forgotten(kind, origin)
        else:
            self.state.outputs.append((kind, since_ms, output))

    def compare(self, kind: str, origin: Origin, digest: int, event: Event) -> None:
        """Compare a later copy with what came out before."""
        if digest == LOST:
            return
        was_enriched = digest & NOTHING == ENRICHED_TAG
        if kind == ENRICHED:
            now = self.digest_of(event)
            if now == digest:
                self.copies += 1
            elif not was_enriched:
                self.offenders["conservation"].append(f"{place_of(origin)} is both enriched and a dead letter")
            elif now >> 31 == digest >> 31:
                # Only what it shows of other streams differs: it was read in another order once more.
                self.copies += 1
                self.raced += 1
                self.state.varied[origin] = self.cut_ms
            else:
                self.offenders["enrichment"].append(f"{place_of(origin)}: a later copy differs from the first")
            return
        if was_enriched:
            self.offenders["conservation"].append(f"{place_of(origin)} is both enriched and a dead letter")
        if digest != _letter_digest(event):
            self.offenders["refusals"].append(
                f"{place_of(origin)} was refused as '{event['reason']}' after it had been judged otherwise"
            )

    def compare_row(self, origin: Origin, digest: int, row: Event) -> None:
        """Compare a stored row with the enriched event that the topic had."""
        if digest == LOST:
            return
        self.rows += 1
        count = self.state.done[origin[:2]].store(origin[2])
        if digest & NOTHING != ENRICHED_TAG:
            self.offenders[FILES].append(f"extra: {place_of(origin)}")
        elif not self.is_stored_form(origin, self.digest_of(row), digest):
            self.offenders[FILES].append(f"wrong: {place_of(origin)}")
        if count > 1:
            self.offenders[FILES].append(f"{count} times: {place_of(origin)}")

    def is_stored_form(self, origin: Origin, now: int, digest: int) -> bool:
        """Whether a row is one of the forms that an event had; one that was read in several orders had several."""
        return now == digest or (origin in self.state.varied and now >> 31 == digest >> 31)

    def forgotten(self, kind: str, origin: Origin) -> None:
        """An output of a message that was judged too long ago to compare it."""
        check = "refusals" if kind == DEAD_LETTERS.name else "enrichment"
        minutes = self.limits.copies_ms // 60_000
        self.unknown[check] = f"{place_of(origin)} came out again more than {minutes} minutes after it was judged"

    def put_alert(self, output: Output) -> None:
        """Let an alert wait for its event or window, unless no present rule explains it."""
        _, alert = output
        rule = self.rules.get(alert["rule"])
        if rule is None or alert["rule_version"] != rule.version:
            self.due[ALERTS.name].append(output)
        elif (known := self.state.done_alerts.get(alert["alert_id"])) is not None and known[0] == _alert_digest(alert):
            self.copies += 1
        elif known is not None:
            self.offenders[f"alerts: {rule.name}"].append(
                f"wrong: {rule.name} {alert['key']}: a later copy differs from the first"
            )
        else:
            self.state.alerts.setdefault(alert["alert_id"], []).append((self.cut_ms, output))

    def put_row(self, output: Output) -> None:
        """Let a row of a summary wait for its window."""
        _, row = output
        summary = next((each for each in self.question.summaries if each.name == row["summary"]), None)
        if summary is None:
            self.due[WINDOWS_TOPIC].append(output)
            return
        key = _row_name(summary, (row["window_start_ms"], *(row.get(name) for name in summary.keys)))
        if (done := self.state.done_rows.get(key)) is None:
            self.state.rows.setdefault(key, []).append((self.cut_ms, output))
        elif numbers.is_between(row, done[0], done[1]):
            self.copies += 1
        else:
            self.offenders[f"numbers: {summary.name}"].append(f"wrong: {key}: a later row is {row}, not {done[0]}")

    def judge_late_letters(self) -> None:
        """Judge the late dead letters of events that are accepted, and can be compared with those around them."""
        state = self.state
        waiting, state.outputs = state.outputs, []
        for kind, since_ms, output in waiting:
            _, event = output
            if kind != DEAD_LETTERS.name or event["reason"] != LATE:
                state.outputs.append((kind, since_ms, output))
                continue
            origin = self.letter_origin(event)
            counted, unit = state.counted.get(origin), state.units.get(origin)
            done = state.done.get(origin[:2])
            if origin in state.done_late:
                self.copies += 1
            elif counted is not None and counted.behind_ms is not None:
                counted.is_late = True
                counted.windows = [name for name in counted.windows if name not in self.rules]
                state.behind.pop(origin, None)
                state.done_late[origin] = self.cut_ms
                self.case.of_late[origin] = counted
                self.due[kind].append(output)
            elif unit is not None and unit.judged.reason is not None:
                self.due[kind].append(output)
            elif done is not None and done.get(origin[2]) is not None and counted is None:
                self.offenders["lateness"].append(
                    f"{place_of(origin)} is a late dead letter, but windows that count it were judged"
                )
            else:
                state.outputs.append((kind, since_ms, output))

    # What is judged with this segment.

    def judge_units(self) -> None:
        """Judge the raw messages whose outputs are right, and those that have waited too long."""
        state = self.state
        ripe_ms = max(self.bounds.skew_ms, self.bounds.ahead_ms)
        by_event: dict[tuple[str, str], list[str]] = defaultdict(list)
        for identity, own in state.alerts.items():
            for _, (_, alert) in own:
                if not isinstance(self.rules[alert["rule"]], WindowRule) and alert["event_ids"]:
                    by_event[alert["key"], alert["event_ids"][0]].append(identity)
        for origin, unit in list(state.units.items()):
            if not self.is_last and unit.judged.record.ingest_ms + ripe_ms > self.cut_ms:
                continue
            is_over = self.is_over(unit.since_ms)
            if unit.judged.reason is not None:
                if is_over or self.is_refused_rightly(unit):
                    self.judge_refused(origin, unit)
                continue
            copies = [event for _, event in unit.copies]
            found = settled(unit.judged, copies, self.unjudged(unit), self.views)
            if is_over or (copies and not unit.letters and all(map(self.is_alerted, self.needed(unit, found)))):
                self.judge_accepted(origin, unit, found, by_event)

    def is_over(self, since_ms: int) -> bool:
        """Whether what waits since then has waited too long."""
        return self.is_last or since_ms + self.limits.outstanding_ms <= self.cut_ms

    def is_refused_rightly(self, unit: Unit) -> bool:
        record, reasons = unit.judged.record, {letter["reason"] for _, letter in unit.letters}
        is_reference = record.topic in {each.name for each in self.use.references}
        if is_reference and not reasons and record.ingest_ms < self.question.kept_since_ms:
            return True
        return reasons == {unit.judged.reason} and not unit.copies

    def judge_refused(self, origin: Origin, unit: Unit) -> None:
        del self.state.units[origin]
        self.raw[origin[0]].append(unit.judged.record)
        self.expected.refused[origin] = unit.judged.reason or ""
        self.due[DEAD_LETTERS.name] += unit.letters
        self.due[ENRICHED] += unit.copies
        self.done(origin, _letter_digest(unit.letters[-1][1]) if unit.letters else NOTHING)

    def judge_accepted(
        self, origin: Origin, unit: Unit, found: Settled, by_event: Mapping[tuple[str, str], Sequence[str]]
    ) -> None:
        del self.state.units[origin]
        assert unit.judged.event is not None
        event, record = unit.judged.event, unit.judged.record
        self.raw[origin[0]].append(record)
        identity = event[self.use.judged.key], oracle.identity_of(self.use.judged, event, record)
        self.expected.judged[identity] = unit.judged
        self.expected.take(origin, found)
        self.due[DEAD_LETTERS.name] += unit.letters
        self.due[ENRICHED] += unit.copies
        self.judge_alerts(by_event.get(identity, ()))
        digests = [self.digest_of(copy) for _, copy in unit.copies]
        self.done(origin, digests[-1] if digests else NOTHING)
        if len(set(digests)) > 1:
            self.state.varied[origin] = self.cut_ms
        if (counted := self.state.counted.get(origin)) is not None:
            counted.event = {name: found.event[name] for name in self.kept}
            counted.out_ms = max((copy.ingest_ms for copy, _ in unit.copies), default=0)

    def judge_alerts(self, identities: Iterable[str]) -> None:
        """Judge waiting alerts with these ids."""
        for identity in identities:
            for _, output in self.state.alerts.pop(identity, ()):
                self.due[ALERTS.name].append(output)
                self.state.done_alerts[identity] = _alert_digest(output[1]), self.cut_ms

    def needed(self, unit: Unit, found: Settled) -> Iterator[Finding]:
        """The findings whose alerts must be there: an event that came out before its rule changed needs none."""
        out_ms = max((record.ingest_ms for record, _ in unit.copies), default=0)
        for finding in found.findings:
            if out_ms >= self.question.in_force.get(finding.rule, Versions()).since_ms:
                yield finding

    def is_alerted(self, finding: Finding) -> bool:
        return finding.alert_id in self.state.alerts or finding.alert_id in self.state.done_alerts

    def unjudged(self, unit: Unit) -> set[str]:
        """The flags and fields of an event whose present version came after it."""
        if not self.question.in_force or not unit.copies:
            return set()
        out_ms = min(record.ingest_ms for record, _ in unit.copies)
        later = (name for name, versions in self.question.in_force.items() if versions.since_ms > out_ms)
        return {each for name in later for each in self.case.written_by(name)}

    # Windows.

    def judge_windows(self) -> None:
        """Judge the windows that are over and have their results, and those that have waited too long."""
        state = self.state
        horizon_ms = math.inf if self.is_last else self.cut_ms - self.limits.grace_ms
        for (_, partition, _), each in state.counted.items():
            event = each.event
            if event["ingest_ms"] <= horizon_ms:
                at_ms = min(event[self.time], event["ingest_ms"])
                state.newest[partition] = max(at_ms, state.newest.get(partition, 0))
                state.arrived_ms[partition] = max(event["ingest_ms"], state.arrived_ms.get(partition, 0))
        active_since_ms = max(state.arrived_ms.values(), default=0) - self.bounds.idle_ms
        active = (state.newest[number] for number, at_ms in state.arrived_ms.items() if at_ms >= active_since_ms)
        passed_ms = min(active, default=0) - self.case.settled_after_ms
        state.passed_ms = max(passed_ms, state.passed_ms)
        self.horizon_ms = horizon_ms
        for rule in self.window_rules:
            self.case.found[rule.name] = self.windows_of(rule)
        for summary in self.question.summaries:
            self.case.rows[summary.name] = self.rows_of(summary)
        for origin, since_ms in list(state.behind.items()):
            if self.is_over(since_ms):
                del state.behind[origin]
                self.unknown["lateness"] = (
                    f"{place_of(origin)} came behind windows that were judged, and is no late dead letter"
                )
        for origin in [origin for origin, each in state.counted.items() if not each.windows]:
            if origin not in state.behind and origin not in state.units:
                del state.counted[origin]

    def windows_of(self, rule: WindowRule) -> tuple[dict[str, Finding], dict[str, Finding]]:
        """The findings that are judged: those in windows that are over, and in others those that were alerted."""
        must: dict[str, Finding] = {}
        may: dict[str, Finding] = {}
        own = [each for each in self.state.counted.items() if rule.name in each[1].windows and not each[1].is_late]
        places = {_place(each.event): origin for origin, each in own}
        by_key: dict[str, list[Event]] = defaultdict(list)
        for _, each in own:
            by_key[each.event[rule.key]].append(each.event)
        is_waiting_long = self.has_long_waiting(rule)
        for key, events in by_key.items():
            for start_ms, among in oracle.windows(rule.window, self.time, events):
                window = json.dumps([rule.name, key, start_ms])
                if self.state.due_since.get(window) == _JUDGED:
                    continue
                if self.is_window_over(rule.window.end_ms(start_ms, among[-1][self.time]), among):
                    finding = oracle.window_finding(rule, key, start_ms, among)
                    if finding is None or self.is_alerted(finding) or self.is_over(self.since(window)):
                        self.close(rule, window, start_ms, [places[_place(event)] for event in among])
                        if finding is not None and finding.alert_id not in self.state.done_alerts:
                            must[finding.alert_id] = finding
                elif is_waiting_long:
                    finding = oracle.window_finding(rule, key, start_ms, among)
                    if finding is not None and finding.alert_id in self.state.alerts:
                        may[finding.alert_id] = finding
        for finding in (*must.values(), *may.values()):
            self.judge_alerts([finding.alert_id])
            for origin in finding.origins:
                self.case.events[origin] = self.state.counted[origin].event
                self.case.out_ms[origin] = self.state.counted[origin].out_ms
        return must, may

    def has_long_waiting(self, rule: Rule) -> bool:
        """Whether an alert of the rule has waited for its window too long."""
        return any(
            self.is_over(since_ms) and alert["rule"] == rule.name
            for own in self.state.alerts.values()
            for since_ms, (_, alert) in own
        )

    def is_window_over(self, end_ms: int, among: Sequence[Event]) -> bool:
        return end_ms < self.state.passed_ms and max(event["ingest_ms"] for event in among) <= self.horizon_ms

    def since(self, window: str) -> int:
        """The first cut at which a window was over."""
        return self.state.due_since.setdefault(window, self.cut_ms)

    def close(self, rule: WindowRule, window: str, start_ms: int, origins: Iterable[Origin]) -> None:
        """A window is judged: its events no longer count for the rule, unless they are in other windows of it."""
        self.state.due_since.pop(window, None)
        if isinstance(rule.window, Sliding):
            self.state.due_since[window] = _JUDGED
        for origin in origins:
            counted = self.state.counted[origin]
            if not self.is_in_other(rule, counted.event):
                counted.windows.remove(rule.name)

    def is_in_other(self, rule: WindowRule, event: Event) -> bool:
        """Whether an event is in a window of the rule that is not judged yet."""
        if not isinstance(rule.window, Sliding):
            return False
        key = event[rule.key]
        windows = (json.dumps([rule.name, key, start]) for start in oracle.starts(rule.window, event[self.time]))
        return any(self.state.due_since.get(window) != _JUDGED for window in windows)

    def rows_of(self, summary: WindowSummary) -> Rows:
        """The rows that are judged."""
        state, time = self.state, summary.on.time or ""
        groups: dict[RowKey, list[Counted]] = defaultdict(list)
        there: set[RowKey] = set()
        for each in state.counted.values():
            if summary.name in each.windows:
                for start_ms in oracle.starts(summary.window, each.event[time]):
                    key = (start_ms, *(each.event[name] for name in summary.keys))
                    there.add(key)
                    if summary.window.end_ms(start_ms, start_ms) < state.passed_ms:
                        groups[key].append(each)
        over: dict[RowKey, dict[str, Any]] = {}
        with_late: dict[RowKey, dict[str, Any]] = {}
        began: dict[RowKey, int] = {}
        since_ms = self.case.versions(summary.name).since_ms
        for key, own in groups.items():
            name = _row_name(summary, key)
            if state.due_since.get(name) == _JUDGED or not self.is_window_over(0, [each.event for each in own]):
                continue
            of_all = oracle.measured(summary, [each.event for each in own])
            in_time = [each.event for each in own if not each.is_late]
            values = oracle.measured(summary, in_time) if in_time else None
            rows = state.rows.get(name, ())
            last = max(rows, key=lambda each: _arrival(each[1][0]), default=None)
            is_right = values is None or key[0] < since_ms
            is_right = is_right or (last is not None and numbers.is_between(last[1][1], values or {}, of_all))
            if not is_right and not self.is_over(self.since(name)):
                continue
            with_late[key] = of_all
            began[key] = min(each.event["ingest_ms"] for each in own)
            if values is not None:
                over[key] = values
            self.due[WINDOWS_TOPIC] += [output for _, output in state.rows.pop(name, ())]
            state.done_rows[name] = values if values is not None else of_all, of_all, self.cut_ms
            self.close_row(summary, name, own)
        for name, rows in list(state.rows.items()):
            if json.loads(name)[0] == summary.name and any(self.is_over(since) for since, _ in rows):
                key = tuple(json.loads(name)[1:])
                if key in there and not self.is_last:
                    continue
                if key in there:
                    own_events = [each.event for each in state.counted.values() if summary.name in each.windows]
                    with_late[key] = oracle.summary_rows(summary, own_events)[key]
                    began[key] = began_ms(summary, own_events)[key]
                self.due[WINDOWS_TOPIC] += [output for _, output in state.rows.pop(name)]
        return Rows(over, with_late, began)

    def close_row(self, summary: WindowSummary, name: str, own: Iterable[Counted]) -> None:
        """A window of a summary is judged."""
        self.state.due_since.pop(name, None)
        if isinstance(summary.window, Sliding):
            self.state.due_since[name] = _JUDGED
        for each in own:
            keys = [each.event[column] for column in summary.keys]
            starts = oracle.starts(summary.window, each.event[summary.on.time or ""])
            others = (_row_name(summary, (start, *keys)) for start in starts)
            if not isinstance(summary.window, Sliding) or all(
                self.state.due_since.get(other) == _JUDGED for other in others
            ):
                each.windows.remove(summary.name)

    # Afterwards.

    def judge_foreign(self) -> None:
        """Judge the outputs whose cause did not come."""
        state = self.state
        for kind, since_ms, output in state.outputs:
            if self.is_over(since_ms) and kind == FILES:
                self.offenders[FILES].append(f"extra: {place_of(self.source(output[1]))}")
            elif self.is_over(since_ms):
                self.due[kind].append(output)
        state.outputs = [each for each in state.outputs if not self.is_over(each[1])]
        for identity, own in list(state.alerts.items()):
            if any(self.is_over(since_ms) for since_ms, _ in own):
                self.judge_alerts([identity])

    def oldest_kept(self) -> dict[tuple[str, int], int]:
        """By raw partition the first offset of which is remembered what came out; what waits is remembered, too."""
        since_ms = -math.inf if self.is_last else self.cut_ms - self.limits.copies_ms
        reached: Mapping[str, Mapping[int, int]] = self.reached() if self.is_last else {}
        for at_ms, offsets in self.state.cuts:
            reached = offsets if at_ms < since_ms else reached
        pending: dict[tuple[str, int], int] = {}
        for kind, partition, offset in self.state.units:
            pending[kind, partition] = min(offset, pending.get((kind, partition), offset))
        return {
            (kind, partition): min(offset, pending.get((kind, partition), offset))
            for kind, own in reached.items()
            for partition, offset in own.items()
        }

    def find_unstored(self) -> Iterator[str]:
        """The accepted events of which what came out is about to be forgotten, and which no file holds."""
        for (kind, partition), offset in self.oldest_kept().items():
            done = self.state.done.get((kind, partition))
            if done is not None and kind == self.use.judged.name:
                for at, digest in done.unstored(offset):
                    if digest & NOTHING == ENRICHED_TAG:
                        yield f"missing: {place_of((kind, partition, at))}"

    def forget(self) -> None:
        """Forget what is too long ago, and take down how far the segment went."""
        state, use = self.state, self.use
        state.races.append({"judged": len(self.expected.accepted), **self.case.raced})
        state.races[-1]["enrichment"] = state.races[-1].get("enrichment", 0) + self.raced
        del state.races[: -self.limits.segments_of_races]
        memory_ms = _memory_ms(self.question)
        if state.assumed and memory_ms is not None and self.cut_ms > state.assumed_since_ms + memory_ms:
            state.assumed = ""
        since_ms = self.cut_ms - self.limits.copies_ms
        for place, offset in self.oldest_kept().items():
            if place in state.done:
                state.done[place].forget(offset)
        state.cuts = [each for each in state.cuts if each[0] >= since_ms]
        for known in (state.done_alerts, state.done_rows):
            for name in [name for name, found in known.items() if found[-1] < since_ms]:
                del known[name]
        for of_events in (state.done_late, state.varied):
            for origin in [origin for origin, at_ms in of_events.items() if at_ms < since_ms]:
                del of_events[origin]
        if isinstance(state.oracle.seen_ms, dict):
            _forget_ids(state.oracle.seen_ms, self.cut_ms - use.judged.remembered_ms - IDS_LONGER_MS)
        state.cuts.append((self.cut_ms, self.reached()))
        self.forget_windows()
        state.number += 1
        state.cut_ms = self.cut_ms

    def forget_windows(self) -> None:
        """Forget the judged windows whose events have left."""
        state = self.state
        oldest_ms = min((each.event[self.time] for each in state.counted.values()), default=state.passed_ms)
        spans = {rule.name: _span_ms(rule.window) for rule in self.window_rules}
        spans |= {summary.name: _span_ms(summary.window) for summary in self.question.summaries}
        for window, at in list(state.due_since.items()):
            name, *rest = json.loads(window)
            start_ms = rest[0] if isinstance(rest[0], int) else rest[1]
            if at == _JUDGED and start_ms + spans.get(name, 0) < oldest_ms:
                del state.due_since[window]

    def reached(self) -> dict[str, dict[int, int]]:
        """The next offset of each raw partition."""
        found: dict[str, dict[int, int]] = {}
        for (kind, partition), done in self.state.done.items():
            found.setdefault(kind, {})[partition] = done.base + len(done.digests)
        return found

    def pending(self) -> dict[str, int]:
        """How much is not judged yet."""
        state = self.state
        alerts_waiting = sum(map(len, state.alerts.values()))
        return {
            "events": len(state.units),
            "outputs": len(state.outputs),
            "alerts": alerts_waiting,
            "rows": len(state.rows),
            "windows overdue": sum(1 for since_ms in state.due_since.values() if since_ms != _JUDGED),
            "events in open windows": len(state.counted),
        }

    def whole_until_ms(self) -> int:
        oldest = (each.judged.record.ingest_ms for each in self.state.units.values())
        return min(oldest, default=self.cut_ms)

    def done(self, origin: Origin, digest: int) -> None:
        """Remember what came out of a message."""
        kind, partition, offset = origin
        if (kind, partition) not in self.state.done:
            self.state.done[kind, partition] = Done(offset)
        self.state.done[kind, partition].put(offset, digest)

    def digest_of(self, event: Event) -> int:
        """What a later copy of an enriched event is compared with: first what no other stream decides."""
        built = self.use.enrichment.built
        values = {**event, **{name: _as_real(event.get(name)) for name in self.reals}}
        own = [values.get(name) for name in self.use.enriched.names if name not in built and name not in _UNCERTAIN]
        other = [values.get(name) for name in built], _sorted(event.get(FLAGS.name))
        return ENRICHED_TAG | (_crc(own) & HALF) << 31 | (_crc(other) & HALF)

    def source(self, event: Event) -> Origin:
        return self.evidence.origin(event["source_topic"], event["source_partition"], event["source_offset"])

    def letter_origin(self, letter: Event) -> Origin:
        return self.evidence.origin(letter["topic"], letter["partition"], letter["offset"])


_JUDGED = -1
"""In place of a cut: the window is judged."""
_UNCERTAIN = (FLAGS.name, "source_topic")


def _read_by_windows(rules: Iterable[WindowRule], summaries: Iterable[WindowSummary]) -> list[str]:
    """The fields of an enriched event that windows, their alerts and their rows show."""
    found = [*names(PROVENANCE)]
    for rule in rules:
        found += [rule.key, rule.on.key, rule.on.time or "", rule.on.id or "", *_measured_of(rule), "sent_ms"]
    for summary in summaries:
        found += [*summary.keys, summary.on.time or "", *_measured_of(summary)]
    on = [*(rule.on for rule in rules), *(summary.on for summary in summaries)]
    there = {name for each in on for name in each.names}
    return [name for name in dict.fromkeys(found) if name in there]


def _measured_of(of: WindowRule | WindowSummary) -> Iterator[str]:
    """The fields that the measures of a window read."""
    for measure in of.measures.values():
        if isinstance(measure, Last):
            yield from measure.fields
        elif not isinstance(measure, Count):
            yield measure.field
    for where in of.where.values():
        yield from (field.name for field in fields_of(where))


def _memory_ms(question: Question) -> float | None:
    """After how long what the oracle remembers depends on no older message; None if never."""
    measures = [*question.use.enrichment.remembers.values()]
    for rule in question.rules:
        if isinstance(rule, FoldRule):
            return None
        measures += rule.remembers.values() if isinstance(rule, EventRule) else ()
    spans_ms = [getattr(measure, "within_ms", None) for measure in measures]
    known_ms = [span_ms for span_ms in spans_ms if span_ms is not None]
    if len(known_ms) < len(spans_ms):
        return None
    return float(max([*known_ms, question.use.judged.remembered_ms if question.use.judged.id else 0]))


def _forget_views(views: Views, each: Judged, before_ms: int) -> None:
    """Forget the other streams' events that no event sees any more: all but the last one before that time."""
    assert each.event is not None
    key = next(stream.key for stream in views.use.others if stream.name == each.record.topic)
    own = views.others[each.record.topic, each.event[key]]
    while len(own) > 1 and own[1][0] < before_ms:
        own.pop(0)


def _forget_ids(seen_ms: dict[tuple[str, str], int], before_ms: int) -> None:
    """Forget the ids that arrived too long ago; they are in the order of their arrival."""
    old = takewhile(lambda each: each[1] < before_ms, seen_ms.items())
    for identity in [identity for identity, _ in old]:
        del seen_ms[identity]


def _together(races: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for each in races:
        for name, count in each.items():
            found[name] += count
    return found


def _span_ms(window: Any) -> int:
    return window.gap_ms if isinstance(window, Session) else int(window.size_ms)


def _row_name(summary: WindowSummary, key: RowKey) -> str:
    return json.dumps([summary.name, *key])


def _place(event: Event) -> tuple[Any, ...]:
    return event["source_topic"], event["source_partition"], event["source_offset"]


def _arrival(record: Record) -> tuple[int, int, int]:
    return record.ingest_ms, record.partition, record.offset


def _sorted(words: Any) -> Any:
    return sorted(words, key=str) if isinstance(words, list | tuple) else words


def _as_real(value: Any) -> Any:
    """The number that a file holds, where a message may show it as a whole one."""
    return float(value) if isinstance(value, int) else value


def _crc(content: Any) -> int:
    return zlib.crc32(json.dumps(content, separators=(",", ":")).encode())


def _letter_digest(letter: Event) -> int:
    return LETTER_TAG | _crc([letter.get(name) for name in ("reason", "stage", "value_base64", "ingest_ms")])


def _alert_digest(alert: Event) -> int:
    return _crc(sorted((name, value) for name, value in alert.items() if name != "emit_ms"))
