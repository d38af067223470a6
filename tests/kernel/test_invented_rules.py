"""The engines' reader and memory hold what the oracle's do, of invented uses and tapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings

from millrace.oracle import Event, Judged, Record, Refusal, accept
from millrace.rules import ENRICHMENT, EventRule, UseCase
from millrace.rules.memory import StageMemory
from tests.kernel.conftest import Partner
from tests.second.both import judged
from tests.second.invented import CASES, Invented, Sent, tape_of

some = settings(max_examples=settings.default.max_examples // 2)


@some
@given(CASES)
def test_the_kernel_reads_and_remembers_what_the_oracle_does(
    partner: Partner, case: tuple[Invented, tuple[Sent, ...]]
) -> None:
    use, states = case[0].use, dict[str, str]()
    stage = StageMemory(use, tuple(rule for rule in use.rules if isinstance(rule, EventRule)))
    tape = tape_of(use, case[1])
    for record in tape:
        assert read(partner, use, record) == meant(use, record)
    for each in judged(use, use.rules, tape):
        if each.event is None:
            continue
        event, is_judged = dict(each.event), each.record.topic == use.judged.name
        # A state that is restored for every event is one restart after the other.
        before, states[event["key"]] = partner.fold(
            stage.measures, states.get(event["key"]), each.record.topic, event, is_judged
        )
        if is_judged:
            assert shown(before) == shown(dict(remembered(stage, each)))


def read(partner: Partner, use: UseCase, record: Record) -> list[Any]:
    """The reason and the fields, by the kernel."""
    event_type = next(each for each in (*use.raw, *use.references) if each.name == record.topic)
    return list(map(repr, partner.read(event_type, record.value, record.ingest_ms)))


def meant(use: UseCase, record: Record) -> list[Any]:
    """The reason and the fields, by the oracle."""
    event_type = next(each for each in (*use.raw, *use.references) if each.name == record.topic)
    event: Event | Refusal = accept(event_type, record.value, record.ingest_ms)
    if isinstance(event, Refusal):
        return list(map(repr, [event.reason, *(None for _ in event_type.readable)]))
    return list(map(repr, [None, *event.values()]))


def remembered(stage: StageMemory, each: Judged) -> Iterator[tuple[str, Any]]:
    """The remembered values by the stage's columns."""
    declared = {rule.name: rule.remembers for rule in stage.rules} | {ENRICHMENT: stage.use.enrichment.remembers}
    for owner, values in each.before.items():
        for name, value in values.items():
            yield stage.column(declared[owner], name), value


def shown(values: dict[str, Any]) -> dict[str, str]:
    """Values as text, which shows what == does not: 1 and 1.0, the two zeros."""
    return {name: repr(values[name]) for name in sorted(values)}
