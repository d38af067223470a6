"""The alerts of a pattern on the terminal, and why one of them was raised."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import UsageError
from millrace.oracle import Record
from millrace.patterns import load
from millrace.verbs import alerts as finding
from tests.dashboard.playback import records
from tests.infra.conftest import Millrace

START_MS = 1_790_000_000_000
KINDS = ("alerts", "enriched")


@pytest.fixture(scope="module")
def tape() -> list[Record]:
    return [record for _, record in records(load("flink"), START_MS, seconds=30, rate_per_s=50)]


@pytest.fixture
def kafka(tape: list[Record], monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Topics that hold a run."""

    class Tail:
        def __init__(self, _: str, topics: Mapping[str, str]) -> None:
            self.kinds = set(topics)

        def new(self) -> Iterator[Record]:
            return (record for record in tape if record.topic in self.kinds)

        def close(self) -> None: ...

    monkeypatch.setattr(finding, "Tail", Tail)
    monkeypatch.setattr(finding, "lengths", lambda _, topics: {name: int(name == "flink") for name in topics})
    return tape


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


def test_an_id_that_is_none_or_unknown_is_refused(millrace: Millrace, kafka: list[Record], tmp_path: Path) -> None:
    wrong = millrace(tmp_path, "explain", "xyz", "--pattern", "flink")
    assert (wrong.returncode, "no id of an alert" in wrong.stderr) == (2, True)
    unknown = millrace(tmp_path, "explain", "0" * 32, "--pattern", "flink")
    assert (unknown.returncode, "no alert 000" in unknown.stderr) == (1, True)


@pytest.mark.parametrize(
    ("text", "ms"), [("", 0), ("15m", 100_000), ("2s", 998_000), ("1970-01-01T00:00:05+00:00", 5_000)]
)
def test_a_time_is_a_span_or_a_moment(text: str, ms: int) -> None:
    assert finding.since(text, now_ms=1_000_000) == ms
    with pytest.raises(UsageError, match="--since soon: give a span"):
        finding.since("soon")
