"""Generated traffic with labels, and traffic from a file.

Nothing here reads a clock or sends anything: a plan, a card key and a start give one and the same traffic, byte for
byte. Card numbers leave this package only as tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pipelines.fraud.canaries import canary
from pipelines.fraud.events import customers, merchants, transactions
from pipelines.fraud.tokens import Tokens
from pipelines.fraud.traffic.people import SEGMENTS, SHOPS, coordinates, everybody, first_card, shop
from pipelines.fraud.traffic.plan import Label, Message, TrafficPlan, message
from pipelines.fraud.traffic.poison import REFERENCE_POISON
from pipelines.fraud.traffic.stage import DISORDER_MS, Stage

CLOSING = "closing"

__all__ = ["CLOSING", "DISORDER_MS", "Label", "Message", "TrafficPlan", "closing", "references", "traffic"]


def references(plan: TrafficPlan, also: Sequence[str] = ()) -> Iterator[Message]:
    """The merchants and customers, `also` those of the closing; all must have arrived before the traffic starts."""
    shops = [shop(number) for number in range(len(SHOPS))]
    people = [{"customer": name, "segment": SEGMENTS[0]} for name in also]
    people += [{"customer": person.name, "segment": person.segment} for person in everybody(plan)]
    for merchant in shops:
        yield message(0, merchants.name, merchant["merchant"], merchant, Label("reference"))
    for customer in people:
        yield message(0, customers.name, customer["customer"], customer, Label("reference"))
    if plan.poison_share:
        # Under keys of their own: of a key, only the last message is kept.
        nobody = f"{plan.name}-nobody"
        good = {**shops[0], "merchant": nobody, "customer": nobody, "segment": SEGMENTS[0]}
        for poison in REFERENCE_POISON:
            label = Label(f"poison: {poison.name}", refusal=poison.reason)
            yield Message(0, poison.topic, nobody.encode(), poison.spoil(good), label)


def traffic(plan: TrafficPlan, tokens: Tokens, start_ms: int) -> Iterator[Message]:
    """The plan's messages in the order of their sending; `start_ms` is the events' time when the first is due."""
    return Stage(plan, tokens, start_ms).messages()


def closing(plan: TrafficPlan, tokens: Tokens, start_ms: int, names: Sequence[str], for_ms: int) -> Iterator[Message]:
    """One small purchase of each of these customers every second after the traffic, so that event time advances.

    A window closes only when later events show that its time is over. The caller chooses the customers so that every
    partition has one. Each purchase is paid with a card of its own: none of them makes a burst.
    """
    end_ms = plan.due_ms(plan.events)
    seconds = math.ceil(for_ms / 1000)
    for second in range(1, seconds + 1):
        due_ms = end_ms + second * 1000
        for number, name in enumerate(names):
            card = tokens.token(canary(first_card(plan) - 1 - number * seconds - second))
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
