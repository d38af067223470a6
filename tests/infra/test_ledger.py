"""A ledger on a running pattern: segments under traffic, a crash, a state that is gone, messages that were deleted.

Canaries are sent beside the traffic, and show when a job no longer alerts. The ledger of tables has a pattern of its
own without a job: the test writes what one would have written.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from millrace import oracle
from millrace import stack as stacks
from millrace.engines.spark.hbase import Writer
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import load
from millrace.patterns import topics as topics_of
from millrace.patterns.plan import table_of
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import VERDICTS_TOPIC
from millrace.settings import Settings
from millrace.stack.services import NEEDED
from millrace.stores import topics
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import canaries, ledger
from millrace.verbs.alerts import alerts
from millrace.verbs.deploy import await_healthy, deploy
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown
from millrace.verify.closing import closing_ms
from millrace.verify.evidence import ENRICHED
from millrace.verify.ledger.chain import Chain, Entry
from millrace.verify.ledger.step import Limits
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.patterns import HELD_UP, Sender, own_patterns
from tests.pipelines import pretend
from tests.pipelines.pretend import SECRETS

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PATTERN, STORED = "followed", "stored"
EVERY_S, SETTLE_S, SENDS_S = 10.0, 3.0, 35.0
LIMITS = Limits(outstanding_ms=90_000, grace_ms=15_000)
KILLED_AFTER = 2
"""Segments with messages."""
ROUND_S = 10.0
SEEN_WITHIN_S = 90
"""The slowest rule alerts when the round after the next one begins."""


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target.read(stack, {})
    said = {
        PATTERN: {"of": "flink", "stages": {"persist": None}},
        STORED: {"of": "flink", "stages": {"persist": {"engine": "spark", "to": ["hbase"]}}},
    }
    with own_patterns(tmp_path_factory.mktemp("patterns"), said):
        yield target
        for pattern in said:
            teardown(target, pattern, data=True)


@pytest.fixture(scope="module")
def followed(target: Target, stack: Settings) -> Chain:
    """The ledger of a minute of traffic in which the TaskManager was killed."""
    provision(target, PATTERN)
    deploy(target, PATTERN, report=print)
    sender = Sender(target, PATTERN, "followed", seconds=SENDS_S, closing_ms=closing_ms(FRAUD))
    deadline = time.monotonic() + 300
    busy: list[Entry] = []
    ended: list[Entry] = []
    labelled: list[Entry] = []

    def is_over(entry: Entry) -> bool:
        busy.extend([entry] if entry.messages else [])
        if len(busy) == KILLED_AFTER and entry is busy[-1]:
            stacks.kill(stack, ["flink-taskmanager"])
            stacks.up(stack, NEEDED)
        if not sender.is_alive() and not ended:
            sender.end()
            ended.append(entry)
        labelled.extend([entry] if "labels" in entry.figures else [])
        is_judged = labelled and ended and not entry.messages and not entry.pending.get("events")
        return (is_judged and entry.cut_ms > busy[-1].cut_ms + 10_000) or time.monotonic() > deadline

    with canaries_sent(target, sender.is_alive):
        follow(target, is_over)
    return ledger.verdicts(target, PATTERN)


@contextmanager
def canaries_sent(target: Target, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Rounds of canaries, as long as they are wanted and the block runs."""
    ended = threading.Event()

    def is_over() -> bool:
        return ended.is_set() or not is_wanted()

    words = {"every_s": ROUND_S, "until": is_over, "report": print}
    sender = threading.Thread(target=canaries.send, args=(target, PATTERN), kwargs=words, daemon=True)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join(2 * ROUND_S)
    assert not sender.is_alive()


def follow(target: Target, until: Callable[[Entry], bool]) -> Entry:
    return ledger.follow(target, PATTERN, every_s=EVERY_S, settle_s=SETTLE_S, limits=LIMITS, until=until, report=print)


def test_a_crash_under_traffic_leaves_an_unbroken_chain_that_is_ok(target: Target, followed: Chain) -> None:
    assert followed.breaks == ()
    wrong = [cause for entry in followed.entries if entry.status != "ok" for cause in entry.causes or (entry.status,)]
    assert not [cause for cause in wrong if HELD_UP not in cause]
    raw = [each.name for each in (*FRAUD.raw, *FRAUD.references)]
    there = topics.lengths(target.bootstrap, {kind: topics_of(load(PATTERN))[kind] for kind in raw})
    assert sum(entry.messages for entry in followed.entries) == sum(there.values())
    judged = sum(entry.figures["conservation"].get("raw", 0) for entry in followed.entries)
    assert judged == there[FRAUD.judged.name]
    found = sum(own.get("found", 0) for entry in followed.entries for own in entry.figures.values())
    assert found > 10, "alerts were judged"


def test_the_labels_of_the_traffic_are_judged_in_one_segment(followed: Chain) -> None:
    (entry,) = [entry for entry in followed.entries if "labels" in entry.figures]
    is_held_up = any(HELD_UP in cause for cause in entry.causes)
    assert is_held_up or {rule.name for rule in FRAUD.rules} <= entry.figures["labels"].keys()


def test_a_lost_state_makes_one_segment_unknown_and_what_follows_assumed(target: Target, followed: Chain) -> None:
    folder = ledger.folder_of(target, load(PATTERN))
    folder.remove(f"state-{followed.entries[-1].number:08d}.jsonl.gz")
    last = followed.entries[-1].number
    follow(target, lambda entry: entry.number >= last + 2)
    found = ledger.verdicts(target, PATTERN)
    assert found.breaks == ()
    assert [entry.status for entry in found.entries[last : last + 2]] == ["unknown", "assumed"]
    assert found.entries[last].causes == (f"the state state-{last:08d}.jsonl.gz is missing",)
    assert found.status == "unknown"


def test_messages_that_were_deleted_before_they_were_judged_make_a_segment_unknown(
    target: Target, followed: Chain
) -> None:
    kind = FRAUD.judged.name
    topic, refused = (topics_of(load(PATTERN))[each] for each in (kind, DEAD_LETTERS.name))
    before = topics.lengths(target.bootstrap, {"refused": refused})["refused"]
    # A partition is read by its key's hash: these come to both.
    topics.publish(target.bootstrap, [(topic, str(n).encode(), b"{") for n in range(20)])

    def are_refused() -> bool:
        return topics.lengths(target.bootstrap, {"refused": refused})["refused"] >= before + 20

    assert wait_until(are_refused, SEEN_WITHIN_S), "the job needs them no longer; only the ledger has not read them"
    with closing(KafkaAdminClient(bootstrap_servers=target.bootstrap)) as admin:
        admin.delete_records({TopicPartition(topic, n): -1 for n in range(load(PATTERN).pattern.partitions)})
    last = ledger.verdicts(target, PATTERN).entries[-1].number
    follow(target, lambda entry: entry.number >= last + 1)
    entry = ledger.verdicts(target, PATTERN).entries[last]
    assert entry.status == "unknown"
    assert entry.causes[0] == f"20 messages of {topic} were deleted before they were judged"


def test_a_foreign_message_in_the_ledger_is_named_and_breaks_it(target: Target, followed: Chain) -> None:
    topic = load(PATTERN).topic(VERDICTS_TOPIC)
    topics.publish(target.bootstrap, [(topic, PATTERN.encode(), b"{}")])
    last = ledger.verdicts(target, PATTERN).entries[-1].number
    follow(target, lambda entry: entry.number >= last + 1)
    found = ledger.verdicts(target, PATTERN)
    assert found.entries[last].status == "unknown"
    assert "its last message is no entry" in found.entries[last].causes[0]
    assert [each.partition(" is ")[2] for each in found.breaks] == ["no entry of a ledger: b'{}'"]


def test_canaries_show_within_two_rounds_that_a_rule_no_longer_alerts(
    target: Target, followed: Chain, stack: Settings
) -> None:
    variant = load(PATTERN)

    def status() -> canaries.Status:
        return canaries.status(target.settings, variant)

    def is_(wanted: str) -> bool:
        return status().status == wanted

    rules = {rule.name for rule in FRAUD.rules}
    try:
        with canaries_sent(target):
            assert wait_until(lambda: is_("alive"), SEEN_WITHIN_S), status()
            assert {each.rule for each in status().rules if each.status == "alive"} == rules
            assert {each.rule for each in status().rules if (each.latency_ms or 0) > 0} == rules
            stacks.kill(stack, ["flink-taskmanager"])
            killed = time.monotonic()
            assert wait_until(lambda: is_("silent"), SEEN_WITHIN_S), status()
            assert time.monotonic() - killed < canaries.SILENT_AFTER_ROUNDS * ROUND_S + 5
            assert wait_until(lambda: {each.status for each in status().rules} == {"silent"}, SEEN_WITHIN_S), status()
    finally:
        stacks.up(stack, NEEDED)
        await_healthy(target, PATTERN)
    series = [
        json.loads(line)
        for file in (target.settings.state / "canaries").glob(f"{PATTERN}.*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert all(each["rules"].keys() == rules for each in series)
    assert any(min(own["alerts"] for own in each["rules"].values()) for each in series), "a round set off each rule"
    assert series[-1]["rules"]["spree"] == {"alerts": 0, "latency_ms": None}


def test_the_alerts_of_canaries_can_be_left_out(target: Target, followed: Chain) -> None:
    # What the job has repeated after the crash may come between the two.
    others, every = (alerts(target, load(PATTERN), no_canaries=each) for each in (True, False))
    ids = {each.alert["alert_id"]: each.alert["subject"].startswith("canary:") for each in every}
    assert {each.alert["rule"] for each in every if ids[each.alert["alert_id"]]} == {rule.name for rule in FRAUD.rules}
    assert {each.alert["alert_id"] for each in others} == {own for own, is_canary in ids.items() if not is_canary}
    assert others


def written(target: Target) -> None:
    """Purchases, and what a job of the pattern would have made of them: topics and tables."""
    variant = load(STORED)
    names, use = topics_of(variant), variant.use
    plan = plan_for(TRAFFIC, 600, 60, seed=3, name="stored", frauds=0.3, customers=100)
    start_ms = int(time.time() * 1000) - 10_000
    for sent in (TRAFFIC.references(plan, ()), TRAFFIC.messages(plan, SECRETS, start_ms)):
        publish(target, [(names[each.topic], each.key, each.value) for each in sent])
    ranks = {each.name: rank for rank, each in enumerate((*use.references, *use.others, use.judged))}
    with closing(topics.Tail(target.bootstrap, {kind: names[kind] for kind in ranks})) as tail:
        tape = sorted(tail.new(), key=lambda r: (r.ingest_ms, ranks[r.topic], r.partition, r.offset))
    events: list[dict[str, Any]] = []
    alerts: list[dict[str, Any]] = []
    letters: list[dict[str, Any]] = []

    def refuse(record: Record, reason: str) -> None:
        letters.append(pretend.letter(record, reason) | {"topic": names[record.topic]})

    known: dict[str, dict[str, oracle.Event]] = {reference.name: {} for reference in use.references}
    for reference in use.references:
        for record in tape:
            if record.topic == reference.name and (reason := oracle.refer(reference, known[reference.name], record)):
                refuse(record, reason)
    raw = [record for record in tape if record.topic not in known]
    for each in oracle.judge(use, variant.event_rules, raw, known):
        if each.reason is not None:
            refuse(each.record, each.reason)
        elif each.record.topic == use.judged.name and each.event is not None:
            events.append({**each.event, "source_topic": names[use.judged.name]})
            at_ms = each.record.ingest_ms
            alerts += [pretend.alert(found, each.event["sent_ms"], at_ms, at_ms) for found in each.findings]
    outputs = {ENRICHED: events, ALERTS.name: alerts, DEAD_LETTERS.name: letters}
    topic_of = {**names, ENRICHED: names[use.enriched.name]}
    keyed = [(kind, pretend.key_of(use, kind, each), each) for kind, own in outputs.items() for each in own]
    publish(target, [(topic_of[kind], key, json.dumps(each).encode()) for kind, key, each in keyed])
    assert len(events) > 20
    assert len(alerts) > 3
    Writer(use, target.stores(variant)).write(events, alerts)


def publish(target: Target, messages: list[tuple[str, bytes | None, bytes | None]]) -> None:
    topics.publish(target.bootstrap, messages)


def test_a_spoilt_row_of_a_table_turns_one_segment_red(target: Target) -> None:
    provision(target, STORED)
    written(target)
    limits = Limits(outstanding_ms=6_000, grace_ms=2_000)

    def next_entries(target: Target, until: Callable[[Entry], bool], more: int = 0) -> list[Entry]:
        found: list[Entry] = []

        def is_over(entry: Entry) -> bool:
            found.append(entry)
            return any(map(until, found[: len(found) - more]))

        ledger.follow(target, STORED, every_s=2, settle_s=0.5, limits=limits, until=is_over, within_s=60, report=print)
        return found

    right = next_entries(target, lambda entry: "rows" in entry.figures["table of customers"], more=3)
    assert {(entry.status, entry.causes) for entry in right} == {("ok", ())}
    assert "rows of tables" not in right[-1].pending
    table = table_of(STORED, "transactions")
    (row, cells), *_ = target.hbase.scan(table, limit=1)
    amount = cells[b"t:amount_cents"]
    target.hbase.put(table, row, {b"t:amount_cents": b"1"})
    target.hbase.put(table_of(STORED, "customers"), b"zoe", {b"s:highest_cents": b"1"})
    spoilt = next_entries(target, lambda entry: entry.status == "failed", more=4)
    # A cut may fall between the two.
    red = [entry for entry in spoilt if entry.status != "ok"]
    assert len(red) <= 2
    count = sum(each.split(b"|")[0] == row.split(b"|")[0] for each, _ in target.hbase.scan(table))
    customer = row.split(b"|")[0].decode()
    assert tuple(cause for entry in red for cause in entry.causes) == (
        f"table of transactions: wrong: one of the {count} rows that begin with {customer} is not what its event left",
        "table of customers: extra: zoe",
    )
    target.hbase.put(table, row, {b"t:amount_cents": amount})
    nowhere = replace(target, addresses={**target.addresses, "HBASE_THRIFT_PORT": "1"})
    (away,) = next_entries(nowhere, lambda entry: True)
    assert away.status == "unknown"
    assert "table of customers: could not be read: HBase does not answer at" in away.causes[1]
