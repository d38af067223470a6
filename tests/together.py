"""Fraud's scenarios in one run: each has names and a time of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

from millrace.oracle import Finding
from millrace.testing import MIDNIGHT_MS, Arrival, Scenario, scenarios, token
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic.poison import POISON

BREAK_MS = 60_000
"""Event time between two scenarios that are played one after the other; more than any window or disorder."""

Outcome = tuple[Counter[tuple[str, frozenset[str]]], dict[str, str]]
"""The alerts, by rule and ids of events; the reasons of refused lines."""


@dataclass(frozen=True)
class Message:
    """One message of a scenario, placed in time."""

    line: str
    phase: int
    """Grows when the topic changes: Kafka keeps the order of the lines only within a phase."""
    topic: str
    key: bytes
    value: bytes | None
    arrives_ms: int


@dataclass(frozen=True)
class Own:
    """A scenario with its own customers, purchases and cards; merchants are the same for all."""

    number: int
    scenario: Scenario

    def __str__(self) -> str:
        return self.scenario.title

    @property
    def prefix(self) -> str:
        """Is in front of its names."""
        return f"s{self.number}."

    @property
    def events(self) -> list[Arrival]:
        """Its arrivals but the reference data."""
        return [each for each in self.scenario.arrivals if each.stream in FRAUD.raw]

    @property
    def earliest_ms(self) -> int:
        return min(0, *(each.at_ms - MIDNIGHT_MS for each in self.events))

    @property
    def lasts_ms(self) -> int:
        return max(each.at_ms for each in self.events) - MIDNIGHT_MS - self.earliest_ms

    @property
    def expected(self) -> Outcome:
        alerts, refusals = Counter[tuple[str, frozenset[str]]](), {}
        for each in self.scenario.outcome:
            if each.subject == "refused":
                refusals[each.words[0]] = each.words[1]
            else:
                alerts[each.subject, self.ids(each.words)] += 1
        return alerts, refusals

    def ids(self, lines: Iterable[str]) -> frozenset[str]:
        """The ids of the purchases on some lines."""
        return frozenset(self.prefix + line for line in lines)

    def references(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Its reference data: kind of event, and event."""
        for each in self.scenario.arrivals:
            if each.stream in FRAUD.references:
                yield each.stream.name, self.owned(each, 0)

    def messages(self, start_ms: int) -> list[Message]:
        """Its messages in the order of their arrival, if its time zero is at `start_ms`."""
        moved_ms = start_ms - MIDNIGHT_MS
        own = [replace(each, content=self.owned(each, moved_ms)) for each in self.events]
        arrives_ms = accumulate((each.at_ms + moved_ms for each in own), max)
        phases = (n for n, (_, same) in enumerate(groupby(each.stream.name for each in own)) for _ in same)
        return [
            Message(each.line, phase, each.stream.name, each.key, each.value, now_ms)
            for each, phase, now_ms in zip(own, phases, arrives_ms, strict=True)
        ]

    def owned(self, arrival: Arrival, moved_ms: int) -> dict[str, Any]:
        """An event with the names of this scenario, at another time."""
        assert not isinstance(arrival.content, str)
        content = dict(arrival.content)
        for name in content.keys() & {"customer", "transaction_id"}:
            content[name] = self.prefix + content[name]
        if "card" in content:
            content["card"] = token(self.prefix + content["card"])
        if "at_ms" in content:
            content["at_ms"] += moved_ms
        return content

    def check_operands(self, finding: Finding) -> None:
        """Compare an alert with the operands that the scenario names."""
        for each in self.scenario.outcome:
            if (each.subject, self.ids(each.words)) == (finding.rule, frozenset(finding.event_ids)):
                shown = {name: str(finding.operands.get(name)) for name in each.operands}
                assert shown == dict(each.operands)


SPOILING = {poison.name: poison.spoil for poison in POISON}
SCENARIOS = [Own(number, scenario) for number, scenario in enumerate(scenarios("fraud", SPOILING))]


def placed(own: Sequence[Own], start_ms: int) -> list[tuple[Own, int]]:
    """Each scenario with its time zero, one after the other: in one run of all, time only increases."""
    found = []
    for each in own:
        found.append((each, start_ms - each.earliest_ms))
        start_ms += each.lasts_ms + BREAK_MS
    return found


def span_ms(own: Sequence[Own]) -> int:
    """How much event time all of them take when they are placed."""
    return sum(each.lasts_ms + BREAK_MS for each in own)
