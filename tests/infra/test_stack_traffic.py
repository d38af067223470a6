"""Traffic over the real Kafka: at its own pace, in the right partitions, remembered, and listened to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import Variant, load
from millrace.patterns import topics as topics_of
from millrace.settings import Settings
from millrace.stack import addresses
from millrace.stores import topics
from millrace.stores.topics import Tail, TopicError
from millrace.traffic import TrafficPlan, plan_for
from millrace.traffic.labels import Labels, labels_of
from millrace.traffic.planned import partition_of
from millrace.traffic.runs import Run
from millrace.traffic.tape import Digest
from millrace.traffic.tokens import secrets_under
from millrace.verbs import sending, traffic
from millrace.verbs.listening import listening, recorded
from millrace.verbs.provision import wanted_topics
from pipelines.fraud import FRAUD
from pipelines.fraud.invented_cards import invented_cards_in
from pipelines.fraud.traffic import TRAFFIC
from pipelines.fraud.traffic.poison import NUMBER

pytestmark = pytest.mark.stack
SECRETS = secrets_under(FRAUD, b"k" * 32)
WITHIN_S = 120


@pytest.fixture
def bootstrap(stack: Settings) -> str:
    return addresses(stack)["KAFKA_BOOTSTRAP"]


@pytest.fixture
def names(bootstrap: str) -> Iterator[dict[str, str]]:
    """Topics as a pattern has them, empty and of this test alone."""
    variant = Variant(f"traffic-{time.time_ns():x}", load("flink-spark").pattern)
    topics.ensure(bootstrap, wanted_topics(variant))
    found = topics_of(variant)
    yield found
    topics.remove(bootstrap, list(found.values()))


def read(bootstrap: str, names: dict[str, str]) -> list[Record]:
    with closing(Tail(bootstrap, names)) as tail:
        return list(tail.new())


def test_all_of_it_arrives_in_order_and_each_key_keeps_its_partition(bootstrap: str, names: dict[str, str]) -> None:
    plan = plan_for(TRAFFIC, events=1_500, rate_per_s=500, name="one")
    run = sending.send(bootstrap, names, traffic.generated(FRAUD, plan, SECRETS, for_ms=2_000), hop_per_s=20)
    records = read(bootstrap, names)
    by_kind = {kind: [r for r in records if r.topic == kind] for kind in names}
    assert (run.sent, run.is_complete) == (1_500, True)
    assert traffic.labels(FRAUD, run) == made_labels(plan, run)
    assert len(by_kind["transactions"]) + len(by_kind["device-locations"]) == 1_500 + 2 * 2  # two seconds of closing
    assert run.by_topic["hop"] == len(by_kind["hop"]) > 80
    for kind in ("transactions", "device-locations"):
        assert all(r.partition == partition_of(r.key or b"", 2) for r in by_kind[kind])
        for partition in (0, 1):
            due = [sent_ms(r) for r in by_kind[kind] if r.partition == partition and sent_ms(r)]
            assert due == sorted(due)
    closers = [r for r in by_kind["transactions"] if b"closing" in (r.key or b"")]
    assert {r.partition for r in closers} == {0, 1}
    assert invented_cards_in(b"\n".join((r.key or b"") + (r.value or b"") for r in records)) == {NUMBER}


def test_the_pace_is_that_of_the_plan_and_lateness_is_reported(bootstrap: str, names: dict[str, str]) -> None:
    plan = plan_for(TRAFFIC, events=1_000, rate_per_s=500)
    run = sending.send(bootstrap, names, traffic.generated(FRAUD, plan, SECRETS, for_ms=0))
    assert run.seconds >= 1.99
    assert run.behind_ms["count"] == 1_000
    behind = [r.ingest_ms - ms for r in read(bootstrap, names) if r.topic == "transactions" and (ms := sent_ms(r))]
    assert min(behind) >= -2  # never before its time, but for rounding to milliseconds


def test_an_impossible_rate_is_not_hidden(bootstrap: str, names: dict[str, str]) -> None:
    plan = plan_for(TRAFFIC, events=3_000, rate_per_s=10_000_000)
    run = sending.send(bootstrap, names, traffic.generated(FRAUD, plan, SECRETS, for_ms=0))
    assert run.rate_per_s < 10_000_000
    behind = run.behind_ms["max_ms"]
    assert isinstance(behind, float)
    assert behind > 1


def test_a_listener_records_every_alert_and_hop_written_meanwhile(
    bootstrap: str, names: dict[str, str], tmp_path: Path
) -> None:
    into = tmp_path / "heard.jsonl"
    with listening(bootstrap, names, into):
        now_ms = int(time.time() * 1000)
        alerts = [
            (names["alerts"], b"c", json.dumps({"alert_id": f"a{n}", "sent_ms": now_ms}).encode()) for n in range(5)
        ]
        hops = [(names["hop"], None, json.dumps({"sent_ms": now_ms}).encode())] * 3
        topics.publish(bootstrap, [*alerts, *hops, (names["alerts"], None, b"{")])
        assert wait_until(lambda: tuple(map(len, recorded(into))) == (5, 3), WITHIN_S), recorded(into)
    received, hop_ms = recorded(into)
    assert received.keys() == {f"a{n}" for n in range(5)}
    assert all(now_ms <= at_ms <= time.time() * 1000 for at_ms in received.values())
    assert len(hop_ms) == 3


def test_a_listener_ends_with_a_sender_that_was_killed(bootstrap: str, names: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import json, sys, time\n"
        "from pathlib import Path\n"
        "from millrace.verbs.listening import listening\n"
        "with listening(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])):\n"
        "    time.sleep(600)\n"
    )
    into = tmp_path / "heard.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", script, bootstrap, json.dumps(names), into],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as sender:
        try:
            assert wait_until(into.exists, WITHIN_S), "nothing listens"
            begun = psutil.Process(sender.pid).children()
        finally:
            sender.kill()
    assert begun
    _, left = psutil.wait_procs(begun, timeout=WITHIN_S)
    assert left == []


def test_runs_are_remembered_with_what_they_were_made_to_set_off(stack: Settings) -> None:
    plan = plan_for(TRAFFIC, events=2_000, rate_per_s=50, name="kept")
    behind = {"name": "behind the plan", "count": 2_000, "p99_ms": 8.0, "max_ms": 12.0}
    about = {"plan": asdict(plan), "rules": {rule.name: rule.version for rule in FRAUD.rules}}
    digest = Digest()
    for message in TRAFFIC.messages(plan, SECRETS, 1_790_000_000_000):
        digest.add(message)
    run = Run(about, 1_790_000_000_000, 2_000, {"transactions": 2_000}, 40.0, 50.0, behind, True, digest.hex)
    traffic.keep(stack, "kept", run)
    try:
        assert traffic.runs(stack, "kept") == [run]
        found = traffic.counted(FRAUD, [run])
        assert (found.labels, found.uncounted_ms, found.notes) == (traffic.labels(FRAUD, run), (), ())
        assert found.labels is not None
        assert {rule for rule, _ in found.labels.meant} >= {"burst", "spree"}
    finally:
        traffic.forget(stack, "kept")
    assert traffic.runs(stack, "kept") == []


def test_a_file_is_replayed_with_its_reference_data(bootstrap: str, names: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    lines = [
        {"topic": "customers", "customer": "c1", "segment": "private"},
        {"transaction_id": "a", "customer": "c1", "card_number": "9999990000000009", "at_ms": 1_000, "amount_cents": 5},
        {"topic": "device-locations", "customer": "c1", "latitude": 1, "longitude": 2, "at_ms": 1_200},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    run = sending.send(bootstrap, names, traffic.from_file(FRAUD, path, SECRETS), hop_per_s=0)
    assert (run.sent, traffic.counted(FRAUD, [run])) == (2, traffic.Counted(began_ms=(run.start_ms,)))
    assert sorted(r.topic for r in read(bootstrap, names)) == ["customers", "device-locations", "transactions"]


def test_a_refused_connection_is_an_error_of_one_line(names: dict[str, str]) -> None:
    load_of_one = traffic.generated(FRAUD, plan_for(TRAFFIC, events=1, rate_per_s=10), SECRETS)
    with pytest.raises(TopicError, match=r"Kafka does not answer at 127\.0\.0\.1:9 "):
        sending.send("127.0.0.1:9", names, load_of_one)


def test_interrupted_it_stops_at_once_and_reports_an_incomplete_run(bootstrap: str, names: dict[str, str]) -> None:
    script = (
        "import json, sys\n"
        "from dataclasses import asdict\n"
        "from millrace.verbs import sending, traffic\n"
        "from millrace.traffic import plan_for\n"
        "from millrace.traffic.tokens import secrets_under\n"
        "from pipelines.fraud import FRAUD\n"
        "plan = plan_for(FRAUD.traffic, events=20_000, rate_per_s=100)\n"
        "load = traffic.generated(FRAUD, plan, secrets_under(FRAUD, b'k'))\n"
        "run = sending.send(sys.argv[1], json.loads(sys.argv[2]), load, report=lambda l: print(l, flush=True))\n"
        "print(json.dumps(asdict(run)))\n"
    )
    sender = subprocess.Popen(
        [sys.executable, "-c", script, bootstrap, json.dumps(names)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        assert sender.stdout is not None
        lines = [sender.stdout.readline()]
        while "traffic begins" not in lines[-1]:  # on a busy machine the encoding may start again
            assert lines[-1], lines
            lines.append(sender.stdout.readline())
        assert "being encoded" in lines[0]
        with closing(Tail(bootstrap, {"transactions": names["transactions"]})) as tail:
            assert wait_until(lambda: any(list(tail.new())), WITHIN_S), "nothing was sent"
        sender.send_signal(signal.SIGINT)
        out, _ = sender.communicate(timeout=WITHIN_S)
    finally:
        sender.kill()
    run = json.loads(out.splitlines()[-1])
    assert sender.returncode == 0
    assert run["is_complete"] is False
    assert 0 < run["sent"] < 20_000


def made_labels(plan: TrafficPlan, run: Run) -> Labels:
    """What the plan's purchases are made to set off, read from the traffic itself."""
    return labels_of(FRAUD, TRAFFIC.messages(plan, SECRETS, run.start_ms), run.span_ms)


def sent_ms(record: Record) -> int | None:
    """When the sender meant to send it; None for what is no readable event, or has a card number for a time."""
    try:
        value = json.loads(record.value or b"")
    except ValueError:
        return None
    found = value.get("sent_ms") if isinstance(value, dict) else None
    return found if isinstance(found, int) and str(found) != NUMBER else None
