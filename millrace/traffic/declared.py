"""What a use declares of its traffic: the mixture that its options set, and the messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from millrace.rules.nearest import nearest
from millrace.traffic.columns import Columns
from millrace.traffic.plan import Message, TrafficPlan
from millrace.traffic.tokens import Secrets


@dataclass(frozen=True)
class Share:
    """A part of the traffic, from 0 to `most`; an option of the command line and a field of Airflow's form."""

    default: float
    help: str
    most: float = 0.3


@dataclass(frozen=True)
class Size:
    """A whole number that shapes the traffic, such as how many keys take part."""

    default: int
    help: str
    most: int = 1_000_000


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
        if not 0 <= number <= declared[each].most:
            raise ValueError(f"{each} must be from 0 to {declared[each].most}, not {number}")
    return TrafficPlan(
        events,
        rate_per_s,
        seed,
        name,
        shares={each: given.get(each, share.default) for each, share in traffic.shares.items()},
        sizes={each: int(given.get(each, size.default)) for each, size in traffic.sizes.items()},
    )
