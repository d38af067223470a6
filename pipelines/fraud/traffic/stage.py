"""Generates episodes in event order: everyday life, frauds, edge cases, accidents. It reads no clock.

Each purchase of an episode is made so that it sets off exactly the rules its label names, and an ordinary one none:
a person's first purchase is as large as the usual ones get, a phone's report comes well before the purchase that rests
on it, and after an episode people rest until no rule remembers it.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from millrace.traffic import Label, Message, Tokens, TrafficPlan, message

from ..events import MINUTE_MS, device_locations, transactions
from ..rules import above_previous_max, away_from_phone, burst, burst_at_once, spree
from .people import CITIES, SHOPS, Person, Place, coordinates, everybody, moved
from .poison import POISON, Poison

DISORDER_MS = 2_000
"""No purchase arrives more than this after one that happened later, but for those labelled `late`."""

GAP_MS = burst.window.closes_after_ms
# Between purchases that must not make a burst; the rule `spree` covers two minutes.
REST_MS, SPREE_REST_MS = GAP_MS + DISORDER_MS + 1_000, 2 * MINUTE_MS + DISORDER_MS + 1_000
# A phone's report comes so long before the purchase that rests on it, and the next one so long after, that no engine
# takes them the wrong way round.
PHONE_LEAD_MS = 4_000
FRESH_MS = 15 * MINUTE_MS
LATE_MS = 60 * MINUTE_MS
RACE = "race"


class Stage:
    """Fills one moment after the other: with what is due, or else with the start of another episode."""

    def __init__(self, plan: TrafficPlan, tokens: Tokens, start_ms: int) -> None:
        self.plan, self.start_ms = plan, start_ms
        self.rng = random.Random(f"traffic {plan.seed}")
        self.numbers, self.episodes, self.turns = count(1), count(1), count()
        self.waiting: list[tuple[int, int, Step]] = []
        self.cast = list(everybody(plan))
        for person in self.cast:
            person.cards = tuple(tokens.token(number) for number in person.card_numbers)
        # The first only carries a phone about; the next tenth stays at home until a spree needs a new customer.
        newcomers = 1 + len(self.cast) // 10
        self.walker = self.cast[0]
        self.newcomers = deque(self.cast[1:newcomers])
        self.rested = [(0, next(self.turns), person) for person in self.cast[newcomers:]]

    def messages(self) -> Iterator[Message]:
        """One message for each moment of the plan."""
        events, end_ms = self.plan.events, self.plan.due_ms(self.plan.events)
        for position in range(events):
            now_ms, room = self.plan.due_ms(position), events - position - len(self.waiting)
            if room > 0 and not (self.waiting and self.waiting[0][0] <= now_ms):
                for step in self.episode(now_ms, end_ms - now_ms, room):
                    self.plan_step(step)
                    room -= 1
            _, _, step = heapq.heappop(self.waiting)
            self.maybe_again(step, now_ms, end_ms, room)
            yield self.sealed(step, now_ms)

    def plan_step(self, step: Step) -> None:
        heapq.heappush(self.waiting, (step.due_ms, next(self.turns), step))

    def sealed(self, step: Step, now_ms: int) -> Message:
        content = step.content
        if isinstance(content, Mapping):
            return message(now_ms, step.topic, step.key, {**content, "sent_ms": self.start_ms + now_ms}, step.label)
        return Message(now_ms, step.topic, step.key.encode(), content, step.label)

    def maybe_again(self, step: Step, now_ms: int, end_ms: int, room: int) -> None:
        """Now and then a purchase that was sent is sent once more, at once or later."""
        is_purchase = step.topic == transactions.name and step.label.refusal is None
        if not (is_purchase and room > 0 and self.rng.random() < self.plan.shares["duplicates"]):
            return
        later_ms = self.rng.choice((0, 0, 40, 900, 3_000, 12_000))
        due_ms = now_ms + (later_ms if now_ms + later_ms < end_ms - 500 else 0)
        label = Label("duplicate", step.label.episode, (), "duplicate")
        self.plan_step(Step(due_ms, step.topic, step.key, step.content, label))

    def episode(self, now_ms: int, left_ms: int, room: int) -> list[Step]:
        """The steps of the next episode, the first of them due now."""
        story = self.draw()
        if story is not None and story.lasts_ms + 500 <= left_ms and story.steps <= room:
            steps = story.play(self, now_ms)
            if steps:
                return _begun(steps, now_ms)
        return _everyday(self, now_ms, left_ms, room)

    def draw(self) -> _Story | None:
        shares, drawn = self.plan.shares, self.rng.random()
        for share, stories in (
            (shares["poison"], _POISONS),
            (shares["frauds"], _FRAUDS),
            (shares["edges"], _EDGES),
            (shares["races"], _RACES),
            (shares["late"], _LATES),
        ):
            if drawn < share:
                return self.rng.choice(stories)
            drawn -= share
        return None

    def idle_person(
        self, now_ms: int, lasts_ms: int, fits: Callable[[Person], bool], rest_ms: int = REST_MS
    ) -> Person | None:
        """One of the people who have been idle longest; idle again after the episode."""
        passed_over: list[tuple[int, int, Person]] = []
        found = None
        while self.rested and self.rested[0][0] <= now_ms and len(passed_over) < 20 and found is None:
            entry = heapq.heappop(self.rested)
            if fits(entry[2]):
                found = entry[2]
            else:
                passed_over.append(entry)
        for entry in passed_over:
            heapq.heappush(self.rested, entry)
        if found is not None:
            self.rest(found, now_ms + lasts_ms, rest_ms)
        return found

    def newcomer(self, now_ms: int, lasts_ms: int) -> Person | None:
        """A person without purchases in the last two minutes."""
        if not self.newcomers:
            return self.idle_person(now_ms, lasts_ms, lambda p: now_ms - p.shopped_ms > SPREE_REST_MS, SPREE_REST_MS)
        person = self.newcomers.popleft()
        self.rest(person, now_ms + lasts_ms, SPREE_REST_MS)
        return person

    def rest(self, person: Person, end_ms: int, rest_ms: int) -> None:
        """Keep a person out of other episodes until some time after the end of this one."""
        person.busy_ms = person.shopped_ms = end_ms
        heapq.heappush(self.rested, (end_ms + rest_ms, next(self.turns), person))

    def purchase(
        self, person: Person, at_ms: int, label: Label, due_ms: int, but: Mapping[str, Any] | None = None
    ) -> Step:
        """A purchase as this person makes it, but for the fields given."""
        rng = self.rng
        cents = person.highest_cents if not person.has_bought else rng.randint(100, person.highest_cents)
        content = {
            "transaction_id": f"{self.plan.name}-t{next(self.numbers):08d}",
            "customer": person.name,
            "card": person.cards[0],
            "merchant": rng.choice(person.usual),
            "amount_cents": cents,
            **coordinates(self.near(person.place)),
            "at_ms": self.start_ms + at_ms,
            **(but or {}),
        }
        person.has_bought = True
        person.highest_cents = max(person.highest_cents, content["amount_cents"])
        return Step(due_ms, transactions.name, person.name, content, label)

    def report(
        self, person: Person, due_ms: int, label: Label, *, at_ms: int | None = None, exact: bool = False
    ) -> Step:
        """Report the place of a phone."""
        happened_ms = due_ms - self.rng.randint(5, 150) if at_ms is None else at_ms
        place = person.place if exact else self.near(person.place)
        content = {"customer": person.name, **coordinates(place), "at_ms": self.start_ms + happened_ms}
        return Step(due_ms, device_locations.name, person.name, content, label)

    def near(self, place: Place) -> Place:
        """Somewhere within 250 m."""
        metres, angle = self.rng.uniform(0, 250), self.rng.uniform(0, math.tau)
        return moved(place, metres * math.cos(angle), metres * math.sin(angle))

    def elsewhere(self, place: Place) -> Place:
        """Somewhere at least 2 km away: about town or in another city."""
        if self.rng.random() < 0.5:
            return moved(place, self.rng.uniform(2_000, 30_000), 0)
        others = [city for city in CITIES if abs(city[1] - place[0]) > 1]
        return self.rng.choice(others)[1:]

    def delay_ms(self, often_long: bool = False) -> int:
        """How long a purchase is under way: never as long as the stated disorder."""
        is_long = self.rng.random() < (0.3 if often_long else 0.05)
        return self.rng.randint(200, 1_500) if is_long else self.rng.randint(5, 150)

    def label(self, kind: str, *alerts: str) -> Label:
        return Label(kind, next(self.episodes), alerts)


@dataclass(frozen=True)
class Step:
    """One message of an episode, to be sent when it is due."""

    due_ms: int
    topic: str
    key: str
    content: Mapping[str, Any] | bytes | None
    label: Label


@dataclass(frozen=True)
class _Story:
    """An episode, with the time and the number of messages that it needs."""

    play: Callable[[Stage, int], list[Step] | None]
    lasts_ms: int
    steps: int


def _everyday(stage: Stage, now_ms: int, left_ms: int, room: int) -> list[Step]:
    """People buy at their usual merchants near their phones, and phones report their places."""
    if stage.rng.random() < 0.6:
        person = stage.idle_person(now_ms, PHONE_LEAD_MS, lambda person: True)
        if person is not None:
            label = stage.label("everyday")
            first_of_all = person.has_phone and not person.has_bought
            if first_of_all and left_ms > PHONE_LEAD_MS + 500 and room > 1:
                later_ms = now_ms + PHONE_LEAD_MS
                return [stage.report(person, now_ms, label), stage.purchase(person, later_ms, label, later_ms)]
            return [stage.purchase(person, now_ms - stage.delay_ms(), label, now_ms)]
    passers_by = (stage.rng.choice(stage.cast) for _ in range(20))
    person = next((p for p in passers_by if p.has_phone and p.busy_ms + PHONE_LEAD_MS < now_ms), stage.walker)
    return [stage.report(person, now_ms, stage.label("phone"))]


def _has_phone(person: Person) -> bool:
    return person.has_phone and person.highest_cents < 10_000_000


def _has_bought(person: Person) -> bool:
    return person.has_bought and person.highest_cents < 10_000_000


def _burst(most: int, gap_ms_most: int) -> _Story:
    """Several purchases in quick succession, which may overtake one another on their way."""
    lasts_ms = (most - 1) * gap_ms_most

    def play(stage: Stage, now_ms: int) -> list[Step] | None:
        person = stage.idle_person(now_ms, lasts_ms, _has_bought)
        if person is None:
            return None
        label = stage.label("burst", burst.name)
        at_ms, steps = now_ms, []
        for _ in range(stage.rng.randint(2, most)):
            steps.append(stage.purchase(person, at_ms, label, at_ms + stage.delay_ms(often_long=True)))
            at_ms += stage.rng.randint(200, gap_ms_most)
        return _labelled_at_once(steps)

    return _Story(play, lasts_ms + 1_500, most)


def _begun(steps: Sequence[Step], now_ms: int) -> list[Step]:
    """The steps of an episode so much earlier that the first of them is due now: none is sent before it happens."""
    early_ms = min(step.due_ms for step in steps) - now_ms

    def begun(step: Step) -> Step:
        if not isinstance(step.content, Mapping):
            return step
        content = {**step.content, "at_ms": step.content["at_ms"] - early_ms}
        return replace(step, due_ms=step.due_ms - early_ms, content=content)

    return list(map(begun, steps))


def _labelled_at_once(purchases: Sequence[Step]) -> list[Step]:
    """A person's purchases in the order of arrival; each within ten seconds of an earlier one has the label too."""
    labelled, newest_ms = [], -math.inf
    for step in sorted(purchases, key=lambda step: step.due_ms):
        at_ms = step.content["at_ms"] if isinstance(step.content, Mapping) else -math.inf
        is_soon = abs(at_ms - newest_ms) <= GAP_MS
        alerts = (*step.label.alerts, *((burst_at_once.name,) if is_soon else ()))
        labelled.append(replace(step, label=replace(step.label, alerts=alerts)))
        newest_ms = max(newest_ms, at_ms)
    return labelled


def _play_above(stage: Stage, now_ms: int) -> list[Step] | None:
    """A purchase larger than any before."""
    person = stage.idle_person(now_ms, 0, _has_bought)
    if person is None:
        return None
    cents = int(person.highest_cents * stage.rng.uniform(1.2, 3.0)) + 1
    label = stage.label("above", above_previous_max.name)
    return [stage.purchase(person, now_ms - stage.delay_ms(), label, now_ms, {"amount_cents": cents})]


def _play_away(stage: Stage, now_ms: int) -> list[Step] | None:
    """The phone is here and the card somewhere else, now and then for more money than ever."""
    person = stage.idle_person(now_ms, PHONE_LEAD_MS, _has_phone)
    if person is None:
        return None
    at_ms, is_greedy = now_ms + PHONE_LEAD_MS, person.has_bought and stage.rng.random() < 0.2
    alerts = (away_from_phone.name, *((above_previous_max.name,) if is_greedy else ()))
    label = stage.label("away", *alerts)
    first = stage.report(person, now_ms, Label(label.kind, label.episode))
    there = coordinates(stage.near(stage.elsewhere(person.place)))
    more = {"amount_cents": person.highest_cents * 2} if is_greedy else {}
    return [first, stage.purchase(person, at_ms, label, at_ms, {**there, **more})]


def _spree(offsets_ms: Sequence[int], *fifth: str, each: tuple[str, ...] = ()) -> _Story:
    """Five merchants at these times, the fifth of which sets off these rules."""

    def play(stage: Stage, now_ms: int) -> list[Step] | None:
        person = stage.newcomer(now_ms, offsets_ms[-1])
        if person is None:
            return None
        number = next(stage.episodes)
        shops = stage.rng.sample([name for name in SHOPS if name not in person.usual], 5)
        steps = []
        for position, (shop, offset_ms) in enumerate(zip(shops, offsets_ms, strict=True)):
            label = Label("spree", number, (*each, *(fifth if position == 4 else ())))
            at_ms = now_ms + offset_ms
            # All take equally long, so the fifth to be sent is the fifth to arrive.
            steps.append(stage.purchase(person, at_ms, label, at_ms + 20, {"merchant": shop}))
        return _labelled_at_once(steps)

    return _Story(play, offsets_ms[-1] + 20, 5)


def _pair(gap_ms: int, count: int, *alerts: str) -> _Story:
    """Purchases exactly so far apart."""

    def play(stage: Stage, now_ms: int) -> list[Step] | None:
        person = stage.idle_person(now_ms, gap_ms * (count - 1), _has_bought)
        if person is None:
            return None
        label = stage.label(f"{count} purchases {gap_ms} ms apart", *alerts)
        times = [now_ms + gap_ms * position for position in range(count)]
        return _labelled_at_once([stage.purchase(person, at_ms, label, at_ms + stage.delay_ms()) for at_ms in times])

    return _Story(play, gap_ms * (count - 1) + 1_500, count)


def _play_two_cards(stage: Stage, now_ms: int) -> list[Step] | None:
    """Two purchases in quick succession with different cards: each card's is no burst."""
    person = stage.idle_person(now_ms, 3_000, lambda p: _has_bought(p) and len(p.cards) > 1)
    if person is None:
        return None
    label = stage.label("two cards")
    times = (now_ms, now_ms + 3_000)
    return _labelled_at_once(
        [
            stage.purchase(person, at_ms, label, at_ms, {"card": card})
            for at_ms, card in zip(times, person.cards, strict=True)
        ]
    )


def _amount(kind: str, more_cents: int, *alerts: str) -> _Story:
    """A purchase of exactly the largest amount so far, or so many cents more."""

    def play(stage: Stage, now_ms: int) -> list[Step] | None:
        person = stage.idle_person(now_ms, 0, _has_bought)
        if person is None:
            return None
        cents = person.highest_cents + more_cents
        return [stage.purchase(person, now_ms, stage.label(kind, *alerts), now_ms, {"amount_cents": cents})]

    return _Story(play, 0, 1)


def _distance(kind: str, metres: float, *alerts: str) -> _Story:
    """A purchase so far from the phone; 15 m clear of the kilometre, so that rounding decides nothing."""

    def play(stage: Stage, now_ms: int) -> list[Step] | None:
        person = stage.idle_person(now_ms, PHONE_LEAD_MS, _has_phone)
        if person is None:
            return None
        label = stage.label(kind, *alerts)
        first = stage.report(person, now_ms, Label(label.kind, label.episode), exact=True)
        there, at_ms = coordinates(moved(person.place, metres, 0)), now_ms + PHONE_LEAD_MS
        return [first, stage.purchase(person, at_ms, label, at_ms, there)]

    return _Story(play, PHONE_LEAD_MS, 2)


def _age(kind: str, age_ms: int, *alerts: str) -> _Story:
    """A purchase far from where the phone was exactly so long before."""

    def play(stage: Stage, now_ms: int) -> list[Step] | None:
        person = stage.idle_person(now_ms, PHONE_LEAD_MS, _has_phone)
        if person is None:
            return None
        label = stage.label(kind, *alerts)
        at_ms = now_ms + PHONE_LEAD_MS
        first = stage.report(person, now_ms, Label(label.kind, label.episode), at_ms=at_ms - age_ms)
        return [first, stage.purchase(person, at_ms, label, at_ms, coordinates(stage.elsewhere(person.place)))]

    return _Story(play, PHONE_LEAD_MS, 2)


def _play_no_phone(stage: Stage, now_ms: int) -> list[Step] | None:
    """A customer whose phone has never reported cannot be away from it."""
    person = stage.idle_person(now_ms, 0, lambda p: _has_bought(p) and not p.has_phone)
    if person is None:
        return None
    there = coordinates(stage.elsewhere(person.place))
    return [stage.purchase(person, now_ms - stage.delay_ms(), stage.label("no phone"), now_ms, there)]


def _play_trip(stage: Stage, now_ms: int) -> list[Step] | None:
    """Phone and card travel together."""
    person = stage.idle_person(now_ms, PHONE_LEAD_MS, _has_phone)
    if person is None:
        return None
    label = stage.label("trip")
    person.place = stage.elsewhere(person.place)
    at_ms = now_ms + PHONE_LEAD_MS
    return [stage.report(person, now_ms, label), stage.purchase(person, at_ms, label, at_ms)]


def _play_race(stage: Stage, now_ms: int) -> list[Step] | None:
    """A report and a purchase from a new place at one moment: which arrives first decides, and either may."""
    person = stage.idle_person(now_ms, 100, _has_phone)
    if person is None:
        return None
    label = stage.label(RACE)
    person.place = stage.elsewhere(person.place)
    both = [stage.report(person, now_ms, label, at_ms=now_ms - 20), stage.purchase(person, now_ms - 10, label, now_ms)]
    return stage.rng.sample(both, 2)


def _play_late(stage: Stage, now_ms: int) -> list[Step] | None:
    """A purchase that was an hour under way: accepted, but too late for any window."""
    # Not directly after a spree: that rule compares with the newest time of the key, which would still be the spree's.
    person = stage.idle_person(now_ms, 0, lambda p: _has_bought(p) and now_ms - p.shopped_ms < SPREE_REST_MS)
    if person is None:
        return None
    return [stage.purchase(person, now_ms - LATE_MS, stage.label("late"), now_ms)]


def _poison(poison: Poison) -> _Story:
    """A valid event of any customer, damaged before it is sent."""

    def play(stage: Stage, now_ms: int) -> list[Step]:
        person = stage.rng.choice(stage.cast)
        event = {"customer": person.name, **coordinates(person.place), "at_ms": stage.start_ms + now_ms}
        event["sent_ms"] = stage.start_ms + now_ms
        if poison.topic == transactions.name:
            event["transaction_id"] = f"{stage.plan.name}-t{next(stage.numbers):08d}"
            event |= {"card": person.cards[0], "merchant": person.usual[0], "amount_cents": person.highest_cents * 9}
        label = Label(f"poison: {poison.name}", next(stage.episodes), (), poison.reason)
        return [Step(now_ms, poison.topic, person.name, poison.spoil(event), label)]

    return _Story(play, 0, 1)


_POISONS = tuple(_poison(poison) for poison in POISON)
_FRAUDS = (
    _burst(5, 9_500),
    _burst(3, 1_500),
    _Story(_play_above, 0, 1),
    _Story(_play_away, PHONE_LEAD_MS, 2),
    _spree((0, 900, 2_300, 3_100, 5_000), spree.name, each=(burst.name,)),
    _spree((0, 11_300, 23_500, 35_000, 47_100), spree.name),
)
_EDGES = (
    _pair(GAP_MS - 1, 2, burst.name),
    _pair(GAP_MS, 2, burst.name),
    _pair(GAP_MS, 3, burst.name),
    _pair(GAP_MS + 1, 2),
    _Story(_play_two_cards, 3_000, 2),
    _amount("the same amount again", 0),
    _amount("one cent more", 1, above_previous_max.name),
    _distance("985 m from the phone", 985),
    _distance("1015 m from the phone", 1_015, away_from_phone.name),
    _age("phone seen 15 minutes before", FRESH_MS, away_from_phone.name),
    _age("phone seen 15 minutes and 1 ms before", FRESH_MS + 1),
    _Story(_play_no_phone, 0, 1),
    _Story(_play_trip, PHONE_LEAD_MS, 2),
    _spree((0, 30_000, 60_000, 90_000, 2 * MINUTE_MS), spree.name),
    _spree((0, 30_000, 60_000, 90_000, 2 * MINUTE_MS + 1)),
)
_RACES = (_Story(_play_race, 100, 2),)
_LATES = (_Story(_play_late, 0, 1),)
