"""What the engine shows of a topology, by the progress file that its worker writes."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args
from urllib.parse import unquote

import pytest

from millrace.engines.storm import ENGINE, engine
from millrace.engines.storm.engine import Storm, connect, in_flight, job_of
from millrace.engines.storm.nimbus import Cluster, Nimbus, Topology
from millrace.engines.storm.tuning import settings_of
from millrace.job import RESTARTS_KEPT, EngineError
from millrace.patterns import EnginePlan, load, load_all
from millrace.patterns.loss import InFlight, Loss
from millrace.patterns.model import EXACTLY_ONCE, Promises
from millrace.settings import PROJECT, Settings
from millrace.target import Target
from millrace.verify.losses import is_legible

GUARANTEES = {each for each in get_args(Promises.model_fields["delivery"].annotation) if each in ENGINE.can}
NOW_S = 1_790_000_000.0
LOST = Loss("p.transactions", 0, 5, 9, 20, "id", "id")


def test_a_pattern_of_it_alone_has_each_of_its_guarantees() -> None:
    alone = [each for each in load_all() if each.engines == (ENGINE.name,)]
    assert {each.pattern.promises.delivery for each in alone} == GUARANTEES
    assert {each.pattern.stages.events.rules for each in alone} == {load("storm-spark").pattern.stages.events.rules}


def progress(state: str, silent_s: float = 1, starts_s: tuple[float, ...] = (600,), **changes: Any) -> dict[str, Any]:
    starts_ms = [(NOW_S - each) * 1000 for each in starts_s]
    written = {"state": state, "written_ms": (NOW_S - silent_s) * 1000, "starts_ms": starts_ms, "pid": 7}
    return written | {"commits": 3, "lag": 7, "lost": []} | changes


@pytest.mark.parametrize(
    ("written", "is_alive", "state"),
    [
        (progress("starting", commits=0), True, "starting"),
        (progress("running"), True, "running"),
        (progress("running", silent_s=5), False, "starting"),  # the supervisor starts another worker
        (progress("running", silent_s=61), True, "stalled"),
        (progress("finished"), True, "stopped"),
        (progress("failed", lost=[LOST.plain()]), True, "failed"),
        (progress("starting", starts_s=(200, 90, 60, 30, 1), commits=0), True, "crash-looping"),
        (progress("running", starts_s=(200, 90, 60, 30, 10)), True, "running"),  # it has committed since
        (progress("running", starts_s=(900, *range(290, 0, -20))), True, "crash-looping"),  # it commits in between
    ],
)
def test_a_topology_is_what_its_progress_shows(written: dict[str, Any], is_alive: bool, state: str) -> None:
    assert job_of(written, is_alive, NOW_S).state == state


def test_a_worker_keeps_the_starts_that_show_a_crash_loop() -> None:
    source = (Path(engine.__file__).parent / "java/millrace/storm/Judge.java").read_text()
    assert re.findall(r"STARTS_MOST = (\d+);", source) == [str(1 + RESTARTS_KEPT)]


def test_a_transaction_that_no_task_takes_over_ends_within_seconds_and_none_ends_between_two_commits() -> None:
    settings = settings_of("p", EXACTLY_ONCE)
    ends_ms = int(settings["producer.transaction.timeout.ms"])
    assert 50 * int(settings["checkpoint.every.ms"]) <= ends_ms <= 10_000


def test_each_worker_after_the_first_is_a_restart() -> None:
    assert job_of(progress("running", starts_s=(200, 90, 60)), True, NOW_S).restarts == 2


def test_what_workers_had_in_flight_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "in-flight.jsonl"
    assert in_flight(file) == ()
    line = '{"topic":"p.transactions","partition":1,"first":7,"end":9,"at_ms":42}'
    file.write_text(f"{line}\n{line.replace('42', '43')}\n")
    one = InFlight("p.transactions", 1, 7, 9, 42)
    assert in_flight(file) == (one, InFlight("p.transactions", 1, 7, 9, 43))


@pytest.mark.parametrize("cut", ['{"topic":"p.tr', "[]", "7", '{"topic":"p.transactions"}', "[" * 100_000])
def test_a_line_that_was_cut_is_handed_on_as_no_place(tmp_path: Path, cut: str) -> None:
    file = tmp_path / "in-flight.jsonl"
    line = '{"topic":"p.transactions","partition":1,"first":7,"end":9,"at_ms":42}'
    file.write_text(f"{line}\n{cut}\n")
    assert in_flight(file) == (InFlight("p.transactions", 1, 7, 9, 42), InFlight(cut, -1, 0, 0, 0))
    assert not any(map(is_legible, in_flight(file)[1:]))


@dataclass(frozen=True)
class Full(Nimbus):
    """A cluster whose slots are all taken."""

    own: tuple[Topology, ...] = ()

    def cluster(self, refused_for_s: float = 0) -> Cluster:
        other = Topology("other-1-1", "other", is_active=True, workers=2)
        return Cluster((other, *self.own), (60,), slots=2 + len(self.own), has_leader=True)


def storm(folder: Path, nimbus: Nimbus, zookeeper: tuple[str, int] | None = None) -> Storm:
    return Storm(Settings(project=PROJECT, home=folder, state=folder, port_base=26000), nimbus, zookeeper)


PLAN = EnginePlan("p", 1, "storm", "fraud", "127.0.0.1:1", {}, "file:///nowhere")


def test_a_cluster_without_a_free_slot_is_refused_with_the_remedy_before_anything_is_submitted(tmp_path: Path) -> None:
    full = storm(tmp_path, Full("127.0.0.1", 1))
    why = "0 of 2 worker slots of Storm at 127.0.0.1:1 are free, and the job needs 1; stop the job of another pattern"
    assert full.refusal(PLAN).startswith(why)
    with pytest.raises(EngineError, match=rf"^p: {why}"):
        full.start(PLAN, None)
    assert list(tmp_path.iterdir()) == []


def test_the_slot_of_the_patterns_own_job_is_free_for_its_next_generation(tmp_path: Path) -> None:
    own = Topology("p-generation-1-1-1", "p-generation-1", is_active=True)
    assert storm(tmp_path, Full("127.0.0.1", 1, own=(own,))).refusal(PLAN) == ""


def test_a_zookeeper_that_does_not_answer_is_refused_with_its_address_and_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        assert storm(tmp_path, Full("127.0.0.1", 1), ("127.0.0.1", port)).refusal(PLAN) == (
            f"ZooKeeper of Storm at 127.0.0.1:{port} does not answer; "
            "run `millrace up storm`, or see `millrace logs storm-zookeeper`"
        )


def test_a_topology_is_submitted_to_the_nimbus_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(engine.subprocess, "run", run)
    monkeypatch.setattr(engine.kernel, "ensure", lambda *_: tmp_path / "kernel.jar")
    monkeypatch.setattr(engine, "compiled_against", lambda _: [])
    storm(tmp_path, Nimbus("nimbus.example.org", 6627))._submit(PLAN)
    (options,) = (word for word in commands[0] if word.startswith("-Dstorm.options="))
    assert unquote(options) == '-Dstorm.options=nimbus.seeds=["nimbus.example.org"],nimbus.thrift.port=6627'


def test_both_addresses_of_the_cluster_are_those_of_the_stack(tmp_path: Path) -> None:
    made = connect(Target.read(Settings(project=PROJECT, home=tmp_path, state=tmp_path, port_base=26000), {}))
    assert (made.nimbus, made.zookeeper) == (Nimbus("127.0.0.1", 26081), ("127.0.0.1", 26080))


def test_a_topology_that_is_no_patterns_is_left_alone(tmp_path: Path) -> None:
    assert storm(tmp_path, Full("127.0.0.1", 1)).running() == []


def test_a_nimbus_that_does_not_answer_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=rf"Nimbus at 127\.0\.0\.1:{port} does not answer .*`millrace up storm`"):
            storm(tmp_path, Nimbus("127.0.0.1", port)).job(PLAN)
