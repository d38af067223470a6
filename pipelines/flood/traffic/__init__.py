"""Made-up requests that know what they are: everyday ones, attacks of every kind, late ones and garbage."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence

from millrace.traffic import CLOSING, Columns, Label, Message, Share, Size, TrafficPlan

from .. import edgar
from ..events import MINUTE_MS, SECOND_MS, requests
from ..groups import GROUPS, GROUPS_MOST
from . import stage
from .attacks import Siege
from .pace import steady
from .poison import POISON
from .stage import Request
from .visitors import Public, Visitor, closers, documents, public

__all__ = ["TRAFFIC", "FloodTraffic"]


class FloodTraffic:
    """Everyday requests with attacks among them; these take a fourth of any window's requests at most."""

    shares: Mapping[str, Share] = {
        "attacks": Share(
            0.02,
            "Share of requests that belong to attacks. A flood of 31 requests needs a rate of 43 a second, one of 300 "
            "a rate of 402.",
            0.2,
        ),
        "poison": Share(0.005, "Share of messages that are malformed or invalid; each must become a dead letter."),
        "late": Share(0.0005, "Share of requests that arrive an hour late: no window counts them.", 0.1),
        "refused": Share(0.003, "Share of everyday requests that are refused log-ins, at most 30 in a window.", 0.05),
        "again": Share(0.01, "Share of everyday requests that are sent twice: both count."),
    }
    sizes: Mapping[str, Size] = {"groups": Size(GROUPS, "How many groups of ips there are.", GROUPS_MOST)}
    ambiguous: frozenset[str] = frozenset()
    slack_ms = MINUTE_MS  # windows go by the requests' own times, so a sender that is behind changes no label

    def references(self, plan: TrafficPlan, also: Sequence[str]) -> Iterator[Message]:
        """Nothing: requests stand for themselves."""
        return iter(())

    def messages(self, plan: TrafficPlan, secrets: Mapping[str, object], start_ms: int) -> Iterator[Message]:
        """One message for each moment of the plan."""
        everybody, shares = public(plan.seed, _groups(plan)), _shares(plan)
        siege, windows = _siege(plan, everybody), steady(plan, start_ms)
        for request in stage.requests(plan.seed, everybody, siege, windows, shares, POISON):
            yield _message(request, start_ms)

    def closing_key(self, plan: TrafficPlan, number: int) -> str:
        """A group, also beyond the plan's: there may be more partitions than groups."""
        return str(number)

    def closing(
        self, plan: TrafficPlan, secrets: Mapping[str, object], start_ms: int, keys: Sequence[str], for_ms: int
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

    def columns(self, plan: TrafficPlan) -> Columns:
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


def _siege(plan: TrafficPlan, everybody: Public) -> Siege:
    return Siege(plan.seed, _groups(plan), _shares(plan)["attacks"], everybody.visitors)


def _groups(plan: TrafficPlan) -> int:
    return plan.sizes.get("groups", GROUPS)


def _shares(plan: TrafficPlan) -> dict[str, float]:
    return {name: plan.shares.get(name, share.default) for name, share in FloodTraffic.shares.items()}


TRAFFIC = FloodTraffic()
