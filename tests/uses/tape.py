"""`python -m tests.uses.tape BOOTSTRAP PATTERN SEED SECONDS`: readings of many sensors, in any order and shape."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from kafka import KafkaProducer

PER_S = 150
SENSORS, SITES, CODES = 30, 4, (200, 200, 301, 401, 403)
POISON = (b"", b"{", b"\xff", b"[]", b'{"topic":"a"}', b'{"topic":"a","group":"b","value":9999,"at_ms":1}')
CLOSES_FOR_S, CLOSERS = 14, 8
EDGES_MS = 1_000
"""Every tumbling and sliding window of the use begins and ends at a multiple of it."""


Due = tuple[float, str, bytes, Callable[[int], bytes | None]]
"""After how many seconds a message is due, its topic and key, and what makes it of the moment at which it is sent."""


def main(argv: Sequence[str]) -> None:
    bootstrap, pattern, seed, seconds = argv
    send(bootstrap, plan(pattern, random.Random(seed), float(seconds)))


def send(bootstrap: str, due: Iterable[Due]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), linger_ms=5)
    began = time.monotonic()
    for after_s, topic, key, value in due:
        time.sleep(max(0.0, began + after_s - time.monotonic()))
        producer.send(topic, value(int(time.time() * 1000)), key)
    producer.flush()


def plan(pattern: str, random_: random.Random, seconds: float) -> Iterator[Due]:
    topic = f"{pattern}.readings"
    for number, (key, value) in enumerate(messages(random_, seconds)):
        yield number / PER_S, topic, key, value
    for after_s, number in closing(seconds):
        event = {"topic": f"closer-{number}", "group": f"none-{number}", "value": 200}
        yield after_s, topic, f"closer-{number}".encode(), partial(read, event, 0, None)


def closing(seconds: float) -> Iterator[tuple[float, int]]:
    """Moments and numbers of keys: event time passes in every partition until the last windows are complete."""
    return ((seconds + step / 2, number) for step in range(CLOSES_FOR_S * 2) for number in range(CLOSERS))


def messages(random_: random.Random, seconds: float) -> Iterator[tuple[bytes, Callable[[int], bytes]]]:
    """Keys, and what makes each message of the moment at which it is sent."""
    failing, sensors = "s|0", [f"s{number}" for number in range(SENSORS)] + ["s|0", "s%7C0", "s|0|", "41"]
    for number in range(int(seconds * PER_S)):
        if number and number % (6 * PER_S) == 0:
            failing = random_.choice(sensors)
        sensor = failing if random_.random() < 0.3 else random_.choice(sensors)
        if random_.random() < 0.02:
            poison = random_.choice(POISON)
            yield sensor.encode(), lambda now_ms, poison=poison: poison
            continue
        event = {
            "topic": int(sensor) if sensor.isdigit() else sensor,
            "group": f"site-{random_.randrange(SITES)}",
            "value": random_.choice((401, 403)) if sensor == failing else random_.choice(CODES),
            "offset": random_.choice((None, 1, -7, 2**62, -(2**62))),
            "Order": random_.choice((None, -0.0, 0.0, round(random_.uniform(-50, 50), 3))),
        }
        event = {name: value for name, value in event.items() if value is not None or random_.random() < 0.5}
        behind_ms = 0 if random_.random() < 0.5 else random_.randrange(900)
        behind_ms = 20_000 if random_.random() < 0.005 else behind_ms
        beside_ms = number % 3 - 1 if number % 7 == 0 else None
        reading = partial(read, event, behind_ms, beside_ms)
        yield sensor.encode(), reading
        if random_.random() < 0.02:  # an identical neighbour is another reading
            yield sensor.encode(), reading


def read(event: dict[str, Any], behind_ms: int, beside_ms: int | None, now_ms: int) -> bytes:
    """An event of some time ago, or of a millisecond at the edge of a window, where one has just been."""
    since_edge_ms = now_ms % EDGES_MS
    at_ms = now_ms - behind_ms if beside_ms is None or since_edge_ms > 900 else now_ms - since_edge_ms + beside_ms
    return json.dumps({**event, "at_ms": at_ms}).encode()


if __name__ == "__main__":
    main(sys.argv[1:])
