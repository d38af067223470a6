"""Scenarios of fraud: small stories as text, with what must come of them, that every engine has to satisfy.

They have a language of their own, shorter than that of `millrace.testing`, which is for any use.

    == Ten seconds to the millisecond are still a burst
       0.000  t1  anna pays 20.00 at bakery
      10.000  t2  anna pays 30.00 at grocer
    => burst t1 t2  total_cents=5000

Lines stand in the order of arrival; the number in front is the event's own time in seconds, the word after it names the
line. What happens is one of

    WHO pays AMOUNT at MERCHANT [card=NAME] [in PLACE]    a purchase; the card is the customer's own unless named
    WHO phone in PLACE                                    the customer's phone says where it is
    again LINE                                            what that line says, once more

and at the end of each may stand `spoilt by NAME`, one of the ways in pipelines/fraud/traffic/poison.py. A PLACE is a
name, or one and so many metres to the north of it: `home+1015m`.

What must come of it is complete: no other alerts, no other refusals.

    => RULE LINE...  [OPERAND=VALUE...]     an alert on these purchases; operands that are named must be so
    => refused LINE REASON                  a dead letter
    => nothing                              neither

A scenario's people, cards and purchases are its own (their names get a prefix), so all scenarios may run in one job.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from millrace.settings import PROJECT
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic.poison import POISON, Poison

FOLDER = PROJECT / "pipelines/fraud/scenarios"
PLACES = {"home": (52.52, 13.405), "work": (52.4, 13.1), "abroad": (-18.1248, 178.4501), "pole": (89.9999, 12.0)}
BREAK_MS = 60_000
"""Event time between two scenarios that are played one after the other; more than any window or disorder."""

_LINE = re.compile(r"(-?\d+(?:\.\d{1,3})?)\s+(\S+)\s+(.+)")
_SPOILT = re.compile(r"(.*\S)\s+spoilt by\s+(.+)")
_PAYS = re.compile(r"(\w+)\s+pays\s+(\d+\.\d\d)\s+at\s+(\S+)(?:\s+card=(\w+))?(?:\s+in\s+(\S+))?")
_PHONE = re.compile(r"(\w+)\s+phone\s+in\s+(\S+)")
_AGAIN = re.compile(r"again\s+(\S+)")
_PLACE = re.compile(r"([a-z]+)(?:\+(\d+)m)?")
_POISON = {poison.name: poison for poison in POISON}
_METRES_PER_DEGREE = 111_195.08


class ScenarioError(ValueError):
    """A scenario that cannot be read: names the file, the line and the remedy."""


@dataclass(frozen=True)
class Message:
    """One message of a scenario, placed in time."""

    line: str
    """How the scenario calls it."""
    phase: int
    """Grows when the topic changes: only within a phase does Kafka itself keep the order of the lines."""
    topic: str
    """The name of its kind of event."""
    key: bytes
    value: bytes | None
    at_ms: int
    arrives_ms: int
    """Never before the messages of the lines above."""


@dataclass(frozen=True)
class Alert:
    """An alert that must come."""

    rule: str
    lines: tuple[str, ...]
    operands: Mapping[str, str]


@dataclass(frozen=True)
class Happening:
    """One line of a scenario that is an event."""

    line: str
    shown_ms: int
    """The time in front of the line: for an event that comes again, when it comes again."""
    at_ms: int
    topic: str
    customer: str
    content: Mapping[str, Any]
    poison: Poison | None


@dataclass(frozen=True)
class Scenario:
    """A story and what must come of it."""

    file: str
    number: int
    title: str
    happenings: tuple[Happening, ...]
    alerts: tuple[Alert, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Line -> reason."""

    @property
    def prefix(self) -> str:
        """What stands in front of the names of its people, purchases and cards."""
        return f"{self.file}.{self.number}."

    @property
    def lasts_ms(self) -> int:
        times = [happening.shown_ms for happening in self.happenings]
        return max(times) - min(0, *times)

    def transaction_id(self, line: str) -> str:
        """The id of a purchase by the name of its line."""
        return self.prefix + line

    def messages(self, start_ms: int) -> list[Message]:
        """Its messages in the order of their arrival, if its time zero is at `start_ms`."""
        found: list[Message] = []
        phase, arrives_ms, topic = 0, 0, self.happenings[0].topic
        for happening in self.happenings:
            phase += happening.topic != topic
            topic = happening.topic
            arrives_ms = max(arrives_ms, happening.shown_ms)
            event = {**happening.content, "at_ms": start_ms + happening.at_ms}
            if topic == FRAUD.judged.name:
                event["sent_ms"] = event["at_ms"]
            value = json.dumps(event).encode() if happening.poison is None else happening.poison.spoil(event)
            key = (self.prefix + happening.customer).encode()
            found.append(
                Message(happening.line, phase, topic, key, value, start_ms + happening.at_ms, start_ms + arrives_ms)
            )
        return found

    def references(self) -> Iterator[tuple[str, dict[str, str]]]:
        """The reference data it rests on: kind of event and event."""
        for name in dict.fromkeys(h.customer for h in self.happenings):
            yield "customers", {"customer": self.prefix + name, "segment": "private"}
        for name in dict.fromkeys(h.content["merchant"] for h in self.happenings if "merchant" in h.content):
            yield "merchants", {"merchant": name, "category": f"{name}-goods", "place": "Berlin"}


def load_all() -> list[Scenario]:
    """Every scenario of every file."""
    return [scenario for path in sorted(FOLDER.glob("*.scenario")) for scenario in load(path)]


def load(path: Path) -> list[Scenario]:
    """The scenarios of one file."""
    return list(_Reader(path.name).scenarios(path.read_text(encoding="utf-8").splitlines()))


def placed(scenarios: Sequence[Scenario], start_ms: int) -> list[tuple[Scenario, int]]:
    """Each scenario with its time zero, one after the other: in one run of all, time only increases."""
    found = []
    for scenario in scenarios:
        earliest_ms = min(0, *(happening.shown_ms for happening in scenario.happenings))
        found.append((scenario, start_ms - earliest_ms))
        start_ms += scenario.lasts_ms + BREAK_MS
    return found


def span_ms(scenarios: Sequence[Scenario]) -> int:
    """How much event time all of them take when they are placed."""
    return sum(scenario.lasts_ms + BREAK_MS for scenario in scenarios)


class _Reader:
    """Reads a file line by line."""

    def __init__(self, file: str) -> None:
        self.file, self.number, self.text = file, 0, ""

    def scenarios(self, lines: Sequence[str]) -> Iterator[Scenario]:
        title, found = "", 0
        happenings: list[Happening] = []
        outcomes: list[list[str]] = []
        for self.number, line in enumerate(lines, start=1):
            self.text = line.split("#")[0].strip()
            if self.text.startswith("=="):
                if title:
                    found += 1
                    yield self.scenario(title, found, happenings, outcomes)
                title, happenings, outcomes = self.text.removeprefix("==").strip(), [], []
            elif self.text.startswith("=>"):
                outcomes.append(self.text.removeprefix("=>").split())
            elif self.text:
                happenings.append(self.happening(happenings))
        if title:
            yield self.scenario(title, found + 1, happenings, outcomes)

    def scenario(
        self, title: str, number: int, happenings: Sequence[Happening], outcomes: Sequence[Sequence[str]]
    ) -> Scenario:
        if not happenings or not outcomes:
            raise self.error(
                f"'{title}' needs at least one event and one outcome; write => nothing if none is expected"
            )
        lines = {happening.line for happening in happenings}
        alerts: list[Alert] = []
        refusals: dict[str, str] = {}
        for outcome in outcomes:
            match outcome:
                case ["nothing"] if len(outcomes) == 1:
                    pass
                case ["refused", line, reason] if line in lines:
                    refusals[line] = reason
                case [rule, *rest] if rule in {rule.name for rule in FRAUD.rules}:
                    alerts.append(self.alert(rule, rest, lines))
                case _:
                    rules = ", ".join(rule.name for rule in FRAUD.rules)
                    raise self.error(
                        f"'=> {' '.join(outcome)}' of '{title}' is no outcome; write => RULE LINES, => refused LINE "
                        f"REASON or => nothing alone, with lines of the scenario and a rule among {rules}"
                    )
        file = self.file.removesuffix(".scenario")
        own = tuple(map(_owned_by(f"{file}.{number}."), happenings))
        return Scenario(file, number, title, own, tuple(alerts), refusals)

    def alert(self, rule: str, words: Sequence[str], lines: set[str]) -> Alert:
        named = tuple(word for word in words if "=" not in word)
        if not named or set(named) - lines:
            raise self.error(f"'=> {rule}' names no line, or one that is not there: {' '.join(named) or 'none'}")
        return Alert(rule, named, dict(word.split("=", 1) for word in words if "=" in word))

    def happening(self, before: Sequence[Happening]) -> Happening:
        match = _LINE.fullmatch(self.text)
        if match is None:
            raise self.error(
                f"'{self.text}' is no event; write: SECONDS LINE WHAT, as in 1.000 t1 anna pays 20.00 at bakery"
            )
        at_ms, line, what = round(float(match[1]) * 1000), match[2], match[3]
        if line in {happening.line for happening in before}:
            raise self.error(f"there is a line '{line}' already; lines need different names")
        poison = None
        if spoilt := _SPOILT.fullmatch(what):
            what, name = spoilt[1], spoilt[2].strip()
            if name not in _POISON:
                raise self.error(f"nothing is 'spoilt by {name}'; there is: {', '.join(_POISON)}")
            poison = _POISON[name]
        if again := _AGAIN.fullmatch(what):
            first = next((happening for happening in before if happening.line == again[1]), None)
            if first is None:
                raise self.error(f"no line '{again[1]}' above; `again` repeats an earlier line")
            return Happening(line, at_ms, first.at_ms, first.topic, first.customer, first.content, poison)
        if pays := _PAYS.fullmatch(what):
            customer, amount, merchant, card, place = pays.groups()
            content = {
                "transaction_id": line,
                "customer": customer,
                "card": card or f"{customer}s-card",
                "merchant": merchant,
                "amount_cents": round(float(amount) * 100),
                **self.place(place or "home"),
            }
            return Happening(line, at_ms, at_ms, FRAUD.judged.name, customer, content, poison)
        if phone := _PHONE.fullmatch(what):
            content = {"customer": phone[1], **self.place(phone[2])}
            return Happening(line, at_ms, at_ms, "device-locations", phone[1], content, poison)
        raise self.error(
            f"'{what}' is nothing that can happen; write: WHO pays AMOUNT at MERCHANT, WHO phone in PLACE, again LINE"
        )

    def place(self, name: str) -> dict[str, float]:
        match = _PLACE.fullmatch(name)
        if match is None or match[1] not in PLACES:
            raise self.error(
                f"there is no place '{name}'; there is: {', '.join(PLACES)}, or so far north of it: home+500m"
            )
        latitude, longitude = PLACES[match[1]]
        return {"latitude": round(latitude + int(match[2] or 0) / _METRES_PER_DEGREE, 7), "longitude": longitude}

    def error(self, complaint: str) -> ScenarioError:
        return ScenarioError(f"{self.file}, line {self.number}: {complaint}")


def _owned_by(prefix: str) -> Callable[[Happening], Happening]:
    """Gives happenings the names of their scenario."""

    def own(happening: Happening) -> Happening:
        content = {**happening.content, "customer": prefix + happening.customer}
        if "card" in content:
            content["transaction_id"] = prefix + content["transaction_id"]
            content["card"] = card_token(prefix + content["card"])
        return replace(happening, content=content)

    return own


def card_token(name: str) -> str:
    """The token of a card that a scenario calls so."""
    return f"5cea1a10.{hashlib.sha256(name.encode()).hexdigest()[:32]}"
