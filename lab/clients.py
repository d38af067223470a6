"""The processor time of a message in each of the two Kafka clients, each in a process of its own.

`python -m lab.clients` needs the stack's Kafka and leaves a record.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from statistics import median

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from millrace import records, stack
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.topics import Topic

TOPIC, MESSAGES, SIZE, REPEATS = "lab.clients", 50_000, 300, 3


def main() -> None:
    """Measure both clients, in turns."""
    settings = Settings.read(os.environ)
    bootstrap = stack.addresses(settings)["KAFKA_BOOTSTRAP"]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
    for _ in range(REPEATS):
        for name in CLIENTS:
            topics.remove(bootstrap, [TOPIC])
            topics.ensure(bootstrap, [Topic(TOPIC, 1)])
            command = [sys.executable, "-m", "lab.clients", name, bootstrap]
            found[name].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    topics.remove(bootstrap, [TOPIC])
    figures = {
        "messages": MESSAGES,
        "bytes_each": SIZE,
        "cpu_us_per_message": {
            name: {what: [run[what] for run in runs] for what in ("written", "read")} for name, runs in found.items()
        },
        "times_the_cpu": {
            what: round(
                median(r[what] for r in found["kafka-python"]) / median(r[what] for r in found["confluent-kafka"]), 1
            )
            for what in ("written", "read")
        },
    }
    print(json.dumps(figures, indent=1), records.append(settings, "kafka-clients", figures))


def confluent(bootstrap: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Write and read with librdkafka."""

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
        for number in range(MESSAGES):
            producer.produce(TOPIC, b"x" * SIZE, b"%d" % number)
            producer.poll(0)
        producer.flush()

    def read() -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "lab", "enable.auto.commit": False})
        consumer.assign([Place(TOPIC, 0, 0)])
        count = 0
        while count < MESSAGES:
            count += sum(1 for message in consumer.consume(5_000, 1) if message.value())
        consumer.close()

    return write, read


def pure(bootstrap: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Write and read with kafka-python."""

    def write() -> None:
        producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, acks="all")
        for number in range(MESSAGES):
            producer.send(TOPIC, b"x" * SIZE, b"%d" % number)
        producer.flush()
        producer.close()

    def read() -> None:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, max_poll_records=5_000)
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        count = 0
        while count < MESSAGES:
            count += sum(len(batch) for batch in consumer.poll(timeout_ms=1_000).values())
        consumer.close()

    return write, read


CLIENTS = {"kafka-python": pure, "confluent-kafka": confluent}


def _cpu_us(work: Callable[[], None]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(seconds * 1e6 / MESSAGES, 2)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        writing, reading = CLIENTS[sys.argv[1]](sys.argv[2])
        print(json.dumps({"written": _cpu_us(writing), "read": _cpu_us(reading)}))
