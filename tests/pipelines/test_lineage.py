"""OpenLineage events, into a file and to a server on this machine; Kafka and the engines play no part in them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from millrace.patterns import PatternError, Variant, engine_plans, load
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import lineage
from millrace.verify.ledger.chain import unjudged
from millrace.verify.verdict import Check, Status
from tests.pipelines.test_chain import OK, OPEN, RED, ledger, segment
from tests.pipelines.test_report import VERDICT

ADDRESSES = {
    "KAFKA_BOOTSTRAP": "127.0.0.1:1",
    "HDFS_URI": "hdfs://127.0.0.1:2",
    "HBASE_THRIFT_HOST": "127.0.0.1",
    "HBASE_THRIFT_PORT": "3",
}
STATUSES: tuple[Status, ...] = ("ok", "unknown", "failed")
MIXED = replace(
    VERDICT,
    checks=tuple(Check(f"check {status}", "Is it so?", status, {}, ("a card's number",)) for status in STATUSES),
)
TOPICS = "kafka://127.0.0.1:1"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    read = Settings.read(os.environ)
    return Target(Settings(read.project, read.home, tmp_path, read.port_base), ADDRESSES, allow_traffic=True)


@pytest.fixture
def variant() -> Variant:
    return load("flink-spark")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the person who tests counts."""
    for name in [*os.environ]:
        if name.startswith("OPENLINEAGE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def into_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that gets the events, named as OpenLineage's users name one."""
    events, config = tmp_path / "events.jsonl", tmp_path / "lineage.yml"
    config.write_text(f"transport: {{type: file, log_file_path: {events}, append: true}}")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    return events


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(datasets: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(each["namespace"], each["name"]) for each in datasets}


def fields(dataset: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["type"] for each in dataset["facets"]["schema"]["fields"]}


def test_a_job_reads_and_writes_what_its_stages_do(target: Target, variant: Variant, into_file: Path) -> None:
    plans = engine_plans(variant, 1, target.bootstrap, "", target.stores(variant))
    lineage.jobs(target, variant, pytest.fail, begun=plans)
    lineage.jobs(target, variant, pytest.fail, ended=plans)
    events = written(into_file)
    by_name = {event["job"]["name"]: event for event in events[:2]}
    judging, storing = by_name["flink-spark.flink"], by_name["flink-spark.spark"]
    topics = {kind: (TOPICS, f"flink-spark.{kind}") for kind in lineage.topics_of(variant)}
    assert names(judging["inputs"]) == {
        topics[each] for each in ("transactions", "device-locations", "merchants", "customers")
    }
    assert names(judging["outputs"]) == {topics[each] for each in ("enriched", "dead-letters", "alerts")}
    tables = {("hbase://127.0.0.1:3", f"flink-spark.{table.name}") for table in variant.use.tables}
    stored = {("hdfs://127.0.0.1:2", "/millrace/data/flink-spark"), *tables}
    assert names(storing["inputs"]) == {topics["enriched"]}
    assert names(storing["outputs"]) == {topics["alerts"], topics["windows"], *stored}
    by_dataset = {each["name"]: fields(each) for each in (*judging["inputs"], *storing["outputs"])}
    assert by_dataset["flink-spark.transactions"]["amount_cents"] == "integer"
    assert all(by_dataset.values()), "each topic and table has fields"
    assert judging["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert [event["eventType"] for event in events] == ["START", "START", "COMPLETE", "COMPLETE"]
    assert [event["run"]["runId"] for event in events[:2]] == [event["run"]["runId"] for event in events[2:]]


def test_a_verdict_is_a_facet_and_each_check_a_test_of_the_alerts(
    target: Target, variant: Variant, into_file: Path
) -> None:
    with lineage.verdict(target, variant, pytest.fail) as outcome:
        outcome.verdict = MIXED
    begun, ended = written(into_file)
    assert (begun["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    facet = ended["run"]["facets"]["millrace_verdict"]
    assert (facet["status"], facet["checks"]) == (MIXED.status, {each.name: each.status for each in MIXED.checks})
    tests = {
        each["name"]: {test["assertion"]: test["success"] for test in quality["assertions"]}
        for each in ended["inputs"]
        if (quality := each["inputFacets"].get("dataQualityAssertions"))
    }
    assert tests == {"flink-spark.alerts": {each.name: each.status == "ok" for each in MIXED.checks}}
    assert MIXED.status == "failed"
    assert "a card's number" not in into_file.read_text(), "what a message holds stays here"


def test_each_segment_of_a_ledger_is_a_run_with_its_verdict(target: Target, variant: Variant, into_file: Path) -> None:
    idle = replace(ledger(OK)[0], messages=0)
    entries = [*ledger(OK, RED, OPEN), *ledger(OK, assumed="7 messages were deleted"), idle]
    unread = unjudged(segment(4), {}, ["messages were deleted"], "state", None)
    with lineage.segments(target, variant, pytest.fail) as send:
        for entry in (*entries, unread):
            send(entry)
    events = written(into_file)
    assert {(event["job"]["name"], event["eventType"]) for event in events} == {("flink-spark.validate", "COMPLETE")}
    assert len({event["run"]["runId"] for event in events}) == len(events)
    facets = [event["run"]["facets"] for event in events]
    assert [each["millrace_verdict"]["status"] for each in facets] == [
        *("ok", "failed", "unknown", "assumed", "ok", "unknown"),
    ]
    assert facets[1]["millrace_verdict"]["checks"] == {"conservation": "failed", "enrichment": "ok"}
    assert facets[5]["millrace_verdict"]["checks"] == {"ledger": "unknown"}
    spans = [(each["nominalTime"]["nominalStartTime"], each["nominalTime"]["nominalEndTime"]) for each in facets[:2]]
    assert spans == [
        ("1970-01-01T00:00:00+00:00", "1970-01-01T00:01:00+00:00"),
        ("1970-01-01T00:01:00+00:00", "1970-01-01T00:02:00+00:00"),
    ]
    assert "transactions[0]@7" not in into_file.read_text(), "what a message holds stays here"


def test_a_validator_tries_again_where_an_event_was_not_taken(
    target: Target, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    taken: list[dict[str, Any]] = []
    first, second, third = ledger(OK, OK, OK)
    monkeypatch.setattr(lineage, "RETRIED_AFTER_S", 5.0)
    with lineage.segments(target, variant, lines.append) as send:
        with platform(400, taken) as address:
            monkeypatch.setenv("OPENLINEAGE_URL", address)
            send(first)
            send(second)
        assert (len(lines), len(taken)) == (1, 1), "not at each segment"
        time.sleep(5.0)
        with platform(201, taken) as address:
            monkeypatch.setenv("OPENLINEAGE_URL", address)
            send(third)
    assert (len(lines), [each["eventType"] for each in taken]) == (1, ["COMPLETE", "COMPLETE"])


def test_a_run_that_fails_or_is_interrupted_ends_as_such(target: Target, variant: Variant, into_file: Path) -> None:
    def ended_by(error: BaseException) -> None:
        with lineage.traffic(target, variant, pytest.fail) as outcome:
            outcome.rows = {"flink-spark.transactions": 7}
            raise error

    for error in (ValueError("no reason"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            ended_by(error)
    _, failed, _, interrupted = written(into_file)
    assert (failed["eventType"], interrupted["eventType"]) == ("FAIL", "ABORT")
    assert failed["run"]["facets"]["errorMessage"]["message"] == "ValueError: no reason"
    rows = {each["name"]: each["outputFacets"] for each in failed["outputs"]}
    assert rows["flink-spark.transactions"]["outputStatistics"]["rowCount"] == 7


@contextmanager
def platform(status: int, taken: list[dict[str, Any]]) -> Iterator[str]:
    """A server that takes events, or refuses them."""

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append({"path": self.path, **json.loads(body)})
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_gets_the_events(target: Target, variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[dict[str, Any]] = []
    with platform(201, taken) as address:
        monkeypatch.setenv("OPENLINEAGE_URL", address)
        monkeypatch.setenv(lineage.NAMESPACE, "ours")
        with lineage.traffic(target, variant, pytest.fail):
            pass
    assert [(each["path"], each["eventType"], each["job"]["namespace"]) for each in taken] == [
        ("/api/v1/lineage", "START", "ours"),
        ("/api/v1/lineage", "COMPLETE", "ours"),
    ]


def test_a_server_that_refuses_costs_a_line_and_no_verb(
    target: Target, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[dict[str, Any]] = []
    lines: list[str] = []
    with platform(400, taken) as address:
        monkeypatch.setenv("OPENLINEAGE_URL", address)
        with lineage.verdict(target, variant, lines.append) as outcome:
            outcome.verdict = VERDICT
    (line,) = lines
    assert line.startswith("warning: no OpenLineage event was sent: ")
    assert len(taken) == 1, "after the first failure nothing more is sent"


def test_a_server_that_never_answers_costs_a_line_and_no_minutes(
    target: Target, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(lineage, "TAKEN_WITHIN_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        began = time.monotonic()
        with lineage.verdict(target, variant, lines.append):
            pass
    assert time.monotonic() - began < 4
    assert lines == ["warning: no OpenLineage event was sent: TimeoutError: it was not taken within 1 s"]


def test_a_configuration_that_cannot_be_read_costs_a_line_and_no_verb(
    target: Target, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")
    lines: list[str] = []
    with lineage.verdict(target, variant, lines.append):
        pass
    assert len(lines) == 1


def test_a_declaration_that_is_broken_costs_a_line_and_no_roll_back(
    target: Target, into_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> Variant:
        raise PatternError("flink-spark.yaml: broken")

    lines: list[str] = []
    monkeypatch.setattr(lineage, "load", broken)
    lineage.replaced(target, "flink-spark", {}, lines.append)
    assert lines == ["warning: no OpenLineage event was sent: PatternError: flink-spark.yaml: broken"]
    monkeypatch.delenv("OPENLINEAGE_CONFIG")
    lineage.replaced(target, "flink-spark", {}, pytest.fail)


def test_a_target_without_a_store_costs_a_line_and_no_verb(target: Target, variant: Variant, into_file: Path) -> None:
    lines: list[str] = []
    without = replace(target, addresses={"KAFKA_BOOTSTRAP": "127.0.0.1:1"})
    with lineage.verdict(without, variant, lines.append):
        pass
    assert len(lines) == 1
    assert not into_file.exists()


def test_it_is_off_unless_it_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lineage.is_configured()
    (tmp_path / lineage.FILES[0]).write_text("transport: {type: console}")
    assert lineage.is_configured()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not lineage.is_configured()


def test_no_verb_imports_its_library_before_it_is_needed() -> None:
    words = "import sys, millrace.cli.app, millrace.verbs.deploy, millrace.verbs.validate; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert "openlineage" not in done.stdout
