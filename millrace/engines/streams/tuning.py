"""The settings on which latency, delivery and recovery rest, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.registry import CHANGELOG

IDLE_MS = 5_000  # a partition without traffic holds back no window for longer than this
COMMIT_EVERY_MS = {
    # What a restart repeats at most. No alert of single events waits for it; windows close by what is committed.
    "at-least-once-with-ids": 250,
    "exactly-once": 100,  # no reader gets an output before its commit
}
HEAP_MB = 512

SETTINGS: Mapping[str, str] = {
    # A task waits for what is known to lie in Kafka, and for nothing else: the order of arrival (decision 0005).
    "max.task.idle.ms": "0",
    "group.protocol": "classic",
    # What changes between two commits fits into it. No larger: each look at forgotten ids copies all its keys.
    "statestore.cache.max.bytes": str(4 << 20),
    # An aborted transaction has no messages; nor has it a state, which may be that of a generation with other promises.
    "consumer.isolation.level": "read_committed",
    "main.consumer.auto.offset.reset": "none",  # a person accepts the loss of unread messages
    # A message that stays in the consumer keeps its partition out of the next request (decision 0060).
    "main.consumer.max.poll.records": str(2**31 - 1),
    "main.consumer.session.timeout.ms": "6000",  # the shortest that brokers allow
    "main.consumer.heartbeat.interval.ms": "2000",
    "producer.linger.ms": "0",  # outputs leave at once; many at once still travel in batches
    "producer.acks": "all",
    "producer.enable.idempotence": "true",
    "producer.max.request.size": CHANGELOG["max.message.bytes"],
}


def settings_of(delivery: str) -> dict[str, str]:
    """The settings of a job with a delivery guarantee."""
    return {**SETTINGS, "commit.interval.ms": str(COMMIT_EVERY_MS[delivery])}
