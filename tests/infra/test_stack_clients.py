"""It answers real clients as a real cluster does."""

import getpass
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import happybase
import pytest
from confluent_kafka import Consumer, Producer
from hdfs import HdfsError, InsecureClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from millrace import stack as stacks
from millrace.dashboard import archive as archives
from millrace.dashboard.archive import Archive, Filter
from millrace.engines.flink import servers as flink
from millrace.machine.processes import wait_until
from millrace.settings import Settings
from millrace.stores import topics
from tests.dashboard.test_archive import VARIANT, alert

pytestmark = pytest.mark.stack


@pytest.fixture
def topic(stack: Settings) -> Iterator[str]:
    name = f"clients-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=stacks.addresses(stack)["KAFKA_BOOTSTRAP"]) as admin:
        admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
        yield name
        admin.delete_topics([name])


def test_kafka_keeps_what_is_produced_in_order_within_a_partition(stack: Settings, topic: str) -> None:
    bootstrap = stacks.addresses(stack)["KAFKA_BOOTSTRAP"]
    sent = [f"{number}".encode() for number in range(1000)]
    with KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
        for value in sent:
            producer.send(topic, value, partition=1)
        producer.flush()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60000)
    consumer.assign([TopicPartition(topic, 1)])
    consumer.seek_to_beginning()
    received = [next(consumer).value for _ in sent]
    consumer.close()
    assert received == sent


def test_a_topic_without_its_beginning_is_reported_as_such(stack: Settings, topic: str) -> None:
    bootstrap = stacks.addresses(stack)["KAFKA_BOOTSTRAP"]
    topics.publish(bootstrap, [(topic, b"key", b"%d" % number) for number in range(10)])
    with closing(topics.Tail(bootstrap, {"events": topic})) as tail:
        sent = list(tail.new())
        assert len(sent) == 10
        assert tail.deleted() == set()
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.delete_records({TopicPartition(topic, sent[0].partition): 3})
        assert list(tail.new()) == []
        assert tail.deleted() == {"events"}


@dataclass(frozen=True)
class Spread:
    """A topic with messages of the first second, the second one and so on, in some of its partitions."""

    bootstrap: str
    topic: str
    began_ms: int
    """Ahead of the clock: the markers of transactions, which have the broker's time, are before all messages."""

    def at_ms(self, second: int) -> int:
        return self.began_ms + second * 1_000

    def write(self, partition: int, seconds: Sequence[int], *, is_committed: bool = True) -> None:
        """Write messages in one transaction; its marker takes an offset of its own."""
        transactional = {"bootstrap.servers": self.bootstrap, "transactional.id": f"{self.topic}-{partition}"}
        producer = Producer({**topics.PRODUCER, **transactional})
        producer.init_transactions(30)
        producer.begin_transaction()
        for second in seconds:
            producer.produce(self.topic, b"{}", partition=partition, timestamp=self.at_ms(second))
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)

    @contextmanager
    def read(self) -> Iterator[topics.Tail]:
        with closing(topics.Tail(self.bootstrap, {"events": self.topic})) as tail:
            yield tail


#                   offset  0  1  2  3  4  5  6  7
HEADLESS = 0  #             -  -  3  4  5  |          what is left of five seconds
EMPTY = 1
ABORTED_WITHIN = 2  #       1  |  x  x  |  4  |
ABORTED = 3  #              x  x  |
EVERY = (HEADLESS, EMPTY, ABORTED_WITHIN, ABORTED)


@pytest.fixture(scope="module")
def spread(stack: Settings) -> Iterator[Spread]:
    bootstrap, name = stacks.addresses(stack)["KAFKA_BOOTSTRAP"], f"clients-{uuid.uuid4().hex[:8]}"
    found = Spread(bootstrap, name, time.time_ns() // 1_000_000 + 60_000)
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=len(EVERY), replication_factor=1)])
        found.write(HEADLESS, [1, 2, 3, 4, 5])
        admin.delete_records({TopicPartition(name, HEADLESS): 2})
        found.write(ABORTED_WITHIN, [1])
        found.write(ABORTED_WITHIN, [2, 3], is_committed=False)
        found.write(ABORTED_WITHIN, [4])
        found.write(ABORTED, [2, 6], is_committed=False)
        yield found
        admin.delete_topics([name])


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        pytest.param({}, dict.fromkeys(EVERY, 8), {(0, 2), (0, 3), (0, 4), (2, 0), (2, 5)}, id="all"),
        pytest.param({HEADLESS: 3}, {HEADLESS: 4}, {(0, 3)}, id="one"),
        pytest.param({HEADLESS: 3, ABORTED_WITHIN: 5}, {HEADLESS: 3, ABORTED_WITHIN: 6}, {(2, 5)}, id="one of two"),
        pytest.param({ABORTED_WITHIN: 1}, {ABORTED_WITHIN: 5}, set(), id="what was taken back"),
        pytest.param({HEADLESS: 0}, {HEADLESS: 2}, set(), id="what was deleted"),
        pytest.param({HEADLESS: 1}, {HEADLESS: 3}, {(0, 2)}, id="what is left"),
        pytest.param({HEADLESS: 8, EMPTY: 1}, {HEADLESS: 9, EMPTY: 2}, set(), id="beyond the end"),
        pytest.param({HEADLESS: 4}, {HEADLESS: 10**17, 7: 3}, {(0, 4)}, id="a partition that is not there"),
    ],
)
def test_what_lies_between_offsets_is_read(
    spread: Spread, since: dict[int, int], until: dict[int, int], expected: set[tuple[int, int]]
) -> None:
    with spread.read() as tail:
        read = [(each.partition, each.offset) for each in tail.between("events", since, until, tail.spans()["events"])]
    assert (len(read), set(read)) == (len(expected), expected)


def test_what_was_deleted_since_the_ends_were_read_hides_nothing_behind_it(stack: Settings, topic: str) -> None:
    bootstrap = stacks.addresses(stack)["KAFKA_BOOTSTRAP"]
    topics.publish(bootstrap, [(topic, b"key", b"%d" % number) for number in range(10)])
    with closing(topics.Tail(bootstrap, {"events": topic})) as tail:
        spans = tail.spans()["events"]
        (partition,) = (number for number, (_, end) in spans.items() if end)
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.delete_records({TopicPartition(topic, partition): 3})
        left = tail.between("events", {}, {partition: 8}, spans)
        assert [each.offset for each in left] == [3, 4, 5, 6, 7]


def test_a_file_of_alerts_asks_for_the_ends_of_64_partitions_once(
    stack: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap, name = stacks.addresses(stack)["KAFKA_BOOTSTRAP"], f"alerts-{uuid.uuid4().hex[:8]}"
    found, asked = [alert(each, each % 64, each // 64, 0) for each in range(6_400)], Counter[int]()

    def counted(reader: Consumer, bootstrap: str, place: tuple[str, int]) -> tuple[int, int]:
        asked[place[1]] += 1
        return span(reader, bootstrap, place)

    span = topics.span
    monkeypatch.setattr(topics, "span", counted)
    monkeypatch.setattr(archives, "dispositions", lambda target, variant: {})
    monkeypatch.setattr(Archive, "_opened", lambda *_: topics.Tail(bootstrap, {"alerts": name}))
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=64, replication_factor=1)])
        producer = Producer({**topics.PRODUCER, "bootstrap.servers": bootstrap})
        for each in found:
            producer.produce(name, each.value, partition=each.partition)
            producer.poll(0)
        assert producer.flush(30) == 0
        written = Archive(None).export(VARIANT, Filter(), ".csv")  # type: ignore[arg-type] # it opens the topic above
        admin.delete_topics([name])
    assert len(written.splitlines()) == 1 + len(found)
    assert asked == dict.fromkeys(range(64), 1)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(0, {HEADLESS: 2, ABORTED_WITHIN: 0, ABORTED: 0}, id="before the first"),
        pytest.param(1, {HEADLESS: 2, ABORTED_WITHIN: 0, ABORTED: 0}, id="at the first"),
        pytest.param(2, {HEADLESS: 2, ABORTED_WITHIN: 2, ABORTED: 0}, id="at one that was taken back"),
        pytest.param(4, {HEADLESS: 3, ABORTED_WITHIN: 5, ABORTED: 1}, id="between two"),
        pytest.param(5, {HEADLESS: 4, ABORTED: 1}, id="at the last"),
        pytest.param(7, {}, id="after the last"),
    ],
)
def test_the_offset_of_a_moment_is_that_of_the_first_message_from_then_on(
    spread: Spread, second: int, expected: dict[int, int]
) -> None:
    with spread.read() as tail:
        assert tail.offsets_at("events", spread.at_ms(second)) == expected


def test_who_reads_as_a_group_is_named_until_it_ends(stack: Settings, topic: str) -> None:
    bootstrap, group = stacks.addresses(stack)["KAFKA_BOOTSTRAP"], f"group-{topic}"
    assert topics.members(bootstrap, group) == []
    reader = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, client_id="somebody")
    with closing(reader):
        assert wait_until(lambda: reader.poll(100) or topics.members(bootstrap, group), 60)
        assert topics.members(bootstrap, group) == ["somebody at 127.0.0.1"]
    assert topics.members(bootstrap, group) == []


def test_kafka_refuses_an_undeclared_topic(stack: Settings) -> None:
    bootstrap = stacks.addresses(stack)["KAFKA_BOOTSTRAP"]
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics(["nobody-declared-this"])
        assert "nobody-declared-this" not in admin.list_topics()


def test_kafka_refuses_to_make_a_topic_twice(stack: Settings, topic: str) -> None:
    with (
        KafkaAdminClient(bootstrap_servers=stacks.addresses(stack)["KAFKA_BOOTSTRAP"]) as admin,
        pytest.raises(TopicAlreadyExistsError),
    ):
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])


def test_hdfs_gives_back_sixteen_megabytes_byte_for_byte(stack: Settings) -> None:
    client = InsecureClient(stacks.addresses(stack)["WEBHDFS_URL"], user=owner())
    content = bytes(range(256)) * 65536
    client.write("/tests/clients/big one é", content, overwrite=True)
    try:
        with client.read("/tests/clients/big one é") as reader:
            assert reader.read() == content
        found = client.status("/tests/clients/big one é")
        assert (found["length"], found["replication"]) == (len(content), 2)
    finally:
        client.delete("/tests/clients", recursive=True)


def test_hdfs_refuses_a_user_who_does_not_own_the_folder(stack: Settings) -> None:
    mine = InsecureClient(stacks.addresses(stack)["WEBHDFS_URL"], user=owner())
    mine.makedirs("/tests/private", permission="700")
    try:
        with pytest.raises(HdfsError, match="Permission denied"):
            InsecureClient(stacks.addresses(stack)["WEBHDFS_URL"], user="somebody").write("/tests/private/a", b"x")
    finally:
        mine.delete("/tests/private", recursive=True)


def test_hbase_keeps_versions_counters_and_scans_by_prefix(stack: Settings) -> None:
    connection = happybase.Connection("127.0.0.1", stack.port("hbase-thrift"))
    name = f"clients_{uuid.uuid4().hex[:8]}"
    connection.create_table(name, {"f": {"max_versions": 3}})
    try:
        table = connection.table(name)
        with table.batch() as batch:
            for number in range(500):
                batch.put(f"row-{number:04}".encode(), {b"f:value": str(number).encode()})
        table.put(b"row-0000", {b"f:value": b"newer"})
        assert table.cells(b"row-0000", b"f:value") == [b"newer", b"0"]
        assert [key for key, _ in table.scan(row_prefix=b"row-04")][:2] == [b"row-0400", b"row-0401"]
        assert len(list(table.scan())) == 500
        assert table.counter_inc(b"count", b"f:n", 5) == 5
    finally:
        connection.delete_table(name, disable=True)
        connection.close()


def test_flink_does_nothing_for_another_web_page(stack: Settings) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(f"{flink.rest_url(stack)}/jars/upload", b"x"), timeout=5)
    assert refused.value.code == 404
    own = flink.rest_url(stack)
    with urllib.request.urlopen(f"{own}/overview", timeout=5) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == own
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert answers(f"{own}/", link) == answers(f"{own}/overview", {"Origin": own}) == 200
    assert answers(f"{own}/overview", {"Sec-Fetch-Site": "same-origin"}) == 200
    assert answers(f"{own}/jobs", {"Origin": "http://elsewhere.example"}, b"{}") == 403  # a form with a job in it
    assert answers(f"{own}/jobs", {"Origin": "null"}, b"{}") == 403
    assert answers(f"{own}/jobs/{'0' * 32}/yarn-cancel", link) == 403
    assert answers(f"{own}/jobs/{'0' * 32}/yarn-cancel", {"Sec-Fetch-Site": "cross-site"}) == 403  # an image
    assert answers(f"{own}/overview", {"Host": "elsewhere.example"}) == 403  # whose name leads here


def test_hdfs_changes_nothing_for_a_web_page(stack: Settings) -> None:
    namenode, datanode = stack.port("hdfs-http"), stack.port("datanode-1-http")
    browser = {"User-Agent": "Mozilla/5.0"}
    asked = f"user.name={getpass.getuser()}"
    for port, change in ((namenode, "TRUNCATE&newlength=0"), (datanode, "CONCAT&sources=/b")):
        url = f"http://127.0.0.1:{port}/webhdfs/v1/a?op={change}&{asked}"
        assert answers(url, browser, b"") == 400
    assert answers(f"http://127.0.0.1:{namenode}/webhdfs/v1/?op=LISTSTATUS&{asked}", browser) == 200


def answers(url: str, headers: dict[str, str], body: bytes | None = None) -> int:
    """The status of the answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_flink_offers_its_slots_and_keeps_its_state_on_hdfs(stack: Settings) -> None:
    overview = flink.rest(stack, "/overview")
    assert (overview["taskmanagers"], overview["slots-total"]) == (1, flink.SLOTS)
    entries = {entry["key"]: entry["value"] for entry in flink.rest(stack, "/jobmanager/config")}
    assert entries["execution.checkpointing.dir"] == f"{stacks.addresses(stack)['HDFS_URI']}/flink/checkpoints"


def test_every_web_page_is_there(stack: Settings) -> None:
    needed = stacks.servers_of(stack)
    pages = [one.web for one in stacks.status(stack) if one.web and one.name in needed]
    assert len(pages) == 3
    for page in pages:
        with urllib.request.urlopen(page, timeout=20) as answer:
            assert (answer.status, b"<html" in answer.read().lower()) == (200, True), page


def owner() -> str:
    """Who started the NameNode is its superuser."""
    return getpass.getuser()
