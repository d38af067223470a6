"""A ledger on a running pattern: segments under traffic, a crash, a state that is gone, messages that were deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, TopicPartition

from millrace import stack as stacks
from millrace.patterns import load
from millrace.patterns import topics as topics_of
from millrace.rules.outputs import VERDICTS_TOPIC
from millrace.settings import Settings
from millrace.stack.services import NEEDED
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs import ledger
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown
from millrace.verify.ledger.chain import Chain, Entry
from millrace.verify.ledger.step import Limits
from pipelines.fraud import FRAUD
from tests.patterns import Sender, own_patterns

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PATTERN = "followed"
EVERY_S, SETTLE_S, SENDS_S = 10.0, 3.0, 50.0
LIMITS = Limits(outstanding_ms=90_000, grace_ms=15_000)
KILLED_AFTER = 2
"""Segments with messages."""


@pytest.fixture(scope="module")
def target(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target.read(stack, {})
    said = {PATTERN: {"of": "flink", "stages": {"persist": None}}}
    with own_patterns(tmp_path_factory.mktemp("patterns"), said):
        yield target
        teardown(target, PATTERN, data=True)


@pytest.fixture(scope="module")
def followed(target: Target, stack: Settings) -> Chain:
    """The ledger of a minute of traffic in which the TaskManager was killed."""
    provision(target, PATTERN)
    deploy(target, PATTERN, report=print)
    sender = Sender(target, PATTERN, "followed", seconds=SENDS_S)
    deadline = time.monotonic() + 300
    busy: list[Entry] = []

    def is_over(entry: Entry) -> bool:
        busy.extend([entry] if entry.messages else [])
        if len(busy) == KILLED_AFTER and entry is busy[-1]:
            stacks.kill(stack, ["flink-taskmanager"])
            stacks.up(stack, NEEDED)
        is_judged = not sender.is_alive() and not entry.messages and not entry.pending.get("events")
        return (is_judged and entry.cut_ms > busy[-1].cut_ms + 30_000) or time.monotonic() > deadline

    follow(target, is_over)
    sender.end()
    return ledger.verdicts(target, PATTERN)


def follow(target: Target, until: Callable[[Entry], bool]) -> Entry:
    return ledger.follow(target, PATTERN, every_s=EVERY_S, settle_s=SETTLE_S, limits=LIMITS, until=until, report=print)


def test_a_crash_under_traffic_leaves_an_unbroken_chain_that_is_ok(target: Target, followed: Chain) -> None:
    assert followed.breaks == ()
    assert [(span.status, span.causes) for span in followed.spans()] == [("ok", ())]
    raw = [each.name for each in (*FRAUD.raw, *FRAUD.references)]
    there = topics.lengths(target.bootstrap, {kind: topics_of(load(PATTERN))[kind] for kind in raw})
    assert sum(entry.messages for entry in followed.entries) == sum(there.values())
    judged = sum(entry.figures["conservation"].get("raw", 0) for entry in followed.entries)
    assert judged == there[FRAUD.judged.name]
    found = sum(own.get("found", 0) for entry in followed.entries for own in entry.figures.values())
    assert found > 10, "alerts were judged"


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
    topic = topics_of(load(PATTERN))[kind]
    # A partition is read by its key's hash: these come to both.
    topics.publish(target.bootstrap, [(topic, str(n).encode(), b"{") for n in range(20)])
    with closing(KafkaAdminClient(bootstrap_servers=target.bootstrap)) as admin:
        admin.delete_records({TopicPartition(topic, n): -1 for n in range(load(PATTERN).pattern.partitions)})
    last = ledger.verdicts(target, PATTERN).entries[-1].number
    follow(target, lambda entry: entry.number >= last + 1)
    entry = ledger.verdicts(target, PATTERN).entries[last]
    assert entry.status == "unknown"
    assert entry.causes[0] == f"20 messages of {topic} were deleted before they were judged"


def test_a_foreign_message_in_the_ledger_is_named_and_breaks_it(target: Target, followed: Chain) -> None:
    topic = load(PATTERN).topic(VERDICTS_TOPIC)
    topics.publish(target.bootstrap, [(topic, b"x", b"{}")])
    last = ledger.verdicts(target, PATTERN).entries[-1].number
    follow(target, lambda entry: entry.number >= last + 1)
    found = ledger.verdicts(target, PATTERN)
    assert found.entries[last].status == "unknown"
    assert "its last message is no entry" in found.entries[last].causes[0]
    assert [each.partition(" is ")[2] for each in found.breaks] == ["no entry of a ledger: b'{}'"]
