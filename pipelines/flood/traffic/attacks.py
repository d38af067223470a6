"""Attacks: floods of refused log-ins, each with the windows in which each rule must alert for it.

An attack is played in one of two places. Alone: in the group without everyday visitors, one attack at a time. Among
others: in any other group, and another visitor of the group is served in each window of the attack.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from millrace.traffic import Label

from ..events import REFUSED
from ..groups import group_of
from ..rules import WINDOW_MS, flood_group, flood_ip
from .pace import Window
from .visitors import Visitor, attackers, is_quiet

ROOM = 0.25
"""Attacks take at most this part of a window's requests: then none is sent more than 750 ms after its time."""
UNAUTHORISED, FORBIDDEN = REFUSED
SERVED = 200


@dataclass(frozen=True)
class Shot:
    """One request of an attack."""

    place: float
    """When it is sent: 0 is the begin of the attack's first window, 1.5 the middle of its second."""
    code: int = UNAUTHORISED
    source: int = 0
    """Which of the attack's ips."""
    at_ms: int | None = None
    """Its own time, from the begin of the first window; None: shortly before it is sent."""
    delay_ms: int | None = None
    """How long it was under way; None: as any request."""


@dataclass(frozen=True)
class Attack:
    """A kind of attack."""

    name: str
    shots: tuple[Shot, ...]
    by_ip: tuple[int, ...] = ()
    """The windows for which `flood-ip` must alert, the first is 0."""
    by_group: tuple[int, ...] = ()
    """The windows for which `flood-group` must alert where the attack is alone in its group."""

    @cached_property
    def sources(self) -> int:
        """How many ips it comes from."""
        return 1 + max(shot.source for shot in self.shots)

    @cached_property
    def sizes(self) -> Counter[int]:
        """The requests in each window."""
        return Counter(int(shot.place) for shot in self.shots)


def _shots(count: int, begin: float = 0.05, end: float = 0.95, codes: Iterable[int] = (UNAUTHORISED,)) -> list[Shot]:
    """So many shots, evenly over a span."""
    given = list(codes)
    return [Shot(begin + (end - begin) * n / count, given[n % len(given)]) for n in range(count)]


def _from(sources: int, shots: Iterable[Shot]) -> list[Shot]:
    """The shots, by each of so many ips in turn."""
    return [Shot(shot.place, shot.code, n % sources) for n, shot in enumerate(shots)]


def _attack(name: str, shots: Iterable[Shot], by_ip: tuple[int, ...] = (), by_group: tuple[int, ...] = ()) -> Attack:
    return Attack(name, tuple(shots), by_ip, by_group)


_LAST_MS = WINDOW_MS - 1

ATTACKS = (
    _attack("31 refused", _shots(31), (0,), (0,)),
    _attack("300 refused", _shots(300), (0,), (0,)),
    _attack("30 refused", _shots(30)),
    _attack("31, one of them served", _shots(31, codes=[SERVED, *[UNAUTHORISED] * 30])),
    _attack("31 refused and one served", [*_shots(31), Shot(0.5, SERVED)]),
    _attack("401 and 403 mixed", _shots(31, codes=REFUSED), (0,), (0,)),
    _attack("40, half before the edge", [*_shots(20, 0.8, 1.0), *_shots(20, 1.0, 1.2)]),
    _attack("40, 31 before the edge", [*_shots(31, 0.7, 1.0), *_shots(9, 1.0, 1.2)], (0,), (0,)),
    _attack(
        "31 from the first to the last millisecond",
        [Shot(0, at_ms=0), *_shots(29), Shot(0.9999, at_ms=_LAST_MS)],
        (0,),
        (0,),
    ),
    _attack("the 31st one millisecond later", [Shot(0, at_ms=0), *_shots(29), Shot(1, at_ms=WINDOW_MS)]),
    _attack("31 in one millisecond", [Shot(0.5, at_ms=WINDOW_MS // 2)] * 31, (0,), (0,)),
    _attack("from 50 ips", _from(50, _shots(50)), (), (0,)),
    _attack(
        "from two ips, the older request last",
        [*_from(2, _shots(31, end=0.5)), Shot(0.5, source=0, delay_ms=0), Shot(0.5, source=1, delay_ms=300)],
        (),
        (0,),
    ),
    _attack("slow", [shot for window in range(4) for shot in _shots(10, window, window + 0.99)]),
)


@dataclass(frozen=True)
class Step:
    """A shot, cast: who sends it, when and with which label."""

    place_ms: int
    """When it is to be sent, if nothing else is due."""
    visitor: Visitor
    code: int
    at_ms: int | None
    delay_ms: int | None
    label: Label


class Siege:
    """Casts one attack after the other, window by window, as many as a share of the requests allows."""

    def __init__(
        self, seed: int, groups: int, share: float, everyday: Iterable[Visitor], *, room: float = ROOM
    ) -> None:
        self.rng = random.Random(f"attacks {seed}")
        self.groups, self.share, self.room = groups, share, room
        self.by_group: dict[int, list[Visitor]] = defaultdict(list)
        for visitor in everyday:
            self.by_group[visitor.group].append(visitor)
        self.ips = attackers()
        self.places = [True, False] if groups > 1 else [False]
        """Alone or not, in turn: first the place of the next attack."""
        self.waiting = {alone: self.rng.sample(ATTACKS, len(ATTACKS)) for alone in self.places}
        self.quiet = self._quiet_visitors() if groups > 1 and share else []
        self.quiet_until_ms = 0
        self.credit, self.episodes = 0.0, 0
        self.taken: Counter[int] = Counter()

    def begin(self, window: Window) -> Iterator[Step]:
        """The steps of the attacks that begin in this window; each ends before the traffic does."""
        self.credit += self.share * len(window.times_ms)
        for past_ms in [begin_ms for begin_ms in self.taken if begin_ms < window.begin_ms]:
            del self.taken[past_ms]
        while self.credit > 0 and (found := self._next(window)):
            attack, alone = found
            self.credit -= len(attack.shots)
            yield from self._cast(attack, alone, window.begin_ms)

    def _next(self, window: Window) -> tuple[Attack, bool] | None:
        """The attack and its place whose turn it is, among those that fit now."""
        for alone in tuple(self.places):
            waiting = self.waiting[alone]
            for attack in tuple(waiting):
                if self._fits(attack, alone, window):
                    waiting.remove(attack)
                    waiting.append(attack)
                    self.places.remove(alone)
                    self.places.append(alone)
                    return attack, alone
        return None

    def _fits(self, attack: Attack, alone: bool, window: Window) -> bool:
        """Whether there is time for the attack, room in its windows and, where it is alone, no other visitor."""
        sizes = self._sizes(attack, alone)
        return (
            window.left_ms >= WINDOW_MS * len(sizes)
            and not (alone and window.begin_ms < self.quiet_until_ms)
            and all(
                self.taken[window.begin_ms + WINDOW_MS * n] + size <= len(window.times_ms) * self.room
                for n, size in sizes.items()
            )
        )

    def _sizes(self, attack: Attack, alone: bool) -> dict[int, int]:
        others = 0 if alone else attack.sources
        return {n: size + others for n, size in attack.sizes.items()}

    def _cast(self, attack: Attack, alone: bool, begin_ms: int) -> list[Step]:
        self.episodes += 1
        windows = sorted(attack.sizes)
        for n, size in self._sizes(attack, alone).items():
            self.taken[begin_ms + WINDOW_MS * n] += size
        if alone:
            self.quiet_until_ms = begin_ms + WINDOW_MS * len(windows)
        visitors = self.quiet[: attack.sources] if alone else [self._attacker() for _ in range(attack.sources)]
        kind = f"{attack.name}, {'alone' if alone else 'among others'}"
        labels = {n: Label(kind, self.episodes, _rules(attack, alone, n)) for n in windows}
        steps = [
            Step(
                begin_ms + int(WINDOW_MS * shot.place),
                visitors[shot.source],
                shot.code,
                None if shot.at_ms is None else begin_ms + shot.at_ms,
                shot.delay_ms,
                labels[int(shot.place)],
            )
            for shot in attack.shots
        ]
        if not alone:
            steps += self._served(visitors, begin_ms, windows, Label(kind, self.episodes))
        return steps

    def _served(self, visitors: list[Visitor], begin_ms: int, windows: list[int], label: Label) -> Iterator[Step]:
        """Another visitor in each group of the attack, which is served in each of its windows."""
        for group in sorted({visitor.group for visitor in visitors}):
            for n in windows:
                at_ms = begin_ms + WINDOW_MS * n + WINDOW_MS // 3
                yield Step(at_ms, self.rng.choice(self.by_group[group]), SERVED, None, None, label)

    def _attacker(self) -> Visitor:
        """Somebody new, in a group of everyday visitors."""
        for ip in self.ips:
            group = group_of(ip, self.groups)
            if self.by_group.get(group):
                return Visitor(ip, group, self.rng)
        raise AssertionError("the ips of attackers are endless")

    def _quiet_visitors(self) -> list[Visitor]:
        found = ((ip, group) for ip in self.ips if is_quiet(group := group_of(ip, self.groups), self.groups))
        return [Visitor(ip, group, self.rng) for ip, group in islice(found, max(a.sources for a in ATTACKS))]


def _rules(attack: Attack, alone: bool, window: int) -> tuple[str, ...]:
    by_ip = (flood_ip.name,) if window in attack.by_ip else ()
    return (*by_ip, flood_group.name) if alone and window in attack.by_group else by_ip
