"""What the oracle makes of the raw messages of a segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from millrace import oracle
from millrace.oracle import Judged, Origin, Record
from millrace.verify.case import REFUSED_LATER, moment_ms
from millrace.verify.evidence import ENRICHED, Event, Read
from millrace.verify.expected import Views, tape_of
from millrace.verify.ledger.state import Counted, Done, Unit
from millrace.verify.ledger.step import LOST, NOTHING, Step

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
    for kind, records in raw.items():
        if kind in references or state.assumed_since_ms == step.cut_ms:
            _note_gaps(step, kind, records)
        state.read_to |= {(kind, record.partition): record.offset + 1 for record in records}
    tape = tape_of(use, raw, state.oracle.references, refused, state.arrival, step.question.kept_since_ms)
    moments: list[tuple[int, int]] = []
    for each in oracle.advance(use, step.question.rules, state.oracle, tape, lambda origin: origin not in out):
        record = each.record
        if record.topic == use.judged.name:
            state.units[record.origin] = Unit(step.cut_ms, each)
            moments += _moment_of(step, each)
            if each.event is not None:
                _count(step, record, each.event)
        elif each.reason is not None:
            state.units[record.origin] = Unit(step.cut_ms, each)
        else:
            step.views.take(each)
            _forget_views(step.views, each, oldest_ms - step.bounds.skew_ms)
            step.done(record.origin, NOTHING)
    for kind in references:
        for record in raw[kind]:
            if record.origin in refused:
                state.units[record.origin] = Unit(step.cut_ms, Judged(record, refused[record.origin]))
            else:
                step.done(record.origin, NOTHING)
    _find_behind(step, moments)


def _note_gaps(step: Step, kind: str, records: Iterable[Record]) -> None:
    """Note the places without a message: compaction or retention took it, and an output of it is not compared."""
    state = step.state
    for record in records:
        expected = state.read_to.get((kind, record.partition))
        if expected is not None and record.offset > expected + GAP_MOST:
            state.done[kind, record.partition] = Done(record.offset)
        elif expected is not None:
            for offset in range(expected, record.offset):
                step.done((kind, record.partition, offset), LOST)
        state.read_to[kind, record.partition] = record.offset + 1


def _moment_of(step: Step, each: Judged) -> Iterator[tuple[int, int]]:
    """When a raw message arrived, and to which moment it moves time, if it does."""
    record, event = each.record, each.event
    if event is None and (each.reason or "").startswith(REFUSED_LATER):
        again = oracle.accept(step.use.judged, record.value, record.ingest_ms)
        event = None if isinstance(again, oracle.Refusal) else again
    if event is not None:
        yield record.ingest_ms, moment_ms(event[step.time], record)


def _find_behind(step: Step, moments: list[tuple[int, int]]) -> None:
    """How far each accepted event is behind the newest one that may have been read before it."""
    moments.sort()
    accepted = (each for each in step.state.units.values() if each.judged.event is not None)
    waiting = (each for each in accepted if each.behind_ms is None)
    position, newest_ms = 0, step.state.newest_ms
    for unit in sorted(waiting, key=lambda each: each.judged.record.ingest_ms):
        until_ms = unit.judged.record.ingest_ms + step.bounds.ahead_ms
        while position < len(moments) and moments[position][0] <= until_ms:
            newest_ms = max(newest_ms, moments[position][1])
            position += 1
        if until_ms > step.cut_ms and not step.is_last:
            break
        assert unit.judged.event is not None
        unit.behind_ms = newest_ms - unit.judged.event[step.time]
        if (counted := step.state.counted.get(unit.judged.record.origin)) is not None:
            counted.behind_ms = unit.behind_ms
            if unit.behind_ms > step.use.disorder_ms:
                counted.record = unit.judged.record
    step.state.newest_ms = max((newest_ms, *(moment for _, moment in moments[position:])))


def _count(step: Step, record: Record, event: Event) -> None:
    """Let the windows count an accepted event, if those that it is in are not judged yet."""
    if not step.windows:
        return
    is_behind = event[step.time] < step.state.passed_ms
    if is_behind:
        step.state.behind[record.origin] = step.cut_ms
    compact = {name: event[name] for name in step.kept}
    step.state.counted[record.origin] = Counted(compact, windows=[] if is_behind else list(step.windows))


def _forget_views(views: Views, each: Judged, before_ms: int) -> None:
    """Forget the other streams' events that no event sees any more: all but the last one before that time."""
    assert each.event is not None
    key = next(stream.key for stream in views.use.others if stream.name == each.record.topic)
    own = views.others[each.record.topic, each.event[key]]
    while len(own) > 1 and own[1][0] < before_ms:
        own.pop(0)
