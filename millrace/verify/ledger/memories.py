"""Memories that begin with another version of a rule: the job has folded what it read since then, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from millrace import oracle
from millrace.oracle import Event, Origin
from millrace.rules import ENRICHMENT, Rule, memories
from millrace.rules.measures import signature
from millrace.rules.outputs import INGEST_MS
from millrace.verify.evidence import ENRICHED, Read, kinds_of, misfit
from millrace.verify.lacking import REMEMBERED, Edge, Lacking
from millrace.verify.ledger.state import Output
from millrace.verify.ledger.step import Step


def begin(step: Step, enriched: Read, read_to: Mapping[tuple[str, int], int]) -> Lacking:
    """What the job lacks of the messages of this segment, which begin at `read_to`.

    A memory that begins in this segment also has what arrived with an earlier one and comes out later.
    """
    state, away_ms = step.state, step.question.away_ms
    came = [*(output for kind, _, output in state.outputs if kind == ENRICHED), *enriched.events]
    last_ms = {name: spans[-1] for name, spans in away_ms.items()}
    for name, (since, until) in last_ms.items():
        if state.cut_ms < until <= step.cut_ms and since and state.number:
            state.back[name] = until
        elif state.cut_ms < until <= step.cut_ms:
            state.edges[name] = _edge(step, until, came)
            _catch_up(step, name, until, came, read_to)
    _forget_returns(step)
    state.came_out_ms = max([state.came_out_ms, *(event[INGEST_MS.name] for _, event in _timed(came))])
    if not away_ms:
        return REMEMBERED
    coming = {name: [Edge(0, math.inf, math.inf)] for name, (_, until) in last_ms.items() if until > step.cut_ms}
    edges = coming | {name: [Edge(0, *edge)] for name, edge in state.edges.items()}
    return Lacking(step.use.judged.name, away_ms, _out_ms(step, came), step.cut_ms, edges)


def doubtful(step: Step, rule: Rule | None) -> str:
    """Why what a rule remembers, or without one any, may be another than that of the job; empty if it is the same."""
    since_ms, use = step.state.back, step.use
    names = memories([rule] if rule else step.question.rules, None if rule else use.enrichment)
    found = [f"'{name}' is remembered again" for name in sorted(names) if name in since_ms]
    return found[0] if found else ""


def _forget_returns(step: Step) -> None:
    """Forget that a memory is back once it holds nothing from before."""
    back, use = step.state.back, step.use
    remembers = [use.enrichment.remembers, *(rule.remembers for rule in step.event_rules)]
    for measure in (each for own in remembers for each in own.values()):
        name, within_ms = signature(measure, use.judged), getattr(measure, "within_ms", None)
        if name in back and within_ms is not None and back[name] + within_ms < step.since_ms:
            del back[name]


def _timed(came: Iterable[Output]) -> Iterator[Output]:
    return ((record, event) for record, event in came if isinstance(event.get(INGEST_MS.name), int))


def _out_ms(step: Step, came: Iterable[Output]) -> dict[Origin, int]:
    """When the last copy of each event came out."""
    found: dict[Origin, int] = {}
    for record, event in came:
        origin = step.source(event)
        found[origin] = max(record.ingest_ms, found.get(origin, 0))
    return found


def _edge(step: Step, since_ms: int, came: Iterable[Output]) -> list[int]:
    """Until when messages of other streams arrived that were read before, and from when those that were read after."""
    read = [(record.ingest_ms, event[INGEST_MS.name]) for record, event in _timed(came)]
    out = {step.source(event) for _, event in came}
    units = [unit for origin, unit in step.state.units.items() if not unit.copies and origin not in out]
    waiting = [unit.judged.record.ingest_ms for unit in units if unit.judged.event is not None]
    last_ms = max([step.state.came_out_ms, *(arrived for out_ms, arrived in read if out_ms < since_ms)])
    first_ms = min([*waiting, *(arrived for out_ms, arrived in read if out_ms >= since_ms)], default=last_ms)
    return [min(last_ms, first_ms), max(last_ms, first_ms)]


def _catch_up(
    step: Step, name: str, since_ms: int, came: Iterable[Output], read_to: Mapping[tuple[str, int], int]
) -> None:
    """Fold what arrived with earlier segments and was read since then; nothing shows which version judged it."""
    state, use = step.state, step.use
    judged = use.judged
    required = (*(each.name for each in judged.readable if each.required), INGEST_MS.name)
    kinds = kinds_of((*judged.readable, INGEST_MS))
    copies = {
        step.source(event): (record.ingest_ms, {**dict.fromkeys(kinds), **event})
        for record, event in came
        if misfit(kinds, required, event) is None  # else it is red, and nothing can be folded
    }
    tape: list[tuple[int, int, str, Event]] = []
    for origin, unit in state.units.items():
        if origin[0] == use.judged.name and unit.judged.event is not None and not unit.copies and origin not in copies:
            tape.append((unit.judged.record.ingest_ms, 1, use.judged.name, unit.judged.event))
            _leave(step, name, unit.judged.event, oracle.identity_of(use.judged, unit.judged.event, unit.judged.record))
    for origin, (out_ms, event) in copies.items():
        if out_ms >= since_ms and origin[2] < read_to.get(origin[:2], 0):
            tape.append((event[INGEST_MS.name], 1, use.judged.name, event))
    last_ms, _ = state.edges[name]
    for (stream, _), seen in state.views.items():
        tape += [(arrived_ms, 0, stream, event) for arrived_ms, event in seen if arrived_ms > last_ms]
    tape.sort(key=lambda each: each[:2])
    oracle.remember(use, step.question.rules, state.oracle, [name], [(stream, event) for *_, stream, event in tape])


def _leave(step: Step, name: str, event: Event, identity: str) -> None:
    """Hold an event against none of the rules with a memory."""
    use = step.use
    rules = [rule.name for rule in step.question.rules if name in memories([rule], None)]
    for each in [*rules, *([ENRICHMENT] if name in memories([], use.enrichment) else [])]:
        step.state.undecided[each, event[use.judged.key], identity] = step.cut_ms
