"""A backlog that parallel jobs find: hours of event time in eight partitions, one of them four times as full."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from random import Random
from typing import Any

from confluent_kafka import Producer

from millrace import oracle
from millrace.machine.processes import wait_until
from millrace.patterns import EnginePlan, Variant, engine_plans, load
from millrace.rules import ALERTS, DEAD_LETTERS, UseCase
from millrace.rules.outputs import LATE, WINDOWS_TOPIC
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.testing import token
from millrace.traffic.planned import partition_of
from millrace.verbs.provision import wanted_topics

PARTITIONS, PARALLELISM = 8, 4
WEIGHTS = (4, *[1] * (PARTITIONS - 1))
KEYS = 400
"""In each partition: with fewer, more events than not are bursts, and alerts take longer than all else."""
SEED, MINUTE_MS = 7, 60_000
AFTER_MS = 10 * MINUTE_MS
"""The backlog ends so long ago."""
FLOOD = 31
STARTED_WITHIN_S = 120

Event = dict[str, Any]


@dataclass(frozen=True)
class Messages:
    """How a use's judged events are made."""

    key: str
    references: Sequence[tuple[str, str, Event]]
    closing_rules: Sequence[str]
    closing: int
    """So many events at once are an alert of each of these rules."""

    def event(self, number: int, key: str, at_ms: int, *, is_closing: bool = False) -> bytes:
        if self.key == "group_id":
            event = {"ip": f"10.0.{int(key) % 200}.abc", "group_id": key, "zone": 0, "cik": 1}
            event |= {"accession": "0000000001-01-000001", "extention": ".txt", "code": 401 if is_closing else 200}
            event |= dict.fromkeys(("size", "idx", "norefer", "noagent", "find", "crawler"), 0)
        else:
            event = {"transaction_id": f"t{number}", "customer": key, "card": token(key), "merchant": "shop"}
            event |= {"amount_cents": 100, "latitude": 48.0, "longitude": 10.0}
        return json.dumps(event | {"at_ms": at_ms}).encode()


def messages_of(use: UseCase, keys: Sequence[str]) -> Messages:
    if not use.references:
        return Messages("group_id", (), ("flood-ip", "flood-group"), FLOOD)
    shop = ("merchants", "shop", {"merchant": "shop", "category": "food", "place": "Ulm"})
    customers = (("customers", key, {"customer": key, "segment": "private"}) for key in keys)
    return Messages("customer", (shop, *customers), ("burst",), 2)


@dataclass
class Backlog:
    """The plans of one pattern under a name of their own, and what they find."""

    target: Target
    variant: Variant
    plans: Sequence[EnginePlan]
    keys: Sequence[Sequence[str]]
    closers: Sequence[str]
    sent: int = 0
    disorder_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.disorder_ms = self.variant.use.disorder_ms
        self.plan = self.plans[0]
        self.make = messages_of(self.variant.use, [*chain(*self.keys), *self.closers])

    def send(self, events: int, span_ms: int, seed: int = SEED) -> None:
        """Write all of it, with the times of its arrival, before any job runs."""
        use = self.variant.use
        sent = {self.plan.topics[each.name] for each in (*use.raw, *use.references)}
        prefix = self.variant.name
        wanted = [replace(t, name=self.plan.pattern + t.name.removeprefix(prefix)) for t in wanted_topics(self.variant)]
        # So that a test can choose when a message arrived.
        forged = {"message.timestamp.type": "CreateTime"}
        topics.ensure(self.plan.bootstrap, [replace(t, configs=forged) if t.name in sent else t for t in wanted])
        producer = Producer({**topics.PRODUCER, "bootstrap.servers": self.plan.bootstrap})
        start_ms = int(time.time() * 1000) - AFTER_MS - span_ms
        for kind, key, reference in self.make.references:
            value = json.dumps(reference).encode()
            producer.produce(self.plan.topics[kind], value, key.encode(), timestamp=start_ms)
        judged = self.plan.topics[use.judged.name]
        for arrived_ms, key, value in chain(self.messages(events, start_ms, span_ms, seed), self.closing()):
            producer.produce(judged, value, key.encode(), timestamp=arrived_ms)
            self.sent += 1
            if self.sent % 1_000 == 0:
                producer.poll(0)
                while len(producer) > 50_000:
                    producer.poll(0.05)
        assert producer.flush(60) == 0

    def messages(self, events: int, start_ms: int, span_ms: int, seed: int) -> Iterator[tuple[int, str, bytes]]:
        """In the order of arrival; some come as late as they may."""
        random = Random(seed)
        bounds = list(accumulate(WEIGHTS))
        batch: list[tuple[int, int, str, int]] = []
        for number in range(events):
            at_ms = start_ms + number * span_ms // events
            place = random.randrange(bounds[-1])
            partition = next(p for p, bound in enumerate(bounds) if place < bound)
            delay_ms = self.disorder_ms * 8 // 10 if number % 100 == 0 else random.randrange(50)
            batch.append((at_ms + delay_ms, number, random.choice(self.keys[partition]), at_ms))
            if len(batch) >= 20_000 or number == events - 1:
                batch.sort()
                is_last = number == events - 1
                ripe = [each for each in batch if is_last or each[0] <= at_ms]
                batch = batch[len(ripe) :]
                for arrived_ms, n, key, at in ripe:
                    yield arrived_ms, key, self.make.event(n, key, at)

    def closing(self) -> Iterator[tuple[int, str, bytes]]:
        """An alert in each partition, and events long after, so that it is reported."""
        at_ms = (int(time.time() * 1000) - AFTER_MS) // MINUTE_MS * MINUTE_MS + MINUTE_MS
        for number in range(self.make.closing):
            for key in self.closers:
                yield at_ms + number, key, self.make.event(-1 - number - 100 * int(key), key, at_ms, is_closing=True)
        for key in self.closers:
            yield at_ms + 3 * MINUTE_MS, key, self.make.event(-99 - 100 * int(key), key, at_ms + 3 * MINUTE_MS)

    def start(self) -> None:
        """Start the jobs, the windows first, so that they read while the tasks write."""
        for plan in reversed(self.plans):
            engine = self.target.engine(plan.engine)
            engine.start(plan, None)
            if plan is not self.plan:
                assert wait_until(lambda p=plan, e=engine: e.job(p).state == "running", STARTED_WITHIN_S)

    def stop(self) -> None:
        for plan in self.plans:
            engine = self.target.engine(plan.engine)
            if engine.job(plan).is_up:
                engine.stop(plan)

    def outcome(self, within_s: float) -> Outcome:
        """What came out, once the last alerts of each partition have."""
        deadline, found = time.monotonic() + within_s, Outcome()
        wanted = {(rule, key) for rule in self.make.closing_rules for key in self.closers}
        kinds = (self.variant.use.enriched.name, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)
        with closing(Tail(self.plan.bootstrap, {kind: self.plan.topics[kind] for kind in kinds})) as tail:
            while not (wanted <= found.subjects and len(found.enriched) >= self.sent):
                assert time.monotonic() < deadline, f"after {within_s} s: {found}, {wanted - found.subjects} to come"
                for record in tail.new():
                    found.take(record.topic, json.loads(record.value or b"{}"), self.variant.use)
                time.sleep(0.5)
            for record in tail.new():
                found.take(record.topic, json.loads(record.value or b"{}"), self.variant.use)
        return found

    def expected_alerts(self, found: Outcome) -> dict[str, set[str]]:
        """The alerts on windows that the oracle finds in all events, by rule."""
        events = list(found.enriched.values())
        return {
            rule.name: {finding.alert_id for finding in oracle.window_findings(rule, events)}
            for rule in self.variant.window_rules
        }


@dataclass
class Outcome:
    enriched: dict[tuple[int, int], Event] = field(default_factory=dict)
    late: list[Event] = field(default_factory=list)
    refused: list[Event] = field(default_factory=list)
    alerts: dict[str, set[str]] = field(default_factory=dict)
    subjects: set[tuple[str, str]] = field(default_factory=set)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def take(self, kind: str, event: Event, use: UseCase) -> None:
        match kind:
            case use.enriched.name:
                self.enriched[event["source_partition"], event["source_offset"]] = event
            case ALERTS.name:
                self.alerts.setdefault(event["rule"], set()).add(event["alert_id"])
                self.subjects.add((event["rule"], event["subject"]))
            case DEAD_LETTERS.name:
                (self.late if event["reason"] == LATE else self.refused).append(event)
            case _:
                summary = use.summary(event["summary"])
                key = (event["window_start_ms"], *(event[name] for name in summary.keys))
                counts = [name for name in ("purchases", "requests") if name in event]
                self.numbers[key] = event[counts[0]]  # the last of each is the right one

    def __str__(self) -> str:
        counts: Mapping[str, int] = {name: len(ids) for name, ids in self.alerts.items()}
        return (
            f"{len(self.enriched)} enriched, {len(self.late)} late, {len(self.refused)} refused, alerts {counts}, "
            f"{sum(self.numbers.values())} in the numbers"
        )


def backlog_of(target: Target, name: str, options: Mapping[str, str] | None = None) -> Backlog:
    """The pattern with 8 partitions, and 4 tasks for its events, without stores."""
    variant = load(name)
    stages = variant.pattern.stages
    parallel = stages.events.model_copy(update={"parallelism": PARALLELISM})
    stages = stages.model_copy(update={"events": parallel, "persist": None})
    variant = replace(variant, pattern=variant.pattern.model_copy(update={"partitions": PARTITIONS, "stages": stages}))
    own = f"backlog-{name}-{time.time_ns() // 1_000_000}"
    plans = [
        replace(
            plan,
            pattern=own,
            topics={kind: own + topic.removeprefix(name) for kind, topic in plan.topics.items()},
            checkpoints=plan.checkpoints.replace(f"/{name}/", f"/{own}/"),
            options=dict(options or {}) if plan.engine == "flink" else {},
        )
        for plan in engine_plans(variant, 1, target.bootstrap, target.checkpoints, target.stores(variant))
    ]
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    for number in range(10_000):
        keys = found[partition_of(str(number).encode(), PARTITIONS)]
        if len(keys) <= KEYS:
            keys.append(str(number))
    return Backlog(target, variant, plans, [keys[1:] for keys in found], [keys[0] for keys in found])
