"""A listener beside the traffic: when a reader received each alert and each bare hop.

It is a process of its own, so that neither the sender nor its garbage collection delays what it measures.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from millrace.machine.processes import wait_until
from millrace.patterns.plan import HOP
from millrace.rules import ALERTS
from millrace.stores.topics import TopicError, group, listed
from millrace.traffic.runs import Span, is_within

READY_WITHIN_S = 30
STOPS_WITHIN_S = 10


@contextmanager
def listening(bootstrap: str, topics: Mapping[str, str], into: Path) -> Iterator[None]:
    """Record the arrival of every alert and hop while the block runs, one JSON line each."""
    into.parent.mkdir(parents=True, exist_ok=True)
    # Spawned, not forked: the sender's client has threads of its own.
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    listener = context.Process(target=listen, args=(bootstrap, dict(topics), into, ready, stop), daemon=True)
    listener.start()
    try:
        # A listener that cannot start does not stop the traffic: its arrivals are then not measured.
        wait_until(lambda: ready.is_set() or not listener.is_alive(), READY_WITHIN_S)
        yield
    finally:
        stop.set()
        listener.join(STOPS_WITHIN_S)
        if listener.is_alive():
            listener.kill()


def listen(bootstrap: str, topics: Mapping[str, str], into: Path, ready: Event, stop: Event) -> None:
    """Record alerts and hops from now on until `stop` is set, or until the sender was killed."""
    sender = multiprocessing.parent_process()
    kinds = {topics[kind]: kind for kind in (ALERTS.name, HOP) if kind in topics}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group(topics, "listening"),  # the client requires one; no offset is ever committed under it
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 500,  # an empty fetch waits at the broker, one with a message returns at once
            "fetch.error.backoff.ms": 10,
            "log_level": 0,
        }
    )
    try:
        there = listed(consumer, bootstrap)
        if any(topic not in there for topic in kinds):
            return  # the sender reports it
        places = [TopicPartition(topic, number) for topic in kinds for number in there[topic].partitions]
        # The ends by number: OFFSET_END is resolved at the first fetch, and messages before it would be missed.
        ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
        consumer.assign([TopicPartition(p.topic, p.partition, end) for p, end in zip(places, ends, strict=True)])
        ready.set()
        with into.open("a", encoding="utf-8", buffering=1) as opened:
            while not stop.is_set() and (sender is None or os.getppid() == sender.pid):
                message = consumer.poll(0.1)
                if message is None or message.error():
                    continue
                opened.write(json.dumps(arrival(kinds[message.topic() or ""], message.value(), time.time())) + "\n")
    except (KeyboardInterrupt, KafkaException, TopicError):
        pass  # the sender was interrupted, or reports the same error
    finally:
        consumer.close()


def recorded(path: Path, uncounted_ms: Sequence[Span] = ()) -> tuple[dict[str, float], list[float]]:
    """When each alert was first received, by id, and how long the bare hops that count took from their due time.

    A line that was cut when the listener was killed counts as not received.
    """
    alerts: dict[str, float] = {}
    hops: list[float] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
                kind, received_ms, sent_ms = entry["kind"], float(entry["received_ms"]), entry["sent_ms"]
                if kind == HOP and not is_within(uncounted_ms, sent_ms):
                    hops.append(received_ms - sent_ms)
                elif kind != HOP and isinstance(entry["alert_id"], str):
                    alerts.setdefault(entry["alert_id"], received_ms)
            except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
                continue
    return alerts, hops


def arrival(kind: str, value: bytes | None, now_s: float) -> dict[str, Any]:
    """What is noted of a message; of one that cannot be read, its time alone."""
    try:
        content = json.loads(value or b"")
    except (ValueError, RecursionError):
        content = {}
    content = content if isinstance(content, dict) else {}
    return {
        "kind": kind,
        "received_ms": round(now_s * 1000, 1),
        "sent_ms": content.get("sent_ms"),
        "alert_id": content.get("alert_id"),
    }
