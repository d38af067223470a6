"""A Flink job that finds a backlog takes it in the order of its arrival, as if it had been there all the time."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, TopicPartition

from millrace import oracle
from millrace.machine import processes
from millrace.oracle import Record
from millrace.patterns import EnginePlan, load
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import BACKLOG_HEADER
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.traffic.planned import partition_of
from millrace.verbs.provision import wanted_topics
from pipelines.fraud import FRAUD
from tests.flink.test_recovery import SHOPS, pays, phone
from tests.player import CLOSED_WITHIN_S, Player, ensure_topics, own_plan, publish_and_abort

VARIANT = load("flink")
SEED = 7
PARTITIONS = 3
CUSTOMERS = [f"customer-{n}" for n in range(24)]
KNOWN = {
    "customers": {name: {"customer": name, "segment": "private"} for name in CUSTOMERS},
    "merchants": {name: {"merchant": name, "category": "food", "place": "Ulm"} for name in SHOPS},
}
ENRICHED_WITHIN_S = 600
BATCH = 200
"""The sender waits for no job: on a busy machine, ten times as many at once are minutes of work."""
SENT_EVERY_S, LOOKS_EVERY_S = 0.5, 0.1
APART_MS = 3
"""Between two events of a backlog: an answer of Kafka's to a reader, a megabyte, spans several times the disorder."""
MINUTE_MS = 60_000
FROM_THE_BEGINNING = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
PADDING = "x" * 8_000  # so that a partition holds more than a reader keeps of it in memory

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]


@pytest.fixture
def plan(target: Target) -> Iterator[EnginePlan]:
    plan = own_plan(target, VARIANT, "arrivals", events=("away-from-phone",), parallelism=2)
    yield plan
    flink = target.engine("flink")
    for generation in range(1, 3):
        if flink.job(each := replace(plan, generation=generation)).is_up:
            flink.stop(each)


def ensure_topics_that_believe_the_sender(plan: EnginePlan) -> None:
    """Topics with several partitions, in which a test sets when a message arrived."""
    sent = {plan.topics[kind.name] for kind in (*FRAUD.raw, *FRAUD.references)}
    wanted = [replace(t, name=plan.pattern + t.name.removeprefix(VARIANT.name)) for t in wanted_topics(VARIANT)]
    believing = {"message.timestamp.type": "CreateTime"}
    topics.ensure(
        plan.bootstrap,
        [replace(t, partitions=PARTITIONS, configs=believing) if t.name in sent else t for t in wanted],
    )


def backlog(start_ms: int, name: str) -> Iterator[tuple[int, str, bytes | None, bytes | None]]:
    """Long nothing but purchases, then purchases and phones that move on, some of them in the same millisecond."""
    random_ = random.Random(f"{SEED} {name}")
    arrived_ms = start_ms
    for number in range(4_000):
        arrived_ms += random_.choice([0, 1, 10, 200])
        who = random_.choice(CUSTOMERS)
        if number < 2_000 or random_.random() < 0.4:
            kind, key, value = pays(f"{name}-{number}", who, 100, arrived_ms - 500, latitude=48.0)
        else:
            latitude = 48 + random_.randrange(1, 90_000) / 1e5
            kind, key, value = phone(who, arrived_ms - random_.choice([0, 900]), latitude)
        padded = number < 2_000 or kind == "device-locations"
        event = {**json.loads(value or b""), **({"padding": PADDING} if padded else {})}
        yield arrived_ms, kind, key, json.dumps(event).encode()


def forge(plan: EnginePlan, messages: Iterator[tuple[int, str, bytes | None, bytes | None]]) -> None:
    producer = Producer({**topics.PRODUCER, "bootstrap.servers": plan.bootstrap})
    for arrived_ms, kind, key, value in messages:
        producer.produce(plan.topics[kind], value, key, timestamp=arrived_ms)
        producer.poll(0)
        if len(producer) > 2_000:
            producer.flush(30)
    assert producer.flush(30) == 0


def everybody_is_known(plan: EnginePlan) -> Player:
    """A player for the plan; its merchants and customers are older than the backlogs of these tests."""
    known = [(kind, event) for kind, events in KNOWN.items() for event in events.values()]
    since_ms = int(time.time() * 1000) - 120 * MINUTE_MS
    forge(plan, ((since_ms, *message) for message in Player.referring(known)))
    return Player(plan)


def enriched_events(plan: EnginePlan, count: int) -> dict[tuple[int, int], dict[str, Any]]:
    """By the place of the purchase, when there are so many."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    deadline = time.monotonic() + ENRICHED_WITHIN_S
    with closing(Tail(plan.bootstrap, {"enriched": plan.topics[FRAUD.enriched.name]})) as tail:
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} after {ENRICHED_WITHIN_S} s"
            for record in tail.new():
                event = json.loads(record.value or b"")
                found[event["source_partition"], event["source_offset"]] = event
            time.sleep(0.2)
    return found


def group_of(plan: EnginePlan) -> KafkaConsumer:
    """A member of the job's group, which joins nothing."""
    return KafkaConsumer(bootstrap_servers=plan.bootstrap, group_id=plan.pattern)


def committed(group: KafkaConsumer, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
    """The offsets that the job has committed to Kafka; Spark waits for them before its clock advances in silence."""
    return {place: group.committed(TopicPartition(*place)) for place in places}


def accounted_for(tail: Tail) -> set[tuple[str, int, int]]:
    """The messages that new outputs come from: enriched events and refusals."""
    places = set()
    for record in tail.new():
        event = json.loads(record.value or b"")
        prefix = "source_" if record.topic == "enriched" else ""
        places.add((event[f"{prefix}topic"], event[f"{prefix}partition"], event[f"{prefix}offset"]))
    return places


def ends_of(plan: EnginePlan, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    with closing(KafkaConsumer(bootstrap_servers=plan.bootstrap)) as consumer:
        found = consumer.end_offsets([TopicPartition(*place) for place in places])
        return {(place.topic, place.partition): end for place, end in found.items()}


def raw(plan: EnginePlan) -> list[Record]:
    """All that arrived, in that order."""
    with closing(Tail(plan.bootstrap, {kind.name: plan.topics[kind.name] for kind in FRAUD.raw})) as tail:
        # In the same millisecond, what was known before a purchase comes first: d before t.
        return sorted(tail.new(), key=lambda r: (r.ingest_ms, r.topic, r.partition, r.offset))


@pytest.mark.drill
def test_a_backlog_is_judged_in_the_order_of_arrival_before_and_after_a_change_of_parallelism(
    target: Target, plan: EnginePlan
) -> None:
    flink, start_ms = target.engine("flink"), int(time.time() * 1000) - 60 * MINUTE_MS
    ensure_topics_that_believe_the_sender(plan)
    everybody_is_known(plan)
    forge(plan, backlog(start_ms, "first"))
    flink.start(plan, None)
    arrived = raw(plan)
    enriched_events(plan, sum(record.topic == FRAUD.judged.name for record in arrived))
    state = flink.stop(plan)
    assert state
    forge(plan, backlog(start_ms + 20 * MINUTE_MS, "second"))
    takes_back = [(plan.topics[kind.name], name.encode(), b"{") for kind in FRAUD.raw for name in CUSTOMERS]
    publish_and_abort(plan.bootstrap, takes_back)
    flink.start(replace(plan, generation=2, parallelism=PARTITIONS), state)
    arrived = raw(plan)
    found = enriched_events(plan, sum(record.topic == FRAUD.judged.name for record in arrived))
    counts = Counter((plan.topics[record.topic], record.partition) for record in arrived)
    ends = ends_of(plan, counts)
    assert all(end > counts[place] for place, end in ends.items()), "a transaction's messages and marker lie there too"
    with closing(group_of(plan)) as group:
        reached = processes.wait_until(lambda: committed(group, ends) == ends, ENRICHED_WITHIN_S)
    assert reached, "it says how far it has come"

    assert arrived[-1].ingest_ms - arrived[0].ingest_ms > 20 * MINUTE_MS
    assert len({record.partition for record in arrived}) == PARTITIONS
    assert any(a.ingest_ms == b.ingest_ms and a.topic != b.topic and a.key == b.key for a, b in pairwise(arrived))
    judged = oracle.judge(FRAUD, [FRAUD.rule("away-from-phone")], arrived, KNOWN)
    meant = {
        (each.record.partition, each.record.offset): each.event
        for each in judged
        if each.event and each.record.topic == FRAUD.judged.name
    }
    assert found.keys() == meant.keys()
    told = ("phone_latitude", "phone_at_ms", "flags", "ingest_ms")
    wrong = [
        (place, {name: (event[name], found[place][name]) for name in told})
        for place, event in meant.items()
        if [event[name] for name in told] != [found[place][name] for name in told]
    ]
    assert not wrong, f"{len(wrong)} of {len(meant)}, the first (meant, found): {wrong[0]}"
    assert sum(event["flags"] != [] for event in meant.values()) > 500


def test_judged_offsets_are_committed_for_the_pattern_once_their_outputs_are_acknowledged(
    target: Target, plan: EnginePlan
) -> None:
    """The promise by which another engine's windows close in silence: millrace/job.py."""
    plan = replace(plan, options={"execution.checkpointing.interval": "500 ms"})
    ensure_topics_that_believe_the_sender(plan)
    everybody_is_known(plan)
    target.engine("flink").start(plan, None)
    now_ms, judged = int(time.time() * 1000), plan.topics[FRAUD.judged.name]
    places = [(judged, partition) for partition in range(PARTITIONS)]
    outputs = {"enriched": plan.topics[FRAUD.enriched.name], "refused": plan.topics[DEAD_LETTERS.name]}
    came_out: set[tuple[str, int, int]] = set()
    looks: list[dict[tuple[str, int], int | None]] = []
    with closing(Tail(plan.bootstrap, outputs)) as tail, closing(group_of(plan)) as group:

        def look() -> dict[tuple[str, int], int | None]:
            found = committed(group, places)  # before the outputs: what they hold by then must cover it
            came_out.update(accounted_for(tail))
            covered = {(*place, n) for place, end in found.items() for n in range(end or 0)}
            assert not covered - came_out, "committed before it came out"
            looks.append(found)
            return found

        deadline, number = time.monotonic() + ENRICHED_WITHIN_S, 0
        while len({sum(filter(None, found.values())) for found in looks}) < 5:
            assert time.monotonic() < deadline, f"committed so far: {looks[-1]}"
            batch = range(number, number := number + BATCH)
            said = (pays(f"j{n}", CUSTOMERS[n % len(CUSTOMERS)], 1, now_ms, latitude=48.0) for n in batch)
            forge(
                plan,
                (
                    (now_ms + n, kind, key, b"{" if n % 10 == 0 else value)
                    for n, (kind, key, value) in zip(batch, said, strict=True)
                ),
            )
            processes.wait_until(lambda before=looks[-1:]: [look()] != before, SENT_EVERY_S, LOOKS_EVERY_S)
        ends = ends_of(plan, places)
        assert processes.wait_until(lambda: look() == ends, ENRICHED_WITHIN_S, LOOKS_EVERY_S), (
            f"in silence it reaches the ends: {ends}"
        )


def test_of_a_backlog_no_partition_runs_ahead_of_another(target: Target, plan: EnginePlan) -> None:
    """Whoever takes the time of all from the intermediate topic, as Spark does, would call the other's events late."""
    plan, start_ms, count = replace(plan, parallelism=1), int(time.time() * 1000) - 60 * MINUTE_MS, 10_000
    ensure_topics_that_believe_the_sender(plan)
    everybody_is_known(plan)
    forge(
        plan,
        (
            (at_ms, *pays(f"t{n}", CUSTOMERS[n % len(CUSTOMERS)], 100, at_ms, latitude=48.0))
            for n, at_ms in enumerate(range(start_ms, start_ms + APART_MS * count, APART_MS))
        ),
    )
    target.engine("flink").start(plan, None)
    enriched_events(plan, count)
    with closing(Tail(plan.bootstrap, {"enriched": plan.topics[FRAUD.enriched.name]})) as tail:
        came_out = sorted((record.ingest_ms, json.loads(record.value or b"")["at_ms"]) for record in tail.new())
    newest = accumulate((at_ms for _, at_ms in came_out), max)
    behind_ms = max(ahead - at_ms for ahead, (_, at_ms) in zip(newest, came_out, strict=True))
    assert behind_ms < FRAUD.disorder_ms


def test_events_are_marked_as_a_backlog_until_all_tasks_have_caught_up(target: Target, plan: EnginePlan) -> None:
    """The promise by which windows of another engine take no time from a backlog: millrace/job.py."""
    plan, count = replace(plan, options={"execution.checkpointing.interval": "1 s"}), 1_000
    start_ms = int(time.time() * 1000) - 60 * MINUTE_MS
    judged = plan.topics[FRAUD.judged.name]
    ensure_topics_that_believe_the_sender(plan)
    everybody_is_known(plan)

    def purchases(name: str, from_ms: int, many: int) -> Iterator[tuple[int, str, bytes | None, bytes | None]]:
        for n in range(many):
            yield (
                from_ms + n,
                *pays(f"{name}-{n}", CUSTOMERS[n % len(CUSTOMERS)], 100, from_ms + n - 100, latitude=48.0),
            )

    forge(plan, purchases("old", start_ms, count))
    target.engine("flink").start(plan, None)
    enriched_events(plan, count)
    marked: dict[str, bool] = {}
    deadline, rounds = time.monotonic() + ENRICHED_WITHIN_S, 0
    with closing(
        Consumer({"bootstrap.servers": plan.bootstrap, "group.id": "backlog", **FROM_THE_BEGINNING})
    ) as consumer:
        consumer.subscribe([plan.topics[FRAUD.enriched.name]])
        while all(marked.values()):
            assert time.monotonic() < deadline, f"all of {len(marked)} are marked"
            forge(plan, purchases(f"live-{(rounds := rounds + 1)}", int(time.time() * 1000), len(CUSTOMERS)))
            for message in consumer.consume(5_000, 1.0):
                event = json.loads(message.value() or b"")
                marked[event["transaction_id"]] = BACKLOG_HEADER in dict(message.headers() or [])
    assert all(marked[f"old-{n}"] for n in range(count))
    with closing(KafkaConsumer(bootstrap_servers=plan.bootstrap, group_id=plan.pattern)) as committed_:
        places = [TopicPartition(judged, partition) for partition in range(PARTITIONS)]
        notes = [json.loads(committed_.committed(place, metadata=True).metadata) for place in places]
    assert all(note["newest_ms"] > start_ms for note in notes)
    assert all(note["through_ms"] > start_ms + 30 * MINUTE_MS for note in notes), "they keep up"


def test_an_event_that_is_ahead_of_its_time_makes_no_other_late(target: Target, plan: EnginePlan) -> None:
    ensure_topics(plan, VARIANT)
    player, now_ms = everybody_is_known(plan), int(time.time() * 1000)
    minute_ago_ms = now_ms - MINUTE_MS
    target.engine("flink").start(plan, None)
    player.play([pays(f"burst-{n}", CUSTOMERS[0], 1, minute_ago_ms + n) for n in range(2)], minute_ago_ms)
    player.play([pays("ahead", CUSTOMERS[1], 1, int(time.time() * 1000) + 4 * MINUTE_MS)], minute_ago_ms)
    player.play([pays("now", CUSTOMERS[2], 1, int(time.time() * 1000))], minute_ago_ms)
    # The burst is closed by a watermark from behind the event that was ahead: as far as that moved time, it has moved.
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        assert processes.wait_until(
            lambda: any(json.loads(record.value or b"")["subject"] == CUSTOMERS[0] for record in tail.new()),
            CLOSED_WITHIN_S,
        ), "the burst was not closed"
    player.play([pays(f"after-{n}", CUSTOMERS[n], 1, int(time.time() * 1000) - 1_000) for n in range(3, 7)], now_ms)
    found = player.outcome()
    assert [alert["event_ids"] for alert in found.alerts] == [["burst-0", "burst-1"]]
    after = {f"after-{n}" for n in range(3, 7)}
    assert {event["transaction_id"] for event in found.enriched} == {"burst-0", "burst-1", "ahead", "now", *after}
    assert found.dead_letters == []


def test_a_partition_that_gets_only_unreadable_messages_holds_no_window_back(target: Target, plan: EnginePlan) -> None:
    ensure_topics_that_believe_the_sender(plan)
    everybody_is_known(plan)
    judged, start_ms = FRAUD.judged.name, int(time.time() * 1000) - 60 * MINUTE_MS
    garbled, pays_in_time = (
        next(who for who in CUSTOMERS if partition_of(who.encode(), PARTITIONS) == n) for n in (0, 1)
    )
    found: list[Record] = []
    target.engine("flink").start(plan, None)
    with closing(Tail(plan.bootstrap, {kind: plan.topics[kind] for kind in (ALERTS.name, DEAD_LETTERS.name)})) as tail:

        def comes_beside_garbage(kind: str) -> bool:
            forge(plan, iter([(int(time.time() * 1000), judged, garbled.encode(), b"{")]))
            found.extend(tail.new())
            return any(record.topic == kind for record in found)

        assert processes.wait_until(lambda: comes_beside_garbage(DEAD_LETTERS.name), CLOSED_WITHIN_S, SENT_EVERY_S)
        after_ms = (0, 1_000, 3 * MINUTE_MS)
        forge(plan, ((start_ms + ms, *pays(f"p{ms}", pays_in_time, 1, start_ms + ms)) for ms in after_ms))
        assert processes.wait_until(lambda: comes_beside_garbage(ALERTS.name), CLOSED_WITHIN_S, SENT_EVERY_S), (
            "no window is closed beside a partition of garbage"
        )
    read = [json.loads(record.value or b"") for record in found]
    assert [each["event_ids"] for each in read if "rule" in each] == [["p0", "p1000"]]
    assert {each["reason"] for each in read if "reason" in each} == {"json"}


def test_a_partition_without_a_message_holds_no_window_of_its_task_back(target: Target, plan: EnginePlan) -> None:
    plan, start_ms = replace(plan, parallelism=1), int(time.time() * 1000) - 60 * MINUTE_MS
    ensure_topics_that_believe_the_sender(plan)
    everybody_is_known(plan)
    target.engine("flink").start(plan, None)
    after_ms = (0, 1_000, 3 * MINUTE_MS)
    forge(plan, ((start_ms + ms, *pays(f"p{ms}", CUSTOMERS[0], 1, start_ms + ms)) for ms in after_ms))
    found: list[Record] = []
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:

        def is_closed() -> bool:
            found.extend(tail.new())
            return bool(found)

        assert processes.wait_until(is_closed, CLOSED_WITHIN_S, SENT_EVERY_S), "no window is closed beside silence"
    assert [json.loads(each.value or b"")["event_ids"] for each in found] == [["p0", "p1000"]]


def test_purchases_of_a_backlog_have_the_merchant_as_it_was_when_they_arrived(target: Target, plan: EnginePlan) -> None:
    ensure_topics_that_believe_the_sender(plan)
    everybody_is_known(plan)
    start_ms = int(time.time() * 1000) - 60 * MINUTE_MS
    changed = json.dumps({"merchant": SHOPS[0], "category": "drink", "place": "Ulm"}).encode()

    def purchases(name: str, from_ms: int) -> Iterator[tuple[int, str, bytes | None, bytes | None]]:
        for n, who in enumerate(CUSTOMERS):
            yield from_ms + n, *pays(f"{name}-{who}", who, 1, from_ms + n)

    forge(plan, purchases("before", start_ms))
    forge(plan, iter([(start_ms + MINUTE_MS, "merchants", SHOPS[0].encode(), changed)]))
    forge(plan, purchases("after", start_ms + 2 * MINUTE_MS))
    target.engine("flink").start(plan, None)
    found = enriched_events(plan, 2 * len(CUSTOMERS)).values()
    categories = Counter((event["transaction_id"].partition("-")[0], event["merchant_category"]) for event in found)
    assert categories == Counter({("before", "food"): len(CUSTOMERS), ("after", "drink"): len(CUSTOMERS)})
