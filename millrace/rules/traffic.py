"""What a use declares of its traffic: the mixture that its options set, the labelled messages, a map of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from millrace.rules.events import NAME_PATTERN, EventType
from millrace.rules.nearest import nearest
from millrace.rules.tokens import Secrets

RATE_PER_S_LEAST = 10
CLOSING = "closing"
"""The kind of label of messages that only move time on after the traffic."""

Row = Mapping[str, str]
"""A line of a CSV file, by the names of its columns."""


@dataclass(frozen=True)
class Share:
    """A part of the traffic, from 0 to `most`; an option of the command line and a field of Airflow's form."""

    default: float
    help: str
    most: float = 0.3
    least: ClassVar[float] = 0


@dataclass(frozen=True)
class Size:
    """A whole number that shapes the traffic, such as how many keys take part."""

    default: int
    help: str
    most: int = 1_000_000
    least: int = 1


@dataclass(frozen=True)
class Label:
    """The kind of a message, and the outputs that it must cause."""

    kind: str
    episode: int = 0
    """Messages that belong together, such as those of one attack, share a number."""
    alerts: tuple[str, ...] = ()
    """The rules that this event must set off, itself or together with others, each of which names the rule."""
    refusal: str | None = None
    """The reason with which the message must end among the dead letters."""


class Message(NamedTuple):
    """One message to send: when, counted from the start, and to which topic."""

    due_ms: int
    topic: str
    key: bytes | None
    value: bytes | None
    label: Label


@dataclass(frozen=True)
class TrafficPlan:
    """How much traffic, how fast and of what mixture; `plan_for` makes one that fits a use."""

    events: int
    rate_per_s: float
    seed: int = 1
    name: str = "run"
    """Part of every id, so that a second run over the same topics does not repeat the first one's."""
    shares: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.events < 1 or self.rate_per_s < RATE_PER_S_LEAST:
            raise ValueError(
                f"traffic needs at least 1 event and {RATE_PER_S_LEAST} events per second, or it cannot keep its "
                "disorder"
            )
        if not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"'{self.name}' would be in each id; name the traffic in letters, digits and dashes")

    def due_ms(self, position: int) -> int:
        """When the message at this position is due, independent of those before it."""
        return int(position * 1000 / self.rate_per_s)


@dataclass(frozen=True)
class Columns:
    """The header that a file must have, and what is taken from its columns.

    A function that raises ValueError marks a line that cannot be parsed.
    """

    event: EventType
    header: tuple[str, ...]
    at_ms: Callable[[Row], int]
    """The time of a line, in milliseconds since 1970."""
    fields: Mapping[str, str | Callable[[Row], Any]]
    """Field -> its column, or a function of the line; a field whose column is empty, or that is None, is left out."""
    aligned_ms: int = 1
    """Times move by a multiple of it: windows of which it is one hold the events that they held in the file."""
    is_quoted: bool = True
    """Whether quotes may enclose commas; if not, a stray quote is an ordinary character."""


class Traffic(Protocol):
    """The traffic of a use; it reads no clock and sends nothing: one plan and one start give the same bytes."""

    @property
    def shares(self) -> Mapping[str, Share]:
        """By name, in small letters and dashes."""

    @property
    def sizes(self) -> Mapping[str, Size]:
        """By name, none of them that of a share."""

    @property
    def ambiguous(self) -> Collection[str]:
        """Kinds of label whose events may set off rules or not, as chance decides."""

    @property
    def slack_ms(self) -> int:
        """No label holds if a message leaves so long after it was due."""

    def references(self, plan: TrafficPlan, also: Sequence[str]) -> Iterator[Message]:
        """The reference data, `also` that of the closing's keys; all of it arrives before the traffic starts."""

    def messages(self, plan: TrafficPlan, secrets: Secrets, start_ms: int) -> Iterator[Message]:
        """The plan's messages in the order of their sending; `start_ms` is the time at which the first is due."""

    def closing_key(self, plan: TrafficPlan, number: int) -> str:
        """A key for the closing; the sender takes numbers from 0 until each partition has a key."""

    def closing(
        self, plan: TrafficPlan, secrets: Secrets, start_ms: int, keys: Sequence[str], for_ms: int
    ) -> Iterator[Message]:
        """One harmless event of each key every second after the traffic, labelled CLOSING.

        A window closes only when later events show that its time is over.
        """

    def columns(self, plan: TrafficPlan) -> Columns | None:
        """How recorded CSV files are read; None: their columns have the names of the fields."""


def plan_for(
    traffic: Traffic, events: int, rate_per_s: float, seed: int = 1, name: str = "run", **numbers: float
) -> TrafficPlan:
    """A plan with the use's shares and sizes: those given, and the defaults of all others."""
    declared: dict[str, Share | Size] = {**traffic.shares, **traffic.sizes}
    given = {written.replace("_", "-"): number for written, number in numbers.items()}
    for each, number in given.items():
        if each not in declared:
            raise ValueError(f"this use's traffic has no '{each}'; {nearest(each, declared)}")
        if not declared[each].least <= number <= declared[each].most:
            raise ValueError(f"{each} must be from {declared[each].least} to {declared[each].most}, not {number}")
    return TrafficPlan(
        events,
        rate_per_s,
        seed,
        name,
        shares={each: given.get(each, share.default) for each, share in traffic.shares.items()},
        sizes={each: int(given.get(each, size.default)) for each, size in traffic.sizes.items()},
    )


def message(due_ms: int, topic: str, key: str, content: Mapping[str, Any], label: Label) -> Message:
    """A message that carries an event."""
    return Message(due_ms, topic, key.encode(), json.dumps(content, separators=(",", ":")).encode(), label)
