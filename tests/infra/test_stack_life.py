"""It comes up, is adopted, is interrupted, is in the way of another, goes down: and leaves nothing behind.

What depends on no server's own doing is shown with tiny ones; each rule about data and failures has a real Kafka.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from millrace import stack as stacks
from millrace.errors import InfraError
from millrace.machine import processes
from millrace.settings import PROJECT, Settings
from millrace.stack.ports import is_free
from millrace.stack.services import NEEDED, PAGE, services
from tests import tiny
from tests.conftest import settings_for_tests

pytestmark = pytest.mark.stack

WITHIN_S = 300
"""For each step of a stack, also on a busy machine."""


@pytest.fixture
def small(test_port_base: int) -> Iterator[Settings]:
    """A stack of which nothing runs yet, beside that of the session."""
    with small_stack(test_port_base) as settings:
        yield settings


@contextmanager
def small_stack(port_base: int) -> Iterator[Settings]:
    settings = settings_for_tests("small", port_base + 100)
    stacks.down(settings, purge=True)
    try:
        yield settings
    finally:
        stacks.down(settings)
    assert what_runs(settings) == []


@pytest.fixture
def tiny_ones(small: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The stack that runs nothing yet, its servers processes without a JVM."""
    tiny.install(monkeypatch.setattr)
    return small


def what_runs(settings: Settings) -> list[str]:
    """Every process whose command line or environment names the stack's folder, and every port of it that is held."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
            if process.pid != os.getpid() and any(str(settings.state) in word for word in told):
                found.append(f"{process.pid} {process.cmdline()}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    doors = [
        port for service in services(settings).values() for server in service.servers for port in server.doors.values()
    ]
    return found + [f"port {port}" for port in doors if not is_free(port)]


def millrace(settings: Settings, *words: str, first: str = "") -> "subprocess.Popen[str]":
    """The command line, after a statement of the test's."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{first}\nfrom millrace.cli import main; main()", *words],
        cwd=PROJECT,
        env={**os.environ, **settings.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def with_tiny_ones(settings: Settings, *words: str, starts_in_s: float = 1) -> "subprocess.Popen[str]":
    return millrace(settings, *words, first=f"from tests import tiny; tiny.install(starts_in_s={starts_in_s})")


def wait_until(is_so: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    assert processes.wait_until(is_so, within_s)


def test_up_again_adopts_what_runs(stack: Settings) -> None:
    before = processes.records(stack.run)
    stacks.up(stack, NEEDED)
    assert processes.records(stack.run) == before


def test_everything_listens_on_loopback_only(stack: Settings) -> None:
    listening = {name: processes.listening(record) for name, record in processes.records(stack.run).items()}
    silent = {name for name, doors in listening.items() if not doors and name != PAGE}
    assert silent == {"flink-gateway"}  # each other was seen to listen at all
    assert {ip for doors in listening.values() for ip, _ in doors} == {"127.0.0.1"}


def test_status_lists_every_server(stack: Settings) -> None:
    found = {one.name: one for one in stacks.status(stack) if one.name != PAGE}
    assert {one.state for one in found.values()} == {"running"}
    assert all(one.pid and one.memory_bytes and one.since and not one.error for one in found.values())


def test_down_leaves_no_process_no_socket_and_the_data_and_with_purge_only_records(small: Settings) -> None:
    stacks.up(small, ["kafka"])
    make_topic(small, "kept")
    stacks.down(small)
    assert what_runs(small) == []
    stacks.up(small, ["kafka"])
    assert "kept" in topics(small)
    stacks.down(small, purge=True)
    assert what_runs(small) == []
    assert sorted(path.name for path in small.state.iterdir()) == ["lock", "records"]
    stacks.up(small, ["kafka"])
    assert "kept" not in topics(small)


@dataclass(frozen=True)
class Beside:
    """What was found of a stack with a real Kafka beside that of the session."""

    meta: str
    """Of the storage that Kafka's preparation made, where half of one lay."""
    topics: set[str]
    others_topics: set[str]
    others_states: set[str]
    """After it went down."""
    error: str
    """Of a start with the storage of another node."""
    dead: stacks.ServerStatus


@pytest.fixture(scope="module")
def other(stack: Settings, test_port_base: int) -> Beside:
    """It is prepared again, goes down and fails: one life for several tests."""
    with small_stack(test_port_base) as small:
        meta = small.state / "data" / "kafka-1" / "meta.properties"
        meta.parent.mkdir(parents=True)
        meta.write_text("half of it")
        stacks.up(small, ["kafka"])
        made = meta.read_text()
        make_topic(small, "only-in-the-small-one")
        own, others = topics(small), topics(stack)
        stacks.down(small)
        states = {one.state for one in stacks.status(stack) if one.name != PAGE}
        meta.write_text(made.replace("node.id=1", "node.id=7"))
        with pytest.raises(InfraError) as error:
            stacks.up(small, ["kafka"])
        (dead,) = [one for one in stacks.status(small) if one.name == "kafka-1"]
    return Beside(made, own, others, states, str(error.value), dead)


def test_two_stacks_side_by_side_do_not_see_each_other(other: Beside) -> None:
    assert "only-in-the-small-one" in other.topics
    assert "only-in-the-small-one" not in other.others_topics
    assert other.others_states == {"running"}


def test_a_server_that_dies_while_it_starts_ends_the_wait_with_its_log(other: Beside) -> None:
    assert "kafka-1 died while it started" in other.error
    assert "7" in other.error
    assert other.dead.state == "dead"
    assert "ERROR" in other.dead.error or "Exception" in other.dead.error


def test_a_preparation_that_was_interrupted_is_made_anew(other: Beside) -> None:
    assert "half of it" not in other.meta


def test_a_port_in_use_is_explained_before_anything_starts(small: Settings) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", small.port("kafka")))
        other.listen()
        with pytest.raises(InfraError) as error:
            stacks.up(small, ["kafka"])
    assert f"port {small.port('kafka')} (kafka-1: clients) is in use by pid {os.getpid()}" in str(error.value)
    assert "--port-base" in str(error.value)
    assert processes.records(small.run) == {}


def test_a_port_in_use_by_another_stack_is_reported_with_that_stack(stack: Settings, small: Settings) -> None:
    twin = Settings(small.project, small.home, small.state, stack.port_base)
    with pytest.raises(InfraError, match="a server of the stack in ") as error:
        stacks.up(twin, ["kafka"])
    assert str(stack.state) in str(error.value)


def test_other_ports_are_refused_while_it_runs(tiny_ones: Settings) -> None:
    stacks.up(tiny_ones, ["kafka"])
    moved = Settings(tiny_ones.project, tiny_ones.home, tiny_ones.state, tiny_ones.port_base + 100)
    with pytest.raises(InfraError, match="`millrace down` first"):
        stacks.up(moved, ["kafka"])
    with pytest.raises(InfraError, match="`millrace down` first"):
        stacks.up(tiny_ones, ["kafka"], ["three-brokers"])


@pytest.mark.parametrize(("there", "after_s"), [("*", 0.5), ("*", 2.5), ("namenode", 0.5), ("datanode-2", 0)])
def test_ctrl_c_leaves_nothing_of_what_it_had_started(small: Settings, there: str, after_s: float) -> None:
    interrupted(with_tiny_ones(small, "up", "kafka", "hdfs", starts_in_s=2), small, there, after_s)


def test_ctrl_c_leaves_no_jvm_of_what_it_had_started(small: Settings) -> None:
    interrupted(millrace(small, "up", "kafka", "hdfs"), small, "namenode", 0.5)


def test_ctrl_c_leaves_nothing_even_if_the_output_is_closed(small: Settings) -> None:
    """As Terraform does: it ends the shell that reads, while the command stops what it started."""
    up = with_tiny_ones(small, "up", "kafka", "hdfs", starts_in_s=2)
    wait_until(lambda: (small.run / "kafka-1.json").exists())
    assert up.stdout is not None
    up.stdout.close()
    up.send_signal(signal.SIGINT)
    assert (up.wait(WITHIN_S), what_runs(small)) == (130, [])


def interrupted(up: "subprocess.Popen[str]", small: Settings, there: str, after_s: float) -> None:
    """Press Ctrl-C so long after a server was begun, and look what is left."""
    wait_until(lambda: any(small.run.glob(f"{there}.json")) or up.poll() is not None)
    time.sleep(after_s)  # the moment of the interruption is the input of this test, not a wait for a result
    up.send_signal(signal.SIGINT)
    output, _ = up.communicate(timeout=WITHIN_S)
    assert (up.returncode, what_runs(small)) == (130, []), output


def test_ctrl_c_spares_what_ran_before(tiny_ones: Settings) -> None:
    stacks.up(tiny_ones, ["kafka"])
    before = processes.records(tiny_ones.run)["kafka-1"]
    up = with_tiny_ones(tiny_ones, "up", "kafka", "hdfs")
    wait_until(lambda: (tiny_ones.run / "namenode.json").exists())
    assert up.poll() is None, "it ended before it could be interrupted"
    up.send_signal(signal.SIGINT)
    output, _ = up.communicate(timeout=WITHIN_S)
    assert up.returncode == 130, output
    assert set(processes.records(tiny_ones.run)) == {"kafka-1"}
    assert processes.alive(before)


def test_down_ends_what_an_up_that_was_killed_had_started(tiny_ones: Settings) -> None:
    killed_while_kafka_starts(with_tiny_ones(tiny_ones, "up", "kafka"), tiny_ones)
    stacks.down(tiny_ones)
    assert what_runs(tiny_ones) == []


def test_up_continues_after_an_up_that_was_killed(tiny_ones: Settings) -> None:
    killed_while_kafka_starts(with_tiny_ones(tiny_ones, "up", "kafka", starts_in_s=0.1), tiny_ones)
    begun = processes.records(tiny_ones.run)["kafka-1"]
    stacks.up(tiny_ones, ["kafka"])
    assert processes.records(tiny_ones.run)["kafka-1"] == begun


def killed_while_kafka_starts(up: "subprocess.Popen[str]", settings: Settings) -> None:
    wait_until(lambda: (settings.run / "kafka-1.json").exists())
    up.kill()
    up.wait()


def test_two_ups_at_once_start_each_server_once_and_write_for_their_user_only(small: Settings) -> None:
    shutil.rmtree(small.state, ignore_errors=True)
    small.state.mkdir(parents=True, mode=0o755)
    first, second = millrace(small, "up", "kafka"), millrace(small, "up", "kafka")
    outputs = [one.communicate(timeout=WITHIN_S)[0] for one in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), outputs
    assert sum(f"{'kafka-1':<22} starting" in output for output in outputs) == 1
    written = [small.state, *small.state.rglob("*")]
    assert {"conf", "data", "logs", "records", "run"} <= {path.name for path in written}
    assert [path for path in written if not path.is_symlink() and path.stat().st_mode & 0o077] == []


def test_up_starts_a_watcher_that_restarts_what_dies_and_down_leaves_neither(small: Settings) -> None:
    output, _ = (up := millrace(small, "up", "kafka")).communicate(timeout=WITHIN_S)
    assert up.returncode == 0, output
    assert stacks.watch_status(small).state == "running"
    before = processes.records(small.run)["kafka-1"]
    stacks.kill(small, ["kafka-1"])
    wait_until(lambda: processes.records(small.run).get("kafka-1", before) != before)  # none while it is replaced
    wait_until(lambda: states(small)["kafka-1"] == "running")
    millrace(small, "watch", "--stop").communicate(timeout=WITHIN_S)
    assert (stacks.watch_status(small).state, states(small)["kafka-1"]) == ("stopped", "running")
    stacks.down(small)
    assert (what_runs(small), stacks.watch_status(small).state) == ([], "stopped")


def test_up_without_a_watcher_leaves_the_dead_dead_until_the_next_up(small: Settings) -> None:
    output, _ = (up := with_tiny_ones(small, "up", "kafka", "--no-watch")).communicate(timeout=WITHIN_S)
    assert up.returncode == 0, output
    assert (stacks.watch_status(small).state, set(processes.records(small.run))) == ("stopped", {"kafka-1"})


def test_what_a_down_finds_given_up_and_killed_it_leaves_nowhere(small: Settings) -> None:
    """The watcher is killed while a server is dead: `status` is red, and `down` leaves nothing of them."""
    with_tiny_ones(small, "up", "kafka").communicate(timeout=WITHIN_S)
    processes.kill(processes.records(small.run)[stacks.WATCH])
    stacks.kill(small, ["kafka-1"])
    stacks.given_up_file(small, "kafka-1").touch()
    status = millrace(small, "status", "--check")
    output, _ = status.communicate(timeout=WITHIN_S)
    assert (status.returncode, states(small)["kafka-1"]) == (1, "given-up")
    assert "watcher: dead; nothing restarts what dies until the next `millrace up`" in output
    assert "given up: kafka-1; fix the cause" in output
    stacks.down(small)
    assert (what_runs(small), stacks.watch_status(small)) == ([], stacks.WatchStatus("stopped", None, []))


def states(settings: Settings) -> dict[str, str]:
    return {one.name: one.state for one in stacks.status(settings)}


def make_topic(settings: Settings, name: str) -> None:
    with KafkaAdminClient(bootstrap_servers=stacks.addresses(settings)["KAFKA_BOOTSTRAP"]) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])


def topics(settings: Settings) -> set[str]:
    with KafkaAdminClient(bootstrap_servers=stacks.addresses(settings)["KAFKA_BOOTSTRAP"]) as admin:
        return set(admin.list_topics())


def test_the_tail_of_a_log_is_printed(stack: Settings) -> None:
    printed = millrace(stack, "logs", "kafka", "-n", "3")
    output, _ = printed.communicate(timeout=WITHIN_S)
    assert printed.returncode == 0
    assert str(Path("logs") / "kafka-1.log") in output
