"""Damaged and foreign input is named in the verdict, as failed or unknown, and never a traceback."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.errors import InfraError
from millrace.patterns import load
from millrace.rules.layout import Forgotten
from millrace.rules.rules import IDS_MOST
from millrace.traffic import plan_for
from millrace.verbs.listening import arrival, recorded
from millrace.verbs.parquet import rows_of
from millrace.verbs.validation import stored_tables
from millrace.verify import Evidence, judge
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, messages, ran, topics
from tests.pipelines.test_verdict import output, red

PLAN = plan_for(TRAFFIC, 400, 20, seed=3, name="p", customers=50, frauds=0.1, edges=0.1)
DEEP = b"[" * 100_000
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 2**70, 10**400, -(10**400), float("nan"), float("inf"), "", "x", "\ud800"),
    *([], ["x"], [1], [[]], ["\ud800"], {}, {"a": 1}, {"a": {"b": []}}, {"a": "\ud800"}),
)


@pytest.fixture(scope="module")
def good() -> Evidence:
    return ran(PLAN, topics(messages(PLAN)))


def with_output(evidence: Evidence, kind: str, *values: bytes) -> Evidence:
    """The evidence with more messages in an output."""
    records = list(output(evidence, kind))
    more = [replace(records[0], offset=len(records) + n, value=value) for n, value in enumerate(values)]
    return replace(evidence, outputs={**evidence.outputs, kind: [*records, *more]})


OUTPUTS = ("enriched", "alerts", "dead-letters", "windows")


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'"a"', b"\xff\xfe", DEEP, b'{"a": 1}'])
def test_a_foreign_message_is_named(good: Evidence, kind: str, value: bytes) -> None:
    verdict = judge(QUESTION, with_output(good, kind, value))
    assert "readable" in red(verdict)
    (offender,) = verdict.check("readable").offenders
    assert offender.startswith(f"{kind}[0]@{len(output(good, kind))} holds no {kind}")


@pytest.mark.parametrize("kind", OUTPUTS)
def test_no_value_of_any_column_ends_in_a_traceback(good: Evidence, kind: str) -> None:
    event = json.loads(output(good, kind)[0].value or b"")
    spoilt = [json.dumps({**event, name: value}).encode() for name in (*event, "rule") for value in VALUES]
    verdict = judge(QUESTION, with_output(good, kind, *spoilt))
    assert "readable" in red(verdict)
    # One at a time a value may be of the right kind, and is then wrong: test_spoiling shows that it is noticed.


def test_an_alert_of_a_window_without_its_start_is_named(good: Evidence) -> None:
    alerts = (json.loads(each.value or b"") for each in output(good, "alerts"))
    alert = next(each for each in alerts if each["window_start_ms"] is not None)
    verdict = judge(QUESTION, with_output(good, "alerts", json.dumps({**alert, "window_start_ms": None}).encode()))
    assert "alert ids" in red(verdict)


def test_alerts_of_windows_without_their_start_and_with_full_lists_of_events_are_named(good: Evidence) -> None:
    """Such a list may leave out events, and no start shows which."""
    alerts = [json.loads(each.value or b"") for each in output(good, "alerts")]
    full = {"window_start_ms": None, "event_ids": [f"e{n}" for n in range(IDS_MOST)]}
    spoilt = [json.dumps({**each, **full}).encode() for each in alerts if each["window_start_ms"] is not None]
    assert "alert ids" in red(judge(QUESTION, with_output(good, "alerts", *spoilt)))


def test_an_alert_of_an_unknown_rule_is_named(good: Evidence) -> None:
    alert = json.loads(output(good, "alerts")[0].value or b"")
    verdict = judge(QUESTION, with_output(good, "alerts", json.dumps({**alert, "rule": "unheard-of"}).encode()))
    assert "alert ids" in red(verdict)
    assert verdict.check("alert ids").offenders[0].endswith("there is no rule 'unheard-of' in this pattern")


def test_a_window_result_of_an_unknown_summary_is_named(good: Evidence) -> None:
    row = json.loads(output(good, "windows")[0].value or b"")
    verdict = judge(QUESTION, with_output(good, "windows", json.dumps({**row, "summary": "unheard-of"}).encode()))
    assert "there is no summary 'unheard-of' in this pattern" in verdict.check("readable").offenders[0]


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_record_that_is_cut_is_named(good: Evidence, kind: str) -> None:
    records = list(output(good, kind))
    records[3] = replace(records[3], value=(records[3].value or b"")[:-9])
    verdict = judge(QUESTION, replace(good, outputs={**good.outputs, kind: records}))
    assert "readable" in red(verdict)
    assert f"{kind}[0]@3 " in verdict.check("readable").offenders[0]


def test_a_raw_topic_with_a_message_that_is_cut_is_red(good: Evidence) -> None:
    raw = list(good.raw["transactions"] or ())
    raw[9] = replace(raw[9], value=(raw[9].value or b"")[:-9])
    assert judge(QUESTION, replace(good, raw={**good.raw, "transactions": raw})).status == "failed"


def test_rows_and_cells_of_any_kind_get_a_verdict(good: Evidence) -> None:
    row = good.stores["files"][0]
    for rows in ([{}], [{**row, name: value} for name in row for value in VALUES]):
        files = [*good.stores["files"], *rows]
        assert red(judge(QUESTION, replace(good, stores={**good.stores, "files": files}))) == {"files"}
    for table in ("table of transactions", "table of customers"):
        own: Mapping[bytes, Mapping[bytes, bytes]] = good.stores[table]
        for value in (b"", b"\xff", b"{", DEEP, b"null", b"NaN", b"9" * 400, b"[1, {}]", b'{"at_ms": []}'):
            spoilt = {name: dict.fromkeys(cells, value) for name, cells in own.items()} | {b"\xff": {b"\xff": value}}
            verdict = judge(QUESTION, replace(good, stores={**good.stores, table: spoilt}))
            assert red(verdict) == {table}


class TestStores:
    """A store that answers half, or not at all."""

    def test_what_could_not_be_read_is_unknown_with_the_reason(self, good: Evidence) -> None:
        for part, checks in (("files", ["files"]), ("forgotten", ["table of transactions", "table of customers"])):
            verdict = judge(QUESTION, replace(good, unread={part: "HBase does not answer at a:1"}))
            assert verdict.status == "unknown"
            assert [each.name for each in verdict.checks if each.status == "unknown"] == checks
            assert verdict.check(checks[0]).why == f"could not be read: {part} (HBase does not answer at a:1)"

    def test_a_scan_that_fails_on_its_way_is_not_the_table(self) -> None:
        class Half:
            def scan(self, name: str) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
                yield b"a", {b"t:x": b"1"}
                if name.endswith("transactions"):
                    raise InfraError("HBase does not answer at a:1 (EOFError)")

            def forgotten(self, pattern: str) -> Forgotten:
                return Forgotten.read([(b"digest", {b"f:times": b"1"})])

        found, unread = stored_tables(Half(), load("flink-spark"))  # type: ignore[arg-type]
        assert found == {"table of customers": {b"a": {b"t:x": b"1"}}}
        assert unread == {
            "table of transactions": "HBase does not answer at a:1 (EOFError)",
            "forgotten": "a row of it is damaged: KeyError(b'f:until_ms')",
        }

    def test_a_file_that_is_cut_is_named(self) -> None:
        whole = io.BytesIO()
        pq.write_table(pa.table({"a": list(range(1_000))}), whole)
        assert len(rows_of("/f", whole.getvalue())) == 1_000
        for content in (whole.getvalue()[:-10], whole.getvalue()[100:], b"", b"PAR1"):
            with pytest.raises(InfraError, match="/f/part-1 is not a complete Parquet file"):
                rows_of("/f/part-1", content)


def test_a_listeners_record_that_is_cut_counts_as_not_received(tmp_path: Path) -> None:
    path = tmp_path / "heard.jsonl"
    line = json.dumps({"kind": "alerts", "received_ms": 5.0, "sent_ms": 1, "alert_id": "a"})
    huge = json.dumps({"kind": "hop", "received_ms": 5.0, "sent_ms": 10**400})
    others = ["[]", "{}", '{"kind": "hop", "received_ms": "x"}', huge, line[:-9]]
    path.write_text("\n".join([line, *others]), encoding="utf-8")
    assert recorded(path) == ({"a": 5.0}, [])


@pytest.mark.parametrize("value", [None, b"", b"[]", b"7", b"{", DEEP])
def test_the_listener_notes_whatever_comes(value: bytes | None) -> None:
    assert arrival("alerts", value, 1.5) == {"kind": "alerts", "received_ms": 1500.0, "sent_ms": None, "alert_id": None}
