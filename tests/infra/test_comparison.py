"""`compare` shows what was measured of patterns on one tape, and refuses tapes that differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace import deployments, records
from millrace.cli.compare import figures
from millrace.errors import InfraError, UsageError
from millrace.oracle import Record
from millrace.rules import ALERTS
from millrace.settings import PROJECT, Settings
from millrace.stores.topics import NoTopicError
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.traffic.runs import Run
from millrace.verbs import traffic
from millrace.verbs.comparison import Comparison, compare, shared
from pipelines.fraud.traffic import TRAFFIC
from tests.infra.conftest import Millrace


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.read(Settings(PROJECT, tmp_path / "home", tmp_path / "state", 28200), {})


def sent(target: Target, pattern: str, seed: int = 3, start_ms: int = 0, name: str = "tape-1", **shares: float) -> None:
    plan = plan_for(TRAFFIC, events=1_000, rate_per_s=100, seed=seed, name=name, **shares)
    about = {"plan": asdict(plan), "cpu_s": {"flink": 12.0}}
    traffic.keep(target.settings, pattern, Run(about, start_ms, 1_000, {}, 10.0, 100.0, {}, True))


class Topics:
    """Topics of alerts, by pattern; one that is absent has been removed."""

    def __init__(self) -> None:
        self.held: dict[str, list[Record]] = {name: [] for name in ("flink", "spark", "storm")}

    def hold(self, pattern: str, rule: str, event: str, arrived_ms: int = 0, **more: Any) -> None:
        alert = {"alert_id": f"{rule} {event}", "rule": rule, "rule_version": "1", "key": "k", "subject": "k"}
        operands = dict.fromkeys(
            ("amount_cents", "before_highest_cents", "n", "total_cents", "first_ms", "last_ms"), "1"
        )
        content = alert | {"event_ids": [event], "operands": operands, "at_ms": arrived_ms, **more}
        value = json.dumps(content).encode()
        self.held[pattern].append(Record(ALERTS.name, 0, len(self.held[pattern]), arrived_ms, b"k", value))

    def tail(self, _: str, topics_: Mapping[str, str]) -> SimpleNamespace:
        (topic,) = topics_.values()
        if (pattern := topic.partition(".")[0]) not in self.held:
            raise NoTopicError(f"no topic {topic}")
        return SimpleNamespace(new=lambda: iter(self.held[pattern]), close=lambda: None)


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    monkeypatch.setattr("millrace.verbs.alerts.Tail", made.tail)
    return made


def judged(target: Target, pattern: str, p99_ms: float) -> None:
    latencies = [{"name": "bare hop", "count": 9, "p50_ms": 1.0, "p99_ms": p99_ms}]
    record = records.append(target.settings, f"verdict-{pattern}", {"status": "ok", "latencies": latencies})
    deployments.verdict_file(target, pattern).write_text(record.name)


def without_alerts(found: Comparison) -> list[tuple[str, ...]]:
    return [row for row in figures(found) if not row[0].startswith("alerts of")]


def test_the_figures_of_both_stand_side_by_side(target: Target) -> None:
    for pattern, p99_ms in (("flink", 9.0), ("spark", 1_200.0)):
        sent(target, pattern)
        judged(target, pattern, p99_ms)
    assert without_alerts(compare(target, ["flink", "spark"], "tape-1")) == [
        ("tape tape-1", "flink", "spark"),
        ("verdict", "ok", "ok"),
        ("events", "1,000", "1,000"),
        ("processor time of flink in s", "12", "12"),
        ("bare hop, p50 / p99 in ms", "1 / 9", "1 / 1,200"),
    ]


def test_any_number_of_patterns_is_compared_and_so_are_their_alerts(target: Target, held: Topics) -> None:
    for pattern in ("flink", "spark", "storm"):
        sent(target, pattern)
        for event in ("t1", "t2"):
            held.hold(pattern, "above-previous-max", event)
        held.hold(pattern, "above-previous-max", "t1")  # a repetition has the same id
    held.hold("storm", "above-previous-max", "t3")
    held.hold("flink", "burst", "t4")
    found = compare(target, ["flink", "spark", "storm"], "tape-1")
    rows = {row[0]: row[1:] for row in figures(found)}
    assert rows["tape tape-1"] == ("flink", "spark", "storm")
    assert rows["alerts of above-previous-max"] == ("2 (1 lacking)", "2 (1 lacking)", "3")
    assert rows["alerts of burst"] == ("1", "0 (1 lacking)", "-"), "storm runs no window rule"
    assert rows["alerts of spree"] == ("0", "0", "0")
    assert found.figures["spark"]["alerts"]["burst"] == {"found": 0, "lacking": 1}


def test_alerts_of_a_later_tape_are_not_counted_and_those_of_a_removed_topic_are_unknown(
    target: Target, held: Topics
) -> None:
    for pattern in ("flink", "spark"):
        sent(target, pattern)
    sent(target, "flink", start_ms=60_000, name="tape-2")
    held.hold("flink", "spree", "t1", arrived_ms=59_999)
    held.hold("flink", "spree", "u1", arrived_ms=60_000)
    del held.held["spark"]
    rows = {row[0]: row[1:] for row in figures(compare(target, ["flink", "spark"], "tape-1"))}
    assert rows["alerts of spree"] == ("1", "unknown")


def test_alerts_on_events_without_ids_are_the_same_ones_as_long_after_the_start(target: Target, held: Topics) -> None:
    names = ["flood-flink", "flood-streams"]
    for name, start_ms in zip(names, (0, 5_000), strict=True):
        sent(target, name, start_ms=start_ms)
        held.held[name] = []
        operands = dict.fromkeys(("n", "refused", "first_ms", "last_ms"), "31")
        held.hold(name, "flood-ip", f"0-{start_ms}", arrived_ms=start_ms + 1_000, operands=operands)
    rows = {row[0]: row[1:] for row in figures(compare(target, names, "tape-1"))}
    assert rows["alerts of flood-ip"] == ("1", "1")


def test_one_pattern_alone_is_refused(target: Target) -> None:
    with pytest.raises(UsageError, match="name two patterns or more, and then the tape"):
        compare(target, ["flink"], "tape-1")


def test_the_last_word_is_the_tape(millrace: Millrace, tmp_path: Path) -> None:
    done = millrace(tmp_path, "compare", "flink", "spark", "storm", "tape-9")
    assert done.returncode != 0
    assert "flink was not sent the tape 'tape-9'" in done.stderr
    assert (
        "there is no pattern 'sparc'; did you mean 'spark'"
        in millrace(tmp_path, "compare", "flink", "sparc", "tape-9").stderr
    )


def test_a_pattern_without_a_verdict_is_shown_as_unknown(target: Target) -> None:
    for pattern in ("flink", "spark"):
        sent(target, pattern)
    judged(target, "flink", 9.0)
    shown = list(figures(compare(target, ["flink", "spark"], "tape-1")))
    assert ("verdict", "ok", "unknown") in shown
    assert ("bare hop, p50 / p99 in ms", "1 / 9", "- / -") in shown


def test_tapes_that_differ_or_are_missing_are_refused(target: Target) -> None:
    sent(target, "flink", seed=3)
    with pytest.raises(InfraError, match="spark was not sent the tape 'tape-1'; `millrace traffic spark"):
        compare(target, ["flink", "spark"], "tape-1")
    sent(target, "spark", seed=4)
    with pytest.raises(InfraError, match="not the same tape: seed was 3 for flink and 4 for spark"):
        compare(target, ["flink", "spark"], "tape-1")
    sent(target, "spark", poison=0.2)
    with pytest.raises(InfraError, match=r"not the same tape: poison was 0\.01 for flink and 0\.2 for spark"):
        compare(target, ["flink", "spark"], "tape-1")
    with pytest.raises(UsageError, match="flink was named twice"):
        compare(target, ["flink", "spark", "flink"], "tape-1")


def test_the_way_to_a_tape_that_one_pattern_lacks_names_whose_settings_it_needs(target: Target) -> None:
    sent(target, "spark", seed=7)
    with pytest.raises(InfraError, match=r"--name tape-1` sends it, with the events, .* and sizes that spark was sent"):
        compare(target, ["flink", "spark"], "tape-1")


@pytest.mark.parametrize("tape", ["june.jsonl", "june"])
def test_a_tape_from_a_file_is_not_answered_with_the_way_to_generate_one(target: Target, tape: str) -> None:
    for pattern in ("flink", "spark"):
        about = {"file": "june.jsonl", "speed": 1.0, "events": 9, "unparsed": 0}
        traffic.keep(target.settings, pattern, Run(about, 0, 9, {}, 10.0, 1.0, {}, True))
    with pytest.raises(InfraError) as refused:
        compare(target, ["flink", "spark"], tape)
    assert f"flink was sent '{tape}' from the file june.jsonl, and only generated" in str(refused.value)
    assert f"--name {tape}" not in str(refused.value)


def test_the_tapes_that_several_patterns_were_sent_are_found(target: Target) -> None:
    sent(target, "flink", seed=3)
    assert shared(target.settings, ["flink", "spark", "streams"]) == []
    sent(target, "spark", seed=4)
    assert shared(target.settings, ["flink", "spark", "streams"]) == [], (
        "under the name of the tape another one was sent"
    )
    sent(target, "streams", seed=3)
    ((tape, runs),) = shared(target.settings, ["flink", "spark", "streams"])
    assert (tape, list(runs)) == ("tape-1", ["flink", "streams"])


def test_a_tape_of_before_plans_had_shares_is_refused_with_the_remedy(target: Target) -> None:
    plan = {"events": 1_000, "rate_per_s": 100, "seed": 3, "name": "tape-1", "customers": 0, "poison_share": 0.01}
    for pattern in ("flink", "spark"):
        traffic.keep(target.settings, pattern, Run({"plan": plan}, 0, 1_000, {}, 10.0, 100.0, {}, True))
    with pytest.raises(InfraError, match="the tape 'tape-1' by another version of millrace; send it again under a new"):
        compare(target, ["flink", "spark"], "tape-1")
