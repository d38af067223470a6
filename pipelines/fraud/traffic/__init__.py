"""Made-up traffic, each message with its label: everyday purchases, frauds, edge cases, accidents.

Card numbers leave this package only as tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice

from millrace.traffic import CLOSING, Columns, Label, Message, Secrets, Share, Size, TrafficPlan, message

from ..canaries import canary
from ..events import customers, merchants, transactions
from .people import SEGMENTS, SHOPS, coordinates, everybody, first_card, shop
from .poison import REFERENCE_POISON
from .stage import DISORDER_MS, GAP_MS, PHONE_LEAD_MS, RACE, Stage

__all__ = ["DISORDER_MS", "TRAFFIC", "FraudTraffic"]

SECOND_MS = 1_000
CLOSING_TURNS = GAP_MS // SECOND_MS + 1
"""After so many seconds a customer of the closing buys again: too late for a burst."""


class FraudTraffic:
    """People who buy, near their phones and far from them."""

    shares: Mapping[str, Share] = {
        "poison": Share(0.01, "Share of messages that are malformed or invalid; each must become a dead letter."),
        "duplicates": Share(0.01, "Share of purchases that are sent twice."),
        "frauds": Share(0.02, "Share of the customers' episodes (short stories) that are frauds."),
        "edges": Share(0.01, "Share of episodes at the limit of a rule."),
        "races": Share(0.001, "Share of episodes in which a purchase and the phone's report arrive in either order."),
        "late": Share(0.0005, "Share of purchases that are too late for any window."),
    }
    sizes: Mapping[str, Size] = {
        "customers": Size(0, "How many customers; 0: as many as the rate needs, so that none buys too often.", least=0)
    }
    ambiguous = frozenset({RACE})
    slack_ms = PHONE_LEAD_MS // 2

    def references(self, plan: TrafficPlan, also: Sequence[str] = ()) -> Iterator[Message]:
        """The merchants and customers, for the keys in `also` the customers of the closing."""
        shops = [shop(number) for number in range(len(SHOPS))]
        people = [{"customer": name, "segment": SEGMENTS[0]} for turn in _turns(also) for name in turn]
        people += [{"customer": person.name, "segment": person.segment} for person in everybody(plan)]
        for merchant in shops:
            yield message(0, merchants.name, merchant["merchant"], merchant, Label("reference"))
        for customer in people:
            yield message(0, customers.name, customer["customer"], customer, Label("reference"))
        if plan.shares["poison"]:
            # Under keys of their own: of a key, only the last message is kept.
            nobody = f"{plan.name}-nobody"
            good = {**shops[0], "merchant": nobody, "customer": nobody, "segment": SEGMENTS[0]}
            for poison in REFERENCE_POISON:
                label = Label(f"poison: {poison.name}", refusal=poison.reason)
                yield Message(0, poison.topic, nobody.encode(), poison.spoil(good), label)

    def messages(self, plan: TrafficPlan, secrets: Secrets, start_ms: int) -> Iterator[Message]:
        """One message for each moment of the plan."""
        return Stage(plan, secrets["card"], start_ms).messages()

    def closing_key(self, plan: TrafficPlan, number: int) -> str:
        """The beginning of the names of customers in one partition."""
        return f"{plan.name}-closing-{number}"

    def closing(
        self, plan: TrafficPlan, secrets: Secrets, start_ms: int, keys: Sequence[str], for_ms: int
    ) -> Iterator[Message]:
        """A small purchase in the partition of each key every second, by customers in turn: no burst."""
        end_ms, turns = plan.due_ms(plan.events), _turns(keys)
        for second in range(1, math.ceil(for_ms / SECOND_MS) + 1):
            due_ms, turn = end_ms + second * SECOND_MS, second % CLOSING_TURNS
            for partition, name in enumerate(turns[turn]):
                card = secrets["card"].token(canary(first_card(plan) - 1 - partition * CLOSING_TURNS - turn))
                purchase = {
                    "transaction_id": f"{name}-{second:04d}",
                    "customer": name,
                    "card": card,
                    "merchant": shop(0)["merchant"],
                    "amount_cents": 100,
                    **coordinates((0.0, 0.0)),
                    "at_ms": start_ms + due_ms,
                    "sent_ms": start_ms + due_ms,
                }
                yield message(due_ms, transactions.name, name, purchase, Label(CLOSING))

    def columns(self, plan: TrafficPlan) -> Columns | None:
        """Recorded files have columns with the names of the fields."""
        return None


def _turns(keys: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """Groups of customers who buy in the same second: for each key one whom Kafka's hash puts in its partition."""
    from kafka.partitioner.default import murmur2  # here: the rules are also read where nothing is sent

    def partition(name: str) -> int:
        return int((murmur2(name.encode()) & 0x7FFFFFFF) % len(keys))

    beside = [
        list(islice((name for n in count() if partition(name := f"{key}-{n}") == partition(key)), CLOSING_TURNS))
        for key in keys
    ]
    return [tuple(names[turn] for names in beside) for turn in range(CLOSING_TURNS)]


TRAFFIC = FraudTraffic()
