"""Plays messages to a running pattern in an order that the engine must see, and reads back what it made of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Producer

from millrace.job import Engine
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import EnginePlan, Variant, engine_plans
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.testing import token
from millrace.verbs.provision import wanted_topics
from pipelines.fraud import FRAUD

PROBE, CLOSER, SHOP, PROBES = "probe", "closer", "probe-shop", "probes"
SETTLED_WITHIN_S, CLOSED_WITHIN_S = 360, 360
PROBED_EVERY_S = 1
"""Each probe is a batch's work, and after seconds without any an engine's time would follow the clock."""
LOOKS_EVERY_S = 0.1
GENERATIONS_MOST = 4

Event = dict[str, Any]
Sent = tuple[str, bytes | None, bytes | None]
"""Kind of event, key and value."""


def own_plan(target: Target, variant: Variant, name: str, *, engine: str = "", **changes: Any) -> EnginePlan:
    """What an engine of a variant, the first if none is named, is to run under a name that no other test has."""
    plans = engine_plans(variant, 1, target.bootstrap, target.checkpoints, target.stores(variant))
    whole = next(plan for plan in plans if engine in ("", plan.engine))
    own = f"{name}-{time.time_ns() // 1_000_000}"
    return replace(
        whole,
        pattern=own,
        topics={kind: own + topic.removeprefix(variant.name) for kind, topic in whole.topics.items()},
        checkpoints=whole.checkpoints.replace(f"/{variant.name}/", f"/{own}/"),
        **changes,
    )


def ensure_topics(plan: EnginePlan, variant: Variant) -> None:
    """The topics of a test's own plan, with one partition each."""
    wanted = (replace(t, name=plan.pattern + t.name.removeprefix(variant.name)) for t in wanted_topics(variant))
    topics.ensure(plan.bootstrap, [replace(topic, partitions=1) for topic in wanted])


@contextmanager
def engine_for(target: Target, plan: EnginePlan) -> Iterator[Engine]:
    """The engine of a plan, whose job ends with the block: it would use up the processors of those that still run."""
    engine = target.engine(plan.engine)
    try:
        yield engine
    finally:
        if engine.job(plan).is_up:
            engine.stop(plan)


@contextmanager
def own_topics(target: Target, plan: EnginePlan, variant: Variant) -> Iterator[None]:
    """Topics for a test's own plan; at the end no generation of its job runs."""
    ensure_topics(plan, variant)
    yield
    engine = target.engine(plan.engine)
    for generation in range(1, GENERATIONS_MOST + 1):
        if engine.job(each := replace(plan, generation=generation)).is_up:
            engine.stop(each)


def publish_and_abort(bootstrap: str, messages: Iterable[tuple[str, bytes | None, bytes | None]]) -> None:
    """Write messages of (topic, key, value) in one transaction, and take it back: the topics have its markers, too."""
    name = f"tests-{time.time_ns()}"
    settings = {**topics.PRODUCER, "bootstrap.servers": bootstrap, "transactional.id": name}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic, key, value in messages:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    # Kafka answers before the topics have the markers; a producer of the same name begins only when they have them.
    Producer(settings).init_transactions(30)


@dataclass
class Outcome:
    """Whole topics, without what the player itself caused."""

    raw: list[Record] = field(default_factory=list)
    references: list[Record] = field(default_factory=list)
    enriched: list[Event] = field(default_factory=list)
    alerts: list[Event] = field(default_factory=list)
    dead_letters: list[Event] = field(default_factory=list)
    windows: list[Event] = field(default_factory=list)
    keys: dict[str, list[bytes | None]] = field(default_factory=dict)
    """The keys of the messages, by kind."""


class Player:
    """Sends to the topics of a plan, each with one partition.

    Kafka keeps the order within a topic only. Where the order between two matters, `settle` waits until the engine has
    taken in all that was sent: a customer of the player's own shows where its phone is, and pays until the engine's
    enriched events say that it knows.
    """

    def __init__(self, plan: EnginePlan) -> None:
        self._plan = plan
        self._tail = Tail(plan.bootstrap, {FRAUD.enriched.name: plan.topics[FRAUD.enriched.name]})
        self._publisher = topics.Publisher(plan.bootstrap)
        self._found = Tail(plan.bootstrap, {kind: plan.topics[kind] for kind in (ALERTS.name, "windows")})
        self._steps = 0
        self._early_ms = 0

    def references(self, events: Iterable[tuple[str, Event]]) -> None:
        """Publish reference data, before the job starts or while it runs."""
        self.send(self.referring(events))

    @staticmethod
    def referring(events: Iterable[tuple[str, Event]]) -> Iterator[Sent]:
        """The messages of reference data, with that of the player's own customers."""
        own = [("customers", {"customer": who, "segment": "none"}) for who in (PROBE, CLOSER)]
        own += [("merchants", {"merchant": SHOP, "category": PROBES, "place": "nowhere"})]
        return ((kind, event[kind.removesuffix("s")].encode(), _json(event)) for kind, event in [*events, *own])

    def play(self, sent: Sequence[Sent], early_ms: int) -> None:
        """Publish messages and wait until all are taken in; `early_ms` is before all of them."""
        self._early_ms = early_ms
        self.send(sent)
        self.settle()

    def send(self, sent: Iterable[Sent]) -> None:
        """Publish messages, and wait for nothing but Kafka."""
        self._publisher.publish((self._plan.topics[kind], key, value) for kind, key, value in sent)

    def take_back(self, sent: Iterable[Sent]) -> None:
        """Publish messages in a transaction that is aborted: they are in the topics, and no consumer may read them."""
        publish_and_abort(self._plan.bootstrap, ((self._plan.topics[kind], key, value) for kind, key, value in sent))

    def settle(self) -> None:
        self._steps += 1
        shown = self._steps / 1000
        phone = {"customer": PROBE, "latitude": shown, "longitude": 0.0, "at_ms": self._early_ms}
        self.send([("device-locations", PROBE.encode(), _json(phone))])
        for attempt in range(SETTLED_WITHIN_S // PROBED_EVERY_S):
            self.send([self.pays(PROBE, f"probe-{self._steps}-{attempt}", self._early_ms)])
            if wait_until(lambda: self._is_enriched(shown), PROBED_EVERY_S, LOOKS_EVERY_S):
                return
        raise AssertionError(f"{self._plan.pattern}: the engine took nothing in for {SETTLED_WITHIN_S} s")

    def _is_enriched(self, shown: float) -> bool:
        found = (json.loads(record.value or b"{}") for record in self._tail.new())
        return (PROBE, shown) in [(event["customer"], event["phone_latitude"]) for event in found]

    def close(self, after_ms: int) -> None:
        """Let event time pass far beyond `after_ms`, and wait until the windows before it are reported."""
        wanted = {"sessions"} if "burst" in self._plan.windows else set()
        wanted |= {"minutes"} if self._plan.summaries else set()
        burst = [("closing-1", after_ms + 60_000), ("closing-2", after_ms + 61_000), ("closing-3", after_ms + 200_000)]
        self.send(self.pays(CLOSER, name, at_ms) for name, at_ms in burst)
        closed = set[str]()

        def is_closed() -> bool:
            for record in self._found.new():
                found = json.loads(record.value or b"{}")
                if found.get("rule") == "burst" and found["subject"] == CLOSER:
                    closed.add("sessions")
                if found.get("merchant_category") == PROBES and found["window_end_ms"] > after_ms:
                    closed.add("minutes")
            return closed == wanted

        if not wait_until(is_closed, CLOSED_WITHIN_S, LOOKS_EVERY_S):
            raise AssertionError(f"{self._plan.pattern}: no window was closed within {CLOSED_WITHIN_S} s")

    def outcome(self) -> Outcome:
        """Everything that is in the topics now."""
        self._tail.close()
        self._found.close()
        written = (FRAUD.enriched.name, ALERTS.name, DEAD_LETTERS.name, "windows")
        kinds = (*(kind.name for kind in (*FRAUD.raw, *FRAUD.references)), *written)
        reader = Tail(self._plan.bootstrap, {kind: self._plan.topics[kind] for kind in kinds})
        records: dict[str, list[Record]] = {kind: [] for kind in kinds}
        for record in reader.new():
            records[record.topic].append(record)
        reader.close()
        own = {
            (self._plan.topics[record.topic], record.offset)
            for kind in FRAUD.raw
            for record in records[kind.name]
            if record.key in (PROBE.encode(), CLOSER.encode())
        }
        read = {kind: [json.loads(record.value or b"") for record in records[kind]] for kind in written}
        return Outcome(
            raw=[
                r for kind in FRAUD.raw for r in records[kind.name] if (self._plan.topics[r.topic], r.offset) not in own
            ],
            references=[r for kind in FRAUD.references for r in records[kind.name]],
            enriched=[e for e in read[FRAUD.enriched.name] if (e["source_topic"], e["source_offset"]) not in own],
            alerts=[alert for alert in read[ALERTS.name] if alert["subject"] not in (PROBE, CLOSER)],
            dead_letters=[e for e in read[DEAD_LETTERS.name] if (e["topic"], e["offset"]) not in own],
            windows=[row for row in read["windows"] if row["merchant_category"] != PROBES],
            keys={kind: [record.key for record in records[kind]] for kind in written},
        )

    def pays(self, who: str, name: str, at_ms: int) -> Sent:
        """A purchase for one cent, for `send`."""
        event = {
            "transaction_id": name,
            "customer": who,
            "card": token(who),
            "merchant": SHOP,
            "amount_cents": 1,
            "latitude": 0.0,
            "longitude": 0.0,
            "at_ms": at_ms,
        }
        return FRAUD.judged.name, who.encode(), _json(event)


def _json(event: Event) -> bytes:
    return json.dumps(event).encode()
