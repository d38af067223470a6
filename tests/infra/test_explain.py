"""The alerts of a pattern on the terminal, and why one of them was raised."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from millrace.cli.alerts import alert_line
from millrace.dashboard.shown import SHOWN_OF_TOKEN
from millrace.errors import UsageError
from millrace.oracle import Record, Refusal, accept
from millrace.patterns import load
from millrace.rules import TOKEN_PATTERN
from millrace.rules.outputs import DISPOSITIONS
from millrace.stores import topics
from millrace.verbs import alerts as finding
from millrace.verbs import dispositions
from millrace.verbs.export import export
from tests.dashboard.playback import records
from tests.infra.conftest import Millrace

START_MS = 1_790_000_000_000
KINDS = ("alerts", "enriched")


@pytest.fixture(scope="module")
def tape() -> list[Record]:
    return [record for _, record in records(load("flink"), START_MS, seconds=30, rate_per_s=50)]


@pytest.fixture
def kafka(tape: list[Record], monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Topics that hold a run, and take marks."""
    held = [*tape]

    class Tail:
        def __init__(self, _: str, kinds: Mapping[str, str]) -> None:
            self.kinds = set(kinds)

        def new(self) -> Iterator[Record]:
            return (record for record in held if record.topic in self.kinds)

        def close(self) -> None: ...

    class Publisher:
        def __init__(self, _: str) -> None: ...

        def publish(self, messages: Iterable[tuple[str, bytes, bytes]]) -> None:
            for topic, key, value in messages:
                own = [record for record in held if record.topic == topic.partition(".")[2]]
                held.append(Record(topic.partition(".")[2], 0, len(own), START_MS, key, value))

    monkeypatch.setattr(finding, "Tail", Tail)
    monkeypatch.setattr(dispositions, "Tail", Tail)
    monkeypatch.setattr(topics, "Publisher", Publisher)
    monkeypatch.setattr(finding, "lengths", lambda _, asked: {name: int(name == "flink") for name in asked})
    return held


def written(tape: list[Record], kind: str) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"") for record in tape if record.topic == kind]


def test_alerts_are_listed_with_their_ids_and_sentences(
    millrace: Millrace, kafka: list[Record], tmp_path: Path
) -> None:
    every = written(kafka, "alerts")
    lines = millrace(tmp_path, "alerts", "flink", "--last", "5").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [each["alert_id"][:10] for each in every[-5:]]
    of_rule = json.loads(millrace(tmp_path, "alerts", "flink", "--rule", "spree", "--json").stdout)["alerts"]
    assert len(of_rule) == sum(each["rule"] == "spree" for each in every) > 0
    assert of_rule[0]["sentence"].endswith("in the last 2 minutes (4) is at least 4")
    subject = every[0]["subject"]
    of_key = json.loads(millrace(tmp_path, "alerts", "flink", "--key", subject, "--json").stdout)["alerts"]
    assert {each["alert"]["subject"] for each in of_key} == {subject}


def test_alerts_are_chosen_by_their_time_and_their_operands(
    millrace: Millrace, kafka: list[Record], tmp_path: Path
) -> None:
    records = [record for record in kafka if record.topic == "alerts"]
    middle = records[len(records) // 2].ingest_ms
    at = datetime.fromtimestamp(middle / 1000, UTC).isoformat()

    def chosen(*words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(millrace(tmp_path, "alerts", "flink", *words, "--json").stdout)[
            "alerts"
        ]
        return [each["alert"] for each in found]

    before, after = chosen("--until", at), chosen("--since", at)
    assert len(before) == sum(record.ingest_ms < middle for record in records) > 0
    assert before + after == chosen()
    large = chosen("--where", "amount_cents >= 50000", "--rule", "above-previous-max")
    every = chosen("--rule", "above-previous-max")
    assert 0 < len(large) < len(every)
    assert large == [each for each in every if int(each["operands"]["amount_cents"]) >= 50_000]
    assert chosen("--where", "no_such_operand=1") == []
    wrong = millrace(tmp_path, "alerts", "flink", "--where", "much")
    assert (wrong.returncode, "--where much: give an operand" in wrong.stderr) == (2, True)


def test_alerts_are_written_to_files_that_other_programs_read(
    millrace: Millrace, kafka: list[Record], tmp_path: Path
) -> None:
    every = written(kafka, "alerts")
    for name in ("alerts.csv", "alerts.parquet"):
        done = millrace(tmp_path, "alerts", "flink", "--to", str(tmp_path / name))
        assert f"{len(every)} alerts written to" in done.stdout
    with (tmp_path / "alerts.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    rows = pq.read_table(tmp_path / "alerts.parquet").to_pylist()
    assert [line["alert_id"] for line in lines] == [row["alert_id"] for row in rows]
    assert [row["at_ms"] for row in rows] == [each["at_ms"] for each in every]
    assert [row["at"].timestamp() * 1000 for row in rows] == [each["at_ms"] for each in every]
    alert = next(each for each in every if each["rule"] == "above-previous-max")
    line, row = (next(found for found in of if found["alert_id"] == alert["alert_id"]) for of in (lines, rows))
    assert line["operand.amount_cents"] == row["operand.amount_cents"] == alert["operands"]["amount_cents"]
    assert row["event_ids"] == " ".join(alert["event_ids"])


def test_a_file_of_another_kind_is_refused_before_kafka_is_read(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "alerts", lambda *_, **__: pytest.fail("Kafka was read"))
    other = millrace(tmp_path, "alerts", "flink", "--to", str(tmp_path / "alerts.xlsx"))
    assert (other.returncode, "ends with .csv or .parquet" in other.stderr) == (2, True)


def test_no_cell_of_a_csv_file_is_a_formula(kafka: list[Record], tmp_path: Path) -> None:
    alert = {**written(kafka, "alerts")[0], "key": "=HYPERLINK(1)", "operands": {"amount": "-5", "said": "@x"}}
    export([finding.Found(alert, "-1 is less", "t.alerts", 0, 7, 1)], {}, tmp_path / "one.csv")
    (line,) = csv.DictReader((tmp_path / "one.csv").open(newline="", encoding="utf-8"))
    assert (line["key"], line["sentence"]) == ("'=HYPERLINK(1)", "'-1 is less")
    assert (line["operand.amount"], line["operand.said"], line["partition"]) == ("-5", "'@x", "0")


def test_an_alert_is_explained_by_the_events_it_rests_on(
    millrace: Millrace, kafka: list[Record], tmp_path: Path
) -> None:
    alert = next(each for each in written(kafka, "alerts") if each["rule"] == "burst" and len(each["event_ids"]) > 1)
    events = {each["transaction_id"]: each for each in written(kafka, "enriched")}
    done = millrace(tmp_path, "explain", alert["alert_id"][:12], "--pattern", "flink", "--json")
    explained = json.loads(done.stdout)
    assert (explained["pattern"], explained["is_current"], explained["missing"]) == ("flink", True, [])
    assert explained["events"] == [events[each] for each in alert["event_ids"]]
    text = millrace(tmp_path, "explain", alert["alert_id"]).stdout
    assert "flink.alerts partition 0 offset" in text
    assert f"flink.transactions 0/{events[alert['event_ids'][0]]['source_offset']}" in text


def test_a_token_is_whole_only_in_json(millrace: Millrace, kafka: list[Record], tmp_path: Path) -> None:
    alert = next(each for each in written(kafka, "alerts") if each["rule"] == "burst")
    card = alert["key"]
    assert re.fullmatch(TOKEN_PATTERN, card)
    id_ = alert["alert_id"]
    millrace(tmp_path, "mark", id_, "unsure", "--by", "anna", "--note", f"also {card}")
    for words in (("alerts", "flink", "--last", "9999"), ("explain", id_)):
        printed = millrace(tmp_path, *words).stdout
        assert f"{card[:SHOWN_OF_TOKEN]}…" in printed
        assert re.findall(TOKEN_PATTERN, printed) == []
        assert card in millrace(tmp_path, *words[:2], "--json").stdout
    assert alert_line(json.dumps(alert).encode(), {}).startswith(f"burst                {card[:SHOWN_OF_TOKEN]}…  20")


def test_an_id_that_is_none_or_unknown_is_refused(millrace: Millrace, kafka: list[Record], tmp_path: Path) -> None:
    wrong = millrace(tmp_path, "explain", "xyz", "--pattern", "flink")
    assert (wrong.returncode, "is not an id of an alert" in wrong.stderr) == (2, True)
    unknown = millrace(tmp_path, "explain", "0" * 32, "--pattern", "flink")
    assert (unknown.returncode, "no alert 000" in unknown.stderr) == (1, True)


def test_a_mark_is_shown_wherever_its_alert_is_and_the_last_one_counts(
    millrace: Millrace, kafka: list[Record], tmp_path: Path
) -> None:
    first, second, *_ = [each for each in written(kafka, "alerts") if each["rule"] == "above-previous-max"]
    done = millrace(tmp_path, "mark", first["alert_id"][:12], "dismissed", "--by", "anna")
    assert done.stdout == f"{first['alert_id'][:10]} of flink is dismissed, by anna\n"
    millrace(tmp_path, "mark", second["alert_id"], "dismissed", "--by", "anna", "--pattern", "flink")
    millrace(tmp_path, "mark", first["alert_id"], "confirmed", "--by", "ben", "--note", "the card was stolen")
    assert "[confirmed by ben: the card was stolen]" in millrace(tmp_path, "alerts", "flink", "--last", "9999").stdout
    assert "confirmed by ben" in millrace(tmp_path, "explain", first["alert_id"]).stdout
    of_one = json.loads(millrace(tmp_path, "alerts", "flink", "--marked", "dismissed", "--json").stdout)["alerts"]
    assert [each["alert"]["alert_id"] for each in of_one] == [second["alert_id"]]
    assert of_one[0]["disposition"]["by"] == "anna"
    unmarked = json.loads(millrace(tmp_path, "alerts", "flink", "--marked", "none", "--json").stdout)["alerts"]
    assert len(unmarked) == len(written(kafka, "alerts")) - 2
    found = json.loads(millrace(tmp_path, "alerts", "flink", "--precision", "--json").stdout)["precision"]
    by_rule = {each["rule"]: each for each in found}
    of_rule = by_rule["above-previous-max"]
    assert (of_rule["confirmed"], of_rule["dismissed"], of_rule["precision"]) == (1, 1, 0.5)
    assert by_rule["spree"]["precision"] is None
    millrace(tmp_path, "alerts", "flink", "--to", str(tmp_path / "alerts.parquet"))
    rows = {row["alert_id"]: row for row in pq.read_table(tmp_path / "alerts.parquet").to_pylist()}
    assert (rows[first["alert_id"]]["mark"], rows[first["alert_id"]]["marked_by"]) == ("confirmed", "ben")


def test_precision_is_counted_for_each_day_and_version_of_a_rule() -> None:
    def found(alert_id: str, version: str, at_ms: int) -> finding.Found:
        alert = {"alert_id": alert_id, "rule": "spree", "rule_version": version, "at_ms": at_ms}
        return finding.Found(alert, "", "t.alerts", 0, 0, at_ms)

    def mark(alert_id: str, mark: str) -> dict[str, dispositions.Disposition]:
        return {alert_id: dispositions.Disposition(alert_id, mark, "", "anna", 0, "spree", "1", 0)}

    day_ms = 86_400_000
    every = [found("a", "1", 0), found("b", "1", day_ms - 1), found("c", "1", day_ms), found("d", "2", day_ms)]
    marks = mark("a", "confirmed") | mark("b", "dismissed") | mark("c", "unsure") | mark("d", "confirmed")
    counted = dispositions.precision(every, marks)
    assert [(each.day, each.rule_version, each.alerts, each.precision) for each in counted] == [
        ("1970-01-01", "1", 2, 0.5),
        ("1970-01-02", "1", 1, None),
        ("1970-01-02", "2", 1, 1.0),
    ]


def test_an_alert_whose_id_looks_like_a_card_number_can_be_marked(tape: list[Record]) -> None:
    sent: list[bytes] = []

    class Publisher:
        def publish(self, messages: Iterable[tuple[str, bytes, bytes]]) -> None:
            sent.extend(value for *_, value in messages)

    alert = next(json.loads(record.value or b"") for record in tape if record.topic == "alerts")
    alert["alert_id"] = "4111111111111111".zfill(32)
    dispositions.mark(cast(topics.Publisher, Publisher()), load("flink"), alert, "unsure", by="anna")
    assert not isinstance(accept(DISPOSITIONS, *sent, START_MS), Refusal)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("right",), "'right' is not a mark of an alert; choose one of: confirmed, dismissed, unsure"),
        (("unsure", "--note", "two\nlines"), "note: one line of at most 500 characters"),
        (("unsure", "--note", "card 4111 1111 1111 1111"), "note: it holds a card number; leave it out"),
        (("unsure", "--by", "x" * 65), "by: one line of 1 to 64 characters"),
    ],
)
def test_a_wrong_mark_is_refused(
    millrace: Millrace, kafka: list[Record], tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    done = millrace(tmp_path, "mark", written(kafka, "alerts")[0]["alert_id"], *words)
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr
    assert not written(kafka, "dispositions")


def test_a_wrong_mark_is_refused_before_anything_is_read(millrace: Millrace, tmp_path: Path) -> None:
    done = millrace(tmp_path, "mark", "752d93d27e", "right")
    assert (done.returncode, "'right' is not a mark of an alert" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("", 0),
        ("15m", 100_000),
        ("2s", 998_000),
        ("1970-01-01T00:00:05+00:00", 5_000),
        ("1970-01-01T02:00:05+02:00", 5_000),
        ("1970-01-01T00:00:05", 5_000),
    ],
)
def test_a_time_is_a_span_or_a_moment_and_in_utc_without_a_zone(
    text: str, ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "America/New_York")
        time.tzset()
        found = finding.since(text, now_ms=1_000_000)
    time.tzset()
    assert found == ms
    with pytest.raises(UsageError, match="--since soon: give a span"):
        finding.since("soon")
