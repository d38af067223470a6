"""The canaries of the fraud use: a customer in each partition whose purchases set off every rule, minute by minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from millrace.traffic import CANARY, Canaries, Message, Secrets, message

from .events import customers, device_locations, merchants, transactions
from .invented_cards import invented_card
from .rules import above_previous_max, away_from_phone, burst, burst_at_once, spree

MARK = "canary:"  # names of generated customers have no colon
SHOPS = tuple(f"{MARK}shop-{number}" for number in range(5))
APART_MS = 500
MOVES_TIME_EVERY_MS = 20_000
"""Far enough apart for no burst, and the first of them ends the burst before it."""
HOME, FAR = {"latitude": 0.0, "longitude": 0.0}, {"latitude": 0.1, "longitude": 0.0}

BEGAN_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000
STEP_MS = 10_000
"""The largest amount grows by a cent in each: no round keeps in mind what the one before paid, and the limit is reached
after 31 years."""
CARDS, FIRST_CARD = 8, 1_000_000
"""A card rests for 70 s after its burst, so that the burst ends, however short a round is."""


def references(key: str) -> Iterator[Message]:
    """The customer, and shops in a category and a place that no other shop has."""
    for shop in SHOPS:
        content = {"merchant": shop, "category": f"{MARK}shop", "place": f"{MARK}place"}
        yield message(0, merchants.name, shop, content, CANARY)
    yield message(0, customers.name, key, {"customer": key, "segment": MARK}, CANARY)


def messages(key: str, secrets: Secrets, start_ms: int, for_ms: int) -> Iterator[Message]:
    """Five purchases within two seconds: the largest so far first, the last one far from the phone."""
    step = (start_ms - BEGAN_MS) // STEP_MS
    highest_cents = max(step, 0) + 200
    cards = FIRST_CARD + int.from_bytes(key.encode(), "big") % 1_000_000 * (CARDS + 1)

    def purchase(due_ms: int, shop: str, amount_cents: int, place: dict[str, float], card: int) -> Message:
        at_ms = start_ms + due_ms
        content: dict[str, Any] = {
            "transaction_id": f"{key}:{at_ms}",
            "customer": key,
            "card": secrets["card"].token(invented_card(cards + card)),
            "merchant": shop,
            "amount_cents": amount_cents,
            **place,
            **{"at_ms": at_ms, "sent_ms": at_ms},
        }
        return message(due_ms, transactions.name, key, content, CANARY)

    phone = {"customer": key, **HOME, "at_ms": start_ms, "sent_ms": start_ms}
    yield message(0, device_locations.name, key, phone, CANARY)
    for number, shop in enumerate(SHOPS, start=1):
        amount_cents = highest_cents if number == 1 else 100
        yield purchase(number * APART_MS, shop, amount_cents, FAR if number == len(SHOPS) else HOME, step % CARDS)
    for due_ms in range(MOVES_TIME_EVERY_MS, for_ms, MOVES_TIME_EVERY_MS):
        yield purchase(due_ms, SHOPS[0], 100, HOME, CARDS)


CANARIES = Canaries(
    marks={"customer": MARK, "merchant_category": MARK},
    rules=tuple(rule.name for rule in (above_previous_max, away_from_phone, spree, burst_at_once, burst)),
    messages=messages,
    references=references,
)
