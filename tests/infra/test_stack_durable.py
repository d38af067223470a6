"""The durable profile: HBase in parts on HDFS and three brokers, so that clients continue when one dies."""

from collections.abc import Iterator

import happybase
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from millrace import stack as stacks
from millrace.machine import processes
from millrace.settings import Settings
from tests.conftest import settings_for_tests

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(900)]

PARTS = ["zookeeper", "hbase-master", "hbase-regionserver"]
ROWS = {b"row-%04d" % number: b"%d" % number for number in range(1000)}


@pytest.fixture(scope="module")
def durable(test_port_base: int) -> Iterator[Settings]:
    settings = settings_for_tests("durable", test_port_base + 200)
    stacks.down(settings, purge=True)
    stacks.up(settings, ["kafka", "hbase"], ["durable"], report=print)
    yield settings
    stacks.down(settings)


@pytest.fixture(scope="module")
def table(durable: Settings) -> str:
    connection = happybase.Connection("127.0.0.1", durable.port("hbase-thrift"))
    connection.create_table("rows", {"f": {}})
    with connection.table("rows").batch() as batch:
        for key, value in ROWS.items():
            batch.put(key, {b"f:v": value})
    connection.close()
    return "rows"


def rows(settings: Settings, table: str) -> dict[bytes, bytes]:
    connection = happybase.Connection("127.0.0.1", settings.port("hbase-thrift"))
    try:
        return {key: row[b"f:v"] for key, row in connection.table(table).scan()}
    finally:
        connection.close()


def test_hbase_is_in_parts_and_everything_listens_on_loopback(durable: Settings) -> None:
    recorded = processes.records(durable.run)
    assert {"zookeeper", "hbase-master", "hbase-regionserver", "kafka-3"} <= set(recorded)
    assert {ip for record in recorded.values() for ip, _ in processes.listening(record)} == {"127.0.0.1"}


def test_three_brokers_are_one_cluster_that_keeps_three_copies(durable: Settings) -> None:
    bootstrap = stacks.addresses(durable)["KAFKA_BOOTSTRAP"]
    assert bootstrap.count(",") == 2
    with KafkaAdminClient(bootstrap_servers=bootstrap.split(",")) as admin:
        assert {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]} == {1, 2, 3}


def test_what_was_acknowledged_is_there_though_a_broker_dies_meanwhile(durable: Settings) -> None:
    bootstrap = stacks.addresses(durable)["KAFKA_BOOTSTRAP"].split(",")
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("numbers", num_partitions=1, replication_factor=3)])
    acknowledged = []
    with KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=50) as producer:
        for number in range(300):
            if number == 100:
                stacks.kill(durable, ["kafka-2"])
            producer.send("numbers", str(number).encode()).get(timeout=60)
            acknowledged.append(str(number).encode())
    stacks.up(durable, ["kafka"])
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60000)
    consumer.assign([TopicPartition("numbers", 0)])
    consumer.seek_to_beginning()
    found = [record.value for _, record in zip(acknowledged, consumer, strict=False)]
    consumer.close()
    assert found == acknowledged


@pytest.mark.parametrize("killed", [PARTS, *(pytest.param([part], marks=pytest.mark.drill) for part in PARTS)])
def test_rows_survive_the_death_of_parts_of_hbase(durable: Settings, table: str, killed: list[str]) -> None:
    stacks.kill(durable, killed)
    stacks.up(durable, ["hbase"])
    assert rows(durable, table) == ROWS


@pytest.mark.drill
def test_rows_survive_a_stop_and_a_start(durable: Settings, table: str) -> None:
    stacks.down(durable)
    stacks.up(durable, ["hbase"])
    assert rows(durable, table) == ROWS
