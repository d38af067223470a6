"""A backfill without servers: names, arrival times, topics, stored events, and when all windows are closed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.cli.app import run
from millrace.engines.flink.submission import remote
from millrace.errors import InfraError, UsageError
from millrace.job import State
from millrace.oracle import Record
from millrace.patterns import EnginePlan, PatternError, Stores, backfills, engine_plans, load, require_known
from millrace.rules import Enrichment, Text, UseCase
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import traffic
from millrace.verbs.backfill import Life, read, require_free
from millrace.verbs.provision import wanted_topics
from millrace.verbs.stored import StoredError, read_stored
from millrace.verify import judge
from pipelines.flood import FLOOD
from pipelines.flood.edgar import HEADER
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend
from tests.pipelines.pretend import QUESTION

NOON_MS = 1_467_288_000_000  # 2016-06-30, years before the oldest event that is accepted today
LINE = "{ip},2016-06-30,{at},0.0,1371610.0,0001499258-13-221839,a.htm,401.0,486.0,0.0,1.0,0.0,0.0,0.0,"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    return Target(Settings(tmp_path, tmp_path, tmp_path / "state", 28_000), {"HDFS_URI": "hdfs://localhost:1"})


def keep(name: str = "june") -> None:
    backfills.keep(name, "flood-flink", "log.csv", load("flood-flink").pattern.model_dump(mode="json"))


def test_a_name_is_refused_that_a_pattern_or_a_backfill_has(target: Target) -> None:
    require_free("june")
    keep()
    for name, complaint in {
        "june": r"'june' already, of flood-flink from log\.csv; remove it with `millrace teardown june --data`",
        "flood-flink": "a pattern has this name",
        "June 1": "lower-case letters, digits and dashes",
    }.items():
        with pytest.raises(InfraError, match=complaint):
            require_free(name)
    backfills.forget("june")
    require_free("june")


def test_a_backfill_is_a_copy_of_its_pattern_that_verbs_of_patterns_do_not_list(target: Target) -> None:
    keep()
    assert backfills.names() == ["june"]
    found = load("june")
    assert (found.name, found.is_finite, found.pattern) == ("june", True, load("flood-flink").pattern)
    with pytest.raises(PatternError, match="there is no pattern 'june'"):
        require_known("june")


def test_verbs_that_read_take_a_backfill_by_its_name_and_those_that_run_jobs_do_not(
    target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    keep()
    assert run(["topics", "list", "june"]) == 0
    assert "june.requests" in capsys.readouterr().out
    for verb in ("deploy", "traffic", "provision"):
        with pytest.raises(UsageError, match="there is no pattern 'june'"):
            run([verb, "june"])


def test_only_the_inputs_of_a_backfill_have_the_times_of_events_and_nothing_is_deleted_by_age(target: Target) -> None:
    keep()
    configs = {each.name.removeprefix("june."): each.configs for each in wanted_topics(load("june"))}
    times = {kind: config["message.timestamp.type"] for kind, config in configs.items()}
    assert [kind for kind, time in times.items() if time == "CreateTime"] == ["requests"]
    assert {config["retention.ms"] for config in configs.values()} == {"-1"}


def test_a_plan_marks_a_finite_stream_and_has_no_mark_for_an_endless_one(target: Target) -> None:
    keep()
    for name, is_finite in {"june": True, "flood-flink": False}.items():
        (plan,) = engine_plans(load(name), 1, "kafka:9092", "file:///c", Stores("", "", 0, ""))
        assert ("finite" in json.loads(plan.to_json())) == is_finite
        assert EnginePlan.from_json(plan.to_json()) == plan


def test_a_finite_job_of_flink_has_no_idle_source_which_would_swallow_the_end_of_time(target: Target) -> None:
    keep()
    for name, timeout in {"june": "0 ms", "flood-flink": "5000 ms"}.items():
        (plan,) = engine_plans(load(name), 1, "kafka:9092", "file:///c", Stores("", "", 0, ""))
        assert remote(plan, "http://localhost:1", None)["table.exec.source.idle-timeout"] == timeout


def test_an_event_arrives_at_its_own_time_or_with_the_newest_before_it(target: Target, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    lines = [LINE.format(ip="1.1.1.aaa", at=at) for at in ("12:00:05", "12:00:03", "12:00:09")]
    log.write_text("\n".join([HEADER, *lines[:2], "no line", lines[2]]) + "\n", encoding="utf-8")
    recorded = read(target, FLOOD, str(log), traffic.columns_of(FLOOD, {}))
    sent = [(each.due_ms - NOON_MS, each.value or b"") for each in recorded.messages()]
    assert [arrived_ms for arrived_ms, _ in sent] == [5_000, 5_000, 5_000, 9_000]
    assert [json.loads(value)["at_ms"] - NOON_MS for _, value in sent if value != b"no line"] == [5_000, 3_000, 9_000]
    assert (recorded.first_ms - NOON_MS, recorded.about) == (5_000, "4 events, 1 of them unparsed")


def row(offset: int, arrived_ms: int, **changes: Any) -> dict[str, Any]:
    """A stored request."""
    event = {"ip": "1.1.1.aaa", "group_id": "7", "at_ms": NOON_MS, "zone": 0, "cik": 1, "code": 401, "size": 1}
    event |= {"accession": "0001499258-13-221839", "extention": "a.htm", "browser": None, "sent_ms": None}
    event |= dict.fromkeys(("idx", "norefer", "noagent", "find", "crawler"), 0)
    place = {"source_topic": "flood-spark.requests", "source_partition": 1, "source_offset": offset}
    return event | place | {"ingest_ms": NOON_MS + arrived_ms} | changes


def stored(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    path = folder / "date=2016-06-30" / "hour=12" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"browser": pa.string(), "sent_ms": pa.int64()}
    table = pa.Table.from_pylist(rows)
    for column, kind in whole.items():
        if column in table.column_names and pa.types.is_null(table.schema.field(column).type):
            table = table.set_column(table.column_names.index(column), column, table[column].cast(kind))
    pq.write_table(table, path)


def test_stored_events_become_the_raw_messages_that_they_were_in_the_order_of_their_arrival(
    target: Target, tmp_path: Path
) -> None:
    stored(tmp_path, "b.parquet", [row(8, 20, browser="win"), row(5, 0)])
    stored(tmp_path, "a.parquet", [row(7, 20)])
    stored(tmp_path, "replaced.parquet", [row(7, 20)])
    (tmp_path / "date=2016-06-30/hour=12/_replaced-a.parquet").write_text("replaced.parquet\n", encoding="utf-8")
    records = list(read_stored(target, FLOOD, str(tmp_path)).records())
    assert [(each.origin, each.ingest_ms - NOON_MS) for each in records] == [
        (("requests", 1, 5), 0),
        (("requests", 1, 7), 20),
        (("requests", 1, 8), 20),
    ]
    wanted = {name: value for name, value in row(8, 20, browser="win").items() if name in FLOOD.judged.names}
    assert json.loads(records[-1].value or b"") == {name: each for name, each in wanted.items() if each is not None}
    assert {each.key for each in records} == {b"7"}
    about = read(target, FLOOD, str(tmp_path))
    assert (about.about, about.first_ms, [m.due_ms - NOON_MS for m in about.messages()]) == (
        "3 stored events",
        NOON_MS,
        [0, 20, 20],
    )


def test_an_optional_field_that_files_are_older_than_is_null_and_letters_are_stored_as_they_were(
    target: Target, tmp_path: Path
) -> None:
    letters = "Ω" * 64
    note = Text("note", pattern=".*", required=False)
    newer = replace(FLOOD.judged, fields=(*FLOOD.judged.fields, note))
    own = Enrichment(on=newer)
    use = UseCase("newer", judged=newer, enrichment=own, enriched=own.enriched("enriched", "All."), rules=())
    first, last = row(1, 0), row(2, 1, browser="win", note=letters)
    del first["browser"], first["sent_ms"]
    stored(tmp_path, "a.parquet", [first])
    alone = list(read_stored(target, use, str(tmp_path)).records())
    stored(tmp_path, "b.parquet", [last])
    records = list(read_stored(target, use, str(tmp_path)).records())
    sent = [{name: event[name] for name in use.judged.names if event.get(name) is not None} for event in (first, last)]
    assert [json.loads(each.value or b"") for each in records] == sent
    assert alone == records[:1]
    assert letters.encode() in (records[1].value or b"")


def test_what_stored_events_lack_is_named(target: Target, tmp_path: Path) -> None:
    with pytest.raises(StoredError, match="no Parquet file counts there"):
        read_stored(target, FLOOD, str(tmp_path))
    stored(tmp_path, "a.parquet", [{name: value for name, value in row(1, 0).items() if name not in ("code", "size")}])
    with pytest.raises(StoredError, match="the stored events have no code, size"):
        read_stored(target, FLOOD, str(tmp_path))
    with pytest.raises(StoredError, match="hold no device-locations, merchants, customers; give a file"):
        read(target, FRAUD, str(tmp_path))
    with pytest.raises(StoredError, match="the target's HDFS is at localhost:1"):
        read_stored(target, FLOOD, "hdfs://elsewhere:1/folder")


def _is_burst_after(record: Record, at_ms: int) -> bool:
    alert = json.loads(record.value or b"")
    return bool(alert["rule"] == "burst" and alert["at_ms"] > at_ms)


def test_at_the_end_of_a_finite_stream_every_window_must_have_closed() -> None:
    plan = plan_for(TRAFFIC, events=2_000, rate_per_s=100)
    # Without the closing, the last windows are open as long as more may come.
    evidence = pretend.ran(plan, pretend.topics(m for m in pretend.messages(plan) if m.label.kind != "closing"))
    end_ms = max(each.ingest_ms for each in evidence.raw["transactions"] or ())
    kept = [each for each in evidence.outputs["alerts"] or () if not _is_burst_after(each, end_ms - 15_000)]
    assert len(kept) < len(evidence.outputs["alerts"] or ())
    cut = replace(evidence, outputs={**evidence.outputs, "alerts": kept}, labels=None)
    endless, finite = QUESTION, replace(QUESTION, is_finite=True)
    assert judge(endless, cut).check("alerts: burst").status == "unknown"
    assert judge(finite, cut).check("alerts: burst").status == "failed"
    found = judge(finite, replace(evidence, labels=None))
    assert found.check("alerts: burst").status == "ok"
    assert found.latencies == (), "recorded time has no latency"


@pytest.mark.parametrize(
    ("state", "alerts", "cpu_s", "is_alive"),
    [
        ("starting", 0, 31.0, True),
        ("starting", 0, 3.0, False),  # it waits, and wakes up to look
        ("running", 0, 31.0, True),
        ("running", 1, 3.0, True),
    ],
)
def test_a_job_that_starts_slowly_has_not_stood_still(state: State, alerts: int, cpu_s: float, is_alive: bool) -> None:
    life = Life()
    life.look(1_000, "starting", {"alerts": 0}, 1.0)
    life.look(1_200, state, {"alerts": alerts}, cpu_s)
    assert life.seen_at == (1_200 if is_alive else 1_000)


def test_a_job_that_runs_and_writes_nothing_stands_still_whatever_it_computes() -> None:
    life = Life()
    for at in (1_000, 1_200):
        life.look(at, "running", {"alerts": 0}, cpu_s=at)
    assert life.seen_at == 1_000
