"""The settings on which latency, delivery and recovery rest, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.registry import CHANGELOG

IDLE_MS = 5_000  # a partition without traffic holds back no window for longer than this
HEAP_MB = 384
CHECKPOINT_EVERY_MS = {
    "at-least-once-with-ids": 250,  # what a restart repeats at most; no alert waits for it
    "exactly-once": 100,  # no reader gets an output before its commit
    "at-most-once": 50,  # an output waits until its state is written; what was judged since is lost with the worker
}

SETTINGS: Mapping[str, str] = {
    # Messages between tasks stay in the process: a worker's server has no address to bind to (decision 0048).
    "topology.workers": "1",
    "topology.acker.executors": "1",
    "topology.max.spout.pending": "5000",  # more than the bolt judges between two checkpoints
    "topology.message.timeout.secs": "120",  # a checkpoint waits for Kafka for so long
    "topology.eventlogger.executors": "0",
    "consumer.isolation.level": "read_committed",  # an aborted transaction has no messages
    "consumer.enable.auto.commit": "false",
    "consumer.auto.offset.reset": "none",  # a person accepts the loss of unread messages
    # A message that stays in the consumer keeps its partition out of the next request (decision 0060).
    "consumer.max.poll.records": str(2**31 - 1),
    "producer.linger.ms": "0",  # outputs leave at once; many at once still travel in batches
    "producer.acks": "all",
    "producer.enable.idempotence": "true",
    # Readers wait for a transaction that a task has left open, and with fewer tasks none takes it over. A task commits
    # each second at the latest; one that Kafka does not answer for so long begins anew from what is committed.
    "producer.transaction.timeout.ms": "10000",
    "producer.max.request.size": CHANGELOG["max.message.bytes"],
}

UNACKNOWLEDGED: Mapping[str, str] = {
    # What waits for its turn to be judged is lost with the worker.
    "topology.executor.receive.buffer.size": "256",
    "keeper.linger.ms": "1000",  # until the flush: the state of a checkpoint is one batch
    "keeper.batch.size": "900000",  # a larger memory of one key is a batch of its own
}
"""At most once: Storm counts no pending tuples."""


def settings_of(pattern: str, delivery: str) -> dict[str, str]:
    """The settings of a pattern's job with a delivery guarantee."""
    own = {"checkpoint.every.ms": str(CHECKPOINT_EVERY_MS[delivery]), "state.topic": f"{pattern}-memory"}
    return {**SETTINGS, **(UNACKNOWLEDGED if delivery == "at-most-once" else {}), **own}
