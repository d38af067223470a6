"""A server that is not there, hangs up or answers nonsense ends a verb in one line with its address and a remedy."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from hdfs import HdfsError
from kafka import errors
from requests import ReadTimeout
from thriftpy2.thrift import TException
from thriftpy2.transport import TTransportException

from millrace.cli.failures import failure
from millrace.engines.flink.engine import Flink
from millrace.errors import InfraError
from millrace.patterns import Stores, engine_plans, load
from millrace.settings import PROJECT, Settings
from millrace.stores import files, tables, topics
from millrace.stores.files import Hdfs
from millrace.stores.tables import HBase
from millrace.target import Target
from millrace.verbs import sending
from millrace.verbs.compaction import compact
from millrace.verbs.sending import TrafficError

PLAN = engine_plans(load("flink"), 1, "k:1", "hdfs://c", Stores("hdfs://c/d", "h", 1, "flink"))[0]
DENIED = 'Permission denied: user=dr.who, access=WRITE, inode="/"'
REMOTE = json.dumps({"RemoteException": {"exception": "AccessControlException", "message": DENIED}})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ANSWERS_WITHIN_S", 0.1)
    monkeypatch.setattr(topics, "CONNECTS_WITHIN_S", 0)
    monkeypatch.setattr(files, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(tables, "TIMEOUT_MS", 100)


@contextmanager
def nobody() -> Iterator[int]:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextmanager
def hanging_up() -> Iterator[int]:
    """A port whose server closes each connection at once."""
    server = socket.create_server(("127.0.0.1", 0))

    def close_each() -> None:
        with suppress(OSError):
            while True:
                server.accept()[0].close()

    threading.Thread(target=close_each, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def answering(code: int, body: str) -> Callable[[], Any]:
    """A port on which an HTTP server answers everything alike."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_PUT = do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names of http.server

        def log_message(self, *_: object) -> None: ...

    @contextmanager
    def serve() -> Iterator[int]:
        with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            yield server.server_port
            server.shutdown()

    return serve


SERVERS = {
    "nobody": nobody,
    "hanging up": hanging_up,
    "403": answering(403, "<html>\n<b>Forbidden</b></html>"),
    "a web page": answering(200, "<html>\n<b>Welcome</b></html>"),
}


def hdfs(port: int) -> Hdfs:
    return Hdfs(f"http://127.0.0.1:{port}", "me")


def hbase(port: int) -> HBase:
    return HBase("127.0.0.1", port)


def flink(port: int) -> Flink:
    return Flink(Settings.read({}), f"http://127.0.0.1:{port}", hdfs(port), Path("/nowhere"), Path("/nowhere"), Path)


REQUESTS: dict[str, Callable[[int], object]] = {
    "a folder": lambda port: hdfs(port).ensure_folder("/a", plan=True),
    "no folder": lambda port: hdfs(port).remove("/a", plan=True),
    "files": lambda port: list(hdfs(port).files("/a")),
    "a file": lambda port: hdfs(port).read("/a"),
    "tables": lambda port: hbase(port).ensure({"t": {"f": {}}}, plan=True),
    "a row": lambda port: hbase(port).row("t", b"r"),
    "rows": lambda port: list(hbase(port).scan("t")),
    "topics": lambda port: topics.ensure(f"127.0.0.1:{port}", [topics.Topic("t", 1)], plan=True),
    "messages": lambda port: topics.Tail(f"127.0.0.1:{port}", {"alerts": "flink.alerts"}),
    "a job": lambda port: flink(port).job(PLAN),
    "the end of a job": lambda port: flink(port).stop(PLAN),
    "all jobs": lambda port: flink(port).running(),
}


# A web page is a file's content as good as any other.
CASES = [(server, what) for server in SERVERS for what in REQUESTS if (server, what) != ("a web page", "a file")]


def test_a_compaction_starts_no_process_while_hdfs_is_away(tmp_path: Path) -> None:
    with nobody() as port:
        addresses = {"WEBHDFS_URL": f"http://127.0.0.1:{port}", "HDFS_URI": "hdfs://127.0.0.1:1", "HDFS_USER": "me"}
        target = Target.read(Settings(PROJECT, tmp_path, tmp_path, 26000), {"MILLRACE_TARGET": json.dumps(addresses)})
        with pytest.raises(InfraError, match=f"^HDFS does not answer at http://127.0.0.1:{port} "):
            compact(target, "flink-spark")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("server", "request_"), CASES)
def test_it_is_one_line_with_the_address_and_a_remedy(server: str, request_: str) -> None:
    with SERVERS[server]() as port, pytest.raises(InfraError) as refused:
        REQUESTS[request_](port)
    message = str(refused.value)
    assert len(message.splitlines()) == 1, message
    assert f"127.0.0.1:{port}" in message
    assert "`millrace " in message or "FLINK_REST_URL" in message


@pytest.mark.parametrize("request_", ["a folder", "no folder", "files", "a file"])
def test_what_hdfs_denies_is_not_taken_for_absent(request_: str) -> None:
    with answering(403, REMOTE)() as port, pytest.raises(InfraError, match=r"user=dr\.who.*HDFS_USER"):
        REQUESTS[request_](port)


class Complaint(TException):
    """As HBase's own are: the text is its message."""

    def __init__(self, message: str | bytes) -> None:
        super().__init__()
        self.message = message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"a.b.TableNotFoundException: spark.customers\n\tat a.b.C(C.java:1)", "spark.customers; `millrace provision"),
        ("a.b.AccessDeniedException: me\n\tat a.b.C(C.java:1)", "AccessDeniedException: me; see `millrace logs hbase`"),
    ],
    ids=["as bytes", "as text"],
)
def test_a_complaint_of_hbase_is_shown_without_its_stack(message: str | bytes, expected: str) -> None:
    with hanging_up() as port, pytest.raises(InfraError) as refused, hbase(port).connection():
        raise Complaint(message)
    assert expected in str(refused.value)
    assert "at a.b.C" not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (errors.TopicAuthorizationFailedError("t"), "grant this client's principal the ACL"),
        (errors.PolicyViolationError("replication"), "change the pattern file, or the brokers' policy"),
        (errors.UnknownTopicOrPartitionError("t"), "provision the pattern first"),
        (errors.KafkaTimeoutError("late"), "`millrace up kafka`"),
        (errors.InvalidConfigurationError("retention.ms"), "`millrace logs kafka`"),
        (KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)), "grant this client's principal the ACL"),
        (KafkaException(KafkaError(KafkaError.POLICY_VIOLATION)), "change the pattern file, or the brokers' policy"),
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), "provision the pattern first"),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), "`millrace up kafka`"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_kafka_refuses_has_its_own_remedy(error: Exception, remedy: str) -> None:
    with pytest.raises(topics.TopicError, match=r"k:9092.*") as refused, topics.named("k:9092"):
        raise error
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("failures", "remedy"),
    [
        ([KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)], "grant this client's principal the ACL"),
        ([KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)], "provision the pattern first"),
        ([KafkaError(KafkaError._MSG_TIMED_OUT)], "`millrace up kafka`"),
        ([], "no answer within 60 s"),
    ],
    ids=lambda value: value[0].name() if isinstance(value, list) and value else "",
)
def test_traffic_that_kafka_does_not_acknowledge_has_the_same_remedies(failures: list[KafkaError], remedy: str) -> None:
    producer = cast(Producer, SimpleNamespace(flush=lambda within_s: 0 if failures else 7))
    with pytest.raises(TrafficError, match=r"\d messages were not acknowledged: .*k:9092.*") as refused:
        sending._flush(producer, failures, "k:9092")
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    "error",
    [
        HdfsError("no lease"),
        errors.BrokerResponseError("x"),
        KafkaException(KafkaError(KafkaError._FAIL)),
        TTransportException(1, "gone"),
        ReadTimeout("late"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_no_store_has_named_is_one_line_all_the_same(error: Exception) -> None:
    found = failure(error)
    assert found is not None
    assert (len(found.message.splitlines()), found.kind, found.exit) == (1, "unreachable", 1)
    assert "`millrace status`" in found.message


def test_an_error_of_our_own_code_keeps_its_traceback() -> None:
    assert failure(KeyError("x")) is None
