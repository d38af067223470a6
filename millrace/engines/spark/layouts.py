"""What the state of each query looks like, as far as the name of its checkpoint does not tell.

Spark continues no state of another layout: it fails at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millrace.patterns import EnginePlan
from millrace.rules import Count, EventType, Last, Sum, WindowRule, WindowSummary
from millrace.rules.measures import Measure, fits_64_bits
from millrace.rules.memory import StageMemory


def of_events(plan: EnginePlan) -> str:
    """Whether the per-event stage has state."""
    return "memory" if StageMemory(plan.use, plan.event_rules).is_needed else ""


def of_files(plan: EnginePlan) -> str:
    """By what stored events are known."""
    return "ids" if plan.use.enriched.id else "places"


def of_windows(plan: EnginePlan, of: Sequence[WindowRule | WindowSummary]) -> str:
    """What is kept of each window, and which source comes first: offsets are in their order."""
    is_of_rules = any(isinstance(each, WindowRule) for each in of)
    order = "events first" if is_of_rules and not plan.judges_events else "ticks first"
    return "; ".join([order, *(f"{each.name}: {', '.join(_kept(each))}" for each in of)])


def is_wide(measure: Measure, on: EventType) -> bool:
    """Whether a measure is a sum that may leave the 64 bits."""
    return isinstance(measure, Sum) and not fits_64_bits(on, measure.field)


def _kept(of: WindowRule | WindowSummary) -> Iterator[str]:
    if isinstance(of, WindowSummary):
        yield from map(of.on.kind, of.keys)
    elif of.on.id:
        yield "ids"
    for measure in of.measures.values():
        match measure:
            case Count():
                yield "whole"
            case Last(fields=(field,)):
                yield of.on.kind(field)
            case _ if is_wide(measure, of.on):
                yield "wide"
            case _:
                yield of.on.kind(measure.field)
