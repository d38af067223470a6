"""Each server is killed as by a crash; it is seen to be dead, comes back, and what was written before is whole."""

import getpass
import json
import os
import signal
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import happybase
import pytest
from hdfs import InsecureClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from millrace import stack as stacks
from millrace.engines.flink import servers as flink
from millrace.machine import archives, environments, jars, processes
from millrace.settings import PROJECT, Settings
from millrace.stack.services import NEEDED, PAGE

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]

JOBS = Path(__file__).parent / "jobs"
NUMBERS = [str(number).encode() for number in range(1000)]


@dataclass(frozen=True)
class Written:
    """What was acknowledged in each store."""

    settings: Settings
    name: str

    def in_kafka(self) -> list[bytes]:
        return read_topic(self.settings, self.name, len(NUMBERS))

    def in_hdfs(self) -> bytes:
        with hdfs_client(self.settings).read(f"/tests/{self.name}") as reader:
            return bytes(reader.read())

    def in_hbase(self) -> dict[bytes, bytes]:
        connection = happybase.Connection("127.0.0.1", self.settings.port("hbase-thrift"))
        try:
            return {key: row[b"f:v"] for key, row in connection.table(self.name).scan()}
        finally:
            connection.close()


def hdfs_client(settings: Settings) -> InsecureClient:
    return InsecureClient(stacks.addresses(settings)["WEBHDFS_URL"], user=getpass.getuser())


def read_topic(settings: Settings, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=stacks.addresses(settings)["KAFKA_BOOTSTRAP"],
        auto_offset_reset="earliest",
        consumer_timeout_ms=60000,
    )
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) >= count:
            break
    consumer.close()
    assert len(found) >= count, f"{topic}: {len(found)} of {count} messages"
    return found


@pytest.fixture(scope="module")
def written(stack: Settings) -> Iterator[Written]:
    name = f"drill-{uuid.uuid4().hex[:8]}"
    bootstrap = stacks.addresses(stack)["KAFKA_BOOTSTRAP"]
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    with KafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in NUMBERS:
            producer.send(name, number)
        producer.flush()
    hdfs_client(stack).write(f"/tests/{name}", b"\n".join(NUMBERS) * 1000)
    connection = happybase.Connection("127.0.0.1", stack.port("hbase-thrift"))
    connection.create_table(name, {"f": {}})
    with connection.table(name).batch() as batch:
        for number in NUMBERS:
            batch.put(b"row-" + number, {b"f:v": number})
    connection.close()
    yield Written(stack, name)
    stacks.up(stack, NEEDED)  # also after a failed drill


OF_FLINK = ("flink-jobmanager", "flink-taskmanager", "flink-gateway")
EVERY_SERVER = ("kafka-1", "namenode", "datanode-1", "datanode-2", "hbase-master", "hbase-thrift", *OF_FLINK)


def test_every_server_that_a_pattern_needs_is_drilled(stack: Settings) -> None:
    assert {*EVERY_SERVER} == processes.records(stack.run).keys() - {PAGE}


@pytest.mark.parametrize("server", EVERY_SERVER)
def test_a_killed_server_is_shown_as_dead_and_comes_back_with_its_data(written: Written, server: str) -> None:
    settings = written.settings
    before = processes.records(settings.run)
    stacks.kill(settings, [server])
    assert {one.name: one.state for one in stacks.status(settings)}[server] == "dead"
    stacks.up(settings, NEEDED)
    after = processes.records(settings.run)
    assert [name for name in after if after[name] != before[name]] == [server]  # and no other was touched
    assert written.in_hdfs() == b"\n".join(NUMBERS) * 1000  # first: an early "ready" shows here
    assert written.in_kafka() == NUMBERS
    assert written.in_hbase() == {b"row-" + number: number for number in NUMBERS}
    assert (flink.rest(settings, "/overview") or {})["slots-total"] == flink.SLOTS


@pytest.mark.drill
def test_hbase_serves_on_after_it_stood_still(written: Written) -> None:
    """As it does while its classes are archived, on a loaded machine for a minute and longer."""
    record = processes.records(written.settings.run)["hbase-master"]
    os.kill(record.pid, signal.SIGSTOP)
    try:
        assert not processes.wait_until(lambda: not processes.alive(record), 30)
    finally:
        os.kill(record.pid, signal.SIGCONT)
    assert not processes.wait_until(lambda: not processes.alive(record), 15), "it lost its session at ZooKeeper"
    assert written.in_hbase() == {b"row-" + number: number for number in NUMBERS}


@pytest.mark.parametrize("end", ["killed", pytest.param("stopped", marks=pytest.mark.drill)])
def test_all_ended_at_once_come_back_with_their_data(written: Written, end: str) -> None:
    settings = written.settings
    archives.make(settings, print, idle=OF_FLINK)
    stacks.kill(settings, EVERY_SERVER) if end == "killed" else stacks.down(settings)
    states = {one.state for one in stacks.status(settings) if one.name in EVERY_SERVER}
    assert states == {"dead" if end == "killed" else "stopped"}
    stacks.up(settings, NEEDED)
    assert written.in_kafka() == NUMBERS
    assert written.in_hdfs() == b"\n".join(NUMBERS) * 1000
    assert written.in_hbase() == {b"row-" + number: number for number in NUMBERS}
    if end == "killed":
        assert {name for name in EVERY_SERVER if maps_an_archive(settings, name)} >= {*EVERY_SERVER} - {*OF_FLINK}


def maps_an_archive(settings: Settings, server: str) -> bool:
    """Whether a server's JVM uses the archive that was made of its classes."""
    maps = Path(f"/proc/{processes.records(settings.run)[server].pid}/maps").read_text()
    return str(settings.home / "archives") in maps


@pytest.mark.drill
def test_a_flink_job_continues_from_its_checkpoint_when_its_taskmanager_is_killed(stack: Settings) -> None:
    addresses = stacks.addresses(stack)
    topic = f"sequence-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=addresses["KAFKA_BOOTSTRAP"]) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    job = submit_sequence(stack, topic)
    try:
        assert processes.wait_until(lambda: completed(stack, job) >= 2, 180)
        stacks.kill(stack, ["flink-taskmanager"])
        killed_at = completed(stack, job)
        stacks.up(stack, NEEDED)
        assert processes.wait_until(lambda: completed(stack, job) > killed_at + 1, 180)
        assert checkpoints(stack, job)["latest"]["restored"]["id"] >= 2
        numbers = [json.loads(value)["number"] for value in read_topic(stack, topic, 500)]
        assert set(numbers) >= set(range(1, max(numbers) + 1))  # some may come twice, none is missing
    finally:
        cancel(stack, job)


def submit_sequence(settings: Settings, topic: str) -> str:
    addresses = stacks.addresses(settings)
    command = [JOBS / "flink_sequence.py", addresses["KAFKA_BOOTSTRAP"], topic, str(settings.port("flink"))]
    return run("flink", command, addresses).splitlines()[-1]


def run(environment: str, command: list[str | Path], variables: dict[str, str]) -> str:
    """What a script printed that ran in the environment of an engine."""
    done = subprocess.run(
        [environments.python(Settings.read(os.environ), environment), *command],
        env=processes.environment({"PYTHONPATH": str(PROJECT), **variables}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def completed(settings: Settings, job: str) -> int:
    """How many checkpoints of a job are complete; the job's number continues after a restart."""
    return int(checkpoints(settings, job)["counts"]["completed"])


def checkpoints(settings: Settings, job: str) -> Any:
    """Flink's figures of a job's checkpoints, as soon as it answers."""
    answers: list[Any] = []

    def is_answered() -> bool:
        answers.append(flink.rest(settings, f"/jobs/{job}/checkpoints"))
        return bool(answers[-1])

    assert processes.wait_until(is_answered, 120)
    return answers[-1]


def cancel(settings: Settings, job: str) -> None:
    request = urllib.request.Request(f"{flink.rest_url(settings)}/jobs/{job}?mode=cancel", method="PATCH")
    urllib.request.urlopen(request, timeout=10).close()


@pytest.mark.drill
def test_a_spark_job_reads_kafka_and_writes_hdfs(written: Written) -> None:
    addresses = stacks.addresses(written.settings)
    folder = f"{addresses['HDFS_URI']}/tests/{written.name}-copy"
    connector = jars.folder(written.settings, "spark")
    printed = run(
        "spark", [JOBS / "spark_copy.py", addresses["KAFKA_BOOTSTRAP"], written.name, folder, str(connector)], addresses
    )
    assert printed.splitlines()[-1].encode().split(b",") == NUMBERS
    names = hdfs_client(written.settings).list(f"/tests/{written.name}-copy")
    assert "_SUCCESS" in names
