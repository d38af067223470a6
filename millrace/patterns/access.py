"""Who reads and who writes each topic of a pattern."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millrace.patterns.model import EXACTLY_ONCE, Variant
from millrace.patterns.plan import HOP, EnginePlan
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import DISPOSITIONS, VERDICTS_TOPIC, WINDOWS_TOPIC


@dataclass(frozen=True)
class Access:
    """The users of a topic: jobs, the edge through which events come in, a reader of the results."""

    readers: frozenset[str] = frozenset()
    writers: frozenset[str] = frozenset()


def outsiders(variant: Variant) -> tuple[str, str]:
    """The users that are no jobs: the edge and the reader."""
    return f"{variant.name}-edge", f"{variant.name}-reader"


def access(variant: Variant) -> dict[str, Access]:
    """Kind of message -> who reads and writes its topic."""
    use, stages = variant.use, variant.pattern.stages
    edge, reader = outsiders(variant)
    events, windows = f"{variant.name}-{stages.events.engine}", f"{variant.name}-{stages.windowing.engine}"
    persist = [f"{variant.name}-{stages.persist.engine}"] if stages.persist else []
    return {
        **{each.name: Access(frozenset([events]), frozenset([edge])) for each in (*use.raw, *use.references)},
        use.enriched.name: Access(frozenset([windows, *persist, reader]), frozenset([events])),
        ALERTS.name: Access(frozenset([*persist, reader]), frozenset([events, windows])),
        DEAD_LETTERS.name: Access(frozenset([reader]), frozenset([events, windows, *persist])),
        WINDOWS_TOPIC: Access(frozenset([reader]), frozenset([windows])),
        HOP: Access(),
        VERDICTS_TOPIC: Access(frozenset([reader])),
        DISPOSITIONS.name: Access(frozenset([reader]), frozenset([reader])),
    }


def transactional_ids(plans: Iterable[EnginePlan]) -> dict[str, str]:
    """Job -> with what its transactional ids begin: those of jobs that write in transactions."""
    return {f"{plan.pattern}-{plan.engine}": f"{plan.pattern}-" for plan in plans if plan.delivery == EXACTLY_ONCE}
