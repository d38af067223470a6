"""The messages of a recorded run, made again from its plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache

from millrace.rules import UseCase
from millrace.rules.tokens import Secrets
from millrace.rules.traffic import Message, Share, Size, Traffic, TrafficPlan
from millrace.traffic.runs import Run

KEYS, CLOSING_MS = "closing_keys", "closing_ms"
"""What a run records of its closing: the keys, and how long it lasts."""
REFERENCES_MS = "references_ms"
"""What it records of its reference data: when all was acknowledged."""
RULES = "rules"
"""What it records of the rules: the version of each, for which alone its labels hold."""


class Content:
    """Identifies messages to their last byte."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def of(self, messages: Iterable[Message]) -> Iterator[Message]:
        """The messages, as they are taken in."""
        for message in messages:
            self._sha256.update(repr(message[:4]).encode())
            yield message

    @property
    def hex(self) -> str:
        return self._sha256.hexdigest()


@lru_cache(maxsize=100_000)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as every client with the default partitioner of Java chooses it."""
    from kafka.partitioner.default import murmur2  # here: runs are also read where no client of Kafka is

    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def is_closed(run: Run) -> bool:
    """Whether a run ended with the events that close its last windows."""
    return run.is_complete and bool(run.about.get(KEYS))


def plan_of(run: Run) -> TrafficPlan | None:
    """The plan of a run; None if it was sent from a file, or recorded by another version."""
    plan = run.about.get("plan", {})
    is_known = plan.keys() <= {each.name for each in fields(TrafficPlan)}
    return TrafficPlan(**plan) if is_known and plan.get("shares") is not None else None


def misfit(traffic: Traffic, plan: TrafficPlan) -> str | None:
    """Why this traffic makes nothing of a plan now; None if the plan is as `plan_for` makes it."""
    declared: dict[str, Share | Size] = {**traffic.shares, **traffic.sizes}
    given: dict[str, float] = {**plan.shares, **plan.sizes}
    if other := sorted(given.keys() ^ declared.keys()):
        return f"the use declares other shares and sizes now: {', '.join(other)}"
    for name, each in declared.items():
        if not each.least <= given[name] <= each.most:
            return f"its {name} was {given[name]}, and the use allows {each.least} to {each.most} now"
    return None


def messages_of(
    traffic: Traffic, plan: TrafficPlan, secrets: Secrets, start_ms: int, keys: Sequence[str], closing_ms: int
) -> Iterator[Message]:
    """The messages of a plan, and of its closing."""
    yield from traffic.messages(plan, secrets, start_ms)
    yield from traffic.closing(plan, secrets, start_ms, keys, closing_ms)


def made_again(use: UseCase, run: Run, secrets: Secrets) -> tuple[Content, Iterator[Message], Iterator[Message]] | None:
    """The reference data of a run, then its messages, and what identifies them when all are taken; None without a plan.

    They are what was sent if that is as recorded.
    """
    plan, made = plan_of(run), use.traffic
    if plan is None or made is None or misfit(made, plan):
        return None
    if not {KEYS, CLOSING_MS, REFERENCES_MS} <= run.about.keys():
        return None
    content, keys = Content(), run.about[KEYS]
    messages = messages_of(made, plan, secrets, run.start_ms, keys, run.about[CLOSING_MS])
    return content, content.of(made.references(plan, keys)), content.of(messages)
