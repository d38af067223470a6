"""What the oracle makes of the raw messages of a segment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile

from millrace import oracle
from millrace.oracle import Judged, Origin, Record
from millrace.verify.behind import Moved, Newest
from millrace.verify.case import REFUSED_LATER, first_copies, moment_ms, moved_by
from millrace.verify.evidence import ENRICHED, Event, Read
from millrace.verify.expected import tape_of
from millrace.verify.ledger import memories
from millrace.verify.ledger.ids import Ids
from millrace.verify.ledger.state import Counted, Done, State, Unit
from millrace.verify.ledger.step import LOST, NOTHING, Step
from millrace.verify.ledger.windows import join

GAP_MOST = 1_000_000
"""More messages in a row that are not there: what came out of earlier ones is forgotten."""


def judge(step: Step, enriched: Read) -> None:
    """What the oracle makes of the raw messages."""
    state, use = step.state, step.use
    out = {step.source(event) for _, event in enriched.events}
    out |= {step.source(event) for kind, _, (_, event) in state.outputs if kind == ENRICHED}
    oldest_ms = min((each.judged.record.ingest_ms for each in state.units.values()), default=state.cut_ms)
    refused: dict[Origin, str] = {}
    references = {each.name for each in use.references}
    raw = {kind: step.inputs.raw.get(kind, ()) for kind in step.raw}
    before = dict(state.read_to)
    for kind, records in raw.items():
        _begin(step, kind, records)
        if kind in references or state.assumed_since_ms == step.cut_ms:
            _note_gaps(step, kind, records)
        state.read_to |= {(kind, record.partition): record.offset + 1 for record in records}
    lacking = step.views.lacking = memories.begin(step, enriched, before)
    _forget_views(state, oldest_ms - step.bounds.skew_ms)
    _look_up(step, enriched)
    latest_ms = dict(state.arrival.latest_ms)
    tape = tape_of(use, raw, state.oracle.references, refused, state.arrival, step.question.kept_since_ms)
    moved: list[Moved] = []
    rules = step.question.rules
    for each in oracle.advance(use, rules, state.oracle, tape, lambda origin: origin not in out, lacking.of):
        record, origin = each.record, each.record.origin
        at = origin[:2]
        latest_ms[at] = max(record.ingest_ms, latest_ms.get(at, 0))
        if record.topic == use.judged.name:
            state.units[origin] = Unit(step.cut_ms, each, latest_ms[at])
            moved += _moved_by(step, each)
            if each.event is not None:
                _count(step, origin, each.event)
        elif each.reason is not None:
            state.units[origin] = Unit(step.cut_ms, each, latest_ms[at])
        else:
            step.views.take(each)
            step.done(origin, NOTHING)
    for kind in references:
        for record in raw[kind]:
            if record.origin in refused:
                state.units[record.origin] = Unit(step.cut_ms, Judged(record, refused[record.origin]), record.ingest_ms)
            else:
                step.done(record.origin, NOTHING)
    _find_behind(step, moved, enriched)
    join(step)


def _look_up(step: Step, enriched: Read) -> None:
    """Look up the ids of the events that came out, which are those of the raw messages, many at once."""
    judged, ids = step.use.judged, step.state.oracle.seen_ms
    if judged.id and isinstance(ids, Ids):
        ids.look_up((str(event.get(judged.key)), str(event.get(judged.id))) for _, event in enriched.events)


def _begin(step: Step, kind: str, records: Iterable[Record]) -> None:
    """What came out is remembered from the first message of a partition on, also of one that is new."""
    for record in records:
        if (kind, record.partition) not in step.state.done:
            step.state.done[kind, record.partition] = Done(record.offset)
            step.state.began[kind, record.partition] = record.offset


def _note_gaps(step: Step, kind: str, records: Iterable[Record]) -> None:
    """Note the places without a message: compaction or retention took it, and an output of it is not compared."""
    state = step.state
    for record in records:
        expected = state.read_to.get((kind, record.partition))
        if expected is not None and record.offset > expected:
            state.began[kind, record.partition] = record.offset
        if expected is not None and record.offset > expected + GAP_MOST:
            state.done[kind, record.partition] = Done(record.offset)
        elif expected is not None:
            for offset in range(expected, record.offset):
                step.done((kind, record.partition, offset), LOST)
        state.read_to[kind, record.partition] = record.offset + 1


def _moved_by(step: Step, each: Judged) -> Iterator[Moved]:
    """The moment to which a raw message moves time, if it does."""
    record, event = each.record, each.event
    if event is None and (each.reason or "").startswith(REFUSED_LATER):
        again = oracle.accept(step.use.judged, record.value, record.ingest_ms)
        event = None if isinstance(again, oracle.Refusal) else again
    if event is not None:
        yield Moved(record.ingest_ms, record.partition, record.offset, moment_ms(event[step.time], record))


def _find_behind(step: Step, moved: Sequence[Moved], enriched: Read) -> None:
    """How far each accepted event is behind the newest one that was, or may have been, read before it."""
    state, ahead_ms = step.state, step.bounds.ahead_ms
    moved_out = moved_by(enriched.events, step.time)
    newest, newest_out = Newest(moved, state.moved_ms), Newest(moved_out, state.moved_out_ms)
    not_out = {origin for origin, unit in state.units.items() if not unit.copies}
    first = first_copies(enriched.events, step.source, not_out)
    until_ms = math.inf if step.is_last else step.cut_ms - ahead_ms
    for origin, unit in state.units.items():
        if (event := unit.judged.event) is None:
            continue
        arrived_ms, (_, partition, offset), at_ms = unit.arrived_ms, origin, event[step.time]
        if unit.surely_behind_ms is None:
            unit.surely_behind_ms = max(newest.before(arrived_ms, partition, offset) - at_ms, 0)
        if origin in first:
            unit.out_behind_ms = max(newest_out.before(*first[origin]) - at_ms, unit.out_behind_ms)
        if unit.behind_ms is None and arrived_ms <= until_ms:  # all that may have been read before it has come
            unit.behind_ms = newest.before(arrived_ms, partition, offset, ahead_ms) - at_ms
        _note_counted(step, unit)
    _reach(state.moved_ms, moved)
    _reach(state.moved_out_ms, moved_out)


def _note_counted(step: Step, unit: Unit) -> None:
    """Note with the event in its windows how far it is behind."""
    if (counted := step.state.counted.get(unit.judged.record.origin)) is not None:
        counted.behind_ms, counted.surely_behind_ms = unit.behind_ms, unit.surely_behind_ms or 0
        counted.out_behind_ms = unit.out_behind_ms
        if max(counted.behind_ms or 0, counted.surely_behind_ms, counted.out_behind_ms) > step.use.disorder_ms:
            counted.record = unit.judged.record


def _reach(newest: dict[int, int], moved: Iterable[Moved]) -> None:
    """Note the newest moment of each partition."""
    for each in moved:
        newest[each.partition] = max(each.at_ms, newest.get(each.partition, 0))


def _count(step: Step, origin: Origin, event: Event) -> None:
    """Let the windows count an accepted event, if those that it is in are not judged yet."""
    if not step.windows:
        return
    is_behind = event[step.time] < step.state.passed_ms
    if is_behind:
        step.state.behind[origin] = step.cut_ms
    compact = {name: event[name] for name in step.kept}
    step.state.counted[origin] = Counted(compact, windows=[] if is_behind else list(step.windows))


def _forget_views(state: State, before_ms: int) -> None:
    """Forget the other streams' events that no event sees any more: of each key all but the last one before that time.

    A key whose events have ended is among them: it would keep its last ones for good.
    """
    for seen in state.views.values():
        gone = sum(1 for _ in takewhile(lambda each: each[0] < before_ms, islice(seen, 1, None)))
        if gone:
            del seen[:gone]
