"""Everyday requests with attacks, late requests and garbage among them; nothing here reads a clock.

No everyday request sets off a rule: of all everyday requests in a window together, at most as many are refused as a
rule tolerates from one ip.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from millrace.traffic import Label

from ..events import HOUR_MS, REFUSED
from ..rules import HARMLESS, WINDOW_MS
from .attacks import Siege, Step
from .pace import Window
from .poison import Poison
from .visitors import STATUSES, Document, Public, Visitor, documents

LATE_MS = HOUR_MS
DELAY_MS_MOST = 800
"""So long is a request under way; with an attack's own delays that stays below the stated disorder."""
_OFTEN_MS, _ARRIVALS = 150, 512

EVERYDAY, LATE = Label("everyday"), Label("late")


class Request(NamedTuple):
    """A request, before it is written as a message or as a line of a log."""

    sent_ms: int
    visitor: Visitor
    document: Document
    code: int
    at_ms: int
    label: Label
    poison: Poison | None = None


def requests(
    seed: int,
    everybody: Public,
    siege: Siege,
    windows: Iterable[Window],
    shares: Mapping[str, float],
    poisons: Sequence[Poison],
    *,
    in_order: bool = False,
) -> Iterator[Request]:
    """One request for each moment; where they are in order, each happens the moment it is sent."""
    rng = random.Random(f"requests {seed}")
    delays_ms = [0 if in_order else _delay_ms(rng) for _ in range(_ARRIVALS)]
    archive = documents(seed)
    statuses, weights = list(STATUSES), list(STATUSES.values())
    accidents = Accidents(rng, shares, poisons, max(delays_ms))
    pending: dict[int, list[Step]] = defaultdict(list)
    before: Request | None = None
    for window in windows:
        for step in siege.begin(window):
            pending[step.place_ms // WINDOW_MS * WINDOW_MS].append(step)
        moments = window.times_ms
        placed = _placed(pending.pop(window.begin_ms, []), window)
        drawn = zip(
            moments,
            everybody.drawn(window.begin_ms, rng, len(moments)),
            rng.choices(archive, k=len(moments)),
            rng.choices(statuses, weights, k=len(moments)),
            rng.choices(delays_ms, k=len(moments)),
            (rng.random() < accidents.share for _ in moments),
            strict=True,
        )
        for slot, (sent_ms, visitor, document, code, delay_ms, is_accident) in enumerate(drawn):
            if slot in placed:
                step = placed[slot]
                at_ms = sent_ms if in_order else _happened_ms(step, window.begin_ms, sent_ms, delay_ms)
                document = archive[step.label.episode % len(archive)]
                yield Request(sent_ms, step.visitor, document, step.code, at_ms, step.label)
                continue
            request = Request(sent_ms, visitor, document, code, sent_ms - delay_ms, EVERYDAY)
            if is_accident:
                yield accidents.befall(request, before or request)
            else:
                yield request
                before = request


class Accidents:
    """What becomes of an everyday request now and then."""

    def __init__(
        self, rng: random.Random, shares: Mapping[str, float], poisons: Sequence[Poison], delay_ms: int
    ) -> None:
        self.rng, self.poisons, self.delay_ms = rng, poisons, delay_ms
        self.kinds = ("poison", "late", "refused", "again")
        self.shares = [shares[kind] for kind in self.kinds]
        self.share = sum(self.shares)
        self.refusals: dict[int, int] = {}
        """By window, the last few of them."""

    def befall(self, request: Request, before: Request) -> Request:
        """The request, as one of the accidents leaves it; `before` is the everyday request before it."""
        match self.rng.choices(self.kinds, self.shares)[0]:
            case "poison":
                poison = self.rng.choice(self.poisons)
                return request._replace(label=poison.label, poison=poison)
            case "late":
                return request._replace(at_ms=request.sent_ms - LATE_MS, label=LATE)
            case "again" if request.sent_ms - before.at_ms <= self.delay_ms:
                return before._replace(sent_ms=request.sent_ms)
            case "refused":
                return self.refused(request)
        return request

    def refused(self, request: Request) -> Request:
        """The request, refused unless its window has enough refusals."""
        window = request.at_ms // WINDOW_MS
        refusals = self.refusals.get(window, 0)
        if refusals == HARMLESS:
            return request
        self.refusals = {past: n for past, n in self.refusals.items() if past >= window - 1} | {window: refusals + 1}
        return request._replace(code=self.rng.choice(REFUSED))


def _happened_ms(step: Step, window_ms: int, sent_ms: int, delay_ms: int) -> int:
    """The time of an attack's request: in its window, however long it was under way."""
    if step.at_ms is not None:
        return step.at_ms
    return max(window_ms, sent_ms - (delay_ms if step.delay_ms is None else step.delay_ms))


def _placed(steps: Sequence[Step], window: Window) -> dict[int, Step]:
    """The moment of each step: the first free one that is not before its place, in the order of the places."""
    moments = len(window.times_ms)
    assert len(steps) <= moments, f"{len(steps)} requests of attacks have {moments} moments"
    placed: dict[int, Step] = {}
    slot = -1
    for left, step in zip(range(len(steps), 0, -1), sorted(steps, key=lambda step: step.place_ms), strict=True):
        wanted = (step.place_ms - window.begin_ms) * moments // WINDOW_MS
        slot = min(max(slot + 1, wanted), moments - left)
        placed[slot] = step
    return placed


def _delay_ms(rng: random.Random) -> int:
    is_long = rng.random() < 0.05
    return rng.randint(_OFTEN_MS, DELAY_MS_MOST) if is_long else rng.randint(1, _OFTEN_MS)
