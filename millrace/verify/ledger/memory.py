"""What is remembered after a segment, and what is forgotten."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from millrace.oracle import Origin
from millrace.rules import EventRule, FoldRule, Session
from millrace.verify.case import Question
from millrace.verify.ledger.state import State
from millrace.verify.ledger.step import Step
from millrace.verify.ledger.windows import JUDGED

IDS_LONGER_MS = 3_600_000
"""An id is kept for so much longer than it is remembered: an engine forgets a little later than it may."""
MISSING_MOST = 10_000
"""So many events that no file held in time are remembered, and so many messages of reference data that were refused."""


def _oldest_kept(step: Step) -> dict[tuple[str, int], int]:
    """By raw partition the first offset of which is remembered what came out; what waits is remembered, too."""
    since_ms = -math.inf if step.is_last else step.cut_ms - step.limits.copies_ms
    old: Mapping[str, Mapping[int, int]] = _reached(step.state) if step.is_last else {}
    for at_ms, offsets in step.state.cuts:
        old = offsets if at_ms < since_ms else old
    waiting: dict[tuple[str, int], int] = {}
    for kind, partition, offset in step.state.units:
        waiting[kind, partition] = min(offset, waiting.get((kind, partition), offset))
    return {
        (kind, partition): min(offset, waiting.get((kind, partition), offset))
        for kind, own in old.items()
        for partition, offset in own.items()
    }


def find_unstored(step: Step) -> Iterator[Origin]:
    """The accepted events of which what came out is about to be forgotten, and which no file holds."""
    for place, offset in _oldest_kept(step).items():
        yield from ((*place, at) for at in step.unstored(place, offset))


def remember_missing(step: Step, origins: Iterable[Origin]) -> None:
    """Remember the events that no file held in time: their rows may come after all."""
    missing = step.state.missing
    for origin in origins:
        missing[origin] = step.cut_ms
    for kind, partition, offset in list(missing)[: max(0, len(missing) - MISSING_MOST)]:
        del missing[kind, partition, offset]
        # Of earlier events it is not known any more which rows were there.
        began = step.state.began.get((kind, partition), 0)
        step.state.began[kind, partition] = max(began, offset + 1)


def _limit_refused(state: State) -> None:
    """Remember so many places of refused reference data at most."""
    for kind, partition, offset in list(state.refused)[: max(0, len(state.refused) - MISSING_MOST)]:
        del state.refused[kind, partition, offset]
        state.began[kind, partition] = max(state.began.get((kind, partition), 0), offset + 1)


def forget(step: Step) -> None:
    """Forget what is too long ago, and take down how far the segment went."""
    state, use = step.state, step.use
    state.races.append({"judged": len(step.expected.accepted), "enrichment": step.expected.raced, **step.case.raced})
    del state.races[: -step.limits.segments_of_races]
    memory_ms = _memory_ms(step.question)
    if state.assumed and memory_ms is not None and step.cut_ms > state.assumed_since_ms + memory_ms:
        state.assumed = ""
    since_ms = step.cut_ms - step.limits.copies_ms
    for place, offset in _oldest_kept(step).items():
        if place in state.done:
            state.done[place].forget(offset)
    state.cuts = [each for each in state.cuts if each[0] >= since_ms]
    for event in [event for event, at_ms in state.undecided.items() if at_ms < since_ms]:
        del state.undecided[event]
    for (rule, key), spans in list(state.open_then.items()):
        state.open_then[rule, key] = [span for span in spans if span[-1] >= since_ms]
        if not state.open_then[rule, key]:
            del state.open_then[rule, key]
    for known in (state.done_alerts, state.done_rows):
        for name in [name for name, found in known.items() if found[-1] < since_ms]:
            del known[name]
    for of_events in (state.done_late, state.varied, state.forms, state.flags):
        for origin in [origin for origin, (at_ms, *_) in of_events.items() if at_ms < since_ms]:
            del of_events[origin]
    if isinstance(state.oracle.seen_ms, dict):
        _forget_ids(state.oracle.seen_ms, step.cut_ms - use.judged.remembered_ms - IDS_LONGER_MS)
    state.cuts.append((step.cut_ms, _reached(state)))
    if step.shown_ms > (state.shown[-1][1] if state.shown else 0):
        state.shown.append([step.cut_ms, step.shown_ms])
    while len(state.shown) > 1 and state.shown[1][0] < since_ms:
        del state.shown[0]
    _forget_windows(step)
    _limit_refused(state)
    state.number += 1
    state.cut_ms = step.cut_ms


def _forget_windows(step: Step) -> None:
    """Forget the judged windows whose events have left."""
    state = step.state
    oldest_ms = min((each.event[step.time] for each in state.counted.values()), default=state.passed_ms)
    spans = {rule.name: _span_ms(rule.window) for rule in step.window_rules}
    spans |= {summary.name: _span_ms(summary.window) for summary in step.question.summaries}
    for window, at in list(state.due_since.items()):
        name, *rest = json.loads(window)
        start_ms = rest[0] if isinstance(rest[0], int) else rest[1]
        if at == JUDGED and start_ms + spans.get(name, 0) < oldest_ms:
            del state.due_since[window]


def _reached(state: State) -> dict[str, dict[int, int]]:
    """The next offset of each raw partition."""
    found: dict[str, dict[int, int]] = {}
    for (kind, partition), done in state.done.items():
        found.setdefault(kind, {})[partition] = done.end
    return found


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


def _forget_ids(seen_ms: dict[tuple[str, str], int], before_ms: int) -> None:
    """Forget the ids that arrived too long ago; they are in the order of their arrival."""
    old = takewhile(lambda each: each[1] < before_ms, seen_ms.items())
    for identity in [identity for identity, _ in old]:
        del seen_ms[identity]


def _span_ms(window: Any) -> int:
    return window.gap_ms if isinstance(window, Session) else int(window.size_ms)
