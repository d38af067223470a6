"""Invented people and shops: where they are, what is usual for them, and how they pay."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from millrace.traffic import TrafficPlan

from ..invented_cards import invented_card

Place = tuple[float, float]

_CATEGORIES = ("groceries", "fuel", "restaurants", "travel", "electronics", "clothing", "pharmacy", "books")
SHOPS = tuple(f"m-{number:03d}" for number in range(200))
SEGMENTS = ("private", "student", "premium", "business")
CITIES = (
    ("Hamburg", 53.5511, 9.9937),
    ("Berlin", 52.52, 13.405),
    ("Wien", 48.2082, 16.3738),
    ("Zagreb", 45.815, 15.9819),
    ("Lisboa", 38.7223, -9.1393),
    ("Lagos", 6.5244, 3.3792),
    ("Quito", -0.1807, -78.4678),
    ("Suva", -18.1248, 178.4501),
)
_METRES_PER_DEGREE = 111_195.08  # along a meridian of the sphere that `km` measures on


@dataclass(eq=False)
class Person:
    """A person with a home, habits, one or two cards and, mostly, a phone."""

    name: str
    segment: str
    usual: tuple[str, ...]
    card_numbers: tuple[str, ...]
    has_phone: bool
    place: Place
    """Where the phone is; it reports from within 250 m of here, and here its owner buys."""
    highest_cents: int
    """The largest purchase so far; the first one is as large as the usual ones ever get."""
    cards: tuple[str, ...] = ()
    has_bought: bool = False
    busy_ms: int = -(10**9)
    """Until then this person is part of an episode."""
    shopped_ms: int = -(10**9)
    """When they were last out shopping, which is when the last episode ended."""


def everybody(plan: TrafficPlan) -> Iterator[Person]:
    """The people of a plan, always the same ones."""
    rng = random.Random(f"people {plan.seed}")
    for number in range(how_many(plan)):
        _, latitude, longitude = rng.choice(CITIES)
        first = first_card(plan) + 2 * number
        yield Person(
            name=f"{plan.name}-c{number:06d}",
            segment=rng.choice(SEGMENTS),
            usual=tuple(rng.sample(SHOPS, 3)),
            card_numbers=tuple(invented_card(first + n) for n in range(2 if rng.random() < 0.3 else 1)),
            has_phone=number % 10 != 9,
            place=moved((latitude, longitude), rng.uniform(-15_000, 15_000), rng.uniform(-15_000, 15_000)),
            highest_cents=int(5_000 * math.exp(rng.gauss(0.5, 0.8))) + 500,
        )


def how_many(plan: TrafficPlan) -> int:
    """How many people take part."""
    return plan.sizes["customers"] or max(20, min(plan.events // 4, round(plan.rate_per_s * 10)))


def first_card(plan: TrafficPlan) -> int:
    """Where the plan's card numbers begin."""
    # Runs of different names pay with different cards, as the cards belong to different customers.
    return int.from_bytes(hashlib.sha256(plan.name.encode()).digest()[:4], "big") % 900_000_000 + 50_000_000


def shop(number: int) -> dict[str, str]:
    """The merchant of that number, as reference data."""
    city, _, _ = CITIES[number % len(CITIES)]
    category = _CATEGORIES[number // len(CITIES) % len(_CATEGORIES)]
    return {"merchant": SHOPS[number], "category": category, "place": city}


def moved(place: Place, north_m: float, east_m: float) -> Place:
    """The place so many metres north and east."""
    latitude = place[0] + north_m / _METRES_PER_DEGREE
    return latitude, place[1] + east_m / (_METRES_PER_DEGREE * math.cos(math.radians(latitude)))


def coordinates(place: Place) -> dict[str, float]:
    """The place as the fields of an event."""
    return {"latitude": round(place[0], 6), "longitude": round(place[1], 6)}
