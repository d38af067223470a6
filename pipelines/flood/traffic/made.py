"""The traffic of the flood use: the messages of a plan, and what each attack must set off."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.flood import edgar
from pipelines.flood.events import SECOND_MS, requests
from pipelines.flood.groups import GROUPS, GROUPS_MOST
from pipelines.flood.shapes import CLOSING, Columns, Label, Message, Plan, Share, Size
from pipelines.flood.traffic import stage
from pipelines.flood.traffic.attacks import Expected, Siege
from pipelines.flood.traffic.pace import steady
from pipelines.flood.traffic.poison import POISON
from pipelines.flood.traffic.stage import SHARES, Request
from pipelines.flood.traffic.visitors import Public, Visitor, closers, documents, public

SIZES = {"groups": Size(GROUPS, "groups of ips, each a key of the topic", GROUPS_MOST)}


@dataclass(frozen=True)
class FloodTraffic:
    """Everyday requests with attacks among them; a plan gives the shares, and the number of groups.

    An attack takes a fourth of the requests at most: those of 31 need 42 requests a second, those of 300 need 400.
    """

    shares: Mapping[str, Share] = field(default_factory=lambda: SHARES)
    sizes: Mapping[str, Size] = field(default_factory=lambda: SIZES)
    ambiguous: tuple[str, ...] = ()
    slack_ms: int = 100

    def references(self, plan: Plan, also: Sequence[str]) -> Iterator[Message]:
        """Nothing: requests stand for themselves."""
        return iter(())

    def messages(self, plan: Plan, secrets: Mapping[str, object], start_ms: int) -> Iterator[Message]:
        """The plan's messages in the order of their sending; `start_ms` is the time at which the first is due."""
        everybody, shares = public(plan.seed, _groups(plan)), _shares(plan)
        siege, windows = _siege(plan, everybody), steady(plan, start_ms)
        for request in stage.requests(plan.seed, everybody, siege, windows, shares, POISON):
            yield _message(request, start_ms)

    def expected(self, plan: Plan, start_ms: int) -> Iterator[Expected]:
        """Every window that an attack touches, by rule and key, and whether the rule must alert for it."""
        siege = _siege(plan, public(plan.seed, _groups(plan)))
        for window in steady(plan, start_ms):
            for episode in siege.begin(window):
                yield from episode.expected

    def closing_key(self, plan: Plan, number: int) -> str:
        """A group, also beyond the plan's: there may be more partitions than groups."""
        return str(number)

    def closing(
        self, plan: Plan, secrets: Mapping[str, object], start_ms: int, keys: Sequence[str], for_ms: int
    ) -> Iterator[Message]:
        """A served request in each of these groups every second after the traffic."""
        rng = random.Random("closing")
        document = documents(plan.seed)[0]
        visitors = [Visitor(ip, int(key), rng) for ip, key in zip(closers(), keys, strict=False)]
        end_ms = plan.due_ms(plan.events)
        for second in range(1, math.ceil(for_ms / SECOND_MS) + 1):
            sent_ms = start_ms + end_ms + second * SECOND_MS
            for visitor in visitors:
                request = Request(sent_ms, visitor, document, 200, sent_ms, Label(CLOSING))
                yield _message(request, start_ms)

    def columns(self, plan: Plan) -> Columns:
        """How recorded logs are read."""
        return edgar.columns(_groups(plan))


def _message(request: Request, start_ms: int) -> Message:
    sent_ms, visitor, document, code, at_ms, label, poison = request
    value = (
        f'{visitor.json}{document.json}"code":{code},"size":{document.answered(code)},'
        f'"at_ms":{at_ms},"sent_ms":{sent_ms}}}'
    ).encode()
    spoilt = poison.spoil(value) if poison else value
    return Message(sent_ms - start_ms, requests.name, visitor.key, spoilt, label)


def _siege(plan: Plan, everybody: Public) -> Siege:
    return Siege(plan.seed, _groups(plan), _shares(plan)["attack"], everybody.visitors)


def _groups(plan: Plan) -> int:
    return plan.sizes.get("groups", GROUPS)


def _shares(plan: Plan) -> dict[str, float]:
    return {name: plan.shares.get(name, share.default) for name, share in SHARES.items()}
